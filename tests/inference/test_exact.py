"""Exact inference against SciPy's density, finite differences and dense conditioning."""

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
    tensor,
)

from oakgp.inference import exact
from oakgp.inference.data import TrainingData
from oakgp.inference.space import ParameterSpace
from oakgp.kernels.terms import term_set

TERMS = {
    "orders up to 3": term_set(7, 3),
    "forbidden and forced": term_set(7, 2, forbidden=[(0, 5)], forced=[(1, 2, 6)]),
    "nothing but the constant": term_set(7, 2, forbidden=[(i,) for i in range(7)]),
}


def weighted(p: Problem, seed: int = 0, within: float = 0.0) -> TrainingData:
    weight = np.random.default_rng(seed).uniform(0.3, 4.0, len(p.y))
    return TrainingData(p.x, p.y, tensor(weight), within)


@pytest.mark.parametrize("name", list(TERMS))
def test_evidence_equals_the_density(name: str) -> None:
    p = random_problem(5, 25, terms=TERMS[name])
    data = weighted(p, within=1.3)
    noise = float(p.parameters.noise) / data.weight.numpy()
    k = covariance(p, p.x.numpy(), p.x.numpy()) + np.diag(noise)
    truth = multivariate_normal(np.zeros(25), k).logpdf(p.y.numpy())
    truth += float(data.replicate_term(p.parameters.noise))
    got = float(exact.negative_evidence(p.kernel, p.parameters, data))
    assert got == pytest.approx(-truth, abs=1e-7)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name", list(TERMS))
def test_gradient_of_the_evidence_by_every_hyperparameter(name: str, tied: bool) -> None:
    p = random_problem(6, 20, terms=TERMS[name])
    data = weighted(p, within=0.8)
    space = ParameterSpace(p.kernel, learn_scales=True, tied=tied)
    theta = tensor(space.pack(p.parameters)).requires_grad_()

    def value(vector: torch.Tensor) -> torch.Tensor:
        parameters = space.unpack(vector)
        return exact.negative_evidence(p.kernel, parameters, data) - space.log_prior(parameters)

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
            assert float(gradient[k]) == pytest.approx(truth, rel=1e-5, abs=1e-6), k


@pytest.mark.parametrize("orthogonal", [True, False])
def test_posterior_equals_dense_conditioning(orthogonal: bool) -> None:
    p = random_problem(7, 30, orthogonal=orthogonal)
    data = weighted(p)
    test = random_rows(p.kernel.features, 11, np.random.default_rng(1))
    test[5, 0] = -1.0  # a level that training never saw
    test[:, 1] = np.nan
    posterior, jitter = exact.posterior(p.kernel, p.parameters, data)
    assert jitter == 0.0
    weight = data.weight.numpy()
    for term in (None, (), (0,), (5,), (1, 3), (0, 5, 6)):
        truth = exact_posterior(p, weight, test, term)
        mean, variance = posterior.mean_and_variance(tensor(test), term)
        np.testing.assert_allclose(posterior.mean(tensor(test), term), truth.mean, atol=1e-8)
        np.testing.assert_allclose(mean, truth.mean, atol=1e-8)
        np.testing.assert_allclose(variance, np.diag(truth.covariance), atol=1e-8)
        cov = posterior.covariance(tensor(test), term=term)
        np.testing.assert_allclose(cov, truth.covariance, atol=1e-8)
        left, right = tensor(test[:, :4]), tensor(test[:, 4:])
        cross = posterior.covariance(left, right, term)
        np.testing.assert_allclose(cross, truth.covariance[:4, 4:], atol=1e-8)


def test_the_gradient_leaves_the_inputs_alone() -> None:
    """The matrix is changed in place inside: nobody else may see it."""
    p = random_problem(8, 12)
    data = weighted(p)
    space = ParameterSpace(p.kernel, learn_scales=True)
    theta = tensor(space.pack(p.parameters)).requires_grad_()
    values, grads = [], []
    for _ in range(2):
        value = exact.negative_evidence(p.kernel, space.unpack(theta), data)
        grads.append(torch.autograd.grad(value, theta)[0])
        values.append(float(value.detach()))
    values.append(float(exact.negative_evidence(p.kernel, p.parameters, data)))
    assert values[0] == values[1]
    assert values[2] == pytest.approx(values[0], rel=1e-12)
    assert torch.equal(grads[0], grads[1])


def test_duplicated_rows_with_tiny_noise_are_no_trouble() -> None:
    features = mixed_features()[:2]
    p = random_problem(9, 20, features=features, max_order=2)
    x = torch.cat([p.x, p.x[:, :10]], dim=1)
    y = torch.cat([p.y, p.y[:10]])
    parameters = replace(p.parameters, noise=tensor(1e-9))
    data = TrainingData(x, y, torch.ones(30, dtype=torch.float64), 0.0)
    posterior, jitter = exact.posterior(p.kernel, parameters, data)
    assert jitter <= 1e-6
    mean, variance = posterior.mean_and_variance(p.x)
    assert bool((variance >= 0).all())
    np.testing.assert_allclose(mean, p.y, atol=1e-2)


def test_no_features_are_the_constant_with_its_noise() -> None:
    p = random_problem(0, 1, features=mixed_features()[:1], max_order=1)
    kernel = replace(p.kernel, features=(), terms=term_set(0, 0))
    parameters = replace(
        p.parameters,
        lengthscales=tensor([]),
        scales=tensor([]),
        order_variances=tensor([2.0]),
        noise=tensor(0.5),
    )
    data = TrainingData(torch.zeros(0, 1, dtype=torch.float64), tensor([0.7]), tensor([4.0]), 0.3)
    space = ParameterSpace(kernel)
    theta = tensor(space.pack(parameters)).requires_grad_()
    value = exact.negative_evidence(kernel, space.unpack(theta), data)
    truth = multivariate_normal(0.0, 2.0 + 0.5 / 4).logpdf(0.7)
    truth += float(data.replicate_term(tensor(0.5)))
    assert float(value.detach()) == pytest.approx(-truth)
    (gradient,) = torch.autograd.grad(value, theta)
    assert bool(torch.isfinite(gradient).all())
    posterior, _ = exact.posterior(kernel, parameters, data)
    mean, variance = posterior.mean_and_variance(torch.zeros(0, 3, dtype=torch.float64))
    np.testing.assert_allclose(mean, 0.7 * 2.0 / 2.125)
    np.testing.assert_allclose(variance, 2.0 - 4.0 / 2.125)
