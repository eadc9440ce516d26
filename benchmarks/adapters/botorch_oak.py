"""BoTorch's orthogonal additive kernel in its Gaussian process with its defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from benchmarks.adapters.base import Adapter, Fitted, Job, Prediction
from benchmarks.adapters.tables import dense


@dataclass(frozen=True)
class FittedOAK(Fitted):
    """Columns in the training rows' ranges, beyond which the kernel refuses them, and the model."""

    columns: Any
    model: Any

    def predict(self, X: Any, exposure: Any = None) -> Prediction:
        import torch

        with torch.no_grad():
            p = self.model.posterior(
                torch.tensor(self.columns.transform(X).clip(0.0, 1.0)), observation_noise=True
            )
            mean, variance = p.mean.reshape(-1).numpy(), p.variance.reshape(-1).numpy()
        return Prediction(mean=mean, sd=np.sqrt(variance))


class BoTorchOAK(Adapter):
    """``OrthogonalAdditiveGP``, second order, inputs kept in the unit cube: small sets only."""

    name = "botorch-oak"
    package = "botorch"
    module = "botorch"
    tasks = frozenset(("regression",))

    def fit(self, X: Any, y: Any, exposure: Any, job: Job) -> Fitted:
        import torch
        from botorch.fit import fit_gpytorch_mll
        from botorch.models.additive_gp import OrthogonalAdditiveGP
        from botorch.models.transforms.outcome import Standardize
        from gpytorch.mlls import ExactMarginalLogLikelihood

        torch.manual_seed(job.seed)
        torch.set_num_threads(job.threads)
        columns = make_pipeline(dense(None)[:-1], MinMaxScaler()).fit(X)
        x = torch.tensor(columns.transform(X))
        model = OrthogonalAdditiveGP(
            train_X=x,
            train_Y=torch.tensor(np.asarray(y, float))[:, None],
            outcome_transform=Standardize(1),
            **{"second_order": True, **job.options},
        )
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        return FittedOAK(columns, model.eval())
