"""Slow, obvious truths that the tests compare with: loops, quadrature, brute force, dense algebra.

Nothing here calls the code it checks: kernels and measures are written out again in NumPy, every
term is enumerated, and posteriors are plain conditioning of joint Gaussians.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray

from oakgp.kernels import KERNELS, CategoricalKernel, Periodic, RadialKernel
from oakgp.kernels.additive import AdditiveKernel, Parameters
from oakgp.kernels.constrained import Feature
from oakgp.kernels.terms import Term, TermSet, term_set
from oakgp.measures import (
    MEASURES,
    Categorical,
    Empirical,
    GaussianMixture,
    Measure,
    MissingAtom,
    Uniform,
    fit_measure,
    gaussian,
)

Array = NDArray[np.float64]


# Elementary symmetric polynomials.


def brute_force_esp(z: Array, max_order: int) -> list[Array]:
    """e_r as the sum over all subsets of size r, ``z [d, ...]``."""
    zero = np.zeros(z.shape[1:], dtype=z.dtype)
    return [
        sum((np.prod(z[list(u)], axis=0) for u in combinations(range(len(z)), r)), zero)
        for r in range(max_order + 1)
    ]


def newton_girard(z: Array, max_order: int) -> list[Array]:
    """e_r from power sums with alternating signs: right on paper, unstable in floats."""
    powers = [np.sum(z**k, axis=0, dtype=z.dtype) for k in range(1, max_order + 1)]
    e = [np.ones(z.shape[1:], dtype=z.dtype)]
    for r in range(1, max_order + 1):
        total = sum((-1) ** (k - 1) * e[r - k] * powers[k - 1] for k in range(1, r + 1))
        e.append((total / r).astype(z.dtype))
    return e


# Kernels.


def kernel_values(
    kernel: RadialKernel, a: Array, b: Array, lengthscale: float, period: float = 1.0
) -> Array:
    """k(a_i, b_j) straight from the formulas; two missing values are one and the same point."""
    gap = np.abs(np.asarray(a)[:, None] - np.asarray(b)[None, :])
    r = gap / lengthscale
    formulas = {
        "squared_exponential": lambda: np.exp(-(r**2) / 2),
        "matern12": lambda: np.exp(-r),
        "matern32": lambda: (1 + math.sqrt(3) * r) * np.exp(-math.sqrt(3) * r),
        "matern52": lambda: (1 + math.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-math.sqrt(5) * r),
        "periodic": lambda: np.exp(-2 * (np.sin(math.pi * gap / period) / lengthscale) ** 2),
    }
    values = formulas[kernel.name]()
    both = np.isnan(a)[:, None] & np.isnan(b)[None, :]
    return np.where(both, 1.0, np.nan_to_num(values, nan=0.0))


# Measures.


def dense_atoms(measure: Measure, panels: int = 600) -> tuple[Array, Array]:
    """Nodes and weights of a much finer quadrature than the measure's own (exact if discrete)."""
    if isinstance(measure, MissingAtom):
        nodes, weights = dense_atoms(measure.base, panels)
        return np.r_[nodes, np.nan], np.r_[(1 - measure.share) * weights, measure.share]
    if isinstance(measure, Empirical):
        return np.array(measure.nodes), np.array(measure.weights)
    if isinstance(measure, Categorical):
        return np.arange(len(measure.weights)) * 1.0, np.array(measure.weights)
    if isinstance(measure, Uniform):
        return _panels(measure.low, measure.high, panels)
    assert isinstance(measure, GaussianMixture)
    parts = []
    for w, mean, variance in zip(measure.weights, measure.means, measure.variances, strict=True):
        grid, mass = _panels(-9.0, 9.0, panels)
        mass = 18.0 * mass * np.exp(-(grid**2) / 2) / math.sqrt(2 * np.pi)
        parts.append((mean + math.sqrt(variance) * grid, w * mass))
    nodes, weights = zip(*parts, strict=True)
    return np.concatenate(nodes), np.concatenate(weights)


def _panels(low: float, high: float, count: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes of many panels; the weights sum to 1."""
    points, mass = np.polynomial.legendre.leggauss(5)
    edges = np.linspace(low, high, count + 1)
    half = np.diff(edges)[:, None] / 2
    nodes = (edges[:-1, None] + half + half * points).ravel()
    return nodes, (half * mass).ravel() / (high - low)


def density(measure: Measure, x: Array) -> Array:
    """Density of a continuous measure."""
    if isinstance(measure, Uniform):
        return ((x >= measure.low) & (x <= measure.high)) / (measure.high - measure.low)
    assert isinstance(measure, GaussianMixture)
    total = np.zeros_like(x)
    for w, mean, variance in zip(measure.weights, measure.means, measure.variances, strict=True):
        total += w * np.exp(-((x - mean) ** 2) / (2 * variance)) / math.sqrt(2 * np.pi * variance)
    return total


def draws(measure: Measure, n: int, rng: np.random.Generator) -> Array:
    """Independent draws from a measure (NaN = missing)."""
    if isinstance(measure, MissingAtom):
        return np.where(rng.random(n) < measure.share, np.nan, draws(measure.base, n, rng))
    if isinstance(measure, Uniform):
        return rng.uniform(measure.low, measure.high, n)
    if isinstance(measure, GaussianMixture):
        which = rng.choice(len(measure.weights), n, p=measure.weights)
        sd = np.sqrt(measure.variances)
        return np.array(measure.means)[which] + sd[which] * rng.standard_normal(n)
    nodes, weights = dense_atoms(measure)
    return rng.choice(nodes, n, p=weights / weights.sum())


def kernel_cases() -> list[RadialKernel]:
    """One of each registered kernel; the periodic one works on phases, so its period is 1."""
    return [kernel() for kernel in KERNELS.values()]


def measure_cases() -> dict[str, Measure]:
    """Each registered measure fitted to a crooked column, and the special ones."""
    rng = np.random.default_rng(11)
    column = np.r_[rng.normal(-1.2, 0.4, 25), rng.normal(0.9, 0.7, 30), [0.3] * 5]
    gaps = np.r_[column, [np.nan] * 9]
    cases = {name: fit_measure(name, column) for name in MEASURES}
    cases |= {f"{name} with missing": fit_measure(name, gaps) for name in MEASURES}
    cases["gaussian"] = gaussian(0.3, 1.7)
    cases["quantile nodes"] = Empirical.fit(rng.standard_normal(3000), max_nodes=40)
    return cases


# Whole models.


@dataclass(frozen=True)
class Problem:
    """A kernel with hyperparameters and a few rows."""

    kernel: AdditiveKernel
    parameters: Parameters
    x: torch.Tensor  # [d, n]
    y: torch.Tensor  # [n]

    @property
    def terms(self) -> list[Term]:
        return all_terms(self.kernel.terms)


def tensor(values: object) -> torch.Tensor:
    return torch.as_tensor(np.asarray(values, dtype=np.float64))


def all_terms(terms: TermSet) -> list[Term]:
    """The allowed terms by asking for each subset of the features in turn."""
    d = terms.n_features
    everything = [u for r in range(d + 1) for u in combinations(range(d), r)]
    return [u for u in everything if u in terms]


def random_parameters(kernel: AdditiveKernel, rng: np.random.Generator) -> Parameters:
    """Hyperparameters of which none is 1."""
    d = kernel.n_features
    tables = [f.kernel for f in kernel.features if isinstance(f.kernel, CategoricalKernel)]
    return Parameters(
        lengthscales=tensor(rng.uniform(0.5, 1.6, d)),
        scales=tensor(rng.uniform(0.4, 2.2, d)),
        order_variances=tensor(rng.uniform(0.3, 1.9, kernel.max_order + 1)),
        noise=tensor(rng.uniform(0.05, 0.2)),
        mixing=tuple(tensor(rng.normal(0, 0.8, (k.n_levels, k.rank))) for k in tables),
        diagonal=tuple(tensor(rng.uniform(0.3, 1.5, k.n_levels)) for k in tables),
    )


def mixed_features() -> tuple[Feature, ...]:
    """One feature of every sort: five numeric kernels and measures, a category, a binary."""
    measures = measure_cases()
    numeric = zip(
        kernel_cases(),
        ("gaussian", "gaussian_mixture with missing", "empirical", "uniform", "empirical"),
        strict=True,
    )
    features = [Feature(f"x{i}", k, measures[m]) for i, (k, m) in enumerate(numeric)]
    features.append(
        Feature("colour", CategoricalKernel(3, 2, True), Categorical((0.5, 0.2, 0.2, 0.1)))
    )
    features.append(Feature("binary", CategoricalKernel(2, 1), Categorical((0.7, 0.3))))
    return tuple(features)


def random_rows(features: Sequence[Feature], n: int, rng: np.random.Generator) -> Array:
    """Encoded rows from the product measure, ``[d, n]``."""
    rows = []
    for feature in features:
        column = draws(feature.measure, n, rng)
        if isinstance(feature.kernel, CategoricalKernel) and feature.kernel.has_missing:
            column = np.where(column == feature.kernel.n_levels, np.nan, column)
        rows.append(np.mod(column, 1.0) if isinstance(feature.kernel, Periodic) else column)
    return np.array(rows).reshape(len(features), n)


def random_problem(
    seed: int,
    n: int = 30,
    features: tuple[Feature, ...] | None = None,
    max_order: int = 3,
    terms: TermSet | None = None,
    orthogonal: bool = True,
) -> Problem:
    rng = np.random.default_rng(seed)
    features = mixed_features() if features is None else features
    kernel = AdditiveKernel(features, terms or term_set(len(features), max_order), orthogonal)
    x = random_rows(features, n, rng)
    y = np.nan_to_num(np.sin(2 * x[0])) + 0.3 * rng.standard_normal(n)
    return Problem(kernel, random_parameters(kernel, rng), tensor(x), tensor(y))


def categorical_table(kernel: CategoricalKernel, w: Array, kappa: Array, p: Array | None) -> Array:
    """The constrained table with its row for unseen levels; ``p=None`` leaves it unconstrained."""
    known = kernel.n_known
    a = np.eye(known)
    a[: kernel.n_levels, : kernel.n_levels] = w @ w.T + np.diag(kappa)
    table = np.zeros((known + 1, known + 1))
    table[:known, :known] = a if p is None else a - np.outer(a @ p, a @ p) / (p @ a @ p)
    table[known, known] = np.mean(np.diag(a))
    return table


def page(problem: Problem, i: int, a: Array, b: Array) -> Array:
    """scale_i k~_i between two columns of encoded values, by the measure's own atoms."""
    kernel, parameters = problem.kernel, problem.parameters
    feature = kernel.features[i]
    scale = float(parameters.scales[i])
    nodes, p = feature.measure.atoms
    if isinstance(feature.kernel, CategoricalKernel):
        k = kernel.categorical.index(i)
        w, kappa = parameters.mixing[k].numpy(), parameters.diagonal[k].numpy()
        table = categorical_table(feature.kernel, w, kappa, p if kernel.orthogonal else None)
        rows, columns = (level_rows(feature.kernel, x) for x in (a, b))
        return scale * table[np.ix_(rows, columns)]
    length = float(parameters.lengthscales[i])
    values = kernel_values(feature.kernel, a, b, length)
    if kernel.orthogonal:
        left, right = (kernel_values(feature.kernel, x, nodes, length) @ p for x in (a, b))
        v = p @ kernel_values(feature.kernel, nodes, nodes, length) @ p
        values = values - np.outer(left, right) / v
    return scale * values


def level_rows(kernel: CategoricalKernel, x: Array) -> NDArray[np.int64]:
    """Table rows of encoded levels, one at a time."""
    rows = []
    for value in x:
        if np.isnan(value):
            rows.append(kernel.n_levels if kernel.has_missing else kernel.n_known)
        else:
            rows.append(int(value) if 0 <= value < kernel.n_levels else kernel.n_known)
    return np.array(rows, dtype=np.int64)


def term_covariance(problem: Problem, term: Term, a: Array, b: Array) -> Array:
    """Prior covariance of one component between encoded rows ``[d, n]`` and ``[d, m]``."""
    total = np.full((a.shape[1], b.shape[1]), float(problem.parameters.order_variances[len(term)]))
    for i in term:
        total = total * page(problem, i, a[i], b[i])
    return total


def covariance(problem: Problem, a: Array, b: Array) -> Array:
    """Prior covariance of the whole function: the sum over all terms."""
    pages = [page(problem, i, x, z) for i, (x, z) in enumerate(zip(a, b, strict=True))]
    total = np.zeros((a.shape[1], b.shape[1]))
    for u in problem.terms:
        level = float(problem.parameters.order_variances[len(u)])
        total += level * np.prod([np.ones_like(total), *(pages[i] for i in u)], axis=0)
    return total


@dataclass(frozen=True)
class DensePosterior:
    """Mean and covariance of a Gaussian vector."""

    mean: Array
    covariance: Array


def exact_posterior(
    problem: Problem, weight: Array, test: Array, term: Term | None = None
) -> DensePosterior:
    """Condition f (or one component) at test rows on all training responses."""
    x = problem.x.numpy()
    cov = covariance if term is None else (lambda p, a, b: term_covariance(p, term, a, b))
    noise = float(problem.parameters.noise) / weight
    gain = np.linalg.solve(covariance(problem, x, x) + np.diag(noise), cov(problem, x, test)).T
    return DensePosterior(
        gain @ problem.y.numpy(), cov(problem, test, test) - gain @ cov(problem, x, test)
    )


def sparse_posterior(
    problem: Problem,
    weight: Array,
    inducing: NDArray[np.int64],
    test: Array,
    term: Term | None = None,
) -> DensePosterior:
    """Condition through inducing values u with the optimal q(u) (Titsias 2009), dense algebra.

    q(u) = N(m, S), S = K_uu (K_uu + K_uf N^-1 K_fu)^-1 K_uu; then f_u given u under the prior.
    """
    x = problem.x.numpy()
    z = x[:, inducing]
    cov = covariance if term is None else (lambda p, a, b: term_covariance(p, term, a, b))
    noise = float(problem.parameters.noise) / weight
    kuu, kuf = covariance(problem, z, z), covariance(problem, z, x)
    kuu = kuu + 1e-8 * np.trace(kuu) / len(kuu) * np.eye(len(kuu))
    inner = np.linalg.inv(kuu + (kuf / noise) @ kuf.T)
    s = kuu @ inner @ kuu
    m = kuu @ inner @ (kuf / noise) @ problem.y.numpy()
    projection = np.linalg.solve(kuu, cov(problem, z, test)).T
    prior = cov(problem, test, test) - projection @ cov(problem, z, test)
    return DensePosterior(projection @ m, prior + projection @ s @ projection.T)


# Sobol indices.


def sobol_page(problem: Problem, i: int, a: Array, b: Array) -> Array:
    """scale_i^2 E[k~_i(X, a) k~_i(X, b)] as a sum over the measure's own atoms."""
    feature = problem.kernel.features[i]
    nodes, p = feature.measure.atoms
    if isinstance(feature.kernel, CategoricalKernel) and feature.kernel.has_missing:
        nodes = np.where(nodes == feature.kernel.n_levels, np.nan, nodes)
    return (page(problem, i, a, nodes) * p) @ page(problem, i, nodes, b)


def term_variances(problem: Problem, anchors: Array, weights: Array) -> dict[Term, float]:
    """Var of each component of sum_j weights_j K(., anchor_j), all terms one by one."""
    pages = [sobol_page(problem, i, row, row) for i, row in enumerate(anchors)]
    sigma2 = problem.parameters.order_variances.numpy()
    out: dict[Term, float] = {}
    for u in problem.terms:
        if u:
            product = np.prod([pages[i] for i in u], axis=0)
            out[u] = float(sigma2[len(u)] ** 2 * weights @ product @ weights)
    return out
