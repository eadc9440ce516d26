"""Whatever speaks scikit-learn's language, and scikit-learn's own models."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.preprocessing import StandardScaler

from benchmarks.adapters.base import Adapter, Fitted, Job, Prediction, Task


@dataclass(frozen=True)
class FittedEstimator(Fitted):
    """A fitted estimator or pipeline."""

    model: Any
    task: Task

    def predict(self, X: Any, exposure: Any = None) -> Prediction:
        if self.task in ("binary", "multiclass"):
            return Prediction(probabilities=np.asarray(self.model.predict_proba(X), float))
        mean = np.asarray(self.model.predict(X), float).reshape(-1)
        if self.task == "count":
            return Prediction(mean=mean if exposure is None else mean * exposure)
        return Prediction(mean=mean)


class ScikitAdapter(Adapter):
    """Makes an estimator with ``fit`` and ``predict`` or ``predict_proba``.

    Of counts it models the rate: count over exposure, rows weighted by exposure, which for a
    Poisson loss is the same as an exposure.
    """

    package: ClassVar[str] = "scikit-learn"
    module: ClassVar[str] = "sklearn"
    weight: ClassVar[str] = "sample_weight"

    @abstractmethod
    def estimator(self, job: Job, X: Any) -> Any:
        """Return the unfitted estimator."""

    def fit(self, X: Any, y: Any, exposure: Any, job: Job) -> Fitted:
        model = self.estimator(job, X)
        if job.task == "count" and exposure is not None:
            last = model.steps[-1][0] + "__" if hasattr(model, "steps") else ""
            model.fit(X, y / exposure, **{f"{last}{self.weight}": exposure})
        else:
            model.fit(X, y)
        return FittedEstimator(model, job.task)


def standard_target(model: Any) -> Any:
    """Return a regressor of the standardised response, for models that are not made for others."""
    return TransformedTargetRegressor(model, transformer=StandardScaler())
