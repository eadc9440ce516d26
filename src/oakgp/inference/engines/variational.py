"""Any likelihood: variational inference, dense and with inducing points."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp.inference import variational
from oakgp.inference.engines.base import Fitted, Objective, tensor_like
from oakgp.inference.inducing import greedy_inducing
from oakgp.inference.sites import Observations, Sites
from oakgp.inference.space import ParameterSpace
from oakgp.inference.stochastic import learning
from oakgp.inference.stochastic.hyperparameters import Model, Pace
from oakgp.inference.variational import LatentModel, VariationalObjective
from oakgp.kernels.additive import AdditiveKernel, Parameters
from oakgp.likelihoods.base import Likelihood

Array = NDArray[np.float64]


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
        return self.model(*self.unpack(tensor_like(theta, self.observations.y)))

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

    def learn_in_batches(
        self, theta: Array, n_inducing: int, *, tolerance: float, seed: int, pace: Pace
    ) -> tuple[Fitted, learning.Outcome]:
        """Go on from a vector with minibatches of these rows; return the posterior given all.

        Effects that had faded on fewer rows are brought back first (`ParameterSpace.awake`).

        Parameters
        ----------
        theta
            Where to begin.
        n_inducing
            Number of inducing points.
        tolerance
            Of the last passes: nats for each thousand rows, and for fewer.
        seed
            Of the batches and of the rows that inducing points are chosen from.
        pace
            How to work.
        """
        x = self.observations.x

        def choose(at: Tensor) -> Tensor:
            vector = at.detach().cpu().numpy()
            return x[:, self.choose_inducing(vector, n_inducing, seed)].contiguous()

        model = Model(
            lambda at: self.model(*self.unpack(at)),
            lambda latent: self.prior_density(latent.distinct[0]),
            self.limits(),
        )
        size = (len(theta) - len(self.parameters)) // self._n_kernels
        blocks = np.split(theta, [size * (k + 1) for k in range(self._n_kernels)])
        awake = [self.space.awake(block) for block in blocks[:-1]]
        begin = np.concatenate([*awake, blocks[-1]])
        found = learning.learn(
            model,
            self.observations,
            tensor_like(begin, self.observations.y),
            choose,
            tolerance=tolerance,
            seed=seed,
            pace=pace,
        )
        own = found.model.likelihood_parameters
        done = found.conditioned.converged
        return Fitted(found.posteriors, own, found.jitter, done), found


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
