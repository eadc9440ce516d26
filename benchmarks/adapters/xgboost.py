"""XGBoost with its defaults."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import make_pipeline

from benchmarks.adapters.base import ALL, Job
from benchmarks.adapters.scikit import ScikitAdapter
from benchmarks.adapters.tables import Categories


class XGBoost(ScikitAdapter):
    """Categories as categories; counts by the Poisson objective."""

    name = "xgboost"
    package = "xgboost"
    module = "xgboost"
    tasks = ALL

    def estimator(self, job: Job, X: Any) -> Any:
        from xgboost import XGBClassifier, XGBRegressor

        options = {
            "random_state": job.seed,
            "n_jobs": job.threads,
            "enable_categorical": True,
            **job.options,
        }
        if job.task == "count":
            options = {"objective": "count:poisson", **options}
        kind = XGBRegressor if job.task in ("regression", "count") else XGBClassifier
        return make_pipeline(Categories(), kind(**options))
