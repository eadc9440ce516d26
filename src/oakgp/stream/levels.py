"""The levels of a column of labels, counted over chunks in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oakgp.columns import FloatArray, Level
from oakgp.stream.distinct import DistinctCount
from oakgp.stream.hashing import Hashes

Key = tuple[bool, Level]  # True and 1 are equal in Python, but not to the user


@dataclass
class LevelSketch:
    """Rows and mass of each level.

    Parameters
    ----------
    max_distinct
        Levels counted; a column with more is taken for an identifier, and only their number is
        still estimated.
    """

    max_distinct: int
    rows: Counter[Key] = field(default_factory=Counter)
    mass: dict[Key, float] = field(default_factory=dict)
    order: tuple[Level, ...] | None = None
    orders_differ: bool = False
    overflowed: bool = False
    distinct: DistinctCount = field(default_factory=DistinctCount)

    def update(
        self,
        levels: Sequence[Level],
        index: NDArray[np.intp],
        mass: FloatArray | None,
        hashes: Hashes,
    ) -> None:
        """Take in a chunk: its levels, their hashes, each row's level (-1: missing) and mass."""
        self.distinct.update(hashes)
        if self.overflowed:
            return
        size = len(levels) + 1
        counts = np.bincount(index + 1, minlength=size)[1:].tolist()
        masses = counts
        if mass is not None:
            masses = np.bincount(index + 1, weights=mass, minlength=size)[1:].tolist()
        for level, count, total in zip(levels, counts, masses, strict=True):
            key = (isinstance(level, bool), level)
            self.rows[key] += count
            self.mass[key] = self.mass.get(key, 0.0) + total
        self._check_size()

    def declare(self, order: tuple[Level, ...] | None) -> None:
        """Take in the order of levels that a chunk declares; differing orders are none."""
        if order is None or self.orders_differ:
            return
        if self.order is None:
            self.order = order
        elif self.order != order:
            self.order, self.orders_differ = None, True

    def merge(self, other: LevelSketch) -> None:
        """Take in what another has seen."""
        self.distinct.merge(other.distinct)
        self.overflowed |= other.overflowed
        self.orders_differ |= other.orders_differ
        self.declare(other.order)
        if self.orders_differ:
            self.order = None
        if not self.overflowed:
            self.rows.update(other.rows)
            for key, total in other.mass.items():
                self.mass[key] = self.mass.get(key, 0.0) + total
        self._check_size()

    def counted(self) -> list[tuple[Level, int]]:
        """Return levels and the rows of each."""
        return [(level, count) for (_, level), count in self.rows.items()]

    def masses(self) -> list[tuple[Level, float]]:
        """Return levels and the mass of each."""
        return [(level, total) for (_, level), total in self.mass.items()]

    @property
    def n_rows(self) -> int:
        """Rows with a level, while these are counted."""
        return self.rows.total()

    def _check_size(self) -> None:
        if self.overflowed or len(self.rows) > self.max_distinct:
            self.overflowed = True
            self.rows, self.mass = Counter(), {}


def pick(levels: Sequence[Any], index: NDArray[np.intp]) -> NDArray[np.object_]:
    """Return each row's level as Python objects, None where missing."""
    table = np.empty(len(levels) + 1, dtype=object)
    table[:-1] = levels
    return np.asarray(table[index])
