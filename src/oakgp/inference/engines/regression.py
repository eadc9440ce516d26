"""Regression with Gaussian noise: exact and sparse inference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from oakgp.inference import exact, sparse
from oakgp.inference.data import TrainingData
from oakgp.inference.engines.base import Fitted, Objective, tensor_like
from oakgp.inference.inducing import greedy_inducing
from oakgp.inference.space import ParameterSpace
from oakgp.kernels.additive import Parameters

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Regression:
    """Gaussian noise: the exact evidence, or the collapsed bound with inducing points.

    Parameters
    ----------
    space
        The hyperparameters and their priors.
    data
        The rows.
    """

    space: ParameterSpace
    data: TrainingData

    @property
    def x(self) -> Tensor:
        """``[d, n]`` encoded inputs."""
        return self.data.x

    @property
    def n(self) -> int:
        """Number of distinct rows."""
        return self.data.n

    def take(self, rows: Tensor) -> Regression:
        """Return the engine of some of the rows."""
        return replace(self, data=self.data.take(rows))

    def limits(self) -> list[tuple[float, float]]:
        """Return the bounds of each entry of the vector."""
        return self.space.limits()

    def start(self, lengthscale: float, noise: float, seed: int) -> Array:
        """Return a starting vector."""
        return self.space.start(lengthscale, noise, seed)

    def objective(
        self, inducing: Tensor | None = None, after: Objective | None = None
    ) -> Callable[[Tensor], Tensor]:
        """Return minus the log posterior of the vector; it keeps nothing from call to call."""
        space, data = self.space, self.data

        def value(theta: Tensor) -> Tensor:
            p = space.unpack(theta)
            if inducing is None:
                loss = exact.negative_evidence(space.kernel, p, data)
            else:
                loss = sparse.negative_bound(space.kernel, p, data, inducing)
            return loss - space.log_prior(p)

        return value

    def _parameters(self, theta: Array) -> Parameters:
        return self.space.unpack(tensor_like(theta, self.data.y))

    def log_prior(self, theta: Array) -> float:
        """Return the log density of the priors."""
        return float(self.space.log_prior(self._parameters(theta)))

    def choose_inducing(self, theta: Array, count: int, seed: int) -> Tensor:
        """Return the numbers of the rows to be inducing points."""
        parameters = self._parameters(theta)
        return greedy_inducing(self.space.kernel, parameters, self.data.x, count, seed)

    def before_sparse(self, theta: Array, inducing: Tensor) -> Array:
        """Return the vector with the noise that few inducing points call for."""
        space, parameters = self.space, self._parameters(theta)
        noise = sparse.best_noise(space.kernel, parameters, self.data, inducing, space.bounds.noise)
        return space.pack(replace(parameters, noise=parameters.noise.new_tensor(noise)))

    def finish(
        self, theta: Array, inducing: Tensor | None = None, after: Objective | None = None
    ) -> Fitted:
        """Return the posterior given these rows."""
        kernel, parameters = self.space.kernel, self._parameters(theta)
        if inducing is None:
            posterior, jitter = exact.posterior(kernel, parameters, self.data)
        else:
            posterior, jitter = sparse.posterior(kernel, parameters, self.data, inducing)
        return Fitted((posterior,), self.data.y.new_zeros(0), jitter)
