"""Matern52."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from oakgp.kernels.base import RadialKernel
from oakgp.ops.layout import Kind


@dataclass(frozen=True)
class Matern52(RadialKernel):
    """Matern kernel of smoothness 5/2, k = (1 + s + s^2 / 3) exp(-s), s = sqrt(5) |x - x'| / l."""

    kind: ClassVar[Kind] = Kind.MATERN52
    name: ClassVar[str] = "matern52"
