"""Responses before the fit: refused when impossible, and summarised for the starting values.

Summaries weigh rows, and stay finite for one row, constant responses and responses at the edge of
what is possible: where a share or a rate would be 0, half of an average row is counted instead.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from torch import Tensor

Array = NDArray[np.float64]

#: Share of the variation that starting values give to noise; the other half is for the model.
NOISE_SHARE = 0.5


def refuse(bad: NDArray[np.bool_], y: Array, what: str, remedy: str) -> None:
    """Raise a ValueError when any row is bad, with their number, the first one and the remedy."""
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"y {what} in {int(bad.sum())} of {len(y)} rows, the first is row {row} "
            f"({y[row]:.17g}, counted from 0); {remedy}"
        )


def check_finite(y: Array) -> None:
    """Refuse NaN and infinity."""
    refuse(~np.isfinite(y), y, "is not finite", "drop these rows or mend them before fitting")


def check_counts(y: Array) -> None:
    """Refuse all but 0, 1, 2, ..."""
    check_finite(y)
    refuse(y < 0, y, "is negative", "counts are 0, 1, 2, ...; use a Gaussian likelihood instead")
    refuse(
        y != np.floor(y),
        y,
        "is not a whole number",
        "counts are 0, 1, 2, ...; for positive amounts use the gamma likelihood, for rates pass "
        "the counts and the log exposure as offset",
    )


def check_labels(y: Array, n_classes: int) -> None:
    """Refuse all but the class numbers 0 .. n_classes - 1."""
    wanted = "0 or 1" if n_classes == 2 else f"one of the class numbers 0 .. {n_classes - 1}"
    bad = ~((y >= 0) & (y <= n_classes - 1) & (y == np.floor(y)))
    refuse(bad, y, f"is not {wanted}", "number the classes from 0 in the order you want")


def average(values: Array, weights: Array) -> float:
    """Return the weighted mean; dividing first, so that values near the largest float fit."""
    largest = float(np.abs(values).max()) or 1.0
    return largest * float(np.average(values / largest, weights=weights))


def mean_square(values: Array, weights: Array) -> float:
    """Return the weighted mean of squares, infinite where it overflows."""
    with np.errstate(over="ignore"):
        return float(np.average(values**2, weights=weights))


def weighted_quantile(values: Array, weights: Array, level: float) -> float:
    """Return the smallest value at or below which lies at least ``level`` of the weight."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    row = int(np.searchsorted(reached, level * reached[-1]))
    return float(values[order][min(row, len(values) - 1)])


def rows_of(weights: Array) -> float:
    """Return the total weight in units of the average row that counts at all."""
    return float((weights > 0).sum())


def share(y: Array, weights: Array) -> float:
    """Return the weighted mean of y in [0, 1], at least half a row away from 0 and 1."""
    edge = 0.5 / (rows_of(weights) + 1.0)
    return float(np.clip(np.average(y, weights=weights), edge, 1.0 - edge))


def log_rate(y: Array, weights: Array, offset: Array) -> float:
    """Return c with sum w y = sum w e^(c + offset); a total of 0 counts as half a row."""
    total = average(y, weights) or 0.5 / rows_of(weights)
    with np.errstate(divide="ignore"):
        mass = np.log(weights / weights.sum())
    return float(np.log(total) - logsumexp(mass + offset))


def relative_spread(y: Array, weights: Array, log_mean: Array) -> float:
    """Return the weighted mean of (y / mean - 1)^2."""
    with np.errstate(over="ignore"):
        return mean_square(y * np.exp(-log_mean) - 1.0, weights)


def excess_variance(y: Array, weights: Array, log_mean: Array) -> float:
    """Return alpha in Var[y] = mu + alpha mu^2, by moments."""
    with np.errstate(over="ignore"):
        poisson = float(np.average(np.exp(-log_mean), weights=weights))
    spread = relative_spread(y, weights, log_mean)
    return spread - poisson if spread > poisson else 0.0


def parameters_within(values: list[float], bounds: tuple[tuple[float, float], ...]) -> Tensor:
    """Return starting parameters, moved into their bounds."""
    inside = [float(np.clip(v, low, high)) for v, (low, high) in zip(values, bounds, strict=True)]
    return torch.tensor(inside, dtype=torch.float64)


def levels(*values: float) -> Tensor:
    """Return the levels of the latent functions."""
    return torch.tensor(values, dtype=torch.float64)
