"""Tables in memory as sources: arrays and data frames of any library, and Arrow tables."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import column_or_1d

from oakgp.columns import RawTable, read_table, slice_rows
from oakgp.stream.chunk import Beside, Chunk, Roles, read_chunk
from oakgp.stream.hashing import Hashes, hash_levels, hash_numbers, hash_rows
from oakgp.stream.place import Place
from oakgp.stream.source import Part, Source

_PART_ROWS = 1 << 20


@dataclass(frozen=True, eq=False)
class TablePart(Part):
    """Consecutive rows of a table in memory.

    Parameters
    ----------
    table, beside
        The rows, and what belongs to them.
    roles, chunk_rows
        As of `oakgp.stream.open_source`.
    first_row, n_rows
        Number of the first row in the whole table; how many there are.
    whole
        Name of the whole table in messages; empty for the one the user gave.
    """

    table: Any
    beside: Beside
    roles: Roles
    first_row: int
    n_rows: int
    chunk_rows: int
    whole: str = ""

    def in_chunks_of(self, rows: int) -> TablePart:
        """Return the same part in chunks of so many rows."""
        return replace(self, chunk_rows=rows)

    @property
    def label(self) -> str:
        """Name of the part."""
        rows = f"rows {self.first_row} to {self.first_row + self.n_rows - 1}"
        return f"{self.whole}, {rows}" if self.whole else rows

    def chunks(self) -> Iterator[Chunk]:
        """Read the rows chunk by chunk."""
        for start in range(0, self.n_rows, self.chunk_rows):
            stop = min(start + self.chunk_rows, self.n_rows)
            yield read_chunk(
                slice_rows(self.table, start, stop),
                self.roles,
                Place(self.whole, self.first_row + start),
                _slice(self.beside, start, stop),
            )


def table_source(table: Any, roles: Roles, beside: Beside, chunk_rows: int) -> Source:
    """Make a source of a table in memory; see `oakgp.stream.open_source`."""
    raw = read_table(table)
    n = raw.n_rows
    beside = Beside(
        *(
            _column(name, values, n)
            for name, values in zip(_BESIDE, vars(beside).values(), strict=True)
        )
    )
    names = roles.features(raw.names)
    where = {name: i for i, name in enumerate(raw.names)}
    # Objects are looked at as a whole: their first chunk may hold numbers, a later one text.
    labels = frozenset(name for name in names if raw.read(where[name]).kind == "label")
    parts = [
        TablePart(
            slice_rows(table, start, start + _PART_ROWS),
            _slice(beside, start, start + _PART_ROWS),
            roles,
            start,
            min(_PART_ROWS, n - start),
            chunk_rows,
        )
        for start in range(0, n, _PART_ROWS)
    ]
    identity = {"rows": n, "names": raw.names, "some": _hash_of_some(raw, beside)}
    return Source(parts, roles, names, raw.named, n, identity, labels)


_BESIDE = ("y", "sample_weight", "exposure", "offset")


def _column(name: str, values: Any, n: int) -> NDArray[Any] | None:
    """Return a vector of one value a row."""
    if values is None:
        return None
    if isinstance(values, Real):
        return np.full(n, float(values))
    array: NDArray[Any] = column_or_1d(np.asarray(values), warn=True)
    if len(array) != n:
        raise ValueError(f"X has {n} rows but {name} has {len(array)}: they must be as many")
    return array


def _slice(beside: Beside, start: int, stop: int) -> Beside:
    return Beside(*(None if v is None else v[start:stop] for v in vars(beside).values()))


def _hash_of_some(raw: RawTable, beside: Beside) -> str:
    """Hash 1000 rows spread over a table: enough to tell one table from another."""
    rows = np.unique(np.linspace(0, raw.n_rows - 1, 1000).astype(np.intp))
    columns = [raw.values(i)[rows] for i in range(len(raw.names))]
    columns += [values[rows] for values in vars(beside).values() if values is not None]
    hashes = [_hash(values) for values in columns]
    return hashlib.blake2b(hash_rows(hashes, len(rows)).tobytes(), digest_size=8).hexdigest()


def _hash(values: NDArray[Any]) -> Hashes:
    if values.dtype.kind in "iufb":
        return hash_numbers(values.astype(np.float64))
    return hash_levels([str(value) for value in values.tolist()])
