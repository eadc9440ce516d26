"""The rank-based flow: a piecewise linear normal score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from oakgp.flows.base import Flow
from oakgp.flows.columns import (
    LARGEST,
    SMALLEST,
    Z_LIMIT,
    Array,
    affine,
    affine_inverse,
    checked,
    distribution,
    finite,
    level_positions,
)
from oakgp.flows.interpolation import interpolate

_MAX_KNOTS = 256
# Two knots closer than this in z (weights of 1e-17 do that) are one: 0/0 in the interpolation.
_SAME_SCORE = 1e-12


@dataclass(frozen=True)
class NormalScore(Flow):
    """The inverse normal cdf of the mid-rank, piecewise linear between knots.

    A distinct value x_k of the column maps to z_k = Phi^{-1}(P(x < x_k) + P(x = x_k) / 2). With
    more than 256 distinct values, knots are kept at levels that are even in probability and even
    in z. Beyond the outermost knots z grows like a logarithm, so that no outlier is far away:
    z = z_max + log(1 + (x - x_max) / width), where `width` is the distance over which z rose by
    its last unit (with one value only, 1).
    """

    kind: ClassVar[str] = "normal_score"
    knots: tuple[float, ...]
    scores: tuple[float, ...]
    lower_width: float
    upper_width: float

    @classmethod
    def fit(cls, x: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Fit knots and scores; see `Flow.fit`."""
        values, mass = distribution(*checked(x, weights))
        at = level_positions(mass, _MAX_KNOTS)
        knots, scores = values[at], _mid_rank_scores(mass, at)
        rising = np.r_[True, scores[1:] > np.maximum.accumulate(scores)[:-1] + _SAME_SCORE]
        knots, scores = knots[rising], scores[rising]
        return cls(
            knots=tuple(knots.tolist()),
            scores=tuple(scores.tolist()),
            lower_width=_tail_width(-knots[::-1], -scores[::-1]),
            upper_width=_tail_width(knots, scores),
        )

    def forward(self, x: ArrayLike) -> Array:
        """Map values to z; see `Flow.forward`."""
        column = finite(x)
        z = self._inside(column)
        outside = (column < self.knots[0]) | (column > self.knots[-1])
        if outside.any():
            over, under = self._beyond(column[outside])
            z[outside] += np.log1p(over) - np.log1p(under)
        return z

    def inverse(self, z: ArrayLike) -> Array:
        """Map z to values; see `Flow.inverse`."""
        column = finite(z)
        knots, scores = np.array(self.knots), np.array(self.scores)
        over = np.expm1(np.clip(column - scores[-1], 0.0, 700.0))
        under = np.expm1(np.clip(scores[0] - column, 0.0, 700.0))
        inside = np.where(np.isnan(column), np.nan, knots[0])
        if knots.size > 1:
            cell = _cell(scores, column)
            part = (np.clip(column, scores[0], scores[-1]) - scores[cell]) / np.diff(scores)[cell]
            # A convex combination: knots at -1e308 and 1e308 have no finite difference.
            inside = (1.0 - part) * knots[cell] + part * knots[cell + 1]
        upper = affine_inverse(over, self.knots[-1], self.upper_width)
        lower = affine_inverse(-under, self.knots[0], self.lower_width)
        return np.where(over > 0, upper, np.where(under > 0, lower, inside))

    def log_derivative(self, x: ArrayLike) -> Array:
        """Give the log of the slope; see `Flow.log_derivative`."""
        column = finite(x)
        knots, scores = np.array(self.knots), np.array(self.scores)
        over, under = self._beyond(column)
        upper = -np.log(self.upper_width) - np.log1p(over)
        lower = -np.log(self.lower_width) - np.log1p(under)
        inside = upper
        if knots.size > 1:
            shrink, gap = _gaps(knots)
            slopes = np.log(np.diff(scores)) - np.log(gap) + np.log(shrink)
            inside = slopes[_cell(knots, column)] + 0.0 * over  # NaN stays NaN
        ends = np.where(column > knots[-1], upper, inside)
        return np.asarray(np.where(column < knots[0], lower, ends))

    def _inside(self, column: Array) -> Array:
        """Interpolate, with inputs beyond the knots moved to the outermost ones."""
        knots, scores = np.array(self.knots), np.array(self.scores)
        if knots.size == 1:
            return np.where(np.isnan(column), np.nan, scores[0])
        shrink, gap = _gaps(knots)
        inside = interpolate(column.ravel(), knots, scores, shrink, gap)
        return inside.reshape(column.shape)

    def _beyond(self, column: Array) -> tuple[Array, Array]:
        """Give the distances above the last and below the first knot, in their widths."""
        over = affine(np.maximum(column, self.knots[-1]), self.knots[-1], self.upper_width, Z_LIMIT)
        under = affine(np.minimum(column, self.knots[0]), self.knots[0], self.lower_width, Z_LIMIT)
        return over, -under


def _mid_rank_scores(mass: Array, at: NDArray[np.intp]) -> Array:
    """Give Phi^{-1} of the mid-ranks, each from its nearer tail: a cdf of 1 - 1e-17 rounds to 1."""
    cumulative = np.cumsum(mass)
    total = cumulative[-1]
    half = 0.5 * mass[at] / total
    below = np.maximum(cumulative[at] / total - half, half)
    above = np.maximum((total - cumulative[at]) / total, 0.0) + half
    lower = ndtri(np.clip(below, 1e-300, 0.5))
    upper = -ndtri(np.clip(above, 1e-300, 0.5))
    return np.asarray(np.where(below < above, lower, upper))


def _cell(knots: Array, column: Array) -> NDArray[np.intp]:
    """Give the cell of each value, the outermost ones beyond the ends (and for NaN)."""
    return np.clip(np.searchsorted(knots, column, side="right") - 1, 0, knots.size - 2)


def _gaps(knots: Array) -> tuple[Array, Array]:
    """Give a factor and the shrunk length of each cell: neither infinite nor rounded to 0."""
    size = np.abs(knots)
    shrink = np.where(np.maximum(size[:-1], size[1:]) > 1.0, 0.25, 1.0)
    return shrink, shrink * knots[1:] - shrink * knots[:-1]


def _tail_width(knots: Array, scores: Array) -> float:
    """Give the distance per unit of z over the last unit of z at the upper end."""
    if knots.size == 1:
        return 1.0
    start = max(int(np.searchsorted(scores, scores[-1] - 1.0, side="right")) - 1, 0)
    shrink, gap = _gaps(knots[[start, -1]])
    # The rise is 1 or more for most columns, small when all values have nearly the same rank.
    width = float(gap[0]) / float(scores[-1] - scores[start])
    return min(max(width, SMALLEST), LARGEST * float(shrink[0])) / float(shrink[0])
