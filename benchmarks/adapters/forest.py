"""scikit-learn's random forest."""

from __future__ import annotations

from typing import Any

from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from benchmarks.adapters.base import Job
from benchmarks.adapters.scikit import ScikitAdapter
from benchmarks.adapters.tables import dense


class Forest(ScikitAdapter):
    """100 trees."""

    name = "forest"

    def estimator(self, job: Job, X: Any) -> Any:
        options = {"n_jobs": job.threads, "random_state": job.seed, **job.options}
        if job.task == "regression":
            return dense(RandomForestRegressor(**options))
        return dense(RandomForestClassifier(**options))
