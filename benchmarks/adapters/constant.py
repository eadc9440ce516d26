"""The mean, the class shares, the overall rate: what a model must beat."""

from __future__ import annotations

from typing import Any

from sklearn.dummy import DummyClassifier, DummyRegressor

from benchmarks.adapters.base import ALL, Job
from benchmarks.adapters.scikit import ScikitAdapter


class Constant(ScikitAdapter):
    """The same prediction for every row."""

    name = "constant"
    tasks = ALL

    def estimator(self, job: Job, X: Any) -> Any:
        if job.task in ("regression", "count"):
            return DummyRegressor()
        return DummyClassifier(strategy="prior")
