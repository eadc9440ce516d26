"""This library, with its defaults; ``oakgp[engine=sparse]`` and the like set options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.adapters.base import ALL, Adapter, Fitted, Job, Prediction, Task


@dataclass(frozen=True)
class FittedOAK(Fitted):
    """A fitted `OAKRegressor` or `OAKClassifier`."""

    model: Any
    task: Task

    def predict(self, X: Any, exposure: Any = None) -> Prediction:
        if self.task in ("binary", "multiclass"):
            return Prediction(probabilities=self.model.predict_proba(X))
        if self.task == "count":
            return Prediction(mean=self.model.predict(X, exposure=exposure))
        mean, sd = self.model.predict(X, return_std=True)
        return Prediction(mean=mean, sd=sd)

    def facts(self) -> dict[str, Any]:
        facts = self.model.model_.facts
        return {
            "engine": facts.engine,
            "flow": facts.flow,
            "evidence_per_row": facts.log_evidence / max(1, facts.evidence_rows),
            "converged": facts.converged,
        }


class OAK(Adapter):
    """Regression, classification, and counts by the Poisson likelihood."""

    name = "oakgp"
    package = "oakgp"
    module = "oakgp"
    tasks = ALL

    def prepare(self, job: Job) -> None:
        """Load the compiled kernels by a tiny fit: they come from their cache, once a process."""
        rng = np.random.default_rng(0)
        X, y = pd.DataFrame(rng.standard_normal((30, 2))), np.arange(30) % 2
        self.fit(
            X, y.astype(float) if job.task == "regression" else y, None, replace(job, options={})
        )

    def fit(self, X: Any, y: Any, exposure: Any, job: Job) -> Fitted:
        from oakgp import OAKClassifier, OAKRegressor

        options = {"random_state": job.seed, **job.options}
        if job.task == "regression":
            return FittedOAK(OAKRegressor(**options).fit(X, y), job.task)
        if job.task == "count":
            model = OAKRegressor(**{"likelihood": "poisson", **options})
            return FittedOAK(model.fit(X, np.asarray(y), exposure=exposure), job.task)
        return FittedOAK(OAKClassifier(**options).fit(X, y), job.task)
