"""Weighted mean and variance, merged from parts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from oakgp.columns import FloatArray


@dataclass
class Moments:
    """Mass, mean and sum of squared deviations (Chan, Golub, LeVeque 1983), and the range."""

    mass: float = 0.0
    mean: float = 0.0
    squares: float = 0.0
    low: float = math.inf
    high: float = -math.inf

    def update(self, values: FloatArray, mass: FloatArray | None) -> None:
        """Take in finite values and their masses (None: 1 each)."""
        if not len(values):
            return
        total = float(len(values) if mass is None else mass.sum())
        if total == 0.0:
            return
        mean = float(np.average(values, weights=mass))
        squares = float(np.average((values - mean) ** 2, weights=mass)) * total
        self.merge(Moments(total, mean, squares, float(values.min()), float(values.max())))

    def merge(self, other: Moments) -> None:
        """Take in what another has seen."""
        total = self.mass + other.mass
        if total == 0.0:
            return
        step = other.mean - self.mean
        self.squares += other.squares + step * step * (self.mass / total * other.mass)
        self.mean += step * (other.mass / total)
        self.mass = total
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)

    @property
    def deviation(self) -> float:
        """Standard deviation."""
        return math.sqrt(max(self.squares, 0.0) / self.mass) if self.mass else 0.0
