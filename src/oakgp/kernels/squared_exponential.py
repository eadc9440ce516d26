"""SquaredExponential."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oakgp.kernels.base import RadialKernel
from oakgp.ops.layout import Kind


@dataclass(frozen=True)
class SquaredExponential(RadialKernel):
    """Squared exponential kernel, k(x, x') = exp(-(x - x')^2 / (2 l^2)): very smooth functions."""

    kind: ClassVar[Kind] = Kind.SQUARED_EXPONENTIAL
    name: ClassVar[str] = "squared_exponential"
