"""With all functions of discrete measures the basis engine is the exact Gaussian process."""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest
import torch
from tests.references import (
    Problem,
    exact_posterior,
    kernel_cases,
    random_rows,
    tensor,
    term_covariance,
)

from oakgp.basis import functions
from oakgp.basis.functions import FeatureBasis, feature_basis
from oakgp.basis.layout import BasisLayout, term_columns
from oakgp.basis.learn import solve
from oakgp.basis.passes import gather
from oakgp.basis.posterior import BasisPosterior
from oakgp.basis.prior import BasisParameters
from oakgp.inference import exact
from oakgp.inference.data import TrainingData
from oakgp.kernels import KERNELS, CategoricalKernel
from oakgp.kernels.additive import AdditiveKernel, Parameters
from oakgp.kernels.constrained import Feature
from oakgp.kernels.terms import term_set
from oakgp.measures import Categorical, Empirical

NAN = float("nan")
NOISE, REFERENCE = 0.2, 0.3


def discrete_features(kernel: str) -> tuple[Feature, ...]:
    """Numbers with few values, with missing ones, with ties among the atoms; two categories."""
    base = {k.name: k for k in kernel_cases()}[kernel]
    levels = CategoricalKernel(3, 2, True)
    return (
        Feature("a", base, Empirical((0.05, 0.3, 0.52, 0.8), (0.2, 0.3, 0.4, 0.1))),
        Feature("b", base, Empirical((0.1, 0.55, NAN), (0.5, 0.3, 0.2))),
        Feature("c", base, Empirical((0.4, 0.4, 0.9, 0.0), (0.2, 0.2, 0.5, 0.1))),
        Feature("d", levels, Categorical((0.5, 0.2, 0.2, 0.1))),
        Feature("e", CategoricalKernel(2, 1), Categorical((0.6, 0.4))),
    )


@cache
def both(kernel: str, seed: int = 0) -> tuple[Problem, torch.Tensor, BasisPosterior]:
    """A problem with known hyperparameters, row weights, and the basis engine's posterior."""
    rng = np.random.default_rng(seed)
    features = discrete_features(kernel)
    d, n = len(features), 30
    lengthscales = np.r_[rng.uniform(0.3, 0.9, 3), 1.0, 1.0]
    scales, orders = rng.uniform(0.5, 1.6, d), rng.uniform(0.3, 1.5, 4)
    parameters = Parameters(
        tensor(lengthscales),
        tensor(scales),
        tensor(orders),
        tensor(NOISE),
        # Levels are independent of each other, with unit variance: as in the basis.
        mixing=tuple(torch.zeros((k, r)).double() for k, r in ((3, 2), (2, 1))),
        diagonal=tuple(torch.ones(k).double() for k in (3, 2)),
    )
    x = tensor(random_rows(features, n, rng))
    y = tensor(np.nan_to_num(np.sin(3 * x[0].numpy())) + 0.3 * rng.standard_normal(n))
    problem = Problem(AdditiveKernel(features, term_set(d, 3)), parameters, x, y)
    weights = tensor(rng.uniform(0.5, 2.0, n))

    bases = tuple(complete(feature) for feature in features)
    terms = [u for r in (1, 2, 3) for u in combinations(range(d), r)]
    layout = BasisLayout(bases, tuple(term_columns(bases, u, 10**6, tail=-1.0) for u in terms))
    variances = [float(orders[len(u)] * np.prod(scales[list(u)])) for u in layout.terms]
    own = BasisParameters(
        tensor(variances), tensor(lengthscales), tensor(NOISE), torch.zeros(d).double()
    )
    (solution,) = solve(layout, [gather(layout, x, y, weights)], [own])
    posterior = BasisPosterior(layout, own, solution.mean, solution.root, NOISE)
    return problem, weights, posterior


def complete(feature: Feature) -> FeatureBasis:
    """All functions of a feature, the tail included."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functions, "TAIL", 0.0)
        basis = feature_basis(feature, REFERENCE, 10**6)
    assert basis.size == len(basis.mass) - 1
    return basis


def asked(problem: Problem, n: int = 12) -> torch.Tensor:
    """Rows at the measures' atoms, with some that training never had."""
    x = random_rows(problem.kernel.features, n, np.random.default_rng(7))
    x[3, 0], x[4, 1], x[0, 2], x[4, 3] = -1.0, -1.0, NAN, NAN
    return tensor(x)


kernels = pytest.mark.parametrize("kernel", KERNELS)


@kernels
def test_the_function_is_that_of_the_exact_process(kernel: str) -> None:
    problem, weights, posterior = both(kernel)
    x = asked(problem)
    truth = exact_posterior(problem, weights.numpy(), x.numpy())
    mean, variance = posterior.mean_and_variance(x)
    np.testing.assert_allclose(mean, truth.mean, atol=1e-6)
    np.testing.assert_allclose(variance, truth.covariance.diagonal(), atol=1e-6)
    known = x[:, 5:]
    np.testing.assert_allclose(posterior.covariance(known), truth.covariance[5:, 5:], atol=1e-6)
    np.testing.assert_allclose(
        posterior.covariance(x[:, 5:7], known), truth.covariance[5:7, 5:], atol=1e-6
    )


@kernels
def test_every_component_is_that_of_the_exact_process(kernel: str) -> None:
    problem, weights, posterior = both(kernel)
    x = asked(problem)
    for term in posterior.layout.terms:
        truth = exact_posterior(problem, weights.numpy(), x.numpy(), term)
        mean, variance = posterior.mean_and_variance(x, term)
        np.testing.assert_allclose(mean, truth.mean, atol=1e-6)
        np.testing.assert_allclose(variance, truth.covariance.diagonal(), atol=1e-6)


@kernels
def test_evidence_and_shares_are_those_of_the_kernel_engine(kernel: str) -> None:
    problem, weights, posterior = both(kernel)
    data = TrainingData(problem.x, problem.y, weights, 0.0)
    theirs, _ = exact.posterior(problem.kernel, problem.parameters, data)
    terms = [u for u in posterior.layout.terms if u]
    for ours, others in (
        (posterior.variances().of(terms), theirs.variances().of(terms)),
        (posterior.variances().expected_of(terms), theirs.variances().expected_of(terms)),
        (posterior.variances().totals().shapley, theirs.variances().totals().shapley),
    ):
        np.testing.assert_allclose(ours, others, atol=1e-6)


@kernels
def test_what_training_never_had_has_its_prior_variance_back(kernel: str) -> None:
    problem, _, posterior = both(kernel)
    x = asked(problem)
    for row, feature in ((0, 3), (1, 4), (2, 0), (3, 4)):
        for term in [(feature,), tuple(sorted((feature, 1)))]:
            at = x[:, row : row + 1]
            mean, variance = posterior.mean_and_variance(at, term)
            prior = term_covariance(problem, term, at.numpy(), at.numpy())
            assert float(mean[0]) == 0.0
            assert float(variance[0]) == pytest.approx(float(prior[0, 0]), rel=1e-6)


@kernels
def test_components_add_up(kernel: str) -> None:
    problem, _, posterior = both(kernel)
    x = asked(problem)
    total = torch.stack([posterior.mean(x, u) for u in posterior.layout.terms]).sum(dim=0)
    np.testing.assert_allclose(total, posterior.mean(x), atol=1e-10)
    kept = posterior.keep([(0,), (1, 3)])
    some = sum(posterior.mean(x, u) for u in [(), (0,), (1, 3)])
    np.testing.assert_allclose(kept.mean(x), some, atol=1e-10)
    assert posterior.constant()[0] == pytest.approx(float(posterior.mean(x, ())[0]))
