"""scikit-learn estimators: thin shells around `oakgp.fitting` and `oakgp.model`."""

from __future__ import annotations

from oakgp.estimators.classifier import OAKClassifier
from oakgp.estimators.regressor import OAKRegressor

__all__ = ["OAKClassifier", "OAKRegressor"]
