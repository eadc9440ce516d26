"""Quantiles of a predictive distribution, by inverting its distribution function for all rows.

The mixture over the latent Gaussian is a sum over 105 equally spaced nodes: a distribution function
is a step in the latent value, and where the step is narrow (a large count) the nodes' distance, an
eighth of the latent deviation, bounds the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from oakgp.likelihoods.special import normal_quantile

Support = Literal["real", "positive", "unit", "count", "binary", "classes"]

N_NODES = 105

_MAX_STEPS = 100
_TOLERANCE = 1e-10


def trapezoid_nodes(like: Tensor) -> tuple[Tensor, Tensor]:
    """Return equally spaced nodes and weights for a standard Gaussian, ``[S]``."""
    nodes = torch.linspace(-6.5, 6.5, N_NODES, dtype=like.dtype, device=like.device)
    weights = torch.exp(-0.5 * nodes**2)
    return nodes, weights / weights.sum()


def check_levels(levels: Sequence[float]) -> None:
    """Refuse levels outside (0, 1)."""
    for level in levels:
        if not 0.0 < level < 1.0:
            raise ValueError(f"quantile level {level!r}: give levels between 0 and 1, exclusive")


def from_line(u: Tensor, support: Support) -> Tensor:
    """Map the real line onto the support; counts through log(1 + y), continued between them."""
    if support == "positive":
        return torch.exp(u.clamp(max=700.0))
    if support == "unit":
        return torch.sigmoid(u)
    return torch.expm1(u.clamp(max=700.0)) if support == "count" else u


def invert(
    cdf: Callable[[Tensor], Tensor],
    support: Support,
    centre: Tensor,
    step: Tensor,
    levels: Sequence[float],
) -> Tensor:
    """Return the smallest y of the support with cdf(y) >= level, ``[n, levels]``.

    Parameters
    ----------
    cdf
        Increasing in each element, of responses ``[levels, n]``; for counts, continued in between.
    support
        Where y lives.
    centre, step : tensor of shape (n,)
        Where on the line (`from_line`) the search begins, and with what stride.
    levels
        Probabilities in (0, 1).
    """
    level = centre.new_tensor(list(levels))[:, None].expand(-1, len(centre))
    target = normal_quantile(level)

    def gap(u: Tensor) -> Tensor:
        # On the probit scale a distribution function is nearly straight, so that secants converge.
        p = cdf(from_line(u, support)).clamp(1e-300, 1.0 - 1e-16)
        return normal_quantile(p) - target

    centre = centre.expand_as(level)
    if support != "count":
        return from_line(_root(gap, centre - step, centre + step, step), support).T
    u = _root(gap, torch.zeros_like(centre), centre.clamp(min=0.0) + step, None)
    y = from_line(u, support).ceil()
    # Rounding of the root may have chosen a neighbour.
    y = torch.where((y > 0) & (cdf((y - 1.0).clamp(min=0.0)) >= level), y - 1.0, y)
    return torch.where(cdf(y) < level, y + 1.0, y).T


def _root(
    gap: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, step: Tensor | None
) -> Tensor:
    """Return the zero of an increasing function, by false position with halvings in between.

    Without ``step``, ``low`` is the end of the line: returned where the function is positive there.
    """
    below, above = gap(low), gap(high)
    stride = (high - low) if step is None else step.expand_as(low)
    for _ in range(_MAX_STEPS):
        wrong_low, wrong_high = below > 0, above < 0
        if step is None:
            wrong_low = torch.zeros_like(wrong_low)
        if not bool((wrong_low | wrong_high).any()):
            break
        stride = 2.0 * stride
        high, low = (
            torch.where(wrong_high, high + stride, torch.where(wrong_low, low, high)),
            torch.where(wrong_low, low - stride, torch.where(wrong_high, high, low)),
        )
        below, above = gap(low), gap(high)
    ended = below >= 0
    u, moved = torch.where(ended, low, high), torch.zeros_like(low)
    for count in range(_MAX_STEPS):
        width = high - low
        middle = 0.5 * (low + high)
        secant = low - below * width / (above - below).clamp(min=1e-300)
        inside = (secant > low) & (secant < high)
        trial = torch.where(inside, secant, middle) if count % 3 else middle
        u = torch.where(ended, u, trial)
        value = gap(u)
        ended = ended | (value.abs() < _TOLERANCE) | (width < _TOLERANCE * (1.0 + u.abs()))
        if bool(ended.all()):
            break
        left = value < 0
        # Illinois: an end that stays twice counts half, so that the next secant crosses the root.
        below, above = (
            torch.where(left, value, torch.where(moved > 0, 0.5 * below, below)),
            torch.where(left, torch.where(moved < 0, 0.5 * above, above), value),
        )
        low, high = torch.where(left, u, low), torch.where(left, high, u)
        moved = torch.where(left, -1.0, 1.0)
    return u
