"""Positive amounts whose deviation is proportional to their mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.special import gammainc, gammaincinv
from torch import Tensor

from oakgp.likelihoods import quantiles, responses
from oakgp.likelihoods.base import Array, Expected, Likelihood
from oakgp.likelihoods.special import bounded_exp, elementwise, lognormal_variance, uniform

_SMALLEST_DRAW = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class Gamma(Likelihood):
    """y ~ Gamma with mean e^f and parameter ``shape`` a: Var[y | f] = e^(2f) / a.

    log p = a (log a - f) + (a - 1) log y - a y e^-f - log Gamma(a), whose expectation only needs
    E[e^-f] = e^(-m + v/2): all in closed form. Exponents (of y e^-f) are cut at 300.
    """

    name: ClassVar[str] = "gamma"
    latent_scale: ClassVar[str] = "log mean"
    parameter_names: ClassVar[tuple[str, ...]] = ("shape",)
    parameter_bounds: ClassVar[tuple[tuple[float, float], ...]] = ((1e-2, 1e4),)
    support: ClassVar[quantiles.Support] = "positive"
    log_concave: ClassVar[bool] = True

    def check(self, y: Array) -> None:
        """Refuse what is not positive."""
        responses.check_finite(y)
        responses.refuse(
            y <= 0,
            y,
            "is not positive",
            "the gamma likelihood is for amounts above 0; model zeros apart, with a binary "
            "likelihood, or use a count or a Gaussian likelihood",
        )

    def start(self, y: Array, weights: Array, offset: Array) -> tuple[Tensor, Tensor]:
        """Return the log of the mean, and the shape for half of the relative variance."""
        level = responses.log_rate(y, weights, offset)
        spread = responses.NOISE_SHARE * responses.relative_spread(y, weights, level + offset)
        shape = 1.0 / max(spread, 1e-300)
        return responses.levels(level), responses.parameters_within([shape], self.parameter_bounds)

    def log_density(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return the log of the gamma density."""
        return self._value(y, f[0], torch.zeros_like(f[0]), parameters[0])

    def conditional_moments(self, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return e^f and e^(2f) / a."""
        scale = bounded_exp(f[0])
        return scale, scale**2 / parameters[0]

    def cdf(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return P(a, a y e^-f), the regularised lower incomplete gamma function."""
        shape = parameters[0]
        return elementwise(gammainc, shape, shape * bounded_exp(y.log() - f[0]))

    def sample(self, f: Tensor, parameters: Tensor, generator: torch.Generator) -> Tensor:
        """Return amounts, at least the smallest normal float."""
        shape = parameters[0]
        gamma = elementwise(gammaincinv, shape, uniform(f[0], generator)) / shape
        return (bounded_exp(f[0]) * gamma).clamp(min=_SMALLEST_DRAW)

    def derivatives(self, y: Tensor, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return a (y e^-f - 1) and -a y e^-f."""
        ratio = parameters[0] * bounded_exp(y.log() - f)
        return ratio - parameters[0], -ratio

    def expected(self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor) -> Expected:
        """Return the expectation, a (y e^(-m + v/2) - 1) and -a y e^(-m + v/2) / 2."""
        ratio = parameters[0] * bounded_exp(y.log() - mean + 0.5 * variance)
        value = self._value(y, mean[0], variance[0], parameters[0])
        return Expected(value, ratio - parameters[0], -0.5 * ratio)

    @staticmethod
    def _value(y: Tensor, mean: Tensor, variance: Tensor, shape: Tensor) -> Tensor:
        constant = shape * shape.log() - torch.lgamma(shape)
        ratio = bounded_exp(y.log() - mean + 0.5 * variance)
        return constant - shape * mean + (shape - 1.0) * y.log() - shape * ratio

    def expected_value(
        self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor
    ) -> Tensor:
        """Return the value of `expected`."""
        return self.expected(y, mean, variance, parameters).value

    def response_mean(self, mean: Tensor, variance: Tensor, parameters: Tensor) -> Tensor:
        """Return e^(m + v/2)."""
        return bounded_exp(mean[0] + 0.5 * variance[0])

    def response_variance(self, mean: Tensor, variance: Tensor, parameters: Tensor) -> Tensor:
        """Return e^(2m + 2v) / a + Var[e^f]."""
        return lognormal_variance(mean[0], variance[0], 1.0 / parameters[0])
