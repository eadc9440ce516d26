"""Gaussian response whose noise depends on the features."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from oakgp.likelihoods import quantiles, responses
from oakgp.likelihoods.base import Array, Expected, Likelihood
from oakgp.likelihoods.gaussian import LOG_2PI
from oakgp.likelihoods.quadrature import latent_values
from oakgp.likelihoods.special import bounded_exp, normal_cdf, standard_normal

_LEAST_NOISE = 1e-12


@dataclass(frozen=True)
class HeteroscedasticGaussian(Likelihood):
    """y ~ N(f, e^g): two latent functions, the mean f and the log noise variance g.

    E[log N(y; f, e^g)] = -1/2 (log 2 pi + m_g + ((y - m_f)^2 + v_f) e^(-m_g + v_g/2)) is exact;
    what averages over g alone is by quadrature. Exponents are cut at 300. No parameters.
    """

    name: ClassVar[str] = "heteroscedastic_gaussian"
    support: ClassVar[quantiles.Support] = "real"
    log_concave: ClassVar[bool] = True

    @property
    def latent_names(self) -> tuple[str, ...]:
        """The mean and the log of the noise variance."""
        return ("mean", "log noise")

    def check(self, y: Array) -> None:
        """Refuse NaN and infinity."""
        responses.check_finite(y)

    def start(self, y: Array, weights: Array, offset: Array) -> tuple[Tensor, Tensor]:
        """Return the mean, and the log of half of the variance (at least 1e-12)."""
        residual = y - offset
        level = responses.average(residual, weights)
        noise = responses.NOISE_SHARE * responses.mean_square(residual - level, weights)
        noise = min(max(noise, _LEAST_NOISE), 1.0 / _LEAST_NOISE)
        return responses.levels(level, math.log(noise)), responses.parameters_within([], ())

    def log_density(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return log N(y; f, e^g)."""
        return -0.5 * (LOG_2PI + f[1] + (y - f[0]) ** 2 * bounded_exp(-f[1]))

    def conditional_moments(self, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return f and e^g."""
        return f[0], bounded_exp(f[1])

    def cdf(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return Phi((y - f) e^(-g/2))."""
        return normal_cdf((y - f[0]) * bounded_exp(-0.5 * f[1]))

    def sample(self, f: Tensor, parameters: Tensor, generator: torch.Generator) -> Tensor:
        """Return f plus noise."""
        return f[0] + bounded_exp(0.5 * f[1]) * standard_normal(f[0], generator)

    def derivatives(self, y: Tensor, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return first and second derivatives by f and by g."""
        precision, gap = bounded_exp(-f[1]), y - f[0]
        square = 0.5 * gap**2 * precision
        return torch.stack([gap * precision, square - 0.5]), torch.stack([-precision, -square])

    def expected(self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor) -> Expected:
        """Return the expectation and its derivatives in closed form."""
        precision, gap = bounded_exp(-mean[1] + 0.5 * variance[1]), y - mean[0]
        square = 0.5 * (gap**2 + variance[0]) * precision
        value = -0.5 * (LOG_2PI + mean[1]) - square
        by_mean = torch.stack([gap * precision, square - 0.5])
        return Expected(value, by_mean, -0.5 * torch.stack([precision, square]))

    def expected_value(
        self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor
    ) -> Tensor:
        """Return the value of `expected`."""
        return self.expected(y, mean, variance, parameters).value

    def response_mean(self, mean: Tensor, variance: Tensor, parameters: Tensor) -> Tensor:
        """Return the mean of f."""
        return mean[0]

    def response_variance(self, mean: Tensor, variance: Tensor, parameters: Tensor) -> Tensor:
        """Return v_f + e^(m_g + v_g/2)."""
        return variance[0] + bounded_exp(mean[1] + 0.5 * variance[1])

    def predictive_cdf(
        self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor
    ) -> Tensor:
        """Return E[Phi((y - m_f) / sqrt(v_f + e^g))]: only g needs nodes."""
        nodes, weights = quantiles.trapezoid_nodes(mean)
        g = mean[1] + variance[1].sqrt() * nodes[:, None]
        total = variance[0] + bounded_exp(g)
        p = normal_cdf((y[..., None, :] - mean[0]) / total.sqrt())
        return torch.einsum("s,...sn->...n", weights, p)

    def log_predictive(
        self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor
    ) -> Tensor:
        """Return log E[N(y; m_f, v_f + e^g)]: only g needs nodes."""
        parts = []
        for rows, (g,), weights in latent_values(mean[1:], variance[1:]):
            total = variance[0, rows] + bounded_exp(g)
            square = (y[rows] - mean[0, rows]) ** 2 / total
            density = -0.5 * (LOG_2PI + total.log() + square)
            parts.append(torch.logsumexp(density + weights.log()[:, None], dim=0))
        return torch.cat(parts)
