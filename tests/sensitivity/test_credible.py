"""Uncertain Sobol indices: expectations and draws against draws of the functions themselves."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from tests.references import (
    Problem,
    exact_posterior,
    kernel_cases,
    measure_cases,
    mixed_features,
    random_problem,
    tensor,
)

from oakgp.inference import exact, sparse
from oakgp.inference.data import TrainingData
from oakgp.kernels import CategoricalKernel
from oakgp.kernels.constrained import Feature
from oakgp.kernels.terms import Term
from oakgp.measures import Categorical
from oakgp.posterior import KernelPosterior
from oakgp.sensitivity import (
    expected_totals,
    posterior_variances,
    sample_variances,
    top_terms,
)

MEASURES = measure_cases()


def posterior_of(p: Problem, engine: str = "exact") -> KernelPosterior:
    data = TrainingData(p.x, p.y, torch.ones_like(p.y), 0.0)
    if engine == "exact":
        return exact.posterior(p.kernel, p.parameters, data)[0]
    return sparse.posterior(p.kernel, p.parameters, data, torch.arange(0, len(p.y), 2))[0]


def main_effect_draws(posterior: KernelPosterior, i: int, n: int, seed: int) -> np.ndarray:
    """Variances of a main effect: draws of the function on the nodes, weighted by their mass."""
    feature = posterior.kernel.features[i]
    nodes, weights = feature.measure.atoms
    if isinstance(feature.kernel, CategoricalKernel) and feature.kernel.has_missing:
        nodes = np.where(nodes == feature.kernel.n_levels, np.nan, nodes)
    x = torch.zeros((posterior.kernel.n_features, len(nodes)), dtype=torch.float64)
    x[i] = tensor(nodes)
    draws = posterior.sample(x, n, seed, term=(i,)).numpy()
    return draws**2 @ weights


@pytest.mark.parametrize("engine", ["exact", "sparse"])
def test_expected_variance_of_main_effects_against_draws(engine: str) -> None:
    p = random_problem(1, 25)
    posterior = posterior_of(p, engine)
    terms: list[Term] = [(i,) for i in range(7)]
    expected = posterior_variances(posterior, terms).numpy()
    for i in range(7):
        sampled = main_effect_draws(posterior, i, 3000, seed=i)
        error = sampled.std() / np.sqrt(3000)
        # The Cholesky factor of nodes that lie close together needs jitter: a little is allowed.
        assert expected[i] == pytest.approx(sampled.mean(), abs=4.5 * error + 2e-3)


def test_expected_variance_is_that_of_the_mean_plus_the_mean_of_the_variance() -> None:
    """E[V_u] = V_u(mean) + E_x[var f_u(x)], each by sums over the measures' atoms."""
    p = random_problem(2, 20)
    posterior = posterior_of(p)
    plug_in = dict(top_terms(posterior, 1000))
    terms: list[Term] = [(0,), (2,), (5,), (6,), (5, 6)]
    got = posterior_variances(posterior, terms)
    for term, value in zip(terms, got.tolist(), strict=True):
        grids = [p.kernel.features[i].measure.atoms for i in term]
        mesh = np.meshgrid(*(g[0] for g in grids), indexing="ij")
        mass = np.ones(1)
        for _, weights in grids:
            mass = np.outer(mass, weights).ravel()
        x = torch.zeros((7, mesh[0].size), dtype=torch.float64)
        for i, column in zip(term, mesh, strict=True):
            x[i] = tensor(np.where((i == 5) & (column == 3), np.nan, column).ravel())
        spread = np.diag(exact_posterior(p, np.ones(20), x.numpy(), term).covariance)
        assert value == pytest.approx(plug_in[term] + mass @ spread, rel=1e-6)


@pytest.mark.parametrize("engine", ["exact", "sparse"])
def test_draws_agree_with_the_expectations(engine: str) -> None:
    p = random_problem(3, 25)
    posterior = posterior_of(p, engine)
    terms: list[Term] = [(0,), (2,), (3,), (5,), (6,), (0, 2), (3, 6), (0, 5, 6)]
    expected = posterior_variances(posterior, terms).numpy()
    draws = sample_variances(posterior, terms, 4000, seed=2).numpy()
    assert draws.shape == (4000, 8)
    assert (draws >= 0).all()
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - expected) < 4.5 * error + 1e-4 * expected).all()


@pytest.mark.parametrize("i", [0, 2, 3, 5, 6])
def test_draws_have_the_distribution_of_the_functions_variances(i: int) -> None:
    """Quantiles against those of function draws on the nodes."""
    p = random_problem(4, 25)
    posterior = posterior_of(p)
    one = sample_variances(posterior, [(i,), (0, 6)], 4000, seed=0)[:, 0].numpy()
    other = main_effect_draws(posterior, i, 4000, seed=1)
    levels = (0.1, 0.5, 0.9)
    scale = float(np.subtract(*np.quantile(other, [0.9, 0.1])))
    got, truth = np.quantile(one, levels), np.quantile(other, levels)
    np.testing.assert_allclose(got, truth, atol=0.12 * scale)


def test_draws_of_different_terms_are_joint() -> None:
    """Twins share their effect: when one draw is large the other is small."""
    features = mixed_features()[:1] * 2
    p = random_problem(5, 40, features=features, max_order=1)
    x = p.x.clone()
    x[1] = x[0]
    posterior = posterior_of(Problem(p.kernel, p.parameters, x, 8 * torch.sin(2 * x[0])))
    draws = sample_variances(posterior, [(0,), (1,)], 1000, seed=0).numpy()
    assert np.corrcoef(draws.T)[0, 1] < -0.5


def test_draws_are_seeded() -> None:
    posterior = posterior_of(random_problem(6, 15))
    terms: list[Term] = [(0,), (1, 5)]
    one, same, other = (sample_variances(posterior, terms, 5, seed) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_intervals_cover_functions_drawn_from_the_prior() -> None:
    """Calibration: over many functions from the model, the truth is at a uniform quantile."""
    features = (mixed_features()[0], mixed_features()[6])
    p = random_problem(7, 20, features=features, max_order=2)
    nodes, weights = features[0].measure.atoms
    grid = torch.zeros((2, len(nodes)), dtype=torch.float64)
    grid[0] = tensor(nodes)
    data = TrainingData(p.x, torch.zeros_like(p.y), torch.ones_like(p.y), 0.0)
    rng = np.random.default_rng(0)
    inside = []
    both = torch.cat([p.x, grid], dim=1)
    kernel, parameters = p.kernel, p.parameters
    w, points = kernel.weights(parameters), kernel.points(parameters, both)
    total = kernel.matrix(w, points).numpy()
    # Joint prior of f at the rows and of f_0 at the nodes: Cov(f, f_0) = Cov(f_0, f_0).
    main = kernel.term_matrix(w, (0,), points).numpy()
    n = p.x.shape[1]
    joint = main.copy()
    joint[:n, :n] = total[:n, :n]
    values, vectors = np.linalg.eigh(joint)
    root = vectors * np.sqrt(np.clip(values, 0, None))
    for trial in range(60):
        f = root @ rng.standard_normal(len(root))
        y = f[:n] + np.sqrt(float(parameters.noise)) * rng.standard_normal(n)
        trained = TrainingData(data.x, tensor(y), data.weight, 0.0)
        posterior, _ = exact.posterior(kernel, parameters, trained)
        draws = sample_variances(posterior, [(0,)], 300, seed=trial)[:, 0].numpy()
        low, high = np.quantile(draws, [0.1, 0.9])
        inside.append(low <= weights @ f[n:] ** 2 <= high)
    assert 0.8 - 4 * np.sqrt(0.16 / 60) < np.mean(inside) < 0.8 + 4 * np.sqrt(0.16 / 60)


@pytest.mark.parametrize("kernel", kernel_cases(), ids=lambda k: k.name)
@pytest.mark.parametrize("name", ["gaussian", "empirical with missing", "uniform with missing"])
def test_series_of_every_pair_carries_the_variance(kernel: object, name: str) -> None:
    """The eigenfunctions hold nearly all of a component; the draws' mean says what is lost."""
    features = (
        Feature("x", kernel, MEASURES[name]),
        Feature("c", CategoricalKernel(3, 2), Categorical((0.5, 0.3, 0.2))),
    )
    posterior = posterior_of(random_problem(8, 20, features=features, max_order=2))
    terms: list[Term] = [(0,), (1,), (0, 1)]
    expected = posterior_variances(posterior, terms).numpy()
    draws = sample_variances(posterior, terms, 3000, seed=0).numpy()
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - expected) < 4.5 * error + 5e-3 * expected).all()


@pytest.mark.parametrize("engine", ["exact", "sparse"])
def test_expected_totals_are_the_sums_over_all_terms(engine: str) -> None:
    p = random_problem(8, 20, max_order=3)
    posterior = posterior_of(p, engine)
    terms: list[Term] = [u for r in (1, 2, 3) for u in combinations(range(7), r)]
    values = posterior_variances(posterior, terms).numpy()
    totals = expected_totals(posterior)
    for r in (1, 2, 3):
        truth = sum(v for u, v in zip(terms, values, strict=True) if len(u) == r)
        assert float(totals.orders[r]) == pytest.approx(truth, rel=1e-9)
    for i in range(7):
        truth = sum(v for u, v in zip(terms, values, strict=True) if i in u)
        assert float(totals.main[i]) == pytest.approx(values[i], rel=1e-9)
        assert float(totals.total[i]) == pytest.approx(truth, rel=1e-9)
    assert totals.variance == pytest.approx(values.sum(), rel=1e-9)


def test_an_indefinite_covariance_gives_draws_all_the_same() -> None:
    """Rounding leaves eigenvalues a little below 0 where the data determine everything."""
    p = random_problem(9, 15)
    posterior = posterior_of(p)
    shaken = replace(posterior, whitener=posterior.whitener * (1 + 1e-6))
    terms: list[Term] = [(0,), (2,), (0, 2)]
    draws = sample_variances(shaken, terms, 50, seed=0)
    assert bool(torch.isfinite(draws).all())
    truth = sample_variances(posterior, terms, 50, seed=0).mean(dim=0)
    torch.testing.assert_close(draws.mean(dim=0), truth, rtol=0.3, atol=1e-3)
