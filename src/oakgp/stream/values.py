"""The distribution of a column of numbers, from chunks in any order.

Doubles, read as integers in the right way, keep their order. A `ValueSketch` counts the distinct
values exactly while there are at most ``max_values``. When there are more, it drops trailing bits
of these integers, the fewest that leave at most ``max_values`` cells. So the cells are a function
of the set of values: neither the order of the rows nor chunks, parts or machines can change them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from oakgp.columns import FloatArray

Keys = NDArray[np.uint64]

_SIGN = np.uint64(1 << 63)
_PENDING = 1 << 18  # rows gathered before they are sorted


def order_keys(values: FloatArray) -> Keys:
    """Map finite doubles to integers of the same order."""
    bits = (values + 0.0).view(np.uint64)  # -0.0 and 0.0 are one
    flip = (bits.view(np.int64) >> 63).view(np.uint64)  # all ones for a negative number
    return np.asarray(bits ^ (flip | _SIGN))


@dataclass
class _Cells:
    """Sorted cells: key, rows, mass, and mass times value, least and largest value of each."""

    keys: Keys
    rows: NDArray[np.int64]
    mass: FloatArray
    sums: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def empty(cls) -> _Cells:
        none = np.empty(0)
        rows = np.empty(0, dtype=np.int64)
        return cls(np.empty(0, dtype=np.uint64), rows, none, none, none, none)

    @classmethod
    def of_rows(cls, values: FloatArray, mass: FloatArray | None, shift: int) -> _Cells:
        values = values + 0.0
        if mass is None:
            values = np.sort(values)
            keys = order_keys(values) >> np.uint64(shift)
            starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
            ends = np.r_[starts[1:], len(keys)]
            rows = ends - starts
            sums = np.add.reduceat(values, starts) if shift else values[starts] * rows
            totals = rows.astype(np.float64)
        else:
            order = np.argsort(values)
            values, mass = values[order], mass[order]
            keys = order_keys(values) >> np.uint64(shift)
            starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
            ends = np.r_[starts[1:], len(keys)]
            rows, totals = ends - starts, np.add.reduceat(mass, starts)
            sums = np.add.reduceat(values * mass, starts)
        return cls(keys[starts], rows, totals, sums, values[starts], values[ends - 1])

    def coarser(self, by: int) -> _Cells:
        return self._grouped(self.keys >> np.uint64(by)) if by else self

    def plus(self, other: _Cells) -> _Cells:
        keys = np.r_[self.keys, other.keys]
        order = np.argsort(keys, kind="stable")
        both = _Cells(
            keys[order],
            *(
                np.r_[getattr(self, name), getattr(other, name)][order]
                for name in ("rows", "mass", "sums", "low", "high")
            ),
        )
        return both._grouped(both.keys)

    def _grouped(self, keys: Keys) -> _Cells:
        starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
        if len(starts) == len(keys):
            return _Cells(keys, self.rows, self.mass, self.sums, self.low, self.high)
        return _Cells(
            keys[starts],
            np.add.reduceat(self.rows, starts),
            np.add.reduceat(self.mass, starts),
            np.add.reduceat(self.sums, starts),
            np.minimum.reduceat(self.low, starts),
            np.maximum.reduceat(self.high, starts),
        )

    def excess_bits(self, most: int) -> int:
        """Return how many more bits must go to leave at most so many cells."""
        differing = self.keys[1:] ^ self.keys[:-1]
        bits = 0
        while 1 + int(np.count_nonzero(differing >> np.uint64(bits))) > most:
            bits += 1
        return bits


@dataclass
class ValueSketch:
    """Distribution of the finite values of a column.

    Parameters
    ----------
    max_values
        Distinct values that are counted exactly, and cells that are kept when there are more.
    """

    max_values: int
    shift: int = 0
    cells: _Cells = field(default_factory=_Cells.empty)
    _pending: list[tuple[FloatArray, FloatArray | None]] = field(default_factory=list)
    _waiting: int = 0

    def update(self, values: FloatArray, mass: FloatArray | None) -> None:
        """Take in finite values and their masses (None: 1 each)."""
        if not len(values):
            return
        self._pending.append((values, mass))
        self._waiting += len(values)
        if self._waiting >= _PENDING:
            self.settle()

    def merge(self, other: ValueSketch) -> None:
        """Take in what another has seen."""
        self.settle()
        other.settle()
        self._add(other.cells, other.shift)

    def settle(self) -> None:
        """Sort what is pending into the cells."""
        if not self._pending:
            return
        values = np.concatenate([values for values, _ in self._pending])
        mass = None
        if any(given is not None for _, given in self._pending):
            mass = np.concatenate(
                [np.ones(len(v)) if given is None else given for v, given in self._pending]
            )
        self._pending, self._waiting = [], 0
        self._add(_Cells.of_rows(values, mass, self.shift), self.shift)

    def _add(self, cells: _Cells, shift: int) -> None:
        if not len(cells.keys):
            return
        finer = max(shift, self.shift)
        mine = self.cells.coarser(finer - self.shift)
        both = mine.plus(cells.coarser(finer - shift)) if len(mine.keys) else cells
        more = both.excess_bits(self.max_values) if len(both.keys) > self.max_values else 0
        self.cells, self.shift = both.coarser(more), finer + more

    @property
    def exact(self) -> bool:
        """Whether each cell is one value."""
        self.settle()
        return self.shift == 0

    def distribution(
        self, sample: FloatArray | None = None, sample_mass: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return values in increasing order and the mass of each.

        The distinct values themselves while these are counted, else the mean of each cell; the
        least and the largest value are exact always. A cell that holds more than 1/1024 of the
        mass, and more than one value, is divided as the sample rows within it are.

        Parameters
        ----------
        sample, sample_mass
            Values of a sample of the rows, and their masses.
        """
        self.settle()
        cells = self.cells
        if not len(cells.keys):
            return np.empty(0), np.empty(0)
        single = cells.low == cells.high
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.where(single, cells.low, cells.sums / cells.mass)
        # Sums of values near the largest float overflow: the middle of the cell is near enough.
        means = np.where(np.isfinite(means), means, 0.5 * cells.low + 0.5 * cells.high)
        values, mass = np.clip(means, cells.low, cells.high), cells.mass
        if self.shift == 0:
            return values, mass
        if sample is not None and sample_mass is not None:
            wide = ~single & (mass > mass.sum() / 1024)
            values, mass = self._divided(wide, values, mass, sample, sample_mass)
        row_mass = cells.mass[[0, -1]] / cells.rows[[0, -1]]
        return _with_ends(values, mass, cells.low[0], cells.high[-1], row_mass)

    def _divided(
        self,
        wide: NDArray[np.bool_],
        values: FloatArray,
        mass: FloatArray,
        sample: FloatArray,
        sample_mass: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        keys = order_keys(sample) >> np.uint64(self.shift)
        parts, masses, kept = [], [], np.ones(len(values), dtype=bool)
        for i in np.flatnonzero(wide):
            inside = keys == self.cells.keys[i]
            if np.unique(sample[inside]).size < 2:
                continue
            share = sample_mass[inside] / sample_mass[inside].sum()
            parts.append(sample[inside])
            masses.append(share * mass[i])
            kept[i] = False
        values = np.concatenate([values[kept], *parts])
        mass = np.concatenate([mass[kept], *masses])
        order = np.lexsort((mass, values))
        return values[order], mass[order]


def _with_ends(
    values: FloatArray, mass: FloatArray, least: float, largest: float, row_mass: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Split one row off the outermost cells where their means are not the ends of the column."""
    for end, extreme, one in ((0, least, row_mass[0]), (-1, largest, row_mass[1])):
        if values[end] != extreme:
            mass = mass.copy()
            mass[end] -= one
            left = end == 0
            values = np.r_[extreme, values] if left else np.r_[values, extreme]
            mass = np.r_[one, mass] if left else np.r_[mass, one]
    return values, mass
