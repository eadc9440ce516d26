"""Piecewise linear interpolation of long columns, compiled."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from oakgp.flows.columns import Array

_BUCKETS = 2048


def interpolate(x: Array, knots: Array, scores: Array, shrink: Array, gap: Array) -> Array:
    """Interpolate between knots, with inputs beyond them moved to the outermost ones.

    Parameters
    ----------
    x
        ``[n]`` values; NaN stays.
    knots, scores
        ``[k]`` increasing knots, at least 2, and the value at each.
    shrink, gap
        ``[k - 1]`` a factor of each cell and its shrunk length, neither infinite nor 0.
    """
    # Buckets of equal width say where the cell of a value can be: two or three steps of a binary
    # search are left. Halved: knots at -1e308 and 1e308 have no finite difference.
    edges = np.linspace(0.5 * knots[0], 0.5 * knots[-1], _BUCKETS + 1)
    first = np.searchsorted(0.5 * knots, edges, side="right") - 1
    with np.errstate(over="ignore"):
        scale = _BUCKETS / (0.5 * knots[-1] - 0.5 * knots[0])
    return np.asarray(
        _interpolate(x, knots, scores, np.diff(scores), shrink, gap, first, float(scale))
    )


@njit(nogil=True, cache=True)
def _interpolate(
    x: Array,
    knots: Array,
    scores: Array,
    rises: Array,
    shrink: Array,
    gap: Array,
    first: NDArray[np.intp],
    scale: float,
) -> Array:
    last = len(knots) - 2
    lower, upper = knots[0], knots[-1]
    out = np.empty(len(x))
    for i in range(len(x)):
        value = x[i]
        if math.isnan(value):
            out[i] = value
            continue
        value = min(max(value, lower), upper)
        place = (0.5 * value - 0.5 * lower) * scale
        # Rounding may put a value into a neighbouring bucket: one cell more on either side. A
        # scale that overflowed gives no number, and all cells are searched.
        low, high = 0, last
        if 0.0 <= place < len(first):
            bucket = min(int(place), len(first) - 2)
            low = max(first[bucket] - 1, 0)
            high = min(first[bucket + 1] + 1, last)
        while low < high:  # the last cell whose knot is not above the value
            middle = (low + high + 1) // 2
            if knots[middle] <= value:
                low = middle
            else:
                high = middle - 1
        part = (shrink[low] * value - shrink[low] * knots[low]) / gap[low]
        out[i] = scores[low] + part * rises[low]
    return out
