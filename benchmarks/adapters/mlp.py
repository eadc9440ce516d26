"""scikit-learn's neural network."""

from __future__ import annotations

from typing import Any

from sklearn.neural_network import MLPClassifier, MLPRegressor

from benchmarks.adapters.base import Job
from benchmarks.adapters.scikit import ScikitAdapter, standard_target
from benchmarks.adapters.tables import dense


class MLP(ScikitAdapter):
    """One layer of 100; 1,000 iterations at most, since the default of 200 often ends early."""

    name = "mlp"

    def estimator(self, job: Job, X: Any) -> Any:
        options = {"random_state": job.seed, "max_iter": 1000, **job.options}
        if job.task == "regression":
            return dense(standard_target(MLPRegressor(**options)))
        return dense(MLPClassifier(**options))
