"""Five nearest neighbours."""

from __future__ import annotations

from typing import Any

from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from benchmarks.adapters.base import Job
from benchmarks.adapters.scikit import ScikitAdapter
from benchmarks.adapters.tables import dense


class Neighbours(ScikitAdapter):
    """scikit-learn's defaults on standardised columns."""

    name = "knn"

    def estimator(self, job: Job, X: Any) -> Any:
        options = {"n_jobs": job.threads, **job.options}
        if job.task == "regression":
            return dense(KNeighborsRegressor(**options))
        return dense(KNeighborsClassifier(**options))
