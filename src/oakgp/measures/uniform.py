"""Uniform measure on an interval."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from oakgp.kernels.base import RadialKernel
from oakgp.kernels.squared_exponential import SquaredExponential
from oakgp.measures.base import Array, Measure, split_missing

_SQRT2PI = math.sqrt(2.0 * math.pi)


@dataclass(frozen=True)
class Uniform(Measure):
    """Uniform measure on [low, high].

    Closed forms (error functions) for the squared exponential kernel, but for the two moments of
    s, whose integrals are not elementary: those use Gauss-Legendre nodes.
    """

    low: float
    high: float
    kind: ClassVar[str] = "uniform"

    @classmethod
    def fit(cls, x: Array, weights: Array | None = None) -> Uniform:
        """Return the uniform measure on the range of a column."""
        keep = ~np.isnan(x)
        if weights is not None:
            keep &= np.asarray(weights) > 0
        if not keep.any():
            return cls(-1.0, 1.0)
        low, high = float(np.min(x[keep])), float(np.max(x[keep]))
        return cls(low, high) if high > low else cls(low - 0.5, low + 0.5)

    @cached_property
    def atoms(self) -> tuple[Array, Array]:
        """Composite Gauss-Legendre nodes: 8 panels of 16."""
        points, mass = np.polynomial.legendre.leggauss(16)
        panels = (np.arange(8)[:, None] + 0.5 * (points + 1.0)) / 8.0
        nodes = self.low + (self.high - self.low) * panels.ravel()
        return nodes, np.tile(0.5 * mass / 8.0, 8)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe description."""
        return {"kind": self.kind, "low": self.low, "high": self.high}

    def sums_over_nodes(self, kernel: RadialKernel) -> bool:
        """Whether s is the sum over the atoms: not for the squared exponential kernel."""
        return not isinstance(kernel, SquaredExponential)

    def mean_embedding(self, kernel: RadialKernel, x: Tensor, lengthscale: Tensor) -> Tensor:
        """Return s(x); closed form for the squared exponential kernel."""
        if not isinstance(kernel, SquaredExponential):
            return super().mean_embedding(kernel, x, lengthscale)
        width = self.high - self.low
        root = math.sqrt(2.0) * lengthscale
        x, missing = split_missing(x)
        rise = torch.erf((self.high - x) / root) - torch.erf((self.low - x) / root)
        s = lengthscale * math.sqrt(0.5 * math.pi) / width * rise
        return torch.where(missing, torch.zeros_like(x), s)

    def mean_mean(self, kernel: RadialKernel, lengthscale: Tensor) -> Tensor:
        """Return v; closed form for the squared exponential kernel."""
        if not isinstance(kernel, SquaredExponential):
            return super().mean_mean(kernel, lengthscale)
        ratio = (self.high - self.low) / lengthscale
        edge = -2.0 * torch.expm1(-0.5 * ratio**2)
        return (_SQRT2PI * ratio * torch.erf(ratio / math.sqrt(2.0)) - edge) / ratio**2

    def cross_moment(
        self, kernel: RadialKernel, a: Tensor, b: Tensor, lengthscale: Tensor
    ) -> Tensor:
        """Return E[k(X, a) k(X, b)]; closed form for the squared exponential kernel."""
        if not isinstance(kernel, SquaredExponential):
            return super().cross_moment(kernel, a, b, lengthscale)
        (a, gone), (b, lost) = split_missing(a), split_missing(b)
        middle = 0.5 * (a[:, None] + b[None, :])
        rise = torch.erf((self.high - middle) / lengthscale)
        rise = rise - torch.erf((self.low - middle) / lengthscale)
        pair = torch.exp(-0.25 * ((a[:, None] - b[None, :]) / lengthscale) ** 2)
        factor = 0.5 * math.sqrt(math.pi) * lengthscale / (self.high - self.low)
        moment = factor * pair * rise
        return torch.where(gone[:, None] | lost, torch.zeros_like(moment), moment)
