"""Gaussian measures and their mixtures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.special import logsumexp
from torch import Tensor

from oakgp.kernels.base import RadialKernel
from oakgp.kernels.squared_exponential import SquaredExponential
from oakgp.measures.base import Array, Measure, distinct_values, split_missing

_SQRT2PI = math.sqrt(2.0 * math.pi)


def _gauss(x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    return torch.exp(-0.5 * (x - mean) ** 2 / variance) / (_SQRT2PI * variance.sqrt())


@dataclass(frozen=True)
class GaussianMixture(Measure):
    """Mixture of Gaussians sum_c w_c N(mu_c, delta_c); one component is the Gaussian measure.

    Closed forms for the squared exponential kernel, which is sqrt(2 pi) l N(x; x', l^2): every
    expectation is an integral of a product of Gaussian densities (paper, appendix C.1, C.2, F.1).
    """

    weights: tuple[float, ...]
    means: tuple[float, ...]
    variances: tuple[float, ...]
    kind: ClassVar[str] = "gaussian_mixture"

    @classmethod
    def fit(
        cls,
        x: Array,
        weights: Array | None = None,
        n_components: int | None = None,
        max_components: int = 8,
    ) -> GaussianMixture:
        """Fit by expectation maximisation; the number of components by BIC when not given."""
        keep = ~np.isnan(x)
        mass = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)
        keep &= mass > 0
        if not keep.any():
            return cls((1.0,), (0.0,), (1.0,))
        values, mass = distinct_values(x[keep], mass[keep])
        if len(values) > 4096:  # quantiles carry the shape of a long column
            position = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
            values = np.interp((np.arange(4096) + 0.5) / 4096, position, values)
            mass = np.full(4096, mass.sum() / 4096)
        choices = [n_components] if n_components else range(1, max_components + 1)
        distinct = len(values)
        best: tuple[float, GaussianMixture] | None = None
        for count in choices:
            if count > max(1, distinct // 2) and n_components is None:
                break
            fitted, loglik = _expectation_maximisation(values, mass, min(count, distinct))
            bic = (3 * count - 1) * math.log(mass.sum()) - 2.0 * loglik
            if best is None or bic < best[0]:
                best = (bic, fitted)
        assert best is not None
        return best[1]

    @cached_property
    def atoms(self) -> tuple[Array, Array]:
        """Trapezoid nodes of each component (spectrally accurate for smooth integrands)."""
        grid = np.linspace(-6.5, 6.5, 131)
        mass = np.exp(-0.5 * grid**2)
        mass /= mass.sum()
        sd = np.sqrt(self.variances)
        nodes = np.asarray(self.means)[:, None] + sd[:, None] * grid
        return nodes.ravel(), (np.asarray(self.weights)[:, None] * mass).ravel()

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe description."""
        return {
            "kind": self.kind,
            "weights": list(self.weights),
            "means": list(self.means),
            "variances": list(self.variances),
        }

    def _tensors(self, like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return (
            like.new_tensor(self.weights),
            like.new_tensor(self.means),
            like.new_tensor(self.variances),
        )

    def sums_over_nodes(self, kernel: RadialKernel) -> bool:
        """Whether s is the sum over the atoms: not for the squared exponential kernel."""
        return not isinstance(kernel, SquaredExponential)

    def mean_embedding(self, kernel: RadialKernel, x: Tensor, lengthscale: Tensor) -> Tensor:
        """Return s(x); closed form for the squared exponential kernel."""
        if not isinstance(kernel, SquaredExponential):
            return super().mean_embedding(kernel, x, lengthscale)
        w, mu, delta = self._tensors(x)
        x, missing = split_missing(x)
        s = _gauss(x[:, None], mu, delta + lengthscale**2) @ w
        return torch.where(missing, torch.zeros_like(x), _SQRT2PI * lengthscale * s)

    def mean_mean(self, kernel: RadialKernel, lengthscale: Tensor) -> Tensor:
        """Return v; closed form for the squared exponential kernel."""
        if not isinstance(kernel, SquaredExponential):
            return super().mean_mean(kernel, lengthscale)
        w, mu, delta = self._tensors(lengthscale)
        spread = delta[:, None] + delta + lengthscale**2
        return _SQRT2PI * lengthscale * (w @ _gauss(mu[:, None], mu, spread) @ w)

    def cross_moment(
        self, kernel: RadialKernel, a: Tensor, b: Tensor, lengthscale: Tensor
    ) -> Tensor:
        """Return E[k(X, a) k(X, b)]; closed form for the squared exponential kernel."""
        if not isinstance(kernel, SquaredExponential):
            return super().cross_moment(kernel, a, b, lengthscale)
        w, mu, delta = self._tensors(a)
        l2 = lengthscale**2
        (a, gone), (b, lost) = split_missing(a), split_missing(b)
        middle = 0.5 * (a[:, None] + b[None, :])
        mass = torch.zeros_like(middle)
        for k in range(len(w)):
            mass = mass + w[k] * _gauss(middle, mu[k], delta[k] + 0.5 * l2)
        pair = _gauss(a[:, None], b[None, :], 2.0 * l2)
        moment = 2.0 * math.pi * l2 * pair * mass
        return torch.where(gone[:, None] | lost, torch.zeros_like(moment), moment)

    def embedding_moment(self, kernel: RadialKernel, a: Tensor, lengthscale: Tensor) -> Tensor:
        """Return E[s(X) k(X, a)]; closed form for the squared exponential kernel."""
        if not isinstance(kernel, SquaredExponential):
            return super().embedding_moment(kernel, a, lengthscale)
        w, mu, delta = self._tensors(a)
        a, missing = split_missing(a)
        l2 = lengthscale**2
        wide = delta + l2  # s is a mixture with these variances
        total = wide[:, None] + delta  # product of component k of s and component c of p
        mean = (mu[:, None] * delta + mu * wide[:, None]) / total
        variance = wide[:, None] * delta / total + l2
        mass = w[:, None] * w * _gauss(mu[:, None], mu, total)
        sums = (mass * _gauss(a[:, None, None], mean, variance)).sum(dim=(1, 2))
        return torch.where(missing, torch.zeros_like(a), 2.0 * math.pi * l2 * sums)

    def embedding_square(self, kernel: RadialKernel, lengthscale: Tensor) -> Tensor:
        """Return E[s(X)^2]; closed form for the squared exponential kernel."""
        if not isinstance(kernel, SquaredExponential):
            return super().embedding_square(kernel, lengthscale)
        w, mu, delta = self._tensors(lengthscale)
        l2 = lengthscale**2
        wide = delta + l2
        total = wide[:, None] + wide
        mean = (mu[:, None] * wide + mu * wide[:, None]) / total
        variance = wide[:, None] * wide / total
        mass = w[:, None] * w * _gauss(mu[:, None], mu, total)
        inner = _gauss(mean[..., None], mu, variance[..., None] + delta) @ w
        return 2.0 * math.pi * l2 * (mass * inner).sum()


def gaussian(mean: float = 0.0, variance: float = 1.0) -> GaussianMixture:
    """Return the Gaussian measure N(mean, variance)."""
    return GaussianMixture((1.0,), (float(mean),), (float(variance),))


def _expectation_maximisation(
    x: Array, mass: Array, count: int, n_iter: int = 200
) -> tuple[GaussianMixture, float]:
    """Return a fitted mixture and its log likelihood; starts at quantiles, so deterministic."""
    total = mass.sum()
    scale = max(float(np.ptp(x)), 1e-12)
    position = (np.cumsum(mass) - 0.5 * mass) / total
    w = np.full(count, 1.0 / count)
    mu = np.interp((np.arange(count) + 0.5) / count, position, x)
    floor = (1e-3 * scale) ** 2  # a component on a single atom would have infinite density
    delta = np.full(
        count,
        max(
            floor,
            float(np.average((x - np.average(x, weights=mass)) ** 2, weights=mass)) / count**2,
        ),
    )
    previous = -math.inf
    loglik = previous
    for _ in range(n_iter):
        density = np.log(w) - 0.5 * np.log(2 * np.pi * delta)
        density = density - 0.5 * (x[:, None] - mu) ** 2 / delta
        norm = logsumexp(density, axis=1)
        loglik = float(mass @ norm)
        if loglik - previous < 1e-7 * abs(loglik):
            break
        previous = loglik
        share = mass[:, None] * np.exp(density - norm[:, None])
        sums = np.maximum(share.sum(axis=0), 1e-12 * total)
        mu = share.T @ x / sums
        delta = np.maximum((share * (x[:, None] - mu) ** 2).sum(axis=0) / sums, floor)
        w = sums / sums.sum()
    return GaussianMixture(tuple(w.tolist()), tuple(mu.tolist()), tuple(delta.tolist())), loglik
