"""Least squares, logistic regression and the Poisson GLM."""

from __future__ import annotations

from typing import Any

from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

from benchmarks.adapters.base import ALL, Job
from benchmarks.adapters.scikit import ScikitAdapter
from benchmarks.adapters.tables import dense


class Linear(ScikitAdapter):
    """``LogisticRegression`` has scikit-learn's ridge penalty, more iterations than the default."""

    name = "linear"
    tasks = ALL

    def estimator(self, job: Job, X: Any) -> Any:
        if job.task == "regression":
            return dense(LinearRegression(**job.options))
        if job.task == "count":
            return dense(PoissonRegressor(**{"max_iter": 1000, **job.options}))
        return dense(LogisticRegression(**{"max_iter": 1000, **job.options}))
