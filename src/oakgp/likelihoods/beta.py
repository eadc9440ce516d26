"""Shares strictly between 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.special import betainc, betaincinv, logit
from torch import Tensor

from oakgp.likelihoods import quantiles, responses
from oakgp.likelihoods.base import Array, Likelihood
from oakgp.likelihoods.special import MAX_EXPONENT, elementwise, uniform

_TINY, _EPSILON = float(np.finfo(np.float64).tiny), float(np.finfo(np.float64).epsneg)


@dataclass(frozen=True)
class Beta(Likelihood):
    """y ~ Beta(mu phi, (1 - mu) phi), mu = 1 / (1 + e^-f): parameter ``precision``, phi.

    Var[y | f] = mu (1 - mu) / (1 + phi). Not log-concave in f. Latent values count as at most 300
    in size, where mu or 1 - mu is 5e-131.
    """

    name: ClassVar[str] = "beta"
    latent_scale: ClassVar[str] = "log odds of the mean"
    parameter_names: ClassVar[tuple[str, ...]] = ("precision",)
    parameter_bounds: ClassVar[tuple[tuple[float, float], ...]] = ((1e-2, 1e5),)
    support: ClassVar[quantiles.Support] = "unit"
    log_concave: ClassVar[bool] = False

    def check(self, y: Array) -> None:
        """Refuse what is not strictly between 0 and 1."""
        responses.refuse(
            ~((y > 0) & (y < 1)),
            y,
            "is not strictly between 0 and 1",
            "squeeze exact zeros and ones with (y * (n - 1) + 0.5) / n for n rows, divide "
            "percentages by 100, or use a binary likelihood for labels",
        )

    def start(self, y: Array, weights: Array, offset: Array) -> tuple[Tensor, Tensor]:
        """Return the logit of the mean, and the precision for half of the variance."""
        share = float(np.average(y, weights=weights))
        share = min(max(share, _TINY), 1.0 - _EPSILON)
        spread = responses.NOISE_SHARE * responses.mean_square(y - share, weights)
        precision = share * (1.0 - share) / max(spread, _TINY) - 1.0
        level = float(logit(share)) - responses.average(offset, weights)
        return responses.levels(level), responses.parameters_within(
            [precision], self.parameter_bounds
        )

    @staticmethod
    def _mean_and_rest(f: Tensor) -> tuple[Tensor, Tensor]:
        f = f.clamp(-MAX_EXPONENT, MAX_EXPONENT)
        return torch.sigmoid(f), torch.sigmoid(-f)

    def log_density(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return the log of the beta density."""
        mu, rest = self._mean_and_rest(f[0])
        a, b = mu * parameters[0], rest * parameters[0]
        constant = torch.lgamma(parameters[0]) - torch.lgamma(a) - torch.lgamma(b)
        return constant + (a - 1.0) * y.log() + (b - 1.0) * torch.log1p(-y)

    def conditional_moments(self, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return mu and mu (1 - mu) / (1 + phi)."""
        mu, rest = self._mean_and_rest(f[0])
        return mu, mu * rest / (1.0 + parameters[0])

    def cdf(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return I_y(mu phi, (1 - mu) phi), the regularised incomplete beta function."""
        mu, rest = self._mean_and_rest(f[0])
        return elementwise(betainc, mu * parameters[0], rest * parameters[0], y)

    def sample(self, f: Tensor, parameters: Tensor, generator: torch.Generator) -> Tensor:
        """Return shares, at least one float away from 0 and 1."""
        mu, rest = self._mean_and_rest(f[0])
        draws = uniform(f[0], generator)
        shares = elementwise(betaincinv, mu * parameters[0], rest * parameters[0], draws)
        return shares.clamp(_TINY, 1.0 - _EPSILON)

    def derivatives(self, y: Tensor, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return first and second derivative through digamma and trigamma functions."""
        mu, rest = self._mean_and_rest(f)
        a, b = mu * parameters[0], rest * parameters[0]
        pull = (y.log() - torch.digamma(a)) - (torch.log1p(-y) - torch.digamma(b))
        slope = a * rest  # d a / d f = -d b / d f
        bend = slope**2 * (torch.polygamma(1, a) + torch.polygamma(1, b))
        return slope * pull, slope * (rest - mu) * pull - bend
