"""LightGBM with its defaults."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import make_pipeline

from benchmarks.adapters.base import ALL, Job
from benchmarks.adapters.scikit import ScikitAdapter
from benchmarks.adapters.tables import Categories


class LightGBM(ScikitAdapter):
    """Categories as categories; counts by the Poisson objective."""

    name = "lightgbm"
    package = "lightgbm"
    module = "lightgbm"
    tasks = ALL

    def estimator(self, job: Job, X: Any) -> Any:
        from lightgbm import LGBMClassifier, LGBMRegressor

        options = {
            "random_state": job.seed,
            "n_jobs": job.threads,
            "verbose": -1,
            **job.options,
        }
        if job.task == "count":
            options = {"objective": "poisson", **options}
        kind = LGBMRegressor if job.task in ("regression", "count") else LGBMClassifier
        return make_pipeline(Categories(), kind(**options))
