"""How good predictions are on rows that the model has not seen, with intervals.

Every metric is a mean over rows, or a smooth function of means, so its standard error comes from
the variance of its influence function: no resampling, whatever the number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

Array = NDArray[np.float64]

_LEVEL = 0.9  # of the intervals
_Z = float(norm.ppf(0.5 + _LEVEL / 2))


@dataclass(frozen=True)
class Metric:
    """A figure with its 90% interval.

    Parameters
    ----------
    name
        What it is called.
    value, low, high
        The figure and the ends of its interval.
    about
        What it says, in a few words.
    """

    name: str
    value: float
    low: float
    high: float
    about: str


def mean_metric(name: str, values: Array, about: str) -> Metric:
    """Return the mean of some values."""
    value, half = float(values.mean()), _half(values)
    return Metric(name, value, value - half, value + half, about)


def share_metric(name: str, hits: Array, about: str) -> Metric:
    """Return a share of rows with Wilson's interval, which stays within 0 and 1."""
    low, high = wilson(float(hits.sum()), len(hits))
    return Metric(name, float(hits.mean()), float(low), float(high), about)


def wilson(hits: float | Array, n: float | Array) -> tuple[Array, Array]:
    """Return Wilson's interval of a share."""
    count = np.maximum(np.asarray(n, dtype=np.float64), 1.0)
    p = np.asarray(hits) / count
    centre = (p + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z / (1 + _Z**2 / count) * np.sqrt(p * (1 - p) / count + (_Z / (2 * count)) ** 2)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def root_mean_square(name: str, errors: Array, about: str) -> Metric:
    """Return the root of the mean square of some errors."""
    size = float(np.abs(errors).max(initial=0.0))
    if size == 0:
        return Metric(name, 0.0, 0.0, 0.0, about)
    squares = (errors / size) ** 2
    mean, half = float(squares.mean()), _half(squares)
    ends = np.sqrt(np.maximum(np.array([mean, mean - half, mean + half]), 0.0)) * size
    return Metric(name, float(ends[0]), float(ends[1]), float(ends[2]), about)


def r_squared(y: Array, prediction: Array) -> Metric | None:
    """Return 1 - E(y - prediction)^2 / Var y; None where y is constant."""
    scale = float(np.ptp(y))
    if scale == 0:
        return None
    errors = ((y - prediction) / scale) ** 2
    spread = ((y - y.mean()) / scale) ** 2
    ratio = float(errors.mean() / spread.mean())
    half = _half((errors - ratio * spread) / spread.mean())
    about = "share of the response's variance that is predicted; 0 is no better than its mean"
    return Metric("R²", 1 - ratio, 1 - ratio - half, min(1.0, 1 - ratio + half), about)


def area_under_curve(positive: NDArray[np.bool_], score: Array) -> Metric | None:
    """Return the area under the ROC curve (DeLong's interval); None with one class only."""
    n, m = int(positive.sum()), int((~positive).sum())
    if n == 0 or m == 0:
        return None
    everyone = rankdata(score)
    above = (everyone[positive] - rankdata(score[positive])) / m  # P(below this positive)
    below = 1 - (everyone[~positive] - rankdata(score[~positive])) / n
    value = float(above.mean())
    variance = above.var(ddof=1) / n if n > 1 else 0.25
    variance += below.var(ddof=1) / m if m > 1 else 0.25
    half = _Z * float(np.sqrt(variance))
    about = "chance that a row of the class gets a higher probability than one of the others"
    return Metric("AUC", value, max(0.0, value - half), min(1.0, value + half), about)


def log_losses(codes: NDArray[np.intp], probabilities: Array) -> Array:
    """Return minus the log probability that each row's class was given, ``[n]``."""
    chosen = probabilities[np.arange(len(codes)), codes]
    return np.asarray(-np.log(np.maximum(chosen, np.finfo(np.float64).tiny)))


def brier_scores(codes: NDArray[np.intp], probabilities: Array) -> Array:
    """Return the squared error of the probabilities, ``[n]``; of two classes, of the second."""
    if probabilities.shape[1] == 2:
        return np.asarray((probabilities[:, 1] - (codes == 1)) ** 2)
    hit = np.eye(probabilities.shape[1])[codes]
    return np.asarray(((probabilities - hit) ** 2).sum(axis=1))


@dataclass(frozen=True)
class Reliability:
    """What was promised against what came, by groups of rows.

    Parameters
    ----------
    promised, seen
        Mean promised probability (or nominal coverage) and observed share.
    low, high
        Ends of the interval of the observed share.
    counts
        Rows of each group.
    """

    promised: Array
    seen: Array
    low: Array
    high: Array
    counts: Array


def reliability(probability: Array, hit: NDArray[np.bool_], n_groups: int = 10) -> Reliability:
    """Return the observed shares of groups of equal size, by rising probability."""
    order = np.argsort(probability, kind="stable")
    groups = [g for g in np.array_split(order, min(n_groups, max(1, len(order) // 5))) if len(g)]
    promised = np.array([probability[g].mean() for g in groups])
    hits = np.array([float(hit[g].sum()) for g in groups])
    counts = np.array([float(len(g)) for g in groups])
    low, high = wilson(hits, counts)
    return Reliability(promised, hits / counts, low, high, counts)


def coverage(levels: Array, y: Array, lower: Array, upper: Array) -> Reliability:
    """Return the share of rows within central intervals, ``[n, levels]`` ends."""
    inside = (lower <= y[:, None]) & (y[:, None] <= upper)
    hits, n = inside.sum(axis=0).astype(np.float64), np.full(len(levels), float(len(y)))
    low, high = wilson(hits, n)
    return Reliability(levels, hits / len(y), low, high, n)


def _half(values: Array) -> float:
    return _Z * float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else float("nan")
