"""All that the first pass remembers of one column of features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oakgp.columns import FloatArray, RawColumn
from oakgp.stream.distinct import DistinctCount
from oakgp.stream.hashing import MISSING, Hashes, hash_levels, hash_numbers
from oakgp.stream.levels import LevelSketch, pick
from oakgp.stream.values import ValueSketch

Taker = Callable[[NDArray[np.intp]], NDArray[Any]]


@dataclass
class Steps:
    """Whether a column counts the rows: whole numbers, each one more (or less) than the last."""

    whole: bool = True
    up: bool = True
    down: bool = True
    first: float | None = None
    last: float | None = None

    def update(self, values: FloatArray) -> None:
        """Take in the next rows (NaN = missing)."""
        if not self.whole or not len(values):
            return
        whole = bool(np.array_equal(values, np.rint(values)))  # NaN differs from itself
        inner = np.diff(values) if self.up or self.down else np.zeros(1)
        ends = float(values[0]), float(values[-1])
        up, down = bool(np.all(inner == 1.0)), bool(np.all(inner == -1.0))
        self.merge(Steps(whole, up, down, *ends))

    def merge(self, later: Steps) -> None:
        """Take in what another has seen of the rows that follow."""
        if later.first is None:
            self.whole &= later.whole
            return
        step = later.first - self.last if self.last is not None else None
        self.whole &= later.whole
        self.up &= later.up and step in (None, 1.0)
        self.down &= later.down and step in (None, -1.0)
        self.first = later.first if self.first is None else self.first
        self.last = later.last


@dataclass
class ColumnSketch:
    """Numbers, levels and missing values of one column.

    Parameters
    ----------
    name
        The column's name.
    as_labels
        Whether numbers are levels too: the user, or the source, says so.
    max_values, max_distinct
        Distinct numbers and levels that are counted exactly.
    """

    name: str
    as_labels: bool
    max_values: int
    max_distinct: int
    numbers: ValueSketch = field(init=False)
    levels: LevelSketch = field(init=False)
    distinct: DistinctCount = field(default_factory=DistinctCount)
    steps: Steps = field(default_factory=Steps)
    n_missing: int = 0
    missing_mass: float = 0.0
    kinds: dict[str, str] = field(default_factory=dict)
    declared_number: bool = False

    def __post_init__(self) -> None:
        """Begin with nothing."""
        self.numbers = ValueSketch(self.max_values)
        self.levels = LevelSketch(self.max_distinct)

    def update(self, raw: RawColumn, mass: FloatArray | None, where: str) -> tuple[Hashes, Taker]:
        """Take in a chunk; return the hash of each value, and a way to take some rows of it.

        Parameters
        ----------
        raw
            The column in the chunk.
        mass
            Row weights; None for 1 each.
        where
            Where the chunk comes from, for messages.
        """
        self.declared_number |= raw.kind == "number"
        if self.as_labels or raw.kind != "number":
            return self._update_labels(raw, mass, where)
        values = raw.numbers()
        hashes = hash_numbers(values)
        missing = np.isnan(values)
        n_missing = int(np.count_nonzero(missing))
        self._count_missing(n_missing, missing, mass)
        self.steps.update(values)
        if n_missing < len(values):
            self._see("numbers", where)
            present = values
            if n_missing:
                present, mass = values[~missing], None if mass is None else mass[~missing]
            self.numbers.update(present, mass)
            self.distinct.update(hashes[~missing] if n_missing else hashes)
        return hashes, values.__getitem__

    def _update_labels(
        self, raw: RawColumn, mass: FloatArray | None, where: str
    ) -> tuple[Hashes, Taker]:
        levels, index = raw.factor()
        missing = index < 0
        self._count_missing(int(np.count_nonzero(missing)), missing, mass)
        hashes = hash_levels(levels)
        if levels:
            self._see({"boolean": "booleans", "label": "text"}.get(raw.kind, "numbers"), where)
            self.levels.update(levels, index, mass, hashes)
        self.levels.declare(raw.order)
        return np.r_[hashes, MISSING][index], lambda rows: pick(levels, index[rows])

    def _count_missing(
        self, count: int, missing: NDArray[np.bool_], mass: FloatArray | None
    ) -> None:
        self.n_missing += count
        self.missing_mass += float(count if mass is None else mass[missing].sum())

    def _see(self, kind: str, where: str) -> None:
        self.kinds.setdefault(kind, where)
        self._check_kinds()

    def _check_kinds(self) -> None:
        if len(self.kinds) > 1 and not self.as_labels:
            (one, first), (other, then) = list(self.kinds.items())[:2]
            raise ValueError(
                f"column {self.name!r} holds {one} in {first}, but {other} in {then}. Convert the "
                "column to one type, leave it out with columns=, or name it in "
                "categorical_features to compare all its values as text"
            )

    def merge(self, other: ColumnSketch) -> None:
        """Take in what another has seen of the rows that follow."""
        self.numbers.merge(other.numbers)
        self.levels.merge(other.levels)
        self.distinct.merge(other.distinct)
        self.steps.merge(other.steps)
        self.n_missing += other.n_missing
        self.missing_mass += other.missing_mass
        self.declared_number |= other.declared_number
        for kind, where in other.kinds.items():
            self.kinds.setdefault(kind, where)
        self._check_kinds()

    @property
    def is_number(self) -> bool:
        """Whether the column as a whole is one of numbers."""
        if self.as_labels:
            return False
        return "numbers" in self.kinds if self.kinds else self.declared_number

    @property
    def n_distinct(self) -> int:
        """Distinct numbers: counted, or estimated when there are many."""
        return len(self.numbers.cells.keys) if self.numbers.exact else self.distinct.count()
