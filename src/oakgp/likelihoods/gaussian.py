"""Gaussian response."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from oakgp.likelihoods import quantiles, responses
from oakgp.likelihoods.base import Array, Expected, Likelihood
from oakgp.likelihoods.special import normal_cdf, normal_quantile, standard_normal

LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Gaussian(Likelihood):
    """y ~ N(f, noise): parameter ``noise``, a variance. Everything in closed form."""

    name: ClassVar[str] = "gaussian"
    parameter_names: ClassVar[tuple[str, ...]] = ("noise",)
    parameter_bounds: ClassVar[tuple[tuple[float, float], ...]] = ((1e-10, 1e10),)
    support: ClassVar[quantiles.Support] = "real"
    log_concave: ClassVar[bool] = True

    def check(self, y: Array) -> None:
        """Refuse NaN and infinity."""
        responses.check_finite(y)

    def start(self, y: Array, weights: Array, offset: Array) -> tuple[Tensor, Tensor]:
        """Return the mean, and half of the variance as noise."""
        residual = y - offset
        level = responses.average(residual, weights)
        noise = responses.NOISE_SHARE * responses.mean_square(residual - level, weights)
        return responses.levels(level), responses.parameters_within([noise], self.parameter_bounds)

    def log_density(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return log N(y; f, noise)."""
        noise = parameters[0]
        return -0.5 * (LOG_2PI + noise.log() + (y - f[0]) ** 2 / noise)

    def conditional_moments(self, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return f and the noise."""
        return f[0], parameters[0].expand_as(f[0])

    def cdf(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return Phi((y - f) / sqrt(noise))."""
        return normal_cdf((y - f[0]) / parameters[0].sqrt())

    def sample(self, f: Tensor, parameters: Tensor, generator: torch.Generator) -> Tensor:
        """Return f plus noise."""
        return f[0] + parameters[0].sqrt() * standard_normal(f[0], generator)

    def derivatives(self, y: Tensor, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return (y - f) / noise and -1 / noise."""
        first = (y - f) / parameters[0]
        return first, (-1.0 / parameters[0]).expand_as(first)

    def expected(self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor) -> Expected:
        """Return log N(y; mean, noise) - variance / (2 noise) and its derivatives."""
        first, second = self.derivatives(y, mean, parameters)
        value = self.log_density(y, mean, parameters) - 0.5 * variance[0] / parameters[0]
        return Expected(value, first, 0.5 * second)

    def expected_value(
        self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor
    ) -> Tensor:
        """Return the value of `expected`."""
        return self.expected(y, mean, variance, parameters).value

    def response_mean(self, mean: Tensor, variance: Tensor, parameters: Tensor) -> Tensor:
        """Return the latent mean."""
        return mean[0]

    def response_variance(self, mean: Tensor, variance: Tensor, parameters: Tensor) -> Tensor:
        """Return the latent variance plus the noise."""
        return variance[0] + parameters[0]

    def response_quantiles(
        self, mean: Tensor, variance: Tensor, parameters: Tensor, levels: Sequence[float]
    ) -> Tensor:
        """Return the quantiles of N(mean, variance + noise)."""
        quantiles.check_levels(levels)
        z = normal_quantile(mean.new_tensor(list(levels)))
        return mean[0][:, None] + (variance[0] + parameters[0]).sqrt()[:, None] * z

    def log_predictive(
        self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor
    ) -> Tensor:
        """Return log N(y; mean, variance + noise)."""
        return self.log_density(y, mean, self.response_variance(mean, variance, parameters)[None])
