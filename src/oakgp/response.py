"""From latent functions to responses: means, deviations, quantiles and draws of any likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp.likelihoods.base import Likelihood
from oakgp.likelihoods.quadrature import row_chunks
from oakgp.likelihoods.quantiles import N_NODES
from oakgp.posterior import Posterior

Array = NDArray[np.float64]

_BATCH = 65_536  # rows whose moments are averaged at a time


@dataclass(frozen=True, eq=False)
class Response:
    """How responses follow from the latent functions, other than by Gaussian noise alone.

    Parameters
    ----------
    likelihood, parameters
        Likelihood and its learned parameters ``[p]``.
    levels
        ``[L]`` what the latent functions vary around.
    center, scale
        The likelihood is that of (y - center) / scale: 0 and 1 but for real responses.
    """

    likelihood: Likelihood
    parameters: Tensor
    levels: Tensor
    center: float = 0.0
    scale: float = 1.0

    @property
    def shifts(self) -> bool:
        """Whether an offset is added to the response itself, not to a link of its mean."""
        return self.likelihood.support == "real"

    def latent(
        self, posteriors: Sequence[Posterior], x: Tensor, offset: Array | None
    ) -> tuple[Tensor, Tensor]:
        """Return means and variances of the latent values, ``[L, n]``, level and offset included.

        Parameters
        ----------
        posteriors
            Of each latent function.
        x
            ``[d, n]`` encoded rows.
        offset
            ``[n]`` what is added to the first; None for nothing.
        """
        moments = [posterior.mean_and_variance(x) for posterior in posteriors]
        mean = torch.stack([m for m, _ in moments]) + self.levels[:, None]
        if offset is not None and not self.shifts:
            mean[0] += torch.from_numpy(offset).to(mean)
        return mean, torch.stack([v for _, v in moments])

    def mean(self, mean: Tensor, variance: Tensor, offset: Array | None = None) -> Array:
        """Return the expected response ``[n]``; class probabilities ``[K, n]`` for classes."""
        parts = [
            self.likelihood.response_mean(m, v, self.parameters)
            for m, v in _batches(mean, variance)
        ]
        return self._from_unit(torch.cat(parts, dim=-1), offset)

    def deviation(self, mean: Tensor, variance: Tensor) -> Array:
        """Return the standard deviation of a new response, ``[n]``."""
        parts = [
            self.likelihood.response_variance(m, v, self.parameters)
            for m, v in _batches(mean, variance)
        ]
        return self.scale * as_array(torch.cat(parts, dim=-1).clamp_min(0.0).sqrt())

    def quantiles(
        self, mean: Tensor, variance: Tensor, levels: Sequence[float], offset: Array | None = None
    ) -> Array:
        """Return quantiles of a new response, ``[n, levels]``."""
        parts = [
            self.likelihood.response_quantiles(m, v, self.parameters, levels)
            for m, v in _batches(mean, variance)
        ]
        return self._from_unit(torch.cat(parts), None if offset is None else offset[:, None])

    def log_density(
        self, y: Array, mean: Tensor, variance: Tensor, offset: Array | None = None
    ) -> Array:
        """Return the predictive log density (or log probability) of responses, ``[n]``."""
        if offset is not None and self.shifts:
            y = y - offset
        unit = torch.from_numpy((y - self.center) / self.scale).to(mean)
        value = self.likelihood.log_predictive(unit, mean, variance, self.parameters)
        continuous = self.likelihood.support == "real"
        return as_array(value) - (float(np.log(self.scale)) if continuous else 0.0)

    def distribution(
        self, y: Array, mean: Tensor, variance: Tensor, offset: Array | None = None
    ) -> tuple[Array, Array]:
        """Return P(Y < y) and P(Y <= y) of responses, each ``[n]``; of classes there is none."""
        if offset is not None and self.shifts:
            y = y - offset
        unit = torch.from_numpy((y - self.center) / self.scale).to(mean)
        at_most = self._cdf(unit, mean, variance)
        if self.likelihood.support != "count":
            return at_most, at_most
        below = self._cdf((unit - 1.0).clamp_min(0.0), mean, variance)
        return np.where(y > 0, below, 0.0), at_most

    def _cdf(self, y: Tensor, mean: Tensor, variance: Tensor) -> Array:
        chunks = row_chunks(len(y), N_NODES)
        parts = [
            self.likelihood.predictive_cdf(y[r], mean[:, r], variance[:, r], self.parameters)
            for r in chunks
        ]
        return as_array(torch.cat(parts))

    def draws(
        self,
        posteriors: Sequence[Posterior],
        x: Tensor,
        n_samples: int,
        seed: int,
        *,
        noisy: bool,
        offset: Array | None = None,
    ) -> Array:
        """Return joint draws, ``[n_samples, n]``: of the expected response or, noisy, of y."""
        draws = [p.sample(x, n_samples, seed + k) for k, p in enumerate(posteriors)]
        f = torch.stack(draws) + self.levels[:, None, None]
        if offset is not None and not self.shifts:
            f[0] += torch.from_numpy(offset).to(f)
        if noisy:
            # A stream of its own: else the noise would repeat the draws of a function.
            generator = torch.Generator(device=f.device).manual_seed(seed + len(posteriors))
            y = self.likelihood.sample(f, self.parameters, generator)
        else:
            y = self.likelihood.conditional_moments(f, self.parameters)[0]
        return self._from_unit(y, offset)

    def _from_unit(self, values: Tensor, offset: Array | None) -> Array:
        y = self.center + self.scale * as_array(values)
        return y + offset if offset is not None and self.shifts else y

    def describe(self) -> str:
        """Return the likelihood and its parameters in words, in units of the response."""
        likelihood = self.likelihood
        values = [
            value * self.scale if name == "scale" else value
            for name, value in zip(
                likelihood.parameter_names, self.parameters.tolist(), strict=True
            )
        ]
        texts = [
            f"{name} {value:.4g}"
            for name, value in zip(likelihood.parameter_names, values, strict=True)
        ]
        return f"likelihood {likelihood.name}" + (f": {', '.join(texts)}" if texts else "")


def _batches(mean: Tensor, variance: Tensor) -> list[tuple[Tensor, Tensor]]:
    return list(zip(mean.split(_BATCH, dim=1), variance.split(_BATCH, dim=1), strict=True))


def as_array(values: Tensor) -> Array:
    """Return a tensor as a float64 array."""
    return values.detach().cpu().to(torch.float64).numpy()
