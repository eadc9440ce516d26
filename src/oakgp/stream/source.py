"""What a source of rows is: parts, in a fixed order, each read chunk by chunk, again and again."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from oakgp.stream.chunk import Chunk, Roles
from oakgp.stream.prefetch import prefetched

Position: TypeAlias = tuple[int, int]


class Part(ABC):
    """A piece of a source that can be read by itself, on any machine that reaches its data."""

    @abstractmethod
    def in_chunks_of(self, rows: int) -> Part:
        """Return the same part in chunks of so many rows."""

    @abstractmethod
    def chunks(self) -> Iterator[Chunk]:
        """Read the chunks of the part, from its first row to its last."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Name of the part in messages."""


@dataclass(frozen=True, eq=False)
class Source:
    """A table that is read in chunks.

    Parameters
    ----------
    parts
        Pieces that can be read independently, in the order of their rows.
    roles
        Which columns mean what.
    names
        Names of the feature columns.
    named
        Whether the table has names of its own.
    n_rows
        Rows of the whole; None where only reading tells.
    identity
        What the data are, as values that JSON can hold: files with their sizes and times, shapes.
    labels
        Feature columns that hold labels even where a chunk of them holds numbers only.
    """

    parts: Sequence[Part]
    roles: Roles
    names: tuple[str, ...]
    named: bool
    n_rows: int | None
    identity: Any
    labels: frozenset[str] = frozenset()

    def chunks(self, *, ahead: int = 2) -> Iterator[Chunk]:
        """Read the chunks of all parts in order; ``ahead`` of them prepared in a thread."""
        return (chunk for _, chunk in self.chunks_from((0, 0), ahead=ahead))

    def chunks_from(
        self, position: Position, *, ahead: int = 2
    ) -> Iterator[tuple[Position, Chunk]]:
        """Read the chunks from a position on, each with the position that comes after it.

        Parameters
        ----------
        position
            Number of a part, and of a chunk within it: parts before it are not opened, chunks
            before it are read and let go.
        ahead
            Chunks that a thread reads ahead; 0 to read without one.
        """
        chunks = self._chunks_from(*position)
        return prefetched(chunks, ahead) if ahead else chunks

    def _chunks_from(self, first: int, skipped: int) -> Iterator[tuple[Position, Chunk]]:
        for p in range(first, len(self.parts)):
            for c, chunk in enumerate(self.parts[p].chunks()):
                if p > first or c >= skipped:
                    yield (p, c + 1), chunk

    def fingerprint(self) -> str:
        """Return a short text that other data, or other roles, would change."""
        what = {"data": self.identity, "roles": vars(self.roles), "names": self.names}
        text = json.dumps(what, sort_keys=True, default=str)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
