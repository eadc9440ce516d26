"""What learning needs of an engine: an objective over a vector, and the posterior at its end.

`Regression` is exact and sparse inference for Gaussian noise; `Variational` is the same for any
other likelihood. `oakgp.inference.learn` runs its stages over either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp.inference import exact, sparse, variational
from oakgp.inference.data import TrainingData
from oakgp.inference.inducing import greedy_inducing
from oakgp.inference.sites import Observations, Sites
from oakgp.inference.space import ParameterSpace
from oakgp.inference.variational import LatentModel, VariationalObjective
from oakgp.kernels.additive import AdditiveKernel, Parameters
from oakgp.likelihoods.base import Likelihood
from oakgp.posterior import Posterior

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fitted:
    """The posterior at some hyperparameters.

    Parameters
    ----------
    posteriors
        Of each latent function, as the deviation from its level.
    likelihood_parameters
        ``[p]`` parameters of the likelihood; none for regression, whose noise is the posterior's.
    jitter
        Relative jitter of the factorisations.
    converged
        Whether the posterior itself was found, where that takes iterations.
    """

    posteriors: tuple[Posterior, ...]
    likelihood_parameters: Tensor
    jitter: float
    converged: bool = True


class Objective(Protocol):
    """Minus the evidence (or its bound) minus the log priors, as a function of the vector."""

    def __call__(self, theta: Tensor) -> Tensor:
        """Return the value, differentiable."""
        ...


class Engine(Protocol):
    """Rows and a model: what `Learner` drives."""

    @property
    def x(self) -> Tensor:
        """``[d, n]`` encoded inputs."""
        ...

    @property
    def n(self) -> int:
        """Number of rows."""
        ...

    def take(self, rows: Tensor) -> Self:
        """Return the engine of some of the rows."""
        ...

    def limits(self) -> list[tuple[float, float]]:
        """Return the bounds of each entry of the vector."""
        ...

    def start(self, lengthscale: float, noise: float, seed: int) -> Array:
        """Return a starting vector."""
        ...

    def objective(
        self, inducing: Tensor | None = None, after: Objective | None = None
    ) -> Objective:
        """Return a new objective, going on from where an earlier one of the same rows ended."""
        ...

    def log_prior(self, theta: Array) -> float:
        """Return the log density of the priors."""
        ...

    def choose_inducing(self, theta: Array, count: int, seed: int) -> Tensor:
        """Return the numbers of the rows to be inducing points."""
        ...

    def before_sparse(self, theta: Array, inducing: Tensor) -> Array:
        """Return the vector to begin a sparse run from."""
        ...

    def finish(
        self, theta: Array, inducing: Tensor | None = None, after: Objective | None = None
    ) -> Fitted:
        """Return the posterior given these rows."""
        ...


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
        return self.space.unpack(_tensor_like(theta, self.data.y))

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


@dataclass(frozen=True, eq=False)
class Variational:
    """Any likelihood: the optimal variational bound, dense or with inducing points.

    The vector is one block of the space for each different kernel, then the logs of the
    likelihood's parameters. All classes of a softmax share one kernel: their labels are arbitrary.

    Parameters
    ----------
    space
        The hyperparameters of a latent function, without noise.
    observations
        The rows.
    likelihood
        The likelihood.
    levels, parameters
        ``[L]`` what the latent functions vary around, ``[p]`` where the likelihood's parameters
        begin: `Likelihood.start` of all rows.
    """

    space: ParameterSpace
    observations: Observations
    likelihood: Likelihood
    levels: Tensor
    parameters: Tensor

    @property
    def x(self) -> Tensor:
        """``[d, n]`` encoded inputs."""
        return self.observations.x

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.observations.n

    @property
    def _n_kernels(self) -> int:
        return 1 if self.likelihood.support == "classes" else self.likelihood.n_latents

    def take(self, rows: Tensor) -> Variational:
        """Return the engine of some of the rows."""
        return replace(self, observations=self.observations.take(rows))

    def limits(self) -> list[tuple[float, float]]:
        """Return the bounds of each entry of the vector."""
        own = [(float(np.log(a)), float(np.log(b))) for a, b in self.likelihood.parameter_bounds]
        return self.space.limits() * self._n_kernels + own

    def start(self, lengthscale: float, noise: float, seed: int) -> Array:
        """Return a starting vector; the noise is the likelihood's affair and not used."""
        block = self.space.start(lengthscale, noise, seed)
        own = np.log(self.parameters.cpu().numpy())
        return np.concatenate([*[block] * self._n_kernels, own])

    def unpack(self, theta: Tensor) -> tuple[tuple[Parameters, ...], Tensor]:
        """Return the different hyperparameters and the likelihood's parameters."""
        size = (len(theta) - len(self.parameters)) // self._n_kernels
        blocks = theta[: size * self._n_kernels].split(size)
        return tuple(self.space.unpack(b) for b in blocks), theta[size * self._n_kernels :].exp()

    def model(self, different: tuple[Parameters, ...], own: Tensor) -> LatentModel:
        """Return the latent functions with some hyperparameters."""
        each = different * (self.likelihood.n_latents // len(different))
        return LatentModel(self.space.kernel, each, self.levels, self.likelihood, own)

    def prior_density(self, different: tuple[Parameters, ...]) -> Tensor:
        """Return the log density of the priors of all kernels, differentiable."""
        return torch.stack([self.space.log_prior(p) for p in different]).sum()

    def objective(
        self, inducing: Tensor | None = None, after: Objective | None = None
    ) -> VariationalRun:
        """Return an objective of its own for each run, so that runs share nothing."""
        return VariationalRun(self, inducing, _sites(self, after))

    def at(self, theta: Array) -> LatentModel:
        """Return the latent functions at a vector."""
        return self.model(*self.unpack(_tensor_like(theta, self.observations.y)))

    def log_prior(self, theta: Array) -> float:
        """Return the log density of the priors."""
        return float(self.prior_density(self.at(theta).distinct[0]))

    def choose_inducing(self, theta: Array, count: int, seed: int) -> Tensor:
        """Return the numbers of the rows to be inducing points: of the first kernel."""
        kernel: AdditiveKernel = self.space.kernel
        return greedy_inducing(kernel, self.at(theta).parameters[0], self.x, count, seed)

    def before_sparse(self, theta: Array, inducing: Tensor) -> Array:
        """Return the vector as it is: the bound has no noise that could be too small."""
        return theta

    def finish(
        self, theta: Array, inducing: Tensor | None = None, after: Objective | None = None
    ) -> Fitted:
        """Return the posterior given these rows, its sites found anew or improved."""
        model = self.at(theta)
        matched = variational.update_sites(model, self.observations, _sites(self, after), inducing)
        posteriors, jitter = variational.posterior(
            model, self.observations, matched.approximation.sites, inducing
        )
        own = model.likelihood_parameters.detach()
        return Fitted(tuple(posteriors), own, jitter, matched.converged)


class VariationalRun:
    """The objective of one run, which keeps its sites from call to call.

    Parameters
    ----------
    engine
        Model and rows.
    inducing
        Numbers of the rows that serve as inducing points; None takes all rows densely.
    sites
        Where to begin; None begins anew.
    """

    def __init__(self, engine: Variational, inducing: Tensor | None, sites: Sites | None) -> None:
        self.engine = engine
        model = engine.at(engine.start(1.0, 1.0, 0))
        self.bound = VariationalObjective(model, engine.observations, inducing, sites)

    def __call__(self, theta: Tensor) -> Tensor:
        """Return minus the bound minus the log priors, differentiable."""
        different, own = self.engine.unpack(theta)
        parameters = self.engine.model(different, own).parameters
        return self.bound(parameters, own) - self.engine.prior_density(different)


def _sites(engine: Variational, after: Objective | None) -> Sites | None:
    """Return where a run of the same rows left the sites, unless it lost its way."""
    if isinstance(after, VariationalRun) and after.engine is engine and after.bound.converged:
        return after.bound.sites
    return None


def _tensor_like(theta: Array, like: Tensor) -> Tensor:
    return torch.tensor(theta, dtype=like.dtype, device=like.device)
