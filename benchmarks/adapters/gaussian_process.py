"""scikit-learn's Gaussian process with one full squared exponential kernel, a length a feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from benchmarks.adapters.base import Adapter, Fitted, Job, Prediction
from benchmarks.adapters.scikit import FittedEstimator
from benchmarks.adapters.tables import dense


@dataclass(frozen=True)
class FittedRegressor(Fitted):
    """A pipeline that ends in a Gaussian process: it gives a deviation."""

    model: Any

    def predict(self, X: Any, exposure: Any = None) -> Prediction:
        mean, sd = self.model.predict(X, return_std=True)
        return Prediction(mean=mean, sd=sd)


class GaussianProcess(Adapter):
    """ARD kernel, noise learned; scikit-learn's own default kernel has neither. Small sets only."""

    name = "gpr"
    package = "scikit-learn"
    module = "sklearn"

    def fit(self, X: Any, y: Any, exposure: Any, job: Job) -> Fitted:
        width = dense(None)[:-1].fit_transform(X).shape[1]
        kernel = ConstantKernel(1.0) * RBF(np.ones(width), (1e-2, 1e3))
        options = {"random_state": job.seed, **job.options}
        if job.task == "regression":
            kernel = kernel + WhiteKernel(0.1, (1e-7, 1e1))
            model = dense(GaussianProcessRegressor(kernel, normalize_y=True, **options))
            return FittedRegressor(model.fit(X, y))
        model = dense(GaussianProcessClassifier(kernel, n_jobs=job.threads, **options))
        return FittedEstimator(model.fit(X, y), job.task)
