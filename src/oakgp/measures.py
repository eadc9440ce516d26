"""Probability measures of single features: all the orthogonality constraint needs to know.

A measure p enters the model only through expectations of the base kernel,

- ``mean_embedding``: s(x) = E_p[k(X, x)],
- ``mean_mean``: v = E_p E_p[k(X, X')],

and the Sobol indices need three more,

- ``cross_moment``: E_p[k(X, a) k(X, b)],
- ``embedding_moment``: E_p[s(X) k(X, a)],
- ``embedding_square``: E_p[s(X)^2].

Every measure has quadrature nodes, on which all five are finite sums for any kernel; a subclass
overrides what it knows in closed form. Missing values are NaN, here as everywhere.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from torch import Tensor

from oakgp import ops
from oakgp.kernels.base import RadialKernel
from oakgp.kernels.squared_exponential import SquaredExponential

Array = NDArray[np.float64]

_SQRT2PI = math.sqrt(2.0 * math.pi)


def _split_missing(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return a column with 0 for the missing values, and where these are.

    NaN must not enter a formula whose result is masked afterwards: the mask's gradient is 0, and
    0 times the NaN derivative of the formula would poison the gradient of every other row.
    """
    missing = torch.isnan(x)
    return torch.where(missing, torch.zeros_like(x), x), missing


class Measure(ABC):
    """Measure of one feature, in the coordinates the kernel sees (after the flow)."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def atoms(self) -> tuple[Array, Array]:
        """Quadrature nodes and their weights (which sum to 1)."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe description that `measure_from_dict` reads back exactly."""

    def node_tensors(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return nodes and weights with the dtype and device of ``like``."""
        nodes, weights = self.atoms
        return like.new_tensor(nodes), like.new_tensor(weights)

    def mean_embedding(self, kernel: RadialKernel, x: Tensor, lengthscale: Tensor) -> Tensor:
        """Return s(x) = E[k(X, x)], ``[n]``, differentiable in the lengthscale."""
        nodes, weights = self.node_tensors(x)
        return ops.mean_embedding(kernel.kind, x, nodes, weights, lengthscale)

    def mean_mean(self, kernel: RadialKernel, lengthscale: Tensor) -> Tensor:
        """Return v = E E[k(X, X')], a scalar."""
        nodes, weights = self.node_tensors(lengthscale)
        return weights @ self.mean_embedding(kernel, nodes, lengthscale)

    def cross_moment(
        self, kernel: RadialKernel, a: Tensor, b: Tensor, lengthscale: Tensor
    ) -> Tensor:
        """Return E[k(X, a_i) k(X, b_j)], ``[n, m]``."""
        nodes, weights = self.node_tensors(a)
        left = kernel(a, nodes, lengthscale) * weights
        return left @ kernel(b, nodes, lengthscale).T

    def embedding_moment(self, kernel: RadialKernel, a: Tensor, lengthscale: Tensor) -> Tensor:
        """Return E[s(X) k(X, a_i)], ``[n]``."""
        nodes, weights = self.node_tensors(a)
        s = self.mean_embedding(kernel, nodes, lengthscale)
        return kernel(a, nodes, lengthscale) @ (weights * s)

    def embedding_square(self, kernel: RadialKernel, lengthscale: Tensor) -> Tensor:
        """Return E[s(X)^2], a scalar."""
        nodes, weights = self.node_tensors(lengthscale)
        return weights @ self.mean_embedding(kernel, nodes, lengthscale) ** 2


@dataclass(frozen=True)
class Empirical(Measure):
    """Weighted atoms: the distinct values of a column, or nodes at its quantiles.

    Parameters
    ----------
    nodes
        Locations; NaN stands for "missing".
    weights
        Probabilities, summing to 1.
    """

    nodes: tuple[float, ...]
    weights: tuple[float, ...]
    kind: ClassVar[str] = "empirical"

    @classmethod
    def fit(cls, x: Array, weights: Array | None = None, max_nodes: int = 256) -> Empirical:
        """Return the empirical measure of a column (NaN = missing), O(n log n).

        With more than ``max_nodes`` distinct values, the sorted rows are cut into ``max_nodes``
        groups of equal weight and each group is represented by its mean.
        """
        mass = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)
        absent = np.isnan(x) | (mass <= 0)
        share = float(mass[np.isnan(x)].sum() / mass.sum())
        present, mass = x[~absent], mass[~absent]
        if len(present) == 0:
            return cls((math.nan,), (1.0,))
        order = np.argsort(present, kind="stable")
        nodes, mass = present[order], mass[order]
        starts = np.flatnonzero(np.r_[True, np.diff(nodes) > 0])
        if len(starts) > max_nodes:
            position = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
            starts = np.flatnonzero(np.r_[True, np.diff((position * max_nodes).astype(int)) > 0])
        totals = np.add.reduceat(mass, starts)
        # Divide first: a sum of values near the largest float would overflow.
        centre = np.repeat(totals, np.diff(np.r_[starts, len(mass)]))
        nodes = np.add.reduceat(nodes * (mass / centre), starts)
        totals = totals / totals.sum() * (1.0 - share)
        if share > 0:
            nodes, totals = np.r_[nodes, math.nan], np.r_[totals, share]
        return cls(tuple(nodes.tolist()), tuple(totals.tolist()))

    @property
    def atoms(self) -> tuple[Array, Array]:
        """Quadrature nodes and weights: the atoms themselves."""
        return np.array(self.nodes), np.array(self.weights)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe description."""
        nodes = [None if math.isnan(v) else v for v in self.nodes]
        return {"kind": self.kind, "nodes": nodes, "weights": list(self.weights)}


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
        order = np.argsort(x[keep], kind="stable")
        values, mass = x[keep][order], mass[keep][order]
        if len(values) > 4096:  # quantiles carry the shape of a long column
            position = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
            values = np.interp((np.arange(4096) + 0.5) / 4096, position, values)
            mass = np.full(4096, mass.sum() / 4096)
        choices = [n_components] if n_components else range(1, max_components + 1)
        distinct = len(np.unique(values))
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

    @property
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

    def mean_embedding(self, kernel: RadialKernel, x: Tensor, lengthscale: Tensor) -> Tensor:
        """Return s(x); closed form for the squared exponential kernel."""
        if not isinstance(kernel, SquaredExponential):
            return super().mean_embedding(kernel, x, lengthscale)
        w, mu, delta = self._tensors(x)
        x, missing = _split_missing(x)
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
        (a, gone), (b, lost) = _split_missing(a), _split_missing(b)
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
        a, missing = _split_missing(a)
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


@dataclass(frozen=True)
class Uniform(Measure):
    """Uniform measure on [low, high].

    Closed forms (error functions) for the squared exponential kernel, but for the two moments of
    s, whose integrals are not elementary: those use Gauss-Legendre nodes.
    """

    low: float
    high: float
    kind: ClassVar[str] = "uniform"

    @classmethod
    def fit(cls, x: Array, weights: Array | None = None) -> Uniform:
        """Return the uniform measure on the range of a column."""
        keep = ~np.isnan(x)
        if weights is not None:
            keep &= np.asarray(weights) > 0
        if not keep.any():
            return cls(-1.0, 1.0)
        low, high = float(np.min(x[keep])), float(np.max(x[keep]))
        return cls(low, high) if high > low else cls(low - 0.5, low + 0.5)

    @property
    def atoms(self) -> tuple[Array, Array]:
        """Composite Gauss-Legendre nodes: 8 panels of 16."""
        points, mass = np.polynomial.legendre.leggauss(16)
        panels = (np.arange(8)[:, None] + 0.5 * (points + 1.0)) / 8.0
        nodes = self.low + (self.high - self.low) * panels.ravel()
        return nodes, np.tile(0.5 * mass / 8.0, 8)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe description."""
        return {"kind": self.kind, "low": self.low, "high": self.high}

    def mean_embedding(self, kernel: RadialKernel, x: Tensor, lengthscale: Tensor) -> Tensor:
        """Return s(x); closed form for the squared exponential kernel."""
        if not isinstance(kernel, SquaredExponential):
            return super().mean_embedding(kernel, x, lengthscale)
        width = self.high - self.low
        root = math.sqrt(2.0) * lengthscale
        x, missing = _split_missing(x)
        rise = torch.erf((self.high - x) / root) - torch.erf((self.low - x) / root)
        s = lengthscale * math.sqrt(0.5 * math.pi) / width * rise
        return torch.where(missing, torch.zeros_like(x), s)

    def mean_mean(self, kernel: RadialKernel, lengthscale: Tensor) -> Tensor:
        """Return v; closed form for the squared exponential kernel."""
        if not isinstance(kernel, SquaredExponential):
            return super().mean_mean(kernel, lengthscale)
        ratio = (self.high - self.low) / lengthscale
        edge = -2.0 * torch.expm1(-0.5 * ratio**2)
        return (_SQRT2PI * ratio * torch.erf(ratio / math.sqrt(2.0)) - edge) / ratio**2

    def cross_moment(
        self, kernel: RadialKernel, a: Tensor, b: Tensor, lengthscale: Tensor
    ) -> Tensor:
        """Return E[k(X, a) k(X, b)]; closed form for the squared exponential kernel."""
        if not isinstance(kernel, SquaredExponential):
            return super().cross_moment(kernel, a, b, lengthscale)
        (a, gone), (b, lost) = _split_missing(a), _split_missing(b)
        middle = 0.5 * (a[:, None] + b[None, :])
        rise = torch.erf((self.high - middle) / lengthscale)
        rise = rise - torch.erf((self.low - middle) / lengthscale)
        pair = torch.exp(-0.25 * ((a[:, None] - b[None, :]) / lengthscale) ** 2)
        factor = 0.5 * math.sqrt(math.pi) * lengthscale / (self.high - self.low)
        moment = factor * pair * rise
        return torch.where(gone[:, None] | lost, torch.zeros_like(moment), moment)


@dataclass(frozen=True)
class MissingAtom(Measure):
    """A measure of the present values with one more atom: "missing", of probability ``share``."""

    base: Measure
    share: float
    kind: ClassVar[str] = "missing_atom"

    @property
    def atoms(self) -> tuple[Array, Array]:
        """Nodes of the present values and NaN."""
        nodes, weights = self.base.atoms
        return np.r_[nodes, math.nan], np.r_[(1.0 - self.share) * weights, self.share]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe description."""
        return {"kind": self.kind, "base": self.base.to_dict(), "share": self.share}

    def mean_embedding(self, kernel: RadialKernel, x: Tensor, lengthscale: Tensor) -> Tensor:
        """Return s(x): k(miss, miss) = 1 and k(miss, x) = 0 add up."""
        present = (1.0 - self.share) * self.base.mean_embedding(kernel, x, lengthscale)
        return torch.where(torch.isnan(x), torch.full_like(x, self.share), present)

    def mean_mean(self, kernel: RadialKernel, lengthscale: Tensor) -> Tensor:
        """Return v."""
        present = self.base.mean_mean(kernel, lengthscale)
        return (1.0 - self.share) ** 2 * present + self.share**2

    def cross_moment(
        self, kernel: RadialKernel, a: Tensor, b: Tensor, lengthscale: Tensor
    ) -> Tensor:
        """Return E[k(X, a) k(X, b)]."""
        both = torch.isnan(a)[:, None] & torch.isnan(b)[None, :]
        present = self.base.cross_moment(kernel, a, b, lengthscale)
        # A mask times a number would be float32 whatever the rest is.
        return (1.0 - self.share) * present + self.share * both.to(present)

    def embedding_moment(self, kernel: RadialKernel, a: Tensor, lengthscale: Tensor) -> Tensor:
        """Return E[s(X) k(X, a)]."""
        present = (1.0 - self.share) ** 2 * self.base.embedding_moment(kernel, a, lengthscale)
        return torch.where(torch.isnan(a), torch.full_like(a, self.share**2), present)

    def embedding_square(self, kernel: RadialKernel, lengthscale: Tensor) -> Tensor:
        """Return E[s(X)^2]."""
        present = self.base.embedding_square(kernel, lengthscale)
        return (1.0 - self.share) ** 3 * present + self.share**3


@dataclass(frozen=True)
class Categorical(Measure):
    """Level frequencies of a categorical feature; the atoms are the level codes 0 .. L-1."""

    weights: tuple[float, ...]
    kind: ClassVar[str] = "categorical"

    @property
    def atoms(self) -> tuple[Array, Array]:
        """Level codes and frequencies."""
        return np.arange(len(self.weights), dtype=np.float64), np.array(self.weights)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe description."""
        return {"kind": self.kind, "weights": list(self.weights)}


#: Measures by name: what ``measure=`` accepts and what the law tests run over.
MEASURES: dict[str, type[Empirical] | type[GaussianMixture] | type[Uniform]] = {
    "empirical": Empirical,
    "gaussian_mixture": GaussianMixture,
    "uniform": Uniform,
}


def fit_measure(name: str, x: Array, weights: Array | None = None) -> Measure:
    """Fit a named measure to a column (NaN = missing), with an atom for missing values.

    ``"gaussian"`` takes mean and variance of the column, the others their own fit.
    """
    if name == "empirical":
        return Empirical.fit(x, weights)
    absent = np.isnan(x)
    mass = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)
    if name == "gaussian":
        base: Measure = GaussianMixture.fit(x, weights, n_components=1)
    else:
        base = MEASURES[name].fit(x, weights)
    share = float(mass[absent].sum() / mass.sum())
    return MissingAtom(base, share) if share > 0 else base


def measure_from_dict(d: dict[str, Any]) -> Measure:
    """Read back what ``to_dict`` wrote."""
    kind = d["kind"]
    if kind == Empirical.kind:
        nodes = tuple(math.nan if v is None else float(v) for v in d["nodes"])
        return Empirical(nodes, tuple(d["weights"]))
    if kind == GaussianMixture.kind:
        return GaussianMixture(tuple(d["weights"]), tuple(d["means"]), tuple(d["variances"]))
    if kind == Uniform.kind:
        return Uniform(d["low"], d["high"])
    if kind == MissingAtom.kind:
        return MissingAtom(measure_from_dict(d["base"]), d["share"])
    if kind == Categorical.kind:
        return Categorical(tuple(d["weights"]))
    raise ValueError(f"unknown measure kind {kind!r} in the model file")
