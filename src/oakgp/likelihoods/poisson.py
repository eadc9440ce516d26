"""Counts whose variance is their mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from scipy.special import gammaincc
from torch import Tensor

from oakgp.likelihoods import quantiles, responses
from oakgp.likelihoods.base import Array, Expected, Likelihood
from oakgp.likelihoods.special import bounded_exp, elementwise, lognormal_variance

_LARGEST_RATE = 1e15  # of a draw: whole numbers above 9e15 are not all floats


@dataclass(frozen=True)
class Poisson(Likelihood):
    """y ~ Poisson(e^f). No parameters; exponents are cut at 300, rates of draws at 1e15.

    E[log p] = y m - e^(m + v/2) - log y! is exact, as are the predictive mean and variance.
    """

    name: ClassVar[str] = "poisson"
    latent_scale: ClassVar[str] = "log mean"
    support: ClassVar[quantiles.Support] = "count"
    log_concave: ClassVar[bool] = True

    def check(self, y: Array) -> None:
        """Refuse all but 0, 1, 2, ..."""
        responses.check_counts(y)

    def start(self, y: Array, weights: Array, offset: Array) -> tuple[Tensor, Tensor]:
        """Return the log of the mean rate."""
        level = responses.log_rate(y, weights, offset)
        return responses.levels(level), responses.parameters_within([], ())

    def log_density(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return y f - e^f - log y!."""
        return y * f[0] - bounded_exp(f[0]) - torch.lgamma(y + 1.0)

    def conditional_moments(self, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return e^f twice."""
        rate = bounded_exp(f[0])
        return rate, rate

    def cdf(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return Q(y + 1, e^f), the regularised upper incomplete gamma function."""
        return elementwise(gammaincc, y + 1.0, bounded_exp(f[0]))

    def sample(self, f: Tensor, parameters: Tensor, generator: torch.Generator) -> Tensor:
        """Return counts."""
        return poisson_draws(bounded_exp(f[0]), generator)

    def derivatives(self, y: Tensor, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return y - e^f and -e^f."""
        rate = bounded_exp(f)
        return y - rate, -rate

    def expected(self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor) -> Expected:
        """Return y m - e^(m + v/2) - log y! and its derivatives."""
        rate = bounded_exp(mean + 0.5 * variance)
        value = y * mean[0] - rate[0] - torch.lgamma(y + 1.0)
        return Expected(value, y - rate, -0.5 * rate)

    def expected_value(
        self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor
    ) -> Tensor:
        """Return the value of `expected`."""
        return self.expected(y, mean, variance, parameters).value

    def response_mean(self, mean: Tensor, variance: Tensor, parameters: Tensor) -> Tensor:
        """Return e^(m + v/2)."""
        return bounded_exp(mean[0] + 0.5 * variance[0])

    def response_variance(self, mean: Tensor, variance: Tensor, parameters: Tensor) -> Tensor:
        """Return e^(m + v/2) + Var[e^f]."""
        excess = torch.zeros_like(mean[0])
        rate = self.response_mean(mean, variance, parameters)
        return rate + lognormal_variance(mean[0], variance[0], excess)


def poisson_draws(rate: Tensor, generator: torch.Generator) -> Tensor:
    """Return counts with these rates, on the device of ``rate``."""
    bounded = rate.clamp(max=_LARGEST_RATE).to(generator.device)
    # Torch's sampler works with integers of 64 bits, of which 1e15 leaves room.
    return torch.poisson(bounded, generator=generator).to(rate.device)
