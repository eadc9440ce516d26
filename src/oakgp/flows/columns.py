"""Columns of numbers as flows see them: checks, distributions, overflow-free affine maps."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

Array: TypeAlias = NDArray[np.float64]

LARGEST = float(np.finfo(np.float64).max)
SMALLEST = float(np.finfo(np.float64).smallest_subnormal)
Z_LIMIT = 1e150  # the largest |z| of any flow: its square is still finite


def finite(x: ArrayLike) -> Array:
    """Give x as float64, an infinity as the largest float; NaN stays."""
    return np.clip(np.asarray(x, dtype=np.float64), -LARGEST, LARGEST)


def checked(x: ArrayLike, weights: ArrayLike | None) -> tuple[Array, Array | None]:
    """Give the rows of positive weight, and their weights scaled below 1 (or None).

    The scale is a power of two, so that counts stay exact: a column and its distinct values with
    their counts give the same flow, to the bit.
    """
    column = np.asarray(x, dtype=np.float64)
    if column.ndim != 1 or column.size == 0:
        raise ValueError(
            f"A flow is fitted to one column with at least one value, got shape {column.shape}. "
            "Pass a 1-D array, without the missing values."
        )
    bad = int(np.count_nonzero(~np.isfinite(column)))
    if bad:
        raise ValueError(
            f"A flow is fitted to finite values, but {bad} of {column.size} are NaN or infinite. "
            "Drop them first: missing values have their own atom in the measure."
        )
    if weights is None:
        return column, None
    mass = np.asarray(weights, dtype=np.float64)
    if mass.shape != column.shape:
        raise ValueError(
            f"Weights have shape {mass.shape}, the column {column.shape}. Pass one weight per row."
        )
    if not (np.all(np.isfinite(mass)) and np.all(mass >= 0) and np.any(mass > 0)):
        raise ValueError(
            "Weights must be finite and nonnegative, and at least one positive; their smallest "
            f"is {mass.min()}, their largest {mass.max()}. Mend or drop those rows."
        )
    used = mass > 0
    return column[used], np.ldexp(mass[used], -int(np.frexp(mass.max())[1]))


def distribution(column: Array, mass: Array | None) -> tuple[Array, Array]:
    """Give the distinct values in increasing order and the mass (count or weight) of each."""
    if mass is None:
        ordered = np.sort(column)
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        # Counts, not shares: their cumulative sums are exact.
        return ordered[starts], np.diff(np.r_[starts, ordered.size]).astype(np.float64)
    order = np.argsort(column)
    ordered = column[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    return ordered[starts], np.add.reduceat(mass[order], starts)


def level_positions(mass: Array, count: int) -> NDArray[np.intp]:
    """Give at most `count` positions among the values: the ends, the rest at quantile levels.

    Half of the levels are even in probability (the bulk), half are even in z (the tails).
    """
    if mass.size <= count:
        return np.arange(mass.size)
    cumulative = np.cumsum(mass)
    share = cumulative / cumulative[-1]
    half = (count - 2) // 2
    ends = np.clip([share[0], mass[-1] / cumulative[-1]], 1e-15, 0.1)
    levels = (np.linspace(0.0, 1.0, half + 2)[1:-1], ndtr(np.linspace(*_z_range(ends), half)))
    inner = np.searchsorted(share, np.concatenate(levels))
    return np.unique(np.r_[0, np.minimum(inner, mass.size - 1), mass.size - 1])


def _z_range(ends: Array) -> tuple[float, float]:
    lower, upper = ndtri(ends)
    return float(lower), float(-upper)


def affine(x: Array, center: float, scale: float, limit: float) -> Array:
    """(x - center) / scale without overflow on the way, clipped to +-limit."""
    q = _shrink(center, scale)
    reach = limit * (q * scale)
    return np.asarray(np.clip(q * x - q * center, -reach, reach) / (q * scale))


def affine_inverse(z: Array, center: float, scale: float) -> Array:
    """Center + scale * z without overflow on the way, clipped to the floats."""
    q = _shrink(center, scale)
    bound = 0.5 * LARGEST / max(q * scale, 0.5)
    shrunk = q * center + (q * scale) * np.clip(z, -bound, bound)
    return np.asarray(np.clip(shrunk, -q * LARGEST, q * LARGEST) / q)


def _shrink(center: float, scale: float) -> float:
    """Give a power of two that keeps differences of huge values finite and tiny ones exact."""
    return 0.25 if max(abs(center), scale) > 1.0 else 1.0
