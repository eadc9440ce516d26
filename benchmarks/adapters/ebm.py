"""InterpretML's explainable boosting machine with its defaults."""

from __future__ import annotations

from typing import Any

from benchmarks.adapters.base import ALL, Job
from benchmarks.adapters.scikit import ScikitAdapter


class EBM(ScikitAdapter):
    """It takes text and missing values as they are; counts by the Poisson deviance."""

    name = "ebm"
    package = "interpret-core"
    module = "interpret"
    tasks = ALL

    def estimator(self, job: Job, X: Any) -> Any:
        from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

        options = {"random_state": job.seed, "n_jobs": job.threads, **job.options}
        if job.task == "count":
            options = {"objective": "poisson_deviance", **options}
        if job.task in ("regression", "count"):
            return ExplainableBoostingRegressor(**options)
        return ExplainableBoostingClassifier(**options)
