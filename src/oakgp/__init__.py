"""Interpretable Gaussian processes for tables, with the orthogonal additive kernel (OAK)."""

from __future__ import annotations

from oakgp.estimators import OAKRegressor
from oakgp.export import load

__version__ = "0.1.0.dev0"

__all__ = ["OAKRegressor", "__version__", "load"]
