"""Cubic splines with even knots: from values at the knots to coefficients of the B-splines."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import lil_matrix
from scipy.sparse.linalg import splu

from oakgp.compiled.axes import Axis, NumericAxis

Array = NDArray[np.float64]


@lru_cache(maxsize=64)
def _system(count: int, cyclic: bool) -> Any:
    """Return the factorised matrix from coefficients to values and two end conditions."""
    matrix = lil_matrix((count + 2, count + 2))
    for k in range(count):
        matrix[k, k : k + 3] = [1.0 / 6.0, 4.0 / 6.0, 1.0 / 6.0]
    if cyclic:
        matrix[count, 0], matrix[count, count - 1] = 1.0, -1.0
        matrix[count + 1, 2], matrix[count + 1, count + 1] = 1.0, -1.0
    else:  # one cubic on the first two cells, and one on the last two
        matrix[count, 0:5] = [1.0, -4.0, 6.0, -4.0, 1.0]
        matrix[count + 1, count - 3 : count + 2] = [1.0, -4.0, 6.0, -4.0, 1.0]
    return splu(matrix.tocsc())


def coefficients(axes: Sequence[Axis], values: Array) -> Array:
    """Return the coefficients of the splines through the entries of a table.

    Parameters
    ----------
    axes
        Those of the table: the first axes of ``values``.
    values
        An entry for each entry of the axes; further axes of the array are further tables.
    """
    for k, axis in enumerate(axes):
        if isinstance(axis, NumericAxis) and axis.degree == 3:
            moved = np.moveaxis(values, k, 0)
            values = np.moveaxis(_along_first(axis, moved), 0, k)
    return np.ascontiguousarray(values)


def _along_first(axis: NumericAxis, values: Array) -> Array:
    flat = values.reshape(len(values), -1)
    cyclic = axis.scale.period is not None
    right = np.concatenate([flat[:-1], np.zeros((2, flat.shape[1]))])
    found = _system(axis.count, cyclic).solve(right)
    return np.concatenate([found, flat[-1:]]).reshape(-1, *values.shape[1:])
