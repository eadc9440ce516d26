"""The sparse bound and its posterior against the exact ones and dense algebra."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from tests.references import (
    Problem,
    covariance,
    exact_posterior,
    mixed_features,
    random_problem,
    random_rows,
    sparse_posterior,
    tensor,
)

from oakgp.inference import exact, sparse
from oakgp.inference.data import TrainingData
from oakgp.inference.inducing import greedy_inducing
from oakgp.inference.space import ParameterSpace
from oakgp.kernels.terms import term_set

TERMS = {
    "orders up to 3": term_set(7, 3),
    "forbidden and forced": term_set(7, 2, forbidden=[(0, 5)], forced=[(1, 2, 6)]),
}


def weighted(p: Problem, within: float = 0.0) -> TrainingData:
    weight = np.random.default_rng(1).uniform(0.3, 4.0, len(p.y))
    return TrainingData(p.x, p.y, tensor(weight), within)


def all_rows(p: Problem) -> torch.Tensor:
    return torch.arange(len(p.y))


@pytest.mark.parametrize("name", list(TERMS))
def test_bound_equals_its_formula(name: str) -> None:
    """log N(y; 0, Q + S) - tr(S^-1 (K - Q)) / 2, written out with dense matrices."""
    p = random_problem(1, 25, terms=TERMS[name])
    data = weighted(p, within=0.6)
    inducing = torch.tensor([3, 0, 17, 8, 21, 5])
    x = p.x.numpy()
    z = x[:, inducing]
    kuu, kuf, kff = covariance(p, z, z), covariance(p, z, x), covariance(p, x, x)
    q = kuf.T @ np.linalg.solve(kuu, kuf)
    noise = float(p.parameters.noise) / data.weight.numpy()
    truth = multivariate_normal(np.zeros(25), q + np.diag(noise)).logpdf(p.y.numpy())
    truth += -0.5 * float(np.sum(np.diag(kff - q) / noise))
    truth += float(data.replicate_term(p.parameters.noise))
    got = float(sparse.negative_bound(p.kernel, p.parameters, data, inducing))
    assert got == pytest.approx(-truth, rel=1e-6)


def test_bound_is_below_the_evidence_and_more_points_never_worsen_it() -> None:
    p = random_problem(2, 40)
    data = weighted(p)
    order = torch.tensor(np.random.default_rng(0).permutation(40))
    bounds = [
        -float(sparse.negative_bound(p.kernel, p.parameters, data, order[:m]))
        for m in range(1, 41, 3)
    ]
    evidence = -float(exact.negative_evidence(p.kernel, p.parameters, data))
    assert (np.diff(bounds) > -1e-6).all()
    assert bounds[0] < bounds[-1] <= evidence + 1e-6


def test_all_rows_as_inducing_points_give_the_exact_engine() -> None:
    """To 1e-5 of either: the jitter of K_uu is what is left."""
    p = random_problem(3, 30)
    data = weighted(p, within=0.4)
    one = float(sparse.negative_bound(p.kernel, p.parameters, data, all_rows(p)))
    other = float(exact.negative_evidence(p.kernel, p.parameters, data))
    assert one == pytest.approx(other, rel=1e-5)
    a, _ = sparse.posterior(p.kernel, p.parameters, data, all_rows(p))
    b, _ = exact.posterior(p.kernel, p.parameters, data)
    test = tensor(random_rows(p.kernel.features, 12, np.random.default_rng(4)))
    for term in (None, (), (1,), (5,), (0, 6), (0, 3, 5)):
        for got, truth in zip(
            a.mean_and_variance(test, term), b.mean_and_variance(test, term), strict=True
        ):
            np.testing.assert_allclose(got, truth, atol=1e-5)
        np.testing.assert_allclose(
            a.covariance(test, term=term), b.covariance(test, term=term), atol=1e-5
        )


@pytest.mark.parametrize("name", list(TERMS))
def test_posterior_equals_dense_algebra(name: str) -> None:
    """Above all the variances of the components (DESIGN, trap 7)."""
    p = random_problem(4, 40, terms=TERMS[name])
    data = weighted(p)
    inducing = np.array([30, 2, 11, 25, 7, 19, 4, 36])
    test = random_rows(p.kernel.features, 9, np.random.default_rng(4))
    test[6, 0] = 7.0  # a level that training never saw
    posterior, _ = sparse.posterior(p.kernel, p.parameters, data, torch.tensor(inducing))
    for term in (None, (), (0,), (5,), (1, 3), (1, 2, 6)):
        truth = sparse_posterior(p, data.weight.numpy(), inducing, test, term)
        mean, variance = posterior.mean_and_variance(tensor(test), term)
        np.testing.assert_allclose(mean, truth.mean, atol=1e-6)
        np.testing.assert_allclose(variance, np.diag(truth.covariance), atol=1e-6)
        cov = posterior.covariance(tensor(test), term=term)
        np.testing.assert_allclose(cov, truth.covariance, atol=1e-6)


def test_component_variances_are_near_the_exact_ones_with_good_inducing_points() -> None:
    """A shortcut once made them 15 to 24 times too large; here they differ by a tenth."""
    features = mixed_features()[:1] * 3  # smooth: sixty points are nearly enough
    p = random_problem(5, 150, features=features, max_order=2)
    p = replace(p, parameters=replace(p.parameters, lengthscales=tensor([2.5, 2.0, 3.0])))
    data = TrainingData(p.x, p.y, torch.ones_like(p.y), 0.0)
    inducing = greedy_inducing(p.kernel, p.parameters, p.x, 60, seed=0)
    posterior, _ = sparse.posterior(p.kernel, p.parameters, data, inducing)
    test = random_rows(features, 20, np.random.default_rng(6))
    for term in ((0,), (1,), (2,), (0, 1)):
        truth = np.diag(exact_posterior(p, np.ones(150), test, term).covariance)
        _, variance = posterior.mean_and_variance(tensor(test), term)
        np.testing.assert_allclose(variance, truth, rtol=0.1, atol=1e-3)


def test_gradient_of_the_bound_by_every_hyperparameter() -> None:
    p = random_problem(6, 22)
    data = weighted(p, within=0.8)
    inducing = torch.tensor([0, 5, 9, 14, 20])
    space = ParameterSpace(p.kernel, learn_scales=True)
    theta = tensor(space.pack(p.parameters)).requires_grad_()

    def value(vector: torch.Tensor) -> torch.Tensor:
        return sparse.negative_bound(p.kernel, space.unpack(vector), data, inducing)

    (gradient,) = torch.autograd.grad(value(theta), theta)
    step = 1e-5
    with torch.no_grad():
        for k in range(len(theta)):
            ends = []
            for sign in (1, -1):
                moved = theta.detach().clone()
                moved[k] += sign * step
                ends.append(float(value(moved)))
            truth = (ends[0] - ends[1]) / (2 * step)
            assert float(gradient[k]) == pytest.approx(truth, rel=1e-4, abs=1e-4), k


def test_only_discrete_features() -> None:
    """Few distinct rows, so that the inducing points determine everything."""
    features = mixed_features()[5:]
    p = random_problem(7, 12, features=features, max_order=2)
    data = TrainingData(p.x, p.y, tensor(np.arange(1.0, 13.0)), 0.0)
    inducing = greedy_inducing(p.kernel, p.parameters, p.x, 100, seed=0)
    distinct = len(np.unique(np.nan_to_num(p.x.numpy(), nan=9), axis=1).T)
    assert 1 < len(inducing) <= distinct
    one, _ = sparse.posterior(p.kernel, p.parameters, data, inducing)
    other, _ = exact.posterior(p.kernel, p.parameters, data)
    for got, truth in zip(one.mean_and_variance(p.x), other.mean_and_variance(p.x), strict=True):
        np.testing.assert_allclose(got, truth, atol=1e-5)
    bound = float(sparse.negative_bound(p.kernel, p.parameters, data, inducing))
    evidence = float(exact.negative_evidence(p.kernel, p.parameters, data))
    assert bound == pytest.approx(evidence, abs=1e-3)


def test_duplicated_inducing_points_and_tiny_noise() -> None:
    """Both make matrices singular; the posterior stays a posterior."""
    p = random_problem(8, 30, features=mixed_features()[:2], max_order=2)
    parameters = replace(p.parameters, noise=tensor(1e-7))
    data = TrainingData(p.x, p.y, torch.ones_like(p.y), 0.0)
    inducing = torch.tensor([0, 1, 2, 3, 4, 0, 1, 2])
    posterior, jitter = sparse.posterior(p.kernel, parameters, data, inducing)
    assert jitter <= 1e-6
    for term in (None, (0,), (0, 1)):
        mean, variance = posterior.mean_and_variance(p.x, term)
        assert bool(torch.isfinite(mean).all())
        prior = posterior.features.prior(
            posterior.features.points(p.x), None if term is None else (term,)
        )
        assert bool((variance >= 0).all())
        assert bool((variance <= prior + 1e-9).all())


def test_many_rows_go_through_in_batches() -> None:
    """More rows than one batch (8192) give the same posterior as their merged halves."""
    features = mixed_features()[:1]
    p = random_problem(9, 9000, features=features, max_order=1)
    inducing = greedy_inducing(p.kernel, p.parameters, p.x, 7, seed=0)
    data = TrainingData(p.x, p.y, torch.ones_like(p.y), 0.0)
    posterior, _ = sparse.posterior(p.kernel, p.parameters, data, inducing)
    z, x = p.x.numpy()[:, inducing], p.x.numpy()
    kuf, noise = covariance(p, z, x), float(p.parameters.noise)
    kuu = covariance(p, z, z)
    kuu += 1e-8 * np.trace(kuu) / len(kuu) * np.eye(len(kuu))
    truth = kuf[:, :50].T @ np.linalg.solve(kuu + kuf @ kuf.T / noise, kuf @ p.y.numpy() / noise)
    np.testing.assert_allclose(posterior.mean(p.x[:, :50]), truth, atol=1e-5)
