"""All that the first pass remembers of a table: a sketch of bounded size that parts can merge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from oakgp.columns import FloatArray
from oakgp.stream.chunk import Chunk
from oakgp.stream.columns import ColumnSketch
from oakgp.stream.hashing import hash_numbers, hash_rows, mixed
from oakgp.stream.response import ResponseSketch
from oakgp.stream.sample import RowSample
from oakgp.stream.twins import Twins

_CELLS = 1 << 21  # cells of all columns together, at most


Check: TypeAlias = Callable[[FloatArray], None]


@dataclass(frozen=True)
class Limits:
    """Sizes of a sketch.

    Parameters
    ----------
    max_values
        Distinct numbers of a column that are counted exactly, and cells kept when there are more.
    max_distinct
        Levels of a column that are counted; with more it is taken for an identifier.
    sample_rows
        Distinct rows of the sample.
    """

    max_values: int
    max_distinct: int
    sample_rows: int

    @classmethod
    def for_columns(cls, n_columns: int, sample_rows: int) -> Limits:
        """Return limits that keep the memory of a sketch at about 100 MB."""
        cells = _CELLS // max(n_columns, 1)
        return cls(min(max(cells, 1 << 12), 1 << 15), 1 << 18, sample_rows)


@dataclass
class TableSketch:
    """Sketches of all columns, of the response and of the rows.

    Parameters
    ----------
    names
        Names of the feature columns.
    as_labels
        Those whose numbers are levels.
    limits
        Sizes.
    classes
        Whether the responses are labels.
    check
        Refuses impossible responses ``[n]``.
    """

    names: tuple[str, ...]
    as_labels: frozenset[str]
    limits: Limits
    classes: bool = False
    check: Check | None = None
    columns: list[ColumnSketch] = field(init=False)
    twins: Twins = field(init=False)
    sample: RowSample = field(init=False)
    response: ResponseSketch = field(default_factory=ResponseSketch)
    n_read: int = 0
    n_rows: int = 0
    mass: float = 0.0
    has_response: bool = False
    has_weights: bool = False
    has_offset: bool = False

    def __post_init__(self) -> None:
        """Begin with nothing."""
        self.columns = [
            ColumnSketch(
                name, name in self.as_labels, self.limits.max_values, self.limits.max_distinct
            )
            for name in self.names
        ]
        self.twins = Twins.of(len(self.names))
        self.sample = RowSample(self.limits.sample_rows)

    def fresh(self) -> TableSketch:
        """Return a sketch of the same kind that has seen nothing."""
        return TableSketch(self.names, self.as_labels, self.limits, self.classes, self.check)

    def update(self, chunk: Chunk) -> None:
        """Take in a chunk."""
        self.n_read += chunk.n_read
        n, weights = chunk.n_rows, chunk.weights
        if n == 0:
            return
        self.n_rows += n
        self.mass += float(n if weights is None else weights.sum())
        with chunk.place.blamed():
            read = [
                column.update(chunk.table.read(i), weights, chunk.place.name)
                for i, column in enumerate(self.columns)
            ]
        self.has_response |= chunk.y is not None
        self.has_weights |= weights is not None
        self.has_offset |= chunk.offset is not None
        hashes = [h for h, _ in read]
        self.twins.update(hashes)
        group = row = hash_rows(hashes, n)
        beside = []
        if chunk.y is not None:
            with chunk.place.blamed():
                if self.check is not None and not self.classes:
                    self.check(chunk.y)
                h = self.response.update(chunk.y, weights, chunk.offset, labels=self.classes)
            row = mixed(row + h)
            beside.append(chunk.y)
        for part in (weights, chunk.offset):
            if part is not None:
                row = mixed(row + hash_numbers(part))
                beside.append(part)
        for sample, of in ((self.sample.by_features, group), (self.sample.by_row, mixed(row))):
            rows = sample.wanted(of)
            taken = [take(rows) for _, take in read] + [part[rows] for part in beside]
            sample.update(of[rows], row[rows], taken)

    def merge(self, other: TableSketch) -> None:
        """Take in what another has seen of the rows that follow."""
        for mine, column in zip(self.columns, other.columns, strict=True):
            mine.merge(column)
        if self.n_rows == 0:
            self.twins = Twins(list(other.twins.classes))
        elif other.n_rows:
            self.twins.merge(other.twins)
        self.sample.merge(other.sample)
        self.response.merge(other.response)
        self.n_read += other.n_read
        self.n_rows += other.n_rows
        self.mass += other.mass
        self.has_response |= other.has_response
        self.has_weights |= other.has_weights
        self.has_offset |= other.has_offset

    def settle(self) -> None:
        """Sort in what is pending."""
        for column in self.columns:
            column.numbers.settle()
        self.response.values.settle()
        self.sample.by_features.settle()
        self.sample.by_row.settle()
