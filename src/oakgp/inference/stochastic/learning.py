"""From a starting vector to a posterior given all rows, batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from oakgp.inference.sites import Observations, Sites
from oakgp.inference.stochastic.batches import partition
from oakgp.inference.stochastic.estimate import added
from oakgp.inference.stochastic.hyperparameters import (
    Climb,
    Course,
    Model,
    Pace,
    State,
    whitenings,
)
from oakgp.inference.stochastic.inducing_gaussian import InducingGaussian
from oakgp.inference.stochastic.passes import Conditioned, Passes
from oakgp.inference.variational import LatentModel
from oakgp.posterior import KernelMap, KernelPosterior


@dataclass(frozen=True, eq=False)
class Outcome:
    """What the stochastic engine found.

    Parameters
    ----------
    theta
        The hyperparameters' vector.
    model
        The latent functions there.
    posteriors
        Posterior of each latent function, as the deviation from its level.
    jitter
        Largest relative jitter of the factorisations.
    course, conditioned
        How learning went, and the passes after it.
    """

    theta: Tensor
    model: LatentModel
    posteriors: tuple[KernelPosterior, ...]
    jitter: float
    course: Course
    conditioned: Conditioned

    @property
    def n_inducing(self) -> int:
        """Number of inducing points."""
        return len(self.posteriors[0].mean_weights)


def learn(
    model: Model,
    observations: Observations,
    theta: Tensor,
    choose: Callable[[Tensor], Tensor],
    *,
    tolerance: float,
    seed: int,
    pace: Pace | None = None,
) -> Outcome:
    """Learn the hyperparameters from minibatches and condition on all rows.

    Parameters
    ----------
    model, observations
        The latent functions by the vector, and all rows.
    theta
        Where to begin.
    choose
        Inducing points ``[d, m]`` for a vector.
    tolerance
        Of the last passes: nats for each thousand rows, and for fewer.
    seed
        Of the batches.
    pace
        How to work.
    """
    pace = pace or Pace()
    begin = first_state(model, observations, theta, choose(theta), pace, seed)
    climb = Climb(model, observations, begin, pace, seed)
    course = climb.run(choose)
    state = climb.state
    latent = detached(model.at(state.theta))
    conditioned = condition(latent, observations, state, tolerance, pace, seed)
    posteriors, jitter = posterior(latent, state.inducing, conditioned)
    return Outcome(state.theta, latent, posteriors, jitter, course, conditioned)


def detached(model: LatentModel) -> LatentModel:
    """Return the model off the gradient tape; what was shared stays shared."""
    different, numbers = model.distinct
    cut = [p.detach() for p in different]
    own = model.likelihood_parameters.detach()
    return replace(model, parameters=tuple(cut[k] for k in numbers), likelihood_parameters=own)


def first_state(
    model: Model,
    observations: Observations,
    theta: Tensor,
    inducing: Tensor,
    pace: Pace,
    seed: int,
) -> State:
    """Return q given some of the rows, their sites those of a q at the levels."""
    latent = detached(model.at(theta))
    rows = partition(observations.n, pace.batch_rows, seed + 2)[0].to(observations.x.device)
    some = observations.take(rows)
    views = [w.view(some.x) for w in whitenings(latent, inducing)]
    sites = Sites.start(latent.likelihood, latent.likelihood_parameters, latent.levels, some)
    latents = []
    for row, k in enumerate(latent.distinct[1]):
        first, precision = added(views[k], sites, row)
        precision.diagonal().add_(1.0)
        latents.append(InducingGaussian.of(first, precision))
    return State(theta, inducing, tuple(latents))


def condition(
    model: LatentModel,
    observations: Observations,
    state: State,
    tolerance: float,
    pace: Pace,
    seed: int,
) -> Conditioned:
    """Return q given all rows, from where learning left it."""
    views = whitenings(model, state.inducing)
    passes = Passes(model, observations, views, state.latents, pace.batch_rows, seed + 3)
    return passes.run(tolerance * max(observations.n, 1000) / 1000.0, pace.max_passes)


def posterior(
    model: LatentModel, inducing: Tensor, conditioned: Conditioned
) -> tuple[tuple[KernelPosterior, ...], float]:
    """Return the posterior of each latent function and the largest relative jitter."""
    different, numbers = model.distinct
    seen = whitenings(model, inducing)
    maps = [KernelMap(model.kernel, p, inducing) for p in different]
    posteriors = tuple(
        KernelPosterior(maps[k], *seen[k].posterior_weights(q.mean, q.precision), 0.0)
        for q, k in zip(conditioned.latents, numbers, strict=True)
    )
    jitter = max([w.jitter for w in seen] + [q.jitter for q in conditioned.latents])
    return posteriors, jitter
