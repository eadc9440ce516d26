"""Finding cells by guide tables: for databases where branches cost more than reading an array.

The range of a scale is cut into even buckets. A guide holds for each bucket the first cell that a
value in it can lie in; from there a few steps to the right, as many as the fullest bucket needs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oakgp.compiled.axes import Scale

Array = NDArray[np.float64]

_BUCKETS = (64, 512, 4096, 16_384)
_STEPS = 2  # as many are fine: no more buckets are tried then
_MARGIN = 1e-6  # of a bucket: arithmetic in the database may round differently


@dataclass(frozen=True, eq=False)
class Guide:
    """A guide table.

    Parameters
    ----------
    low, factor
        Bucket of x: the whole part of ``(x - low) * factor``.
    starts
        First cell of each bucket.
    steps
        Cells beyond the first that a value can lie in.
    """

    low: float
    factor: float
    starts: NDArray[np.intp]
    steps: int


def guide(scale: Scale) -> Guide | None:
    """Return the smallest guide that needs few steps; None where none is better than searching."""
    knots = np.array(scale.knots)
    found = None
    for count in _BUCKETS:
        found = _guide(knots, count)
        if found is None or found.steps <= _STEPS:
            break
    searched = int(np.ceil(np.log2(max(2, len(knots) - 1))))
    return found if found is not None and found.steps < searched else None


def _guide(knots: Array, count: int) -> Guide | None:
    low, high = knots[0], knots[-1]
    with np.errstate(over="ignore", divide="ignore"):
        factor = float(count / (high - low))
    if not 0.0 < factor < np.inf:
        return None
    buckets = np.arange(count + 1)
    last = len(knots) - 2
    starts = np.searchsorted(knots, low + (buckets - _MARGIN) / factor, side="right") - 1
    stops = np.searchsorted(knots, low + (buckets + 1.0 + _MARGIN) / factor, side="right") - 1
    starts, stops = np.clip(starts, 0, last), np.clip(stops, 0, last)
    return Guide(float(low), factor, starts, int((stops - starts).max()))
