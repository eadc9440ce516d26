"""Compiled loops: functions of single features by table lookup, and their products."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@njit(cache=True, nogil=True, fastmath={"contract"})
def fill_singles(
    x: Floats,
    begin: int,
    count: int,
    knots: Floats,
    knot_starts: Ints,
    tables: Floats,
    table_starts: Ints,
    widths: Ints,
    categorical: Ints,
    absent: Ints,
    row: Ints,
    share: Floats,
    out: Any,
) -> None:
    """Write 1 and all functions of all features at rows begin .. begin + count to ``out [S, n]``.

    Parameters
    ----------
    x
        ``[d, n]`` encoded values.
    knots, knot_starts
        Knots of all features in one array, and where each feature's begin (``[d + 1]``).
    tables, table_starts, widths
        Tables ``[m, q + 2]`` of all features in one array, where each begins, and each m.
    categorical, absent
        Whether the knots are level codes, and the table column of missing values.
    row, share
        Room for the place of each row between the knots.
    """
    for r in range(count):
        out[0, r] = 1.0
    line = 1
    for i in range(x.shape[0]):
        first, q = knot_starts[i], knot_starts[i + 1] - knot_starts[i]
        for r in range(count):
            value = x[i, begin + r]
            share[r] = 0.0
            if np.isnan(value):
                row[r] = absent[i]
            elif categorical[i]:
                row[r] = np.int64(value) if 0 <= value < q else q + 1
            elif q == 1 or value <= knots[first]:
                row[r] = 0
            elif value >= knots[first + q - 1]:
                row[r] = q - 2
                share[r] = 1.0
            else:
                low, high = 0, q - 1
                while high - low > 1:
                    middle = (low + high) >> 1
                    if knots[first + middle] <= value:
                        low = middle
                    else:
                        high = middle
                row[r] = low
                left = knots[first + low]
                share[r] = (value - left) / (knots[first + high] - left)
        for a in range(widths[i]):
            table = tables[table_starts[i] + a * (q + 2) : table_starts[i] + (a + 1) * (q + 2)]
            for r in range(count):
                base = table[row[r]]
                if share[r] > 0.0:
                    base += share[r] * (table[row[r] + 1] - base)
                out[line, r] = base
            line += 1


@njit(cache=True, nogil=True)
def fill_products(singles: Any, factors: Ints, root: Floats, count: int, out: Any) -> None:
    """Write the columns of the basis, times a number for each row, to ``out [F, n]``.

    Parameters
    ----------
    singles
        ``[S, n]`` functions of single features.
    factors
        ``[F, R]`` their numbers in each product; 0 is the constant 1.
    root
        ``[n]`` what every column is multiplied by.
    """
    order = factors.shape[1]
    for f in range(factors.shape[0]):
        one = singles[factors[f, 0]]
        if order == 1 or factors[f, 1] == 0:
            for r in range(count):
                out[f, r] = root[r] * one[r]
        elif order == 2 or factors[f, 2] == 0:
            two = singles[factors[f, 1]]
            for r in range(count):
                out[f, r] = root[r] * one[r] * two[r]
        else:
            two, three = singles[factors[f, 1]], singles[factors[f, 2]]
            for r in range(count):
                out[f, r] = root[r] * one[r] * two[r] * three[r]
            for k in range(3, order):  # a forced term may have more features
                if factors[f, k] > 0:
                    further = singles[factors[f, k]]
                    for r in range(count):
                        out[f, r] *= further[r]
