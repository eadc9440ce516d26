"""Base kernels, one a file, and the orthogonal additive kernel made of them."""

from __future__ import annotations

from oakgp.kernels.base import RadialKernel
from oakgp.kernels.categorical import CategoricalKernel
from oakgp.kernels.matern12 import Matern12
from oakgp.kernels.matern32 import Matern32
from oakgp.kernels.matern52 import Matern52
from oakgp.kernels.periodic import Periodic
from oakgp.kernels.squared_exponential import SquaredExponential

#: Numeric base kernels by name: what ``kernel=`` accepts and what the law tests run over.
KERNELS: dict[str, type[RadialKernel]] = {
    kernel.name: kernel for kernel in (SquaredExponential, Matern12, Matern32, Matern52, Periodic)
}

__all__ = [
    "KERNELS",
    "CategoricalKernel",
    "Matern12",
    "Matern32",
    "Matern52",
    "Periodic",
    "RadialKernel",
    "SquaredExponential",
]
