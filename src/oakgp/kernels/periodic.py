"""Periodic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from oakgp.kernels.base import RadialKernel
from oakgp.ops.layout import Kind


@dataclass(frozen=True)
class Periodic(RadialKernel):
    """Periodic kernel, k(x, x') = exp(-2 sin^2(pi (x - x') / period) / l^2).

    Parameters
    ----------
    period
        Length of a cycle in the units of the column: 24 for hours of a day, 12 for months.
    """

    period: float = 1.0
    kind: ClassVar[Kind] = Kind.PERIODIC
    name: ClassVar[str] = "periodic"

    def __post_init__(self) -> None:
        """Refuse a period that is not a positive number."""
        if not (np.isfinite(self.period) and self.period > 0):
            raise ValueError(f"Periodic(period={self.period!r}): give a finite period above 0")

    def phase(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the column in cycles, in [0, 1): the coordinate this kernel works on."""
        return np.asarray(np.mod(x / self.period, 1.0), dtype=np.float64)
