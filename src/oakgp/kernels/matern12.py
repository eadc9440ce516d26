"""Matern12."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oakgp.kernels.base import RadialKernel
from oakgp.ops.layout import Kind


@dataclass(frozen=True)
class Matern12(RadialKernel):
    """Matern kernel of smoothness 1/2, k(x, x') = exp(-|x - x'| / l): rough functions."""

    kind: ClassVar[Kind] = Kind.MATERN12
    name: ClassVar[str] = "matern12"
