"""Iterators as sources: a function that begins a new pass each time it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from oakgp.columns import read_table, slice_rows
from oakgp.stream.chunk import Beside, Chunk, Roles, read_chunk
from oakgp.stream.place import Place
from oakgp.stream.source import Part, Source


@dataclass(eq=False)
class IteratorPart(Part):
    """What one call of a function yields: tables, or tuples (X, y), (X, y, weight).

    Parameters
    ----------
    begin
        Function that returns a new iterator over the same tables.
    roles, chunk_rows
        As of `oakgp.stream.open_source`.
    """

    begin: Callable[[], Iterator[Any]]
    roles: Roles
    chunk_rows: int
    n_rows: int | None = field(default=None)

    def in_chunks_of(self, rows: int) -> IteratorPart:
        """Return the same part in chunks of so many rows."""
        return replace(self, chunk_rows=rows)

    @property
    def label(self) -> str:
        """Name of the part."""
        return getattr(self.begin, "__name__", "iterator")

    def chunks(self) -> Iterator[Chunk]:
        """Read the tables chunk by chunk."""
        names: tuple[str, ...] | None = None
        first_row = 0
        for number, item in enumerate(iter(self.begin())):
            table, beside = _split(item)
            label = f"table {number} of {self.label}()"
            if len(table) == 0:
                continue
            with Place(label, 0).blamed():
                raw = read_table(table)
            if names is not None and raw.names != names:
                raise ValueError(
                    f"{label} has the columns {', '.join(raw.names)}, but the first had "
                    f"{', '.join(names)}: all tables must have the same ones, in one order"
                )
            names = raw.names
            for start in range(0, raw.n_rows, self.chunk_rows):
                stop = min(start + self.chunk_rows, raw.n_rows)
                some = Beside(*(None if v is None else v[start:stop] for v in beside))
                place = Place(label, start)
                yield read_chunk(slice_rows(table, start, stop), self.roles, place, some)
            first_row += raw.n_rows
        self._check_length(first_row)

    def _check_length(self, n_rows: int) -> None:
        if self.n_rows is not None and n_rows != self.n_rows:
            raise ValueError(
                f"{self.label}() gave {n_rows} rows in this pass and {self.n_rows} in an earlier "
                "one: each call must begin anew and give the same rows"
            )
        self.n_rows = n_rows


def iterator_source(begin: Callable[[], Any], roles: Roles, chunk_rows: int) -> Source:
    """Make a source of a function that returns iterators; see `oakgp.stream.open_source`."""
    first = next(iter(begin()), None)
    if first is None:
        raise ValueError(f"{getattr(begin, '__name__', 'the function')}() gave no table at all")
    raw = read_table(_split(first)[0])
    names = roles.features(raw.names)
    part = IteratorPart(begin, roles, chunk_rows)
    return Source([part], roles, names, raw.named, None, {"iterator": raw.names})


def _split(item: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return the table, and y, weight, exposure and offset, as far as they are given."""
    if not isinstance(item, tuple):
        return item, (None,) * 4
    if not 2 <= len(item) <= 5:
        raise ValueError(
            f"the iterator gave a tuple of {len(item)}: give tables, or tuples (X, y), "
            "(X, y, weight), (X, y, weight, exposure) or (X, y, weight, exposure, offset)"
        )
    table, *rest = item
    arrays = [None if v is None else np.asarray(v) for v in rest]
    return table, (*arrays, *[None] * (4 - len(arrays)))
