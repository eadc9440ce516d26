r"""Learning the hyperparameters from minibatches: natural gradients for q, Adam for the rest.

Each batch moves q by a natural-gradient step of length rho, to a convex combination of its natural
parameters and those that the batch alone, scaled to all rows, asks for (Hoffman et al. 2013),

    B <- (1 - rho) B + rho (I + s V S V^T),

and the hyperparameters by a step of Adam at the q before. With rho = 1 / t all batches seen would
count alike; those seen under older hyperparameters are worth less, so rho has a lower limit, which
decays as the steps of Adam do. There is nothing to tune: a step that does not raise the batch's own
bound is halved; the bound of a fixed sample of rows, smoothed over its last readings, ends the run
when it no longer rises; and when it falls, the run goes back to where that was best, with half the
rate.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from oakgp.inference.cholesky import NotPositiveDefiniteError
from oakgp.inference.sites import Observations
from oakgp.inference.stochastic.adam import Adam
from oakgp.inference.stochastic.batches import endless, partition
from oakgp.inference.stochastic.estimate import (
    Estimate,
    added,
    bound,
    cut_variances,
    estimate,
    gradient,
)
from oakgp.inference.stochastic.inducing_gaussian import InducingGaussian
from oakgp.inference.stochastic.whitening import TapedView, View, Whitening
from oakgp.inference.variational import LatentModel
from oakgp.progress import step as progress_step

log = logging.getLogger(__name__)

_SHORTEST = 2.0**-12  # length of a natural-gradient step, below which the batch is passed over
_ROUNDING = 1e-12  # of the bound
_FALL = 0.02  # nats a row (or a share of the bound, if that is large): more is a fall


@dataclass(frozen=True)
class Pace:
    """How the stochastic engine works; the defaults serve all likelihoods.

    Parameters
    ----------
    batch_rows
        Rows of a batch.
    max_steps
        Largest number of batches for the hyperparameters.
    warm_steps
        Batches that move q alone, before Adam begins.
    rate, patience
        Adam's first step (of logarithms), and the steps after which it decays.
    forgetting
        Least length of a natural-gradient step, which decays as Adam's does.
    window
        Batches between two readings of the bound of the sample.
    sample_rows
        Rows of that sample.
    gain
        Nats a row: learning ends when the smoothed bound rises by less from reading to reading.
    max_restarts
        How often to go back after a fall, before the best state found so far is taken.
    max_passes
        Largest number of passes over all rows that follow.
    """

    batch_rows: int = 2048
    max_steps: int = 240
    warm_steps: int = 8
    rate: float = 0.04
    patience: float = 40.0
    forgetting: float = 0.05
    window: int = 15
    sample_rows: int = 6000
    gain: float = 2e-4
    max_restarts: int = 4
    max_passes: int = 12


@dataclass(frozen=True, eq=False)
class Model:
    """The latent functions as a function of the optimiser's vector.

    Parameters
    ----------
    at
        Latent model of a vector, differentiable.
    log_prior
        Log density of the priors of a vector's hyperparameters, differentiable.
    limits
        Bounds of the vector.
    """

    at: Callable[[Tensor], LatentModel]
    log_prior: Callable[[LatentModel], Tensor]
    limits: list[tuple[float, float]]


@dataclass(frozen=True, eq=False)
class State:
    """Where learning is.

    Parameters
    ----------
    theta
        The vector.
    inducing
        ``[d, m]`` encoded inducing points.
    latents
        q of each latent function.
    """

    theta: Tensor
    inducing: Tensor
    latents: tuple[InducingGaussian, ...]


def whitenings(model: LatentModel, inducing: Tensor) -> tuple[Whitening, ...]:
    """Return the inducing points under each of the different kernels."""
    return tuple(Whitening(model.kernel, p.detach(), inducing) for p in model.distinct[0])


@dataclass(frozen=True)
class Course:
    """How learning went.

    Parameters
    ----------
    path
        Bound of the sample, a row, at each reading.
    n_steps, n_restarts
        Batches seen, and falls from which it went back.
    converged
        Whether the stopping rule, not the number of batches, ended it.
    """

    path: tuple[float, ...]
    n_steps: int
    n_restarts: int
    converged: bool


class Climb:
    """The run of minibatches over the rows.

    Parameters
    ----------
    model
        The latent functions by the vector.
    observations
        All rows.
    start
        Where to begin.
    pace, seed
        How to go on, and the seed of the batches.
    """

    def __init__(
        self, model: Model, observations: Observations, start: State, pace: Pace, seed: int
    ) -> None:
        self.model, self.observations, self.state = model, observations, start
        self.pace, self.seed = pace, seed
        self.adam = Adam(model.limits, pace.rate, pace.patience)
        self.trust = 1.0
        self.n_seen = 0
        sample = partition(observations.n, pace.sample_rows, seed + 1)[0]
        self.sample = observations.take(sample.to(observations.x.device))

    def run(self, choose: Callable[[Tensor], Tensor]) -> Course:
        """Learn until the bound of the sample no longer rises.

        Parameters
        ----------
        choose
            Inducing points ``[d, m]`` for a vector: they are chosen anew once the hyperparameters
            have settled, or after half of the batches.
        """
        pace = self.pace
        stream = endless(self.observations.n, pace.batch_rows, self.seed)
        path: list[float] = [self.reading()]
        best, best_value = self.state, path[0]
        since, n_restarts, renewed, done = 0, 0, False, False
        n_steps = 0
        with progress_step("learning from minibatches", pace.max_steps, "batches") as progress:
            for n_steps in range(1, pace.max_steps + 1):
                lost = not self._follow(next(stream), n_steps > pace.warm_steps)
                progress.advance(1, f"bound {path[-1]:.4f} a row")
                if not lost and n_steps % pace.window and n_steps < pace.max_steps:
                    continue
                value = -math.inf if lost else self.reading()
                if _fell(value, best_value):
                    n_restarts += 1
                    log.info("batch %d: the bound fell to %g; going back", n_steps, value)
                    self.state, self.trust = best, 0.5 * self.trust
                    self.adam.restart(0.5 * self.adam.rate)
                    if n_restarts > pace.max_restarts:
                        break
                    continue
                path.append(value)
                since += 1
                if value > best_value:
                    best, best_value = self.state, value
                settled = since > 2 and _smoothed_gain(path) < pace.gain
                if not renewed and (settled or n_steps >= pace.max_steps // 2):
                    renewed, since = True, 0
                    path.append(self._renew(choose(self.state.theta), value))
                    best, best_value = self.state, path[-1]
                elif settled:
                    done = True
                    break
        self.state = best
        return Course(tuple(path), n_steps, n_restarts, done)

    def reading(self) -> float:
        """Return the bound, a row, that the sample's rows give."""
        model = self.model.at(self.state.theta)
        views = [w.view(self.sample.x) for w in whitenings(model, self.state.inducing)]
        current = estimate(model, self.sample, self.state.latents, views)
        n = self.observations.n
        value = bound(current, self.state.latents, n / self.sample.n)
        return (value + float(self.model.log_prior(model))) / n

    def _renew(self, inducing: Tensor, before: float) -> float:
        """Go over to other inducing points, with q as it is there, and return the new reading.

        Where they cannot hold what the present ones do, and the bound would fall from ``before``,
        these are kept.
        """
        old_state = self.state
        model = self.model.at(old_state.theta)
        old, new = (whitenings(model, z) for z in (old_state.inducing, inducing))
        numbers = model.distinct[1]
        try:
            latents = tuple(
                q.seen_from(old[k], new[k]) for q, k in zip(old_state.latents, numbers, strict=True)
            )
            self.state = replace(old_state, inducing=inducing, latents=latents)
            value = self.reading()
        except NotPositiveDefiniteError:
            value = -math.inf
        if not _fell(value, before):
            return value
        self.state = old_state
        return before

    def _follow(self, rows: Tensor, learn: bool) -> bool:
        """Take the steps of one batch; return False when there is no way on from here."""
        observations = self.observations.take(rows.to(self.observations.x.device))
        scale = self.observations.n / observations.n
        theta = self.state.theta.detach().requires_grad_(learn)
        try:
            model = self.model.at(theta)
            taped = [
                TapedView(model.kernel, p, self.state.inducing, observations.x)
                for p in model.distinct[0]
            ]
            views = [t.view for t in taped]
            current = estimate(model, observations, self.state.latents, views)
            moved = self.state.theta
            if learn:
                matrices, by_matrices, by_own = gradient(
                    model, observations, self.state.latents, taped, current, scale
                )
                prior = self.model.log_prior(model)
                (slope,) = torch.autograd.grad(
                    [*matrices, model.likelihood_parameters, prior],
                    theta,
                    [*by_matrices, by_own, torch.ones_like(prior)],
                )
                if not bool(torch.isfinite(slope).all()):
                    return False
                moved = self.adam.step(self.state.theta, slope)
            latents = self._natural_step(model, observations, views, current, scale)
        except NotPositiveDefiniteError:
            return False
        self.state = State(moved, self.state.inducing, latents)
        return True

    def _natural_step(
        self,
        model: LatentModel,
        observations: Observations,
        views: Sequence[View],
        current: Estimate,
        scale: float,
    ) -> tuple[InducingGaussian, ...]:
        """Return q after a step that raises the batch's bound: the batch, or a bit of it."""
        latents, numbers = self.state.latents, model.distinct[1]
        self.n_seen += observations.n
        least = self.pace.forgetting / (1.0 + self.adam.n_steps / self.pace.patience) ** 0.5
        share = max(observations.n / min(self.n_seen, self.observations.n), least)
        goals = []
        for row, k in enumerate(numbers):
            first, precision = added(views[k], current.sites, row)
            precision.mul_(scale).diagonal().add_(1.0)
            goals.append((scale * first, precision))
        held = cut_variances(model, current)
        before = bound(current, latents, scale)
        length = min(share, self.trust)
        while length >= _SHORTEST:
            try:
                trial = tuple(
                    q.towards(*goal, length) for q, goal in zip(latents, goals, strict=True)
                )
            except NotPositiveDefiniteError:  # sites that overflowed
                length *= 0.5
                continue
            after = bound(estimate(model, observations, trial, views, held), trial, scale)
            if after >= before - _ROUNDING * abs(before):
                self.trust = min(1.0, 2.0 * length)
                return trial
            length *= 0.5
        return latents


def _fell(value: float, best: float) -> bool:
    """Return whether a reading is so far below the best one that it is no noise."""
    return not math.isfinite(value) or value < best - _FALL * max(1.0, abs(best))


def _smoothed_gain(path: Sequence[float]) -> float:
    """Return the mean of the last two readings minus that of the two before."""
    if len(path) < 4:
        return math.inf
    return 0.5 * (path[-1] + path[-2] - path[-3] - path[-4])
