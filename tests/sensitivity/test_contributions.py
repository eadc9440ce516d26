"""Components at many rows, against the posterior's own way, one component at a time."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from tests.references import Problem, measure_cases, random_problem, random_rows, tensor

from oakgp.inference import exact, sparse
from oakgp.inference.data import TrainingData
from oakgp.kernels import Matern12, SquaredExponential
from oakgp.kernels.constrained import Feature
from oakgp.kernels.terms import Term
from oakgp.posterior import KernelPosterior
from oakgp.sensitivity.contributions import component_moments
from oakgp.sensitivity.factors import factor


def posterior_of(p: Problem, engine: str = "exact") -> KernelPosterior:
    data = TrainingData(p.x, p.y, torch.ones_like(p.y), 0.0)
    if engine == "exact":
        return exact.posterior(p.kernel, p.parameters, data)[0]
    return sparse.posterior(p.kernel, p.parameters, data, torch.arange(0, len(p.y), 2))[0]


def terms_up_to_three(d: int) -> list[Term]:
    mains: list[Term] = [(i,) for i in range(d)]
    return [(), *mains, *combinations(range(d), 2), (0, 1, 2), (0, 5, 6), (1, 4, 6)]


@pytest.mark.parametrize("engine", ["exact", "sparse"])
@pytest.mark.parametrize("n", [0, 3, 200])
def test_moments_are_those_of_the_posterior(n: int, engine: str) -> None:
    """Features of every sort: rough and smooth, periodic, with missing values, categories."""
    p = random_problem(2, 60)
    posterior = posterior_of(p, engine)
    rows = tensor(random_rows(p.kernel.features, n, np.random.default_rng(3)))
    if n:
        rows[5, 0], rows[6, 1], rows[0, 2] = -1.0, np.nan, np.nan  # unseen, missing at first
    terms = terms_up_to_three(7)
    mean, variance = component_moments(posterior, rows, terms)
    assert mean.shape == variance.shape == (len(terms), n)
    for k, term in enumerate(terms):
        true_mean, true_variance = posterior.mean_and_variance(rows, term)
        np.testing.assert_allclose(mean[k], true_mean, atol=1e-10)
        np.testing.assert_allclose(variance[k].sqrt(), true_variance.sqrt(), rtol=2e-4, atol=1e-8)


def test_values_far_from_all_others_are_as_exact_as_those_between() -> None:
    p = random_problem(4, 80)
    posterior = posterior_of(p)
    rows = tensor(random_rows(p.kernel.features, 400, np.random.default_rng(3)))
    rows[0, :3] = tensor([7.0, -9.0, 40.0])
    mean, variance = component_moments(posterior, rows, [(0,), (0, 5)])
    for k, term in enumerate([(0,), (0, 5)]):
        true_mean, true_variance = posterior.mean_and_variance(rows, term)
        np.testing.assert_allclose(mean[k], true_mean, atol=1e-10)
        np.testing.assert_allclose(variance[k].sqrt(), true_variance.sqrt(), rtol=2e-4)


def test_a_model_that_is_not_orthogonal_has_components_too() -> None:
    p = random_problem(2, 40, orthogonal=False)
    posterior = posterior_of(p)
    rows = tensor(random_rows(p.kernel.features, 100, np.random.default_rng(3)))
    mean, variance = component_moments(posterior, rows, [(0,), (2, 5)])
    for k, term in enumerate([(0,), (2, 5)]):
        true_mean, true_variance = posterior.mean_and_variance(rows, term)
        np.testing.assert_allclose(mean[k], true_mean, atol=1e-10)
        np.testing.assert_allclose(variance[k].sqrt(), true_variance.sqrt(), rtol=2e-4)


def test_a_factor_reproduces_the_kernel() -> None:
    measure = measure_cases()["gaussian"]
    features = (
        Feature("smooth", SquaredExponential(), measure),
        Feature("rough", Matern12(), measure),
    )
    p = random_problem(1, 300, features=features, max_order=2)
    posterior = posterior_of(p)
    rows = tensor(random_rows(features, 500, np.random.default_rng(4)))
    found = factor(posterior, rows[0], 0)
    assert found is not None
    assert len(found.at_rows) < 60
    points = posterior.features.points(rows)
    level = posterior.features.weights.order_variances[1]
    kernel = posterior.features.features(points, [(0,)]) / level
    np.testing.assert_allclose(found.at_rows.T @ found.at_anchors, kernel, atol=1e-10)
    np.testing.assert_allclose(
        found.diagonal, posterior.features.prior(points, [(0,)]) / level, atol=1e-12
    )
    assert factor(posterior, rows[1], 1) is None
