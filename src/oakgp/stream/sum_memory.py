"""The sums of every pass of a fit, kept in a folder: an interrupted fit goes on where it was.

A fit is determined by its data and settings, so that a second run asks for the same sums as the
first. What the first one had summed is read; what it had begun is gone on with.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from oakgp.basis.rows import Rows, Sums
from oakgp.stream.checkpoint import Checkpoint, State
from oakgp.stream.source import Position
from oakgp.stream.sums import add

_SEGMENT = 16  # chunks whose sums are made at a time: fixed, so that interruptions change no bit


@dataclass
class SumMemory:
    """A folder of sums.

    Parameters
    ----------
    folder
        Made when it is not there.
    fingerprint
        Of data and settings; sums of others are refused.
    seconds_between
        Time between two savings.
    """

    folder: Path
    fingerprint: str
    seconds_between: float = 60.0
    _files: list[Checkpoint] = field(default_factory=list)

    def sums(
        self,
        rows_from: Callable[[Position], Iterator[tuple[Position, Rows]]],
        statistic: Callable[[Iterable[Rows]], Sums],
        key: bytes,
        advance: Callable[[float], None],
    ) -> Sums:
        """Return the sums of a statistic, as far as possible from the folder.

        Parameters
        ----------
        rows_from
            From a position to the chunks from there on, each with the position after it.
        statistic, key, advance
            As of `oakgp.basis.rows.SummedRows.sums`.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.blake2b(key, digest_size=12).hexdigest()
        file = Checkpoint(self.folder / f"sums-{name}.npz", self.fingerprint)
        self._files.append(file)
        state = file.load() or State({}, (0, 0), {"rows": 0, "done": False})
        total: Sums | None = dict(state.arrays) or None
        advance(state.info["rows"])
        if total is not None and state.info["done"]:
            return total
        position, n_rows, saved = state.position, state.info["rows"], time.monotonic()
        chunks = rows_from(position)
        try:
            for first in chunks:
                segment = _Segment(itertools.chain([first], itertools.islice(chunks, _SEGMENT - 1)))
                total = add(total, statistic(segment))
                position, n_rows = segment.position, n_rows + segment.n_rows
                advance(segment.n_rows)
                if time.monotonic() - saved >= self.seconds_between:
                    file.save(State(total, position, {"rows": n_rows, "done": False}))
                    saved = time.monotonic()
        except KeyboardInterrupt:
            if total is not None:
                file.save(State(total, position, {"rows": n_rows, "done": False}))
            raise
        if total is None:
            raise ValueError("the source holds no row with a positive weight")
        file.save(State(total, position, {"rows": n_rows, "done": True}))
        return total

    def clear(self) -> None:
        """Remove the files of this fit: it is done."""
        for file in self._files:
            file.remove()
        self._files.clear()
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()


class _Segment:
    """Some chunks on their way to a statistic: remembers how far they went."""

    def __init__(self, chunks: Iterable[tuple[Position, Rows]]) -> None:
        self._chunks = chunks
        self.position: Position = (0, 0)
        self.n_rows = 0

    def __iter__(self) -> Iterator[Rows]:
        for position, rows in self._chunks:
            self.position, self.n_rows = position, self.n_rows + rows.n
            yield rows
