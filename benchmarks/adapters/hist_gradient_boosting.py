"""scikit-learn's histogram boosting. Its threads are those of OpenMP, which the harness sets."""

from __future__ import annotations

from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline

from benchmarks.adapters.base import ALL, Job
from benchmarks.adapters.scikit import ScikitAdapter
from benchmarks.adapters.tables import Categories


class HistGradientBoosting(ScikitAdapter):
    """Categories as categories."""

    name = "histgb"
    tasks = ALL

    def estimator(self, job: Job, X: Any) -> Any:
        options = {"random_state": job.seed, **job.options}
        if job.task == "count":
            options = {"loss": "poisson", **options}
        regression = job.task in ("regression", "count")
        kind = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
        return make_pipeline(Categories(), kind(**options))
