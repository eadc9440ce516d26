"""The parametric flow of the paper: affine, optional log, sinh-arcsinh, affine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from oakgp.flows.base import Flow, normal_kl
from oakgp.flows.columns import (
    Z_LIMIT,
    Array,
    affine,
    affine_inverse,
    checked,
    distribution,
    finite,
    level_positions,
)
from oakgp.flows.minimum_kl import SQUASH, center_spread, fit_shape, squashed_sinh
from oakgp.flows.standardize import Standardize

_X_LIMIT = 1e308
_FAR = 1e4  # beyond 1e4 spreads from the centre, y grows like a logarithm
_LOG_GAIN = 1e-2  # the log has to lower the KL by this much: of two equal maps, the simpler one
_MAX_CELLS = 2000  # points on which the shape is fitted
_FEW_VALUES = 8  # with fewer distinct values a flexible map has no smallest KL: stay affine
_BLOCK = 65536  # values mapped at a time: temporaries stay in the cache


@dataclass(frozen=True)
class SinhArcsinh(Flow):
    """Shift and scale, an optional log, sinh-arcsinh, shift and scale; fitted by minimum KL.

    ::

        y = (x - center) / scale
        w = y                                           if log_side is 0
            log_side * log(log_side * y - log_origin)   if 1 (long right tail) or -1 (left)
        z = out_shift + out_scale * S(tailweight * arcsinh(shift + stretch * w) + skewness)

    Each step is defined on the whole line and keeps outliers moderate, continuous in its slope:
    y grows like a logarithm beyond 1e4; the log is linear below `log_guard` (half the distance
    of the training minimum from the log's origin); S is sinh up to |t| = 10, linear beyond.
    The parameters minimise the KL on at most 2000 weighted quantiles of the column. A column with
    fewer than 8 distinct values, or for which nothing better is found, keeps the affine map.
    """

    kind: ClassVar[str] = "sinh_arcsinh"
    center: float
    scale: float
    log_side: int = 0
    log_origin: float = -1.0
    log_guard: float = 1.0
    shift: float = 0.0
    stretch: float = 1.0
    skewness: float = 0.0
    tailweight: float = 1.0
    out_shift: float = 0.0
    out_scale: float = 1.0

    @classmethod
    def fit(cls, x: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Fit by minimum KL, with and without the log; see `Flow.fit`."""
        column, row_mass = checked(x, weights)
        start = Standardize.fit(column, row_mass)
        plain = cls(center=start.center, scale=start.scale)
        values, mass = distribution(column, row_mass)
        if values.size < _FEW_VALUES:
            return plain
        cells, cell_mass = _cells(values, mass)
        center, spread = center_spread(cells, cell_mass)
        base = cls(center=center, scale=spread or start.scale)
        y = base._scaled(cells)
        shape = fit_shape(y, cell_mass, 0)
        for side in (1, -1):
            logged = fit_shape(y, cell_mass, side)
            shape = logged if logged.loss < shape.loss - _LOG_GAIN else shape
        shaped = replace(
            base,
            log_side=shape.log_side,
            log_origin=float(np.min(shape.log_side * y)) - shape.offset,
            log_guard=0.5 * shape.offset,
            shift=shape.shift,
            stretch=shape.stretch,
            skewness=shape.skewness,
            tailweight=shape.tailweight,
        )
        # The quantiles chose the shape; all values set the last scale and have the last word.
        fitted, kl = shaped._normalised(values, mass)
        return fitted if kl < normal_kl(start, values, mass) else plain

    def forward(self, x: ArrayLike) -> Array:
        """Map values to z; see `Flow.forward`."""
        u = self.shift + self.stretch * self._log(self._scaled(x))
        s = squashed_sinh(self.tailweight * np.arcsinh(u) + self.skewness)
        return np.asarray(np.clip(self.out_shift + self.out_scale * s, -Z_LIMIT, Z_LIMIT))

    def inverse(self, z: ArrayLike) -> Array:
        """Map z to values; see `Flow.inverse`."""
        s = (np.clip(finite(z), -Z_LIMIT, Z_LIMIT) - self.out_shift) / self.out_scale
        t = (_squashed_arcsinh(s) - self.skewness) / self.tailweight
        w = (np.sinh(np.clip(t, -600.0, 600.0)) - self.shift) / self.stretch
        y = _unsquashed(self._unlog(w))
        return affine_inverse(y, self.center, self.scale)

    def log_derivative(self, x: ArrayLike) -> Array:
        """Give log g'(x) in closed form; see `Flow.log_derivative`."""
        y = self._scaled(x)
        u = self.shift + self.stretch * self._log(y)
        t = self.tailweight * np.arcsinh(u) + self.skewness
        slope = np.log(np.cosh(np.clip(t, -SQUASH, SQUASH))) - np.log(np.hypot(1.0, u))
        if self.log_side:
            slope -= np.log(np.maximum(self.log_side * y - self.log_origin, self.log_guard))
        slope += np.minimum(_FAR - np.abs(y), 0.0)
        # The product of the factors could overflow; the sum of their logs does not.
        factors = np.log([self.out_scale, self.tailweight, self.stretch])
        return np.asarray(slope + (factors.sum() - np.log(self.scale)))

    def _normalised(self, values: Array, mass: Array) -> tuple[Self, float]:
        """Set the last shift and scale to their optimum, mean 0 and variance 1; give the KL too."""
        share = mass / np.sum(mass)
        blocks = [slice(start, start + _BLOCK) for start in range(0, values.size, _BLOCK)]
        z = np.concatenate([self.forward(values[block]) for block in blocks])
        mean = float(share @ z)
        z -= mean
        sd = float(np.sqrt(share @ (z * z)))
        if sd == 0.0:
            return self, np.inf
        slope = sum(float(share[block] @ self.log_derivative(values[block])) for block in blocks)
        shift, scale = (self.out_shift - mean) / sd, self.out_scale / sd
        return replace(self, out_shift=shift, out_scale=scale), float(0.5 + np.log(sd) - slope)

    def _scaled(self, x: ArrayLike) -> Array:
        return _squashed(affine(finite(x), self.center, self.scale, _X_LIMIT))

    def _log(self, y: Array) -> Array:
        if not self.log_side:
            return y
        r = self.log_side * y - self.log_origin
        below = np.minimum(r - self.log_guard, 0.0)
        log = np.log(np.maximum(r, self.log_guard)) + below / self.log_guard
        return np.asarray(self.log_side * log)

    def _unlog(self, w: Array) -> Array:
        if not self.log_side:
            return w
        p = self.log_side * w
        start = np.log(self.log_guard)
        below = self.log_guard * np.minimum(p - start, 0.0)
        r = np.exp(np.clip(p, start, 700.0)) + below
        return np.asarray(self.log_side * (r + self.log_origin))


def _squashed(y: Array) -> Array:
    inner = np.clip(y, -_FAR, _FAR)
    return np.asarray(inner + np.sign(y) * np.log1p(np.abs(y - inner)))


def _unsquashed(y: Array) -> Array:
    inner = np.clip(y, -_FAR, _FAR)
    return np.asarray(inner + np.sign(y) * np.expm1(np.minimum(np.abs(y - inner), 709.7)))


def _squashed_arcsinh(s: Array) -> Array:
    inner = np.clip(s, -np.sinh(SQUASH), np.sinh(SQUASH))
    return np.asarray(np.arcsinh(inner) + (s - inner) / np.cosh(SQUASH))


def _cells(values: Array, mass: Array) -> tuple[Array, Array]:
    """Merge distinct values into at most 2000 cells, finer in the tails; masses sum to one."""
    starts = level_positions(mass, _MAX_CELLS)
    ends = np.r_[starts[1:], values.size]
    cells = values[(starts + ends - 1) // 2]
    cells[0] = values[0]  # the log's origin lies beyond the minimum
    return cells, np.add.reduceat(mass, starts) / np.sum(mass)
