"""GPyTorch: stochastic variational inference with one full squared exponential kernel (ARD)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.adapters.base import Adapter, Fitted, Job, Prediction, Task
from benchmarks.adapters.tables import dense

DEFAULTS = {"n_inducing": 200, "steps": 1000, "batch": 512, "rate": 0.02}


@dataclass(frozen=True)
class FittedSVGP(Fitted):
    """Columns as numbers, the model, and the unit of the response."""

    columns: Any
    model: Any
    likelihood: Any
    unit: tuple[float, float]
    task: Task

    def predict(self, X: Any, exposure: Any = None) -> Prediction:
        import torch

        x = torch.tensor(self.columns.transform(X))
        with torch.no_grad():
            p = self.likelihood(self.model(x))
            mean = p.mean.numpy()
            if self.task == "binary":
                return Prediction(probabilities=np.column_stack([1.0 - mean, mean]))
            center, scale = self.unit
            return Prediction(mean=center + scale * mean, sd=scale * p.stddev.numpy())


def _model(inducing: Any) -> Any:
    import gpytorch
    from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

    class Model(gpytorch.models.ApproximateGP):
        def __init__(self, inducing: Any) -> None:
            q = CholeskyVariationalDistribution(len(inducing))
            super().__init__(VariationalStrategy(self, inducing, q))
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(
                gpytorch.kernels.RBFKernel(ard_num_dims=inducing.shape[1])
            )

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    return Model(inducing)


class SVGP(Adapter):
    """200 inducing points that move, Adam, 1,000 steps of 512 rows: GPyTorch has no defaults."""

    name = "svgp"
    package = "gpytorch"
    module = "gpytorch"
    tasks = frozenset(("regression", "binary"))

    def fit(self, X: Any, y: Any, exposure: Any, job: Job) -> Fitted:
        import gpytorch
        import torch

        settings = {**DEFAULTS, **job.options}
        torch.manual_seed(job.seed)
        torch.set_num_threads(job.threads)
        columns = dense(None)[:-1].fit(X)
        x = torch.tensor(columns.transform(X))
        unit = (float(np.mean(y)), float(np.std(y)) or 1.0) if job.task == "regression" else (0, 1)
        target = torch.tensor((np.asarray(y, float) - unit[0]) / unit[1])
        order = torch.randperm(len(x))[: settings["n_inducing"]]
        model = _model(x[order].clone()).double()
        gaussian = job.task == "regression"
        kinds = gpytorch.likelihoods
        likelihood = (kinds.GaussianLikelihood if gaussian else kinds.BernoulliLikelihood)()
        likelihood = likelihood.double()
        bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(x))
        parameters = [*model.parameters(), *likelihood.parameters()]
        optimiser = torch.optim.Adam(parameters, lr=settings["rate"])
        for _ in range(settings["steps"]):
            rows = torch.randint(len(x), (min(settings["batch"], len(x)),))
            optimiser.zero_grad()
            loss = -bound(model(x[rows]), target[rows])
            loss.backward()
            optimiser.step()
        return FittedSVGP(columns, model.eval(), likelihood.eval(), unit, job.task)
