"""The one posterior: components sum to the function, variances, draws, kept terms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.references import (
    DensePosterior,
    Problem,
    covariance,
    exact_posterior,
    random_problem,
    random_rows,
    tensor,
    term_covariance,
)

from oakgp.inference import exact, sparse
from oakgp.inference.data import TrainingData
from oakgp.kernels.terms import term_set
from oakgp.posterior import KernelPosterior

TERMS = {
    "orders up to 3": term_set(7, 3),
    "forbidden and forced": term_set(7, 2, forbidden=[(0, 5)], forced=[(1, 2, 6)]),
}


def fit_exact(p: Problem) -> KernelPosterior:
    data = TrainingData(p.x, p.y, torch.ones_like(p.y), 0.0)
    return exact.posterior(p.kernel, p.parameters, data)[0]


def fit_sparse(p: Problem) -> KernelPosterior:
    data = TrainingData(p.x, p.y, torch.ones_like(p.y), 0.0)
    inducing = torch.arange(0, len(p.y), 3)
    return sparse.posterior(p.kernel, p.parameters, data, inducing)[0]


engines = pytest.mark.parametrize("fit", [fit_exact, fit_sparse])
Fit = Callable[[Problem], KernelPosterior]


def rows(p: Problem, n: int = 15, seed: int = 3) -> torch.Tensor:
    x = random_rows(p.kernel.features, n, np.random.default_rng(seed))
    x[:3, 0] = np.nan
    x[5:, 1] = -1.0
    x[:4, 2] = 1e6
    return tensor(x)


@engines
@pytest.mark.parametrize("name", list(TERMS))
def test_components_and_constant_sum_to_the_mean(fit: Fit, name: str) -> None:
    p = random_problem(1, 40, terms=TERMS[name])
    posterior, x = fit(p), rows(p)
    total = sum(posterior.mean(x, u) for u in p.terms)
    np.testing.assert_allclose(total, posterior.mean(x), atol=1e-8)
    assert float(posterior.mean(x, ())[0]) == pytest.approx(posterior.constant()[0], abs=1e-12)


@engines
def test_variances_are_between_zero_and_the_prior(fit: Fit) -> None:
    p = random_problem(2, 40)
    posterior, x = fit(p), torch.cat([p.x, rows(p)], dim=1)
    points = posterior.features.points(x)
    for term in [None, *p.terms]:
        _, variance = posterior.mean_and_variance(x, term)
        prior = posterior.features.prior(points, None if term is None else (term,))
        assert bool((variance >= 0).all())
        assert bool((variance <= prior + 1e-9).all())
        np.testing.assert_allclose(
            variance, posterior.covariance(x, term=term).diagonal(), atol=1e-9
        )
    assert posterior.constant()[1] >= 0


@engines
def test_a_component_depends_on_its_own_features_only(fit: Fit) -> None:
    p = random_problem(3, 30)
    posterior, x = fit(p), rows(p)
    other = rows(p, seed=9)
    other[[0, 5]] = x[[0, 5]]
    for got, truth in zip(
        posterior.mean_and_variance(other, (0, 5)),
        posterior.mean_and_variance(x, (0, 5)),
        strict=True,
    ):
        np.testing.assert_allclose(got, truth, atol=1e-10)


@engines
def test_components_integrate_to_zero_under_their_measures(fit: Fit) -> None:
    p = random_problem(4, 30)
    posterior = fit(p)
    for i, feature in enumerate(p.kernel.features):
        nodes, weights = feature.measure.atoms
        x = torch.zeros((7, len(nodes)), dtype=torch.float64)
        if feature.is_categorical:
            nodes = np.where(nodes == feature.kernel.n_levels, np.nan, nodes)
        x[i] = tensor(nodes)
        assert float(posterior.mean(x, (i,)) @ tensor(weights)) == pytest.approx(0.0, abs=1e-7)
        other = (i + 3) % 7
        pair = tuple(sorted((i, other)))
        assert float(posterior.mean(x, pair) @ tensor(weights)) == pytest.approx(0.0, abs=1e-7)


@engines
def test_keep_sums_over_the_kept_terms_and_the_constant(fit: Fit) -> None:
    p = random_problem(5, 30)
    posterior, x = fit(p), rows(p)
    terms = [(0,), (5, 1), (0, 3, 6)]
    kept = posterior.keep(terms)
    assert kept.kept == ((), (0,), (1, 5), (0, 3, 6))
    truth = sum(posterior.mean(x, u) for u in kept.kept)
    np.testing.assert_allclose(kept.mean(x), truth, atol=1e-9)
    mean, variance = kept.mean_and_variance(x)
    np.testing.assert_allclose(mean, truth, atol=1e-9)
    assert bool((variance >= 0).all())
    np.testing.assert_allclose(variance, kept.covariance(x).diagonal(), atol=1e-9)
    # Single components, the original, and the way back are as they were.
    np.testing.assert_array_equal(kept.mean(x, (2,)), posterior.mean(x, (2,)))
    assert posterior.kept is None
    np.testing.assert_array_equal(kept.keep(None).mean(x), posterior.mean(x))


def test_kept_terms_have_the_covariance_of_their_sum() -> None:
    """Components are correlated a posteriori: the variance of a sum is not the sum of variances."""
    p = random_problem(6, 25)
    posterior, x = fit_exact(p), rows(p).numpy()
    terms = [(), (0,), (1,), (0, 5)]
    kept = posterior.keep(terms)

    def cov(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.sum([term_covariance(p, u, a, b) for u in terms], axis=0)

    train = p.x.numpy()
    noise = float(p.parameters.noise) * np.eye(25)
    gain = np.linalg.solve(covariance(p, train, train) + noise, cov(train, x)).T
    np.testing.assert_allclose(
        kept.covariance(tensor(x)), cov(x, x) - gain @ cov(train, x), atol=1e-8
    )


@engines
def test_keeping_all_terms_changes_nothing(fit: Fit) -> None:
    p = random_problem(7, 25, max_order=2)
    posterior, x = fit(p), rows(p)
    kept = posterior.keep(p.terms)
    for got, truth in zip(kept.mean_and_variance(x), posterior.mean_and_variance(x), strict=True):
        np.testing.assert_allclose(got, truth, atol=1e-8)


@engines
def test_the_order_of_rows_is_irrelevant(fit: Fit) -> None:
    p = random_problem(8, 25)
    posterior, x = fit(p), rows(p)
    order = torch.tensor(np.random.default_rng(0).permutation(x.shape[1]))
    for term in (None, (0, 2)):
        mean, variance = posterior.mean_and_variance(x, term)
        moved = posterior.mean_and_variance(x[:, order], term)
        np.testing.assert_allclose(moved[0], mean[order], atol=1e-10)
        np.testing.assert_allclose(moved[1], variance[order], atol=1e-10)


def test_the_order_of_training_rows_is_irrelevant() -> None:
    p = random_problem(9, 25)
    order = torch.tensor(np.random.default_rng(1).permutation(25))
    other = Problem(p.kernel, p.parameters, p.x[:, order], p.y[order])
    x = rows(p)
    for got, truth in zip(
        fit_exact(other).mean_and_variance(x), fit_exact(p).mean_and_variance(x), strict=True
    ):
        np.testing.assert_allclose(got, truth, atol=1e-9)


@pytest.mark.parametrize("term", [None, (0,), (1, 5)])
def test_draws_have_the_posteriors_moments(term: tuple[int, ...] | None) -> None:
    p = random_problem(10, 30)
    posterior = fit_exact(p)
    x = random_rows(p.kernel.features, 6, np.random.default_rng(2))
    truth: DensePosterior = exact_posterior(p, np.ones(30), x, term)
    n = 40_000
    draws = posterior.sample(tensor(x), n, seed=5, term=term).numpy()
    assert draws.shape == (n, 6)
    sd = np.sqrt(np.diag(truth.covariance))
    assert (np.abs(draws.mean(axis=0) - truth.mean) < 5 * sd / np.sqrt(n) + 1e-6).all()
    bound = 5 * np.outer(sd, sd) * np.sqrt(2 / n)
    assert (np.abs(np.cov(draws.T) - truth.covariance) < bound + 1e-6).all()


def test_draws_are_seeded_and_joint() -> None:
    p = random_problem(11, 20)
    posterior = fit_exact(p)
    x = rows(p)[:, :4].repeat(1, 2)  # each row twice
    one, same, other = (posterior.sample(x, 3, seed) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    np.testing.assert_allclose(one[:, :4], one[:, 4:], atol=1e-3)


@engines
def test_no_rows_give_empty_answers(fit: Fit) -> None:
    posterior = fit(random_problem(12, 10))
    x = torch.empty((7, 0), dtype=torch.float64)
    assert posterior.mean(x).shape == (0,)
    assert [t.shape for t in posterior.mean_and_variance(x)] == [(0,), (0,)]


def test_large_predictions_come_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    p = random_problem(13, 20)
    posterior, x = fit_exact(p), rows(p)
    whole = posterior.mean_and_variance(x)
    monkeypatch.setattr("oakgp.posterior.kernel._BATCH_ENTRIES", 41)  # two rows at a time
    np.testing.assert_allclose(posterior.mean(x), whole[0], atol=1e-12)
    for got, truth in zip(posterior.mean_and_variance(x), whole, strict=True):
        np.testing.assert_allclose(got, truth, atol=1e-12)
