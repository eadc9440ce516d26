"""Shapley values against coalitions, dense algebra and another library."""

from __future__ import annotations

from itertools import chain, combinations, product
from math import factorial

import numpy as np
import pytest
import torch
from tests.references import (
    Problem,
    covariance,
    random_problem,
    random_rows,
    tensor,
    term_covariance,
)

from oakgp.inference import exact, sparse
from oakgp.inference.data import TrainingData
from oakgp.kernels import CategoricalKernel, Matern32, SquaredExponential
from oakgp.kernels.constrained import Feature
from oakgp.kernels.terms import Term, TermSet, term_set
from oakgp.measures import Categorical, Empirical
from oakgp.posterior import KernelPosterior
from oakgp.sensitivity.shapley import shapley_covariance, shapley_moments

TERMS = {
    "order 1": term_set(7, 1),
    "orders up to 3": term_set(7, 3),
    "all orders": term_set(7, 7),
    "forbidden feature": term_set(7, 3, forbidden=[(1,)]),
    "forbidden and forced": term_set(7, 2, forbidden=[(0, 5)], forced=[(1, 2, 6), (0, 5)]),
    "only with the first": term_set(7, 3, forbidden=[(1, 2), (3, 4), (5, 6), (1, 6)]),
}


def posterior_of(p: Problem) -> KernelPosterior:
    data = TrainingData(p.x, p.y, torch.ones_like(p.y), 0.0)
    return exact.posterior(p.kernel, p.parameters, data)[0]


def dense(p: Problem, row: np.ndarray, kept: list[Term]) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of all features' Shapley values at one row: all components jointly."""
    x, row = p.x.numpy(), row[:, None]
    terms = [u for u in kept if u]
    prior = np.diag([float(term_covariance(p, u, row, row)[0, 0]) for u in terms])
    cross = np.column_stack([term_covariance(p, u, x, row)[:, 0] for u in terms])
    k = covariance(p, x, x) + float(p.parameters.noise) * np.eye(x.shape[1])
    gain = np.linalg.solve(k, cross).T
    shares = np.array([[(i in u) / len(u) for u in terms] for i in range(len(x))])
    return (
        shares @ gain @ p.y.numpy(),
        shares @ (prior - gain @ cross) @ shares.T,
    )


@pytest.mark.parametrize("name", list(TERMS))
def test_moments_equal_dense_algebra(name: str) -> None:
    p = random_problem(3, 25, terms=TERMS[name])
    posterior = posterior_of(p)
    rows = random_rows(p.kernel.features, 4, np.random.default_rng(5))
    mean, variance = shapley_moments(posterior, tensor(rows))
    joint = shapley_covariance(posterior, tensor(rows))
    for n, row in enumerate(rows.T):
        true_mean, true_covariance = dense(p, row, p.terms)
        np.testing.assert_allclose(mean[:, n], true_mean, atol=1e-9)
        np.testing.assert_allclose(variance[:, n], np.diag(true_covariance), atol=1e-9)
        np.testing.assert_allclose(joint[n], true_covariance, atol=1e-9)


def test_a_truncated_posterior_counts_the_kept_terms_only() -> None:
    p = random_problem(4, 25)
    kept: list[Term] = [(), (0,), (2, 5), (1, 2, 6)]
    posterior = posterior_of(p).keep(kept)
    rows = random_rows(p.kernel.features, 3, np.random.default_rng(6))
    mean, variance = shapley_moments(posterior, tensor(rows))
    joint = shapley_covariance(posterior, tensor(rows))
    for n, row in enumerate(rows.T):
        true_mean, true_covariance = dense(p, row, kept)
        np.testing.assert_allclose(mean[:, n], true_mean, atol=1e-9)
        np.testing.assert_allclose(variance[:, n], np.diag(true_covariance), atol=1e-9)
        np.testing.assert_allclose(joint[n], true_covariance, atol=1e-9)
    nothing = posterior.keep([])
    assert not shapley_moments(nothing, tensor(rows))[0].any()
    assert not shapley_covariance(nothing, tensor(rows)).any()


def test_values_sum_to_the_function_less_its_mean_and_so_do_their_covariances() -> None:
    p = random_problem(5, 60)
    data = TrainingData(p.x, p.y, torch.ones_like(p.y), 0.0)
    posterior, _ = sparse.posterior(p.kernel, p.parameters, data, torch.arange(0, 60, 3))
    rows = tensor(random_rows(p.kernel.features, 50, np.random.default_rng(7)))
    rows[5, 0] = -1.0  # an unseen level
    mean, _ = shapley_moments(posterior, rows)
    expected = posterior.mean(rows) - posterior.mean(rows, ())
    np.testing.assert_allclose(mean.sum(dim=0), expected, atol=1e-10)
    # f less the constant is the model of all other terms.
    others = [u for u in p.terms if u]
    psi = posterior.features.features(posterior.features.points(rows), others)
    prior = posterior.features.prior(posterior.features.points(rows), others)
    variance = prior - ((psi @ posterior.whitener.T) ** 2).sum(dim=1)
    joint = shapley_covariance(posterior, rows)
    np.testing.assert_allclose(joint.sum(dim=(1, 2)), variance, atol=1e-10)


def test_batches_do_not_change_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    p = random_problem(5, 30)
    posterior = posterior_of(p)
    rows = tensor(random_rows(p.kernel.features, 9, np.random.default_rng(7)))
    whole = *shapley_moments(posterior, rows), shapley_covariance(posterior, rows)
    monkeypatch.setattr("oakgp.sensitivity.shapley._BATCH_ENTRIES", 7 * 30 * 2)
    parts = *shapley_moments(posterior, rows), shapley_covariance(posterior, rows)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    assert shapley_moments(posterior, rows[:, :0])[1].shape == (7, 0)
    assert shapley_covariance(posterior, rows[:, :0]).shape == (0, 7, 7)


# Coalitions.


def few_values(d: int, weights: tuple[float, ...] = (0.5, 0.2, 0.3)) -> tuple[Feature, ...]:
    """Features of three values each, so that an expectation is a sum over 3^d rows."""
    features = [
        Feature(
            f"x{i}",
            Matern32() if i % 2 else SquaredExponential(),
            Empirical((-1.0 - 0.1 * i, 0.2, 1.1 + 0.2 * i), weights),
        )
        for i in range(d - 1)
    ]
    features.append(Feature("level", CategoricalKernel(3, 2), Categorical(weights)))
    return tuple(features)


def background(features: tuple[Feature, ...]) -> tuple[np.ndarray, np.ndarray]:
    """All rows of the product measure ``[d, 3^d]``, and their probabilities."""
    atoms = [feature.measure.atoms for feature in features]
    rows = np.array(list(product(*(nodes for nodes, _ in atoms)))).T
    mass = np.array([np.prod(w) for w in product(*(weights for _, weights in atoms))])
    return rows, mass


def coalition_values(posterior: KernelPosterior, row: np.ndarray) -> np.ndarray:
    """Shapley values by their definition: E[f | x_S] for every coalition S of the features."""
    rows, mass = background(posterior.kernel.features)
    d = len(row)
    worth = {}
    for s in chain.from_iterable(combinations(range(d), r) for r in range(d + 1)):
        mixed = rows.copy()
        mixed[list(s)] = row[list(s), None]
        worth[s] = float(mass @ posterior.mean(tensor(mixed)).numpy())
    values = np.zeros(d)
    for s, value in worth.items():
        for i in range(d):
            if i not in s:
                weight = factorial(len(s)) * factorial(d - len(s) - 1) / factorial(d)
                values[i] += weight * (worth[tuple(sorted((*s, i)))] - value)
    return values


@pytest.mark.parametrize("terms", [None, term_set(6, 3, forbidden=[(0, 2)], forced=[(0, 2, 3, 5)])])
def test_values_equal_brute_force_over_all_coalitions(terms: TermSet | None) -> None:
    p = random_problem(6, 30, features=few_values(6), max_order=6, terms=terms)
    posterior = posterior_of(p)
    rows = random_rows(p.kernel.features, 2, np.random.default_rng(8))
    rows[0] += 0.3  # between the values of the measure
    found, _ = shapley_moments(posterior, tensor(rows))
    for n, row in enumerate(rows.T):
        np.testing.assert_allclose(found[:, n], coalition_values(posterior, row), atol=1e-9)


@pytest.mark.filterwarnings("ignore")  # of that library, about others
def test_values_equal_those_of_shap_under_an_independent_background() -> None:
    thirds = (1 / 3, 1 / 3, 1 / 3)
    p = random_problem(9, 30, features=few_values(4, thirds), max_order=4)
    posterior = posterior_of(p)
    rows, _ = background(p.kernel.features)

    def predict(x: np.ndarray) -> np.ndarray:
        return posterior.mean(tensor(x.T)).numpy()

    test = random_rows(p.kernel.features, 3, np.random.default_rng(10))
    test[0] -= 0.2
    shap = pytest.importorskip("shap")
    explainer = shap.KernelExplainer(predict, rows.T)
    theirs = explainer.shap_values(test.T, silent=True)
    ours, _ = shapley_moments(posterior, tensor(test))
    np.testing.assert_allclose(ours.T, theirs, atol=1e-6)


def test_a_model_that_is_not_orthogonal_is_refused() -> None:
    p = random_problem(1, 10, orthogonal=False)
    with pytest.raises(ValueError, match="need orthogonal components"):
        shapley_moments(posterior_of(p), p.x)
    with pytest.raises(ValueError, match="need orthogonal components"):
        shapley_covariance(posterior_of(p), p.x)
