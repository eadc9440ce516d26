r"""The E-step: sites that maximise the bound at fixed hyperparameters.

    bound = sum_i w_i E_q[log p(y_i | f_i)] - sum_l KL(q(f_l) || p(f_l))

by natural gradients (`oakgp.inference.sites`): each step needs the moments of q and the
likelihood's slopes, no gradient tape. A step of length 1 is exact for Gaussian noise, and close to
Newton's for the means otherwise; where the bound would fall, the step is halved. Precisions and
variances answer to each other, which converges slowly, or to and fro, where q is wide: after a few
steps Anderson's acceleration takes over, and hands back whenever the bound would fall.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from oakgp.inference.anderson import Anderson
from oakgp.inference.cholesky import NotPositiveDefiniteError
from oakgp.inference.conditioning import Conditioned, Prior
from oakgp.inference.sites import Observations, Sites, expectation
from oakgp.likelihoods.base import Expected, Likelihood

_DEPTH = 6  # differences that the acceleration keeps
_PLAIN_STEPS = 2  # before it begins
_SHORTEST = 2.0**-30  # length of a step, below which the search has failed
_ROUNDING = 1e-7  # of the bound: as much as it may err by, relative, where huge terms cancel
_IN_VAIN = 4  # halvings in a row that change no more than that: this is the optimum


@dataclass(frozen=True, eq=False)
class Approximation:
    """q given some sites, and what the bound says of it.

    Parameters
    ----------
    sites
        The sites.
    latents
        q of each latent function.
    mean, variance
        ``[L, n]`` moments of q, as deviations from levels and offsets.
    expected
        Weighted expectations of the log density and their slopes.
    bound
        The bound on the log marginal likelihood.
    """

    sites: Sites
    latents: tuple[Conditioned, ...]
    mean: Tensor
    variance: Tensor
    expected: Expected
    bound: float


@dataclass(frozen=True, eq=False)
class Target:
    """What q should approximate.

    Parameters
    ----------
    priors
        Prior of each latent function.
    likelihood, parameters
        Likelihood and its parameters ``[p]``.
    levels
        ``[L]`` values that the latent functions vary around.
    observations
        The rows.
    """

    priors: tuple[Prior, ...]
    likelihood: Likelihood
    parameters: Tensor
    levels: Tensor
    observations: Observations

    def start(self) -> Sites:
        """Return sites to begin with."""
        return Sites.start(self.likelihood, self.parameters, self.levels, self.observations)

    def expectation(self, mean: Tensor, variance: Tensor) -> Expected:
        """Return weighted expectations for deviations ``[L, n]`` and their variances."""
        at = self.observations.latent_mean(self.levels, mean)
        return expectation(self.likelihood, self.parameters, self.observations, at, variance)

    def approximation(self, sites: Sites) -> Approximation:
        """Return q for some sites."""
        latents = tuple(
            prior.condition(first, precision)
            for prior, first, precision in zip(
                self.priors, sites.first, sites.precision, strict=True
            )
        )
        mean = torch.stack([q.mean for q in latents])
        variance = torch.stack([q.variance for q in latents])
        expected = self.expectation(mean, variance)
        divergence = sum(q.divergence for q in latents)
        bound = float(expected.value.sum() - divergence)
        return Approximation(sites, latents, mean, variance, expected, bound)


@dataclass(frozen=True)
class Matched:
    """Where the E-step ended.

    Parameters
    ----------
    approximation
        q and its sites.
    converged
        Whether a full step gained less than the tolerance.
    n_iterations
        Steps tried.
    """

    approximation: Approximation
    converged: bool
    n_iterations: int


def match(target: Target, start: Sites, tolerance: float, max_iterations: int) -> Matched:
    """Improve sites until a step gains less than a tolerance.

    Parameters
    ----------
    target
        What to approximate.
    start
        Sites to begin with.
    tolerance
        In nats, for each thousand rows (and for fewer).
    max_iterations
        Largest number of steps.
    """
    search = _Search(target, target.approximation(start))
    enough = tolerance * max(target.observations.n, 1000) / 1000.0
    for iteration in range(1, max_iterations + 1):
        done = search.step(enough)
        if done is not None:
            return Matched(search.current, done, iteration)
    return Matched(search.current, False, max_iterations)


class _Search:
    """The best sites so far, and how the next step is chosen."""

    def __init__(self, target: Target, current: Approximation) -> None:
        self.target, self.current = target, current
        self.length = 1.0
        self.in_vain = 0
        self.anderson = Anderson(_DEPTH)
        self._see()

    def _see(self) -> None:
        """Note where the natural gradient leads from here."""
        q = self.current
        self.goal = Sites.matching(q.expected, q.mean)
        here, there = (torch.stack([s.first, s.precision]) for s in (q.sites, self.goal))
        self.anderson.add(here, there - here)

    def _accelerated(self) -> Sites:
        # In standard deviations of q: the diagonal of the natural metric.
        deviation = self.current.variance.sqrt()
        first, precision = self.anderson.next(torch.stack([deviation, deviation**2]))
        return Sites(first, precision.clamp_min(0.0))

    def step(self, enough: float) -> bool | None:
        """Try a step; return whether the search ended well, or None to go on."""
        fast = self.anderson.n_points > _PLAIN_STEPS
        if fast:
            sites, length = self._accelerated(), 1.0
        else:
            sites, length = self.current.sites.towards(self.goal, self.length), self.length
        try:
            trial = self.target.approximation(sites)
        except NotPositiveDefiniteError:  # sites that overflowed; the kernel itself was no trouble
            return self._reject(fast, -math.inf)
        gain = _gain(self.target, self.current, trial)
        if not gain >= -enough * length:  # also when it is not a number
            return self._reject(fast, gain)
        self.current, self.in_vain = trial, 0
        if gain <= enough * length:
            if not fast:
                return True
            self.anderson.clear()  # a plain step tells whether that was the end
        self._see()
        if not fast:
            self.length = min(1.0, 2.0 * self.length)
        return None

    def _reject(self, fast: bool, gain: float) -> bool | None:
        self.anderson.clear()
        self._see()
        if fast:
            return None
        self.length *= 0.5
        tiny = abs(gain) <= _ROUNDING * abs(self.current.bound)
        self.in_vain = self.in_vain + 1 if tiny else 0
        if self.in_vain >= _IN_VAIN:
            return True
        return False if self.length < _SHORTEST else None


def surplus(target: Target, approximation: Approximation) -> Tensor | None:
    """Return dE/dv + lambda2 / 2 in rows whose precision would be negative, else 0, ``[L, n]``."""
    if target.likelihood.log_concave:
        return None
    by_variance = approximation.expected.by_variance
    cut = by_variance > 0.0
    if not bool(cut.any()):
        return None
    return torch.where(cut, by_variance + 0.5 * approximation.sites.precision, 0.0)


def _gain(target: Target, current: Approximation, trial: Approximation) -> float:
    """Return by how much a step raised what it was meant to raise.

    That is the bound; where a negative precision was cut at 0, the bound with the variances of
    these rows as they were: the step is the natural gradient of that.
    """
    gain = trial.bound - current.bound
    if target.likelihood.log_concave:
        return gain
    cut = current.expected.by_variance > 0.0
    if not bool(cut.any()):
        return gain
    held = target.expectation(trial.mean, torch.where(cut, current.variance, trial.variance))
    return gain + float((held.value - trial.expected.value).sum())
