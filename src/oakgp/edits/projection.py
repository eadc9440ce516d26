"""Projections of functions on a grid to shapes, by weighted least squares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from sklearn.isotonic import isotonic_regression

Array = NDArray[np.float64]

#: Shapes a component can be given.
SHAPES = ("increasing", "decreasing", "convex", "concave")


def project(values: Array, x: Array, weights: Array, shape: str) -> Array:
    """Return the nearest functions of a shape, ``[n_functions, n]``.

    Projections keep the weighted mean: what was centred stays so.

    Parameters
    ----------
    values
        ``[n_functions, n]`` functions at increasing places.
    x
        ``[n]`` the places.
    weights
        ``[n]`` of the squares; their probabilities.
    shape
        One of `SHAPES`.
    """
    weights = np.maximum(weights, 1e-9 * weights.max())  # a place that no row has hardly pulls
    if shape in ("increasing", "decreasing"):
        rising = shape == "increasing"
        rows = [isotonic_regression(v, sample_weight=weights, increasing=rising) for v in values]
        return np.stack(rows)
    sign = 1.0 if shape == "convex" else -1.0
    return sign * _convex(sign * values, x, weights)


def _convex(values: Array, x: Array, weights: Array) -> Array:
    """Project on a + b x + sum_j c_j (x - x_j)_+ with c_j >= 0: all convex functions on the grid.

    The line is free, so it is taken out of both sides first; the rest is a least squares problem
    with non-negative coefficients.
    """
    if len(x) < 3:
        return values
    unit = (x - x[0]) / (x[-1] - x[0])
    root = np.sqrt(weights)
    line, _ = np.linalg.qr(root[:, None] * np.column_stack([np.ones_like(unit), unit]))
    hinges = np.maximum(0.0, unit[:, None] - unit[None, 1:-1])
    bent = root[:, None] * hinges
    bent = bent - line @ (line.T @ bent)
    size = np.linalg.norm(bent, axis=0)
    bent = bent / size
    found = []
    for v in values:
        target = root * v
        straight = line @ (line.T @ target)
        c, _ = nnls(bent, target - straight, maxiter=30 * len(size))
        found.append((straight + bent @ c) / root)
    return np.stack(found)
