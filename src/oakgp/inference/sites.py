r"""Observations of any likelihood, and the Gaussian sites that stand for them.

A site of row i and latent function l is the unnormalised Gaussian exp(lambda1 f - lambda2 f^2 / 2)
in the natural parameters lambda1 = ``first`` and lambda2 = ``precision``. With E_i = E_q[log p(y_i
| f_i)], the natural-gradient step of length 1 moves it to (Khan and Lin 2017)

    lambda2 = -2 w_i dE_i/dv,   lambda1 = w_i dE_i/dm + lambda2 m,

which is where it stays once q is optimal. Latent values are level_l + m, plus the row's offset for
the first latent function; sites describe the deviation m from there.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from oakgp.likelihoods.base import Expected, Likelihood
from oakgp.likelihoods.quadrature import row_chunks, rule


@dataclass(frozen=True)
class Observations:
    """Rows with their responses, for any likelihood.

    Parameters
    ----------
    x
        ``[d, n]`` encoded inputs (NaN = missing).
    y
        ``[n]`` responses.
    weight
        ``[n]`` positive; a row of weight w counts as w equal rows.
    offset
        ``[n]`` what is added to the first latent function: the log of an exposure, or 0.
    """

    x: Tensor
    y: Tensor
    weight: Tensor
    offset: Tensor

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.y.shape[0])

    def take(self, rows: Tensor) -> Observations:
        """Return some of the rows."""
        return Observations(self.x[:, rows], self.y[rows], self.weight[rows], self.offset[rows])

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Observations:
        """Return the same rows on another device or with another dtype."""
        parts = (self.x, self.y, self.weight, self.offset)
        return Observations(*(t.to(device=device, dtype=dtype) for t in parts))

    def latent_mean(self, levels: Tensor, mean: Tensor) -> Tensor:
        """Return level + deviation (+ offset, for the first latent function), ``[L, n]``."""
        mean = mean + levels[:, None]
        mean[0] += self.offset
        return mean


@dataclass(frozen=True)
class Sites:
    """One Gaussian site for each row and latent function.

    Parameters
    ----------
    first
        ``[L, n]`` lambda1, the factor of f.
    precision
        ``[L, n]`` lambda2, the factor of -f^2 / 2; not negative.
    """

    first: Tensor
    precision: Tensor

    @staticmethod
    def start(
        likelihood: Likelihood, parameters: Tensor, levels: Tensor, observations: Observations
    ) -> Sites:
        """Return the sites that match a q concentrated at the levels (Laplace's, first step)."""
        shape = (likelihood.n_latents, observations.n)
        zero = observations.y.new_zeros(shape)
        at = observations.latent_mean(levels, zero)
        return Sites.matching(expectation(likelihood, parameters, observations, at, zero), zero)

    @staticmethod
    def matching(expected: Expected, mean: Tensor) -> Sites:
        """Return the sites that match weighted expectations under q with deviations ``mean``.

        Negative precisions, which only likelihoods that are not log-concave ask for, count as 0:
        such a row pulls at the mean and leaves the variance alone.
        """
        precision = (-2.0 * expected.by_variance).clamp_min(0.0)
        return Sites(expected.by_mean + precision * mean, precision)

    def towards(self, other: Sites, share: float) -> Sites:
        """Return the sites on the way to others: all of the way when ``share`` is 1."""
        if share == 1.0:
            return other
        return Sites(
            torch.lerp(self.first, other.first, share),
            torch.lerp(self.precision, other.precision, share),
        )

    def take(self, rows: Tensor) -> Sites:
        """Return the sites of some rows."""
        return Sites(self.first[:, rows], self.precision[:, rows])


def _integrates_exactly(likelihood: Likelihood) -> bool:
    return type(likelihood).expected is not Likelihood.expected


def expectation(
    likelihood: Likelihood,
    parameters: Tensor,
    observations: Observations,
    mean: Tensor,
    variance: Tensor,
) -> Expected:
    """Return w E_q[log p(y | f)] of each row and its derivatives by the moments of q.

    Where the likelihood integrates by quadrature, the derivatives are those of the quadrature sum
    and not the sums of the derivatives: these agree only as far as the nodes resolve the integrand,
    and a step control that compares values needs slopes of the same function.

    Parameters
    ----------
    likelihood, parameters, observations
        What is averaged.
    mean, variance
        ``[L, n]`` moments of the latent values, levels and offsets included.
    """
    y, weight, parameters = observations.y, observations.weight, parameters.detach()
    if _integrates_exactly(likelihood):
        value, by_mean, by_variance = likelihood.expected(y, mean, variance, parameters)
        return Expected(weight * value, weight * by_mean, weight * by_variance)
    parts = []
    for rows in _chunks(likelihood, observations.n):
        m = mean[:, rows].detach().requires_grad_()
        v = variance[:, rows].detach().requires_grad_()
        with torch.enable_grad():
            value = weight[rows] * likelihood.expected_value(y[rows], m, v, parameters)
            by_mean, by_variance = torch.autograd.grad(value.sum(), (m, v))
        parts.append((value.detach(), by_mean, by_variance))
    values, by_means, by_variances = zip(*parts, strict=True)
    return Expected(torch.cat(values), torch.cat(by_means, dim=1), torch.cat(by_variances, dim=1))


def parameter_gradient(
    likelihood: Likelihood,
    parameters: Tensor,
    observations: Observations,
    mean: Tensor,
    variance: Tensor,
) -> Tensor:
    """Return d/d parameters of sum_i w_i E_q[log p(y_i | f_i)] at fixed moments of q, ``[p]``."""
    y, weight = observations.y, observations.weight
    theta = parameters.detach().requires_grad_()
    total = torch.zeros_like(parameters)
    if not len(theta):
        return total
    for rows in _chunks(likelihood, observations.n):
        with torch.enable_grad():
            value = likelihood.expected_value(y[rows], mean[:, rows], variance[:, rows], theta)
            (part,) = torch.autograd.grad((weight[rows] * value).sum(), theta)
        total = total + part
    return total


def _chunks(likelihood: Likelihood, n: int) -> list[slice]:
    """Cut the rows so that the gradient tape of one piece fits the cache."""
    return list(row_chunks(n, likelihood.n_latents * len(rule(likelihood.n_latents)[1])))
