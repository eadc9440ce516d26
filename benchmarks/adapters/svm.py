"""scikit-learn's support vector machine with the radial kernel."""

from __future__ import annotations

from typing import Any

from sklearn.calibration import CalibratedClassifierCV
from sklearn.svm import SVC, SVR

from benchmarks.adapters.base import Job
from benchmarks.adapters.scikit import ScikitAdapter, standard_target
from benchmarks.adapters.tables import dense


class SVM(ScikitAdapter):
    """Probabilities by Platt's method over five folds of the training rows."""

    name = "svm"

    def estimator(self, job: Job, X: Any) -> Any:
        if job.task == "regression":
            return dense(standard_target(SVR(**job.options)))
        return dense(CalibratedClassifierCV(SVC(**job.options), ensemble=False))
