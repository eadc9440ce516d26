"""Engines that `oakgp.inference.learn` drives: regression, and variational inference.

`Regression` is exact and sparse inference for Gaussian noise; `Variational` is the same for any
other likelihood. Each offers an objective over a vector, and the posterior at its end.
"""

from __future__ import annotations

from oakgp.inference.engines.base import Engine, Fitted, Objective
from oakgp.inference.engines.regression import Regression
from oakgp.inference.engines.variational import Variational, VariationalRun

__all__ = ["Engine", "Fitted", "Objective", "Regression", "Variational", "VariationalRun"]
