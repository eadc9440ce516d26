"""What a base kernel of one numeric feature has to say."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from oakgp.ops import reference
from oakgp.ops.layout import FAR, Kind


@dataclass(frozen=True)
class RadialKernel(ABC):
    """A unit-variance kernel of one numeric feature: a function of the scaled distance.

    A subclass is a frozen dataclass of a few lines: its formula in the docstring, its name, and
    the number under which the fused operation knows it.
    """

    kind: ClassVar[Kind]
    name: ClassVar[str]

    def __call__(self, a: Tensor, b: Tensor, lengthscale: Tensor) -> Tensor:
        """Return k(a_i, b_j), ``[n, m]``; missing values (NaN) are one more point, far away."""
        divisor = torch.ones_like(lengthscale) if self.kind == Kind.PERIODIC else lengthscale
        a, b = (
            torch.where(torch.isnan(x), torch.full_like(x, FAR), torch.nan_to_num(x) / divisor)
            for x in (a, b)
        )
        q = reference.squared_distance(self.kind, a[:, None], b[None, :], lengthscale)
        return reference.radial(self.kind, q)
