"""Binary response."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from scipy.special import logit, ndtri
from torch import Tensor

from oakgp.likelihoods import quantiles, responses
from oakgp.likelihoods.base import Array, Likelihood
from oakgp.likelihoods.special import log_normal_cdf, log_sigmoid, normal_cdf, uniform


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """P(y = 1) = link^-1(f), y in {0, 1}; what both links share. No parameters."""

    support: ClassVar[quantiles.Support] = "binary"
    log_concave: ClassVar[bool] = True

    @abstractmethod
    def probability(self, f: Tensor) -> Tensor:
        """Return P(y = 1 | f)."""

    @abstractmethod
    def link(self, probability: float) -> float:
        """Return the latent value with this probability of a 1."""

    def check(self, y: Array) -> None:
        """Refuse labels other than 0 and 1."""
        responses.check_labels(y, 2)

    def start(self, y: Array, weights: Array, offset: Array) -> tuple[Tensor, Tensor]:
        """Return the link of the share of ones, kept half a row away from 0 and 1."""
        level = self.link(responses.share(y, weights)) - responses.average(offset, weights)
        return responses.levels(level), responses.parameters_within([], ())

    def conditional_moments(self, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return p and p (1 - p)."""
        p = self.probability(f[0])
        return p, p * self.probability(-f[0])

    def cdf(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return 1 - p below 1."""
        below_one = torch.where(y < 0.0, 0.0, self.probability(-f[0]))
        return torch.where(y < 1.0, below_one, 1.0)

    def sample(self, f: Tensor, parameters: Tensor, generator: torch.Generator) -> Tensor:
        """Return 1 with probability p, else 0."""
        return (uniform(f[0], generator) < self.probability(f[0])).to(f)

    def response_variance(self, mean: Tensor, variance: Tensor, parameters: Tensor) -> Tensor:
        """Return p (1 - p) of the averaged p: a mixture of binary variables is one."""
        zero = self.response_mean(-mean, variance, parameters)
        return self.response_mean(mean, variance, parameters) * zero

    def response_quantiles(
        self, mean: Tensor, variance: Tensor, parameters: Tensor, levels: Sequence[float]
    ) -> Tensor:
        """Return 0 up to the level P(y = 0), then 1."""
        quantiles.check_levels(levels)
        zero = self.response_mean(-mean, variance, parameters)
        return (mean.new_tensor(list(levels)) > zero[:, None]).to(mean)


@dataclass(frozen=True)
class BernoulliLogit(Bernoulli):
    """P(y = 1) = 1 / (1 + e^-f)."""

    name: ClassVar[str] = "bernoulli_logit"
    latent_scale: ClassVar[str] = "log odds"
    latent_unit: ClassVar[float] = math.pi**2 / 3.0  # of the logistic distribution

    def probability(self, f: Tensor) -> Tensor:
        """Return the logistic function."""
        return torch.sigmoid(f)

    def link(self, probability: float) -> float:
        """Return the log odds."""
        return float(logit(probability))

    def log_density(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return log sigmoid(+-f)."""
        return log_sigmoid((2.0 * y - 1.0) * f[0])

    def derivatives(self, y: Tensor, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return y - p and -p (1 - p)."""
        sign = 2.0 * y - 1.0
        wrong = torch.sigmoid(-sign * f)  # keeps its digits where p is nearly 1
        return sign * wrong, -wrong * torch.sigmoid(sign * f)


@dataclass(frozen=True)
class BernoulliProbit(Bernoulli):
    """P(y = 1) = Phi(f); its average over a Gaussian is Phi(mean / sqrt(1 + variance))."""

    name: ClassVar[str] = "bernoulli_probit"
    latent_scale: ClassVar[str] = "probit"

    def probability(self, f: Tensor) -> Tensor:
        """Return Phi."""
        return normal_cdf(f)

    def link(self, probability: float) -> float:
        """Return the normal quantile."""
        return float(ndtri(probability))

    def log_density(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return log Phi(+-f)."""
        return log_normal_cdf((2.0 * y - 1.0) * f[0])

    def derivatives(self, y: Tensor, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return +-r and -r (a + r), with a = +-f and r = phi(a) / Phi(a)."""
        sign = 2.0 * y - 1.0
        a = sign * f
        # Through the scaled error function: phi and Phi both underflow below a = -38.
        r = math.sqrt(2.0 / math.pi) / torch.special.erfcx(-a / math.sqrt(2.0))
        return sign * r, -(r * (a + r)).clamp(0.0, 1.0)

    def response_mean(self, mean: Tensor, variance: Tensor, parameters: Tensor) -> Tensor:
        """Return Phi(mean / sqrt(1 + variance))."""
        return normal_cdf(mean[0] / (1.0 + variance[0]).sqrt())

    def log_predictive(
        self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor
    ) -> Tensor:
        """Return log Phi(+-mean / sqrt(1 + variance))."""
        return self.log_density(y, mean / (1.0 + variance).sqrt(), parameters)
