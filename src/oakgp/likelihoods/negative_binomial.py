"""Counts with more variance than their mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from scipy.special import betainc, gammaincinv
from torch import Tensor

from oakgp.likelihoods import quantiles, responses
from oakgp.likelihoods.base import Array, Likelihood
from oakgp.likelihoods.poisson import poisson_draws
from oakgp.likelihoods.special import (
    bounded_exp,
    elementwise,
    log_sigmoid,
    lognormal_variance,
    uniform,
)


@dataclass(frozen=True)
class NegativeBinomial(Likelihood):
    """Counts with mean mu = e^f and variance mu + alpha mu^2: parameter ``dispersion``, alpha.

    With r = 1 / alpha and t = f + log alpha, log p = y log sigmoid(t) + r log sigmoid(-t) plus the
    log of the number of ways: concave in f. Exponents of moments are cut at 300, rates of draws at
    1e15.
    """

    name: ClassVar[str] = "negative_binomial"
    latent_scale: ClassVar[str] = "log mean"
    parameter_names: ClassVar[tuple[str, ...]] = ("dispersion",)
    parameter_bounds: ClassVar[tuple[tuple[float, float], ...]] = ((1e-6, 1e3),)
    support: ClassVar[quantiles.Support] = "count"
    log_concave: ClassVar[bool] = True

    def check(self, y: Array) -> None:
        """Refuse all but 0, 1, 2, ..."""
        responses.check_counts(y)

    def start(self, y: Array, weights: Array, offset: Array) -> tuple[Tensor, Tensor]:
        """Return the log of the mean rate, and half of the excess variance as dispersion."""
        level = responses.log_rate(y, weights, offset)
        alpha = responses.NOISE_SHARE * responses.excess_variance(y, weights, level + offset)
        return responses.levels(level), responses.parameters_within([alpha], self.parameter_bounds)

    def log_density(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return the log of the negative binomial probability."""
        alpha = parameters[0]
        r, t = 1.0 / alpha, f[0] + alpha.log()
        ways = torch.lgamma(y + r) - torch.lgamma(r) - torch.lgamma(y + 1.0)
        return ways + y * log_sigmoid(t) + r * log_sigmoid(-t)

    def conditional_moments(self, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return mu and mu + alpha mu^2."""
        rate = bounded_exp(f[0])
        return rate, rate + parameters[0] * rate**2

    def cdf(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return I_(sigmoid(-t))(r, y + 1), the regularised incomplete beta function."""
        t = f[0] + parameters[0].log()
        return elementwise(betainc, 1.0 / parameters[0], y + 1.0, torch.sigmoid(-t))

    def sample(self, f: Tensor, parameters: Tensor, generator: torch.Generator) -> Tensor:
        """Return Poisson counts whose rate is gamma distributed around e^f."""
        alpha = parameters[0]
        gamma = elementwise(gammaincinv, 1.0 / alpha, uniform(f[0], generator))
        return poisson_draws(bounded_exp(f[0]) * gamma * alpha, generator)

    def derivatives(self, y: Tensor, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return y sigmoid(-t) - r sigmoid(t) and -(y + r) sigmoid(t) sigmoid(-t)."""
        r, t = 1.0 / parameters[0], f + parameters[0].log()
        up, down = torch.sigmoid(t), torch.sigmoid(-t)
        return y * down - r * up, -(y + r) * up * down

    def response_mean(self, mean: Tensor, variance: Tensor, parameters: Tensor) -> Tensor:
        """Return e^(m + v/2)."""
        return bounded_exp(mean[0] + 0.5 * variance[0])

    def response_variance(self, mean: Tensor, variance: Tensor, parameters: Tensor) -> Tensor:
        """Return e^(m + v/2) + alpha e^(2m + 2v) + Var[e^f]."""
        rate = self.response_mean(mean, variance, parameters)
        return rate + lognormal_variance(mean[0], variance[0], parameters[0])
