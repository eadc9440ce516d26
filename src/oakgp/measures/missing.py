"""The missing value as one more atom of a measure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from oakgp.kernels.base import RadialKernel
from oakgp.measures.base import Array, Measure


@dataclass(frozen=True)
class MissingAtom(Measure):
    """A measure of the present values with one more atom: "missing", of probability ``share``."""

    base: Measure
    share: float
    kind: ClassVar[str] = "missing_atom"

    @cached_property
    def atoms(self) -> tuple[Array, Array]:
        """Nodes of the present values and NaN."""
        nodes, weights = self.base.atoms
        return np.r_[nodes, math.nan], np.r_[(1.0 - self.share) * weights, self.share]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe description."""
        return {"kind": self.kind, "base": self.base.to_dict(), "share": self.share}

    def sums_over_nodes(self, kernel: RadialKernel) -> bool:
        """Whether s is the sum over the atoms: as for the present values."""
        return self.base.sums_over_nodes(kernel)

    def mean_embedding(self, kernel: RadialKernel, x: Tensor, lengthscale: Tensor) -> Tensor:
        """Return s(x): k(miss, miss) = 1 and k(miss, x) = 0 add up."""
        present = (1.0 - self.share) * self.base.mean_embedding(kernel, x, lengthscale)
        return torch.where(torch.isnan(x), torch.full_like(x, self.share), present)

    def mean_mean(self, kernel: RadialKernel, lengthscale: Tensor) -> Tensor:
        """Return v."""
        present = self.base.mean_mean(kernel, lengthscale)
        return (1.0 - self.share) ** 2 * present + self.share**2

    def cross_moment(
        self, kernel: RadialKernel, a: Tensor, b: Tensor, lengthscale: Tensor
    ) -> Tensor:
        """Return E[k(X, a) k(X, b)]."""
        both = torch.isnan(a)[:, None] & torch.isnan(b)[None, :]
        present = self.base.cross_moment(kernel, a, b, lengthscale)
        # A mask times a number would be float32 whatever the rest is.
        return (1.0 - self.share) * present + self.share * both.to(present)

    def embedding_moment(self, kernel: RadialKernel, a: Tensor, lengthscale: Tensor) -> Tensor:
        """Return E[s(X) k(X, a)]."""
        present = (1.0 - self.share) ** 2 * self.base.embedding_moment(kernel, a, lengthscale)
        return torch.where(torch.isnan(a), torch.full_like(a, self.share**2), present)

    def embedding_square(self, kernel: RadialKernel, lengthscale: Tensor) -> Tensor:
        """Return E[s(X)^2]."""
        present = self.base.embedding_square(kernel, lengthscale)
        return (1.0 - self.share) ** 3 * present + self.share**3
