"""One of each likelihood with parameters other than 1, and slow references straight from SciPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, log_expit, log_ndtr, log_softmax, ndtr
from tests.references import tensor

from oakgp.likelihoods import LIKELIHOODS, Likelihood, Softmax

Array = NDArray[np.float64]
Frozen = stats.distributions.rv_frozen


@dataclass(frozen=True)
class Case:
    """A likelihood, its parameters, and the same distribution of y given f in SciPy."""

    likelihood: Likelihood
    parameters: tuple[float, ...]
    given: Callable[[Array], Frozen] | None  # of latent values [L, ...]; None for classes

    @property
    def theta(self) -> torch.Tensor:
        return tensor(self.parameters)

    def log_density(self, y: Array, f: Array) -> Array:
        """log p(y | f) by SciPy."""
        if self.given is None:
            y = np.broadcast_to(y, f.shape[1:])
            chosen = np.take_along_axis(log_softmax(f, axis=0), y[None].astype(int), axis=0)
            return np.asarray(chosen[0])
        if self.likelihood.support == "binary":
            return self._log_of_label(y, f)
        d = self.given(f)
        discrete = isinstance(d.dist, stats.rv_discrete)
        return np.asarray(d.logpmf(y) if discrete else d.logpdf(y))

    def _log_of_label(self, y: Array, f: Array) -> Array:
        # SciPy's log of a Bernoulli probability is -inf once 1 - p rounds to 0.
        signed = (2.0 * y - 1.0) * f[0]
        probit = self.likelihood.name == "bernoulli_probit"
        return np.asarray(log_ndtr(signed) if probit else log_expit(signed))


def _make(name: str) -> Likelihood:
    return Softmax(3) if name == "softmax" else LIKELIHOODS[name]()


_SCIPY: dict[str, tuple[tuple[float, ...], Callable[[Array], Frozen] | None]] = {
    "gaussian": ((0.3,), lambda f: stats.norm(f[0], math.sqrt(0.3))),
    "bernoulli_logit": ((), lambda f: stats.bernoulli(expit(f[0]))),
    "bernoulli_probit": ((), lambda f: stats.bernoulli(ndtr(f[0]))),
    "softmax": ((), None),
    "poisson": ((), lambda f: stats.poisson(np.exp(f[0]))),
    "negative_binomial": ((0.7,), lambda f: stats.nbinom(1 / 0.7, 1 / (1 + 0.7 * np.exp(f[0])))),
    "gamma": ((2.5,), lambda f: stats.gamma(2.5, scale=np.exp(f[0]) / 2.5)),
    "student_t": ((0.9, 4.5), lambda f: stats.t(4.5, loc=f[0], scale=0.9)),
    "beta": ((6.0,), lambda f: stats.beta(6 * expit(f[0]), 6 * expit(-f[0]))),
    "heteroscedastic_gaussian": ((), lambda f: stats.norm(f[0], np.exp(0.5 * f[1]))),
}

CASES = {name: Case(_make(name), *_SCIPY[name]) for name in _SCIPY}


@dataclass(frozen=True)
class Rows:
    """Moments of q for a few rows and responses drawn from the model."""

    y: torch.Tensor
    mean: torch.Tensor
    variance: torch.Tensor


def random_rows(case: Case, seed: int, n: int = 5, spread: float = 1.0) -> Rows:
    rng = np.random.default_rng(seed)
    count = case.likelihood.n_latents
    mean = tensor(rng.normal(0.3, 1.0, (count, n)))
    variance = tensor(spread * rng.uniform(0.1, 1.0, (count, n)))
    generator = torch.Generator().manual_seed(seed)
    f = mean + variance.sqrt() * tensor(rng.standard_normal((count, n)))
    return Rows(case.likelihood.sample(f, case.theta, generator), mean, variance)


def dense_nodes(n_latents: int) -> tuple[Array, Array]:
    """A fine product grid for a standard Gaussian: nodes ``[L, S]`` and weights ``[S]``."""
    count = {1: 4001, 2: 301, 3: 61}[n_latents]
    grid = np.linspace(-9.0 if n_latents < 3 else -6.0, 9.0 if n_latents < 3 else 6.0, count)
    mass = np.exp(-(grid**2) / 2)
    mass /= mass.sum()
    nodes = np.stack(np.meshgrid(*[grid] * n_latents, indexing="ij")).reshape(n_latents, -1)
    weights = np.stack(np.meshgrid(*[mass] * n_latents, indexing="ij")).reshape(n_latents, -1)
    return nodes, weights.prod(axis=0)


def dense_average(function: Callable[[Array], Array], rows: Rows) -> Array:
    """E[function(f)] of each row; the function maps ``[L, S, n]`` to ``[..., S, n]``."""
    nodes, weights = dense_nodes(len(rows.mean))
    mean, deviation = rows.mean.numpy(), rows.variance.sqrt().numpy()
    return np.asarray(
        np.stack(
            [
                function(mean[:, None, [i]] + deviation[:, None, [i]] * nodes[:, :, None])[..., 0]
                @ weights
                for i in range(mean.shape[1])
            ],
            axis=-1,
        )
    )
