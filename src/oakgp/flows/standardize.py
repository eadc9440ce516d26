"""The affine flow: subtract the mean, divide by the standard deviation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from oakgp.flows.base import Flow
from oakgp.flows.columns import (
    SMALLEST,
    Z_LIMIT,
    Array,
    affine,
    affine_inverse,
    checked,
    finite,
)


@dataclass(frozen=True)
class Standardize(Flow):
    """z = (x - center) / scale, with the mean and the standard deviation of the column.

    A constant column has scale 1. |z| stops at 1e150, where its square is still finite.
    """

    kind: ClassVar[str] = "none"
    center: float
    scale: float

    @classmethod
    def fit(cls, x: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Fit mean and standard deviation; see `Flow.fit`."""
        column, mass = checked(x, weights)
        first = float(column[0])
        if bool(np.all(column == first)):
            return cls(center=first, scale=1.0)
        # Moments of x / max|x|: neither the sum nor the square of 1e300 overflows.
        unit = float(np.max(np.abs(column)))
        relative = column / unit
        mean = float(np.average(relative, weights=mass))
        sd = float(np.sqrt(np.average((relative - mean) ** 2, weights=mass)))
        return cls(center=mean * unit, scale=max(sd * unit, SMALLEST))

    def forward(self, x: ArrayLike) -> Array:
        """Map values to z; see `Flow.forward`."""
        return affine(finite(x), self.center, self.scale, Z_LIMIT)

    def inverse(self, z: ArrayLike) -> Array:
        """Map z to values; see `Flow.inverse`."""
        return affine_inverse(finite(z), self.center, self.scale)

    def log_derivative(self, x: ArrayLike) -> Array:
        """Give -log(scale) everywhere; see `Flow.log_derivative`."""
        return np.where(np.isnan(finite(x)), np.nan, -np.log(self.scale))
