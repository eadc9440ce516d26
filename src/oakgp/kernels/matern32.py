"""Matern32."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oakgp.kernels.base import RadialKernel
from oakgp.ops.layout import Kind


@dataclass(frozen=True)
class Matern32(RadialKernel):
    """Matern kernel of smoothness 3/2, k = (1 + s) exp(-s) with s = sqrt(3) |x - x'| / l."""

    kind: ClassVar[Kind] = Kind.MATERN32
    name: ClassVar[str] = "matern32"
