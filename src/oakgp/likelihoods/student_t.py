"""Response with outliers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from scipy.special import stdtr, stdtrit
from torch import Tensor

from oakgp.likelihoods import quantiles, responses
from oakgp.likelihoods.base import Array, Expected, Likelihood
from oakgp.likelihoods.quadrature import row_chunks
from oakgp.likelihoods.special import elementwise, uniform

_STARTING_FREEDOM = 4.0
_N_NODES = 128
_FARTHEST = 1e50
_QUARTILES_TO_DEVIATION = 1.349  # of a normal distribution


@dataclass(frozen=True)
class StudentT(Likelihood):
    """y = f + scale t with ``freedom`` degrees of freedom, at least 2.1 so that Var[y] exists.

    Not log-concave: the further an outlier, the less it pulls. Fixed nodes would miss a scale that
    is small beside the latent deviation, so expectations use, with c = freedom scale^2,

        log(1 + d^2 / c) = integral over t > 0 of (1 - e^(-t d^2 / c)) e^-t / t,

    whose average over d ~ N(y - mean, variance) is elementary; over log t the trapezoidal rule
    converges exponentially whatever the variance. Distances count as at most 1e50 scales.
    """

    name: ClassVar[str] = "student_t"
    parameter_names: ClassVar[tuple[str, ...]] = ("scale", "freedom")
    parameter_bounds: ClassVar[tuple[tuple[float, float], ...]] = ((1e-5, 1e5), (2.1, 100.0))
    support: ClassVar[quantiles.Support] = "real"
    log_concave: ClassVar[bool] = False

    def check(self, y: Array) -> None:
        """Refuse NaN and infinity."""
        responses.check_finite(y)

    def start(self, y: Array, weights: Array, offset: Array) -> tuple[Tensor, Tensor]:
        """Return the median and a scale from the quartiles, which outliers do not move."""
        residual = y - offset
        low, level, high = (
            responses.weighted_quantile(residual, weights, q) for q in (0.25, 0.5, 0.75)
        )
        deviation = high / _QUARTILES_TO_DEVIATION - low / _QUARTILES_TO_DEVIATION
        if deviation == 0.0:  # more than half of the rows are equal
            deviation = math.sqrt(responses.mean_square(residual - level, weights))
        scale = math.sqrt(responses.NOISE_SHARE) * deviation
        return responses.levels(level), responses.parameters_within(
            [scale, _STARTING_FREEDOM], self.parameter_bounds
        )

    def log_density(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return the log of the density of Student's t."""
        scale, freedom = parameters.unbind()
        z = (y - f[0]) / (scale * freedom.sqrt())
        # log(1 + z^2) / 2, which must not overflow for a far outlier.
        half_log = torch.hypot(z, torch.ones_like(z)).log()
        return self._constant(parameters) - (freedom + 1.0) * half_log

    @staticmethod
    def _constant(parameters: Tensor) -> Tensor:
        scale, freedom = parameters.unbind()
        ratio = torch.lgamma(0.5 * (freedom + 1.0)) - torch.lgamma(0.5 * freedom)
        return ratio - 0.5 * (freedom * math.pi).log() - scale.log()

    def conditional_moments(self, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return f and scale^2 freedom / (freedom - 2)."""
        scale, freedom = parameters.unbind()
        return f[0], (scale**2 * freedom / (freedom - 2.0)).expand_as(f[0])

    def cdf(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return the distribution function of Student's t."""
        return elementwise(stdtr, parameters[1], (y - f[0]) / parameters[0])

    def sample(self, f: Tensor, parameters: Tensor, generator: torch.Generator) -> Tensor:
        """Return f plus scaled draws of Student's t."""
        return f[0] + parameters[0] * elementwise(stdtrit, parameters[1], uniform(f[0], generator))

    def derivatives(self, y: Tensor, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return (nu + 1) d / (nu s^2 + d^2) and its derivative by f, with d = y - f."""
        scale, freedom = parameters.unbind()
        root = scale * freedom.sqrt()
        z = (y - f) / root
        weight = 1.0 / (1.0 + z**2)
        first = (freedom + 1.0) / root * z * weight
        return first, (freedom + 1.0) / root**2 * (1.0 - 2.0 * weight) * weight

    def expected(self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor) -> Expected:
        """Return the expectation and its derivatives, to ten digits."""
        parts = [
            self._expected(y[rows], mean[0, rows], variance[0, rows], parameters)
            for rows in row_chunks(len(y), _N_NODES)
        ]
        value, by_mean, by_variance = (torch.cat(p) for p in zip(*parts, strict=True))
        return Expected(value, by_mean[None], by_variance[None])

    def _expected(
        self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        scale, freedom = parameters.unbind()
        root = scale * freedom.sqrt()
        gap = ((y - mean) / root).clamp(-_FARTHEST, _FARTHEST)
        v = variance / root**2
        # (1 - phi) / t levels off below t = 1 / E[gap^2], and e^-t ends the integral at t = e^4.
        low = -torch.log1p(gap**2 + v).detach() - 30.0
        step = (4.0 - low) / (_N_NODES - 1)
        index = torch.arange(_N_NODES, dtype=y.dtype, device=y.device)[:, None]
        t = torch.exp(low + step * index)
        q = 1.0 + 2.0 * t * v
        log_phi = -0.5 * q.log() - t * gap**2 / q
        weight = step * torch.exp(-t)
        mass = t * weight * log_phi.exp() / q
        log_term = -(weight * torch.expm1(log_phi)).sum(dim=0)
        by_gap = (mass * gap).sum(dim=0)
        by_v = (mass * (t * gap**2 / q - 0.5)).sum(dim=0)
        factor = freedom + 1.0
        value = self._constant(parameters) - 0.5 * factor * log_term
        return value, factor * by_gap / root, factor * by_v / root**2

    def expected_value(
        self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor
    ) -> Tensor:
        """Return the value of `expected`."""
        return self.expected(y, mean, variance, parameters).value

    def response_mean(self, mean: Tensor, variance: Tensor, parameters: Tensor) -> Tensor:
        """Return the latent mean."""
        return mean[0]

    def response_variance(self, mean: Tensor, variance: Tensor, parameters: Tensor) -> Tensor:
        """Return the latent variance plus that of the noise."""
        return variance[0] + self.conditional_moments(mean, parameters)[1]
