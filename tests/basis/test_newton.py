"""Responses other than Gaussian: where the reweighted passes end."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from tests.basis.models import Array, layout_of, plain_features
from tests.basis.test_evidence import log_density
from tests.likelihoods.cases import CASES
from tests.references import random_rows, tensor

from oakgp.basis import learn
from oakgp.basis.layout import BasisLayout, design
from oakgp.basis.learn import BasisLearner, State, penalty, prior_factors, solve
from oakgp.basis.rows import InMemory, Rows
from oakgp.basis.working import GaussianWorking, LikelihoodWorking
from oakgp.likelihoods import BernoulliLogit, Likelihood, Poisson

N = 80
LAYOUT = layout_of(plain_features(2), [(0,), (1,), (0, 1)], 4, 5)


@pytest.fixture(autouse=True)
def to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes that go on until nothing moves."""
    monkeypatch.setattr(learn, "_SETTLED", 1e-7)


@dataclass(frozen=True)
class Problem:
    """Rows of one likelihood."""

    likelihood: Likelihood
    rows: Rows
    levels: torch.Tensor
    parameters: torch.Tensor

    @property
    def working(self) -> LikelihoodWorking:
        return LikelihoodWorking(self.likelihood, self.levels, self.parameters)

    def fitted(self, passes: int = 60, variance: float = 1.0) -> State:
        """Weights at fixed hyperparameters: no step of the optimiser is allowed."""
        learner = BasisLearner(self.working, 3.0, iterations=0)
        return learner.run(InMemory(self.rows), learner.begin(LAYOUT, None, variance), passes)

    def objective(self, state: State, weights: torch.Tensor) -> torch.Tensor:
        """The penalised log likelihood, written out."""
        f = self.levels[:, None] + weights @ design(LAYOUT, self.rows.x)
        f = torch.cat([(f[0] + self.rows.offset)[None], f[1:]])
        total = (self.rows.w * self.likelihood.log_density(self.rows.y, f, self.parameters)).sum()
        for factors, own in zip(prior_factors(LAYOUT, state.parameters), weights, strict=True):
            whole = torch.block_diag(*factors)
            total = total - 0.5 * (torch.linalg.solve(whole, own) ** 2).sum()
        return total

    def slope(self, state: State) -> float:
        """Length of the objective's gradient in units of posterior deviations."""
        weights = state.weights.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(self.objective(state, weights), weights)
        roots = [s.root for s in solve(LAYOUT, state.data, state.parameters)]
        return max(float((r @ g).norm()) for r, g in zip(roots, gradient, strict=True))

    def optimum(self, state: State) -> Array:
        """What a general optimiser finds, from nothing."""

        def value(theta: Array) -> tuple[float, Array]:
            weights = tensor(theta).reshape(state.weights.shape).requires_grad_()
            objective = -self.objective(state, weights)
            (gradient,) = torch.autograd.grad(objective, weights)
            return float(objective.detach()), gradient.numpy().ravel()

        found = minimize(
            value,
            np.zeros(state.weights.numel()),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 5000, "maxfun": 20000, "ftol": 1e-16, "gtol": 1e-8},
        )
        return np.asarray(found.x.reshape(state.weights.shape))


def problem(name: str, seed: int = 0) -> Problem:
    case, rng = CASES[name], np.random.default_rng(seed)
    x = tensor(random_rows(plain_features(2), N, rng))
    f = torch.stack(
        [torch.sin(2 * x[0] + k) + 0.3 * x[1] for k in range(case.likelihood.n_latents)]
    )
    y = case.likelihood.sample(f, case.theta, torch.Generator().manual_seed(seed)).double()
    w, offset = tensor(rng.uniform(0.3, 2.0, N)), tensor(rng.normal(0, 0.2, N))
    levels, _ = case.likelihood.start(y.numpy(), w.numpy(), offset.numpy())
    return Problem(case.likelihood, Rows(x, y, w, offset), levels, case.theta)


@pytest.mark.parametrize("name", CASES)
def test_passes_end_where_the_penalised_log_likelihood_is_stationary(name: str) -> None:
    p = problem(name)
    state = p.fitted(200)
    assert state.converged
    assert p.slope(state) < 1e-4
    if p.likelihood.log_concave:
        np.testing.assert_allclose(state.weights, p.optimum(state), atol=2e-4)


@pytest.mark.parametrize("name", CASES)
def test_the_penalty_is_half_the_squared_length_under_the_prior(name: str) -> None:
    p = problem(name)
    state = p.fitted(3)
    (first, *_) = prior_factors(LAYOUT, state.parameters)
    prior = torch.block_diag(*first)
    truth = 0.5 * state.weights[0] @ torch.linalg.solve(prior @ prior.T, state.weights[0])
    assert penalty(first, state.weights[0]) == pytest.approx(float(truth), rel=1e-6)


def test_gaussian_rows_by_passes_are_those_of_one_regression() -> None:
    p = problem("gaussian")
    p = replace(p, rows=replace(p.rows, offset=torch.zeros(N).double()))
    state = p.fitted()
    learner = BasisLearner(GaussianWorking(), 3.0, iterations=0)
    rows = replace(p.rows, y=p.rows.y - p.levels[0])
    begin = learner.begin(LAYOUT, None, 1.0)
    noise = replace(begin.parameters[0], noise=p.parameters[0])
    one = learner.run(InMemory(rows), replace(begin, parameters=(noise,)), 1)
    # The optimiser's vector is rounded to three decimals, the likelihood's parameter is not.
    np.testing.assert_allclose(one.weights, state.weights, atol=2e-3)


@pytest.mark.parametrize("name", ["poisson", "softmax", "gaussian"])
def test_laplaces_evidence_is_the_second_order_integral(name: str) -> None:
    p = problem(name)
    state = p.fitted(200)
    solutions = solve(LAYOUT, state.data, state.parameters)
    _, density = learn.collect(InMemory(p.rows), LAYOUT, p.working, state.weights)
    truth = float(p.objective(state, state.weights))
    for solution, factors in zip(
        solutions, prior_factors(LAYOUT, state.parameters), strict=True
    ):  # log of sqrt(|covariance| / |prior|)
        truth += float(torch.logdet(solution.root.T @ solution.root)) / 2
        truth -= float(torch.logdet(torch.block_diag(*factors)))
    found = learn.laplace_evidence(density, solutions, state.weights)
    assert found == pytest.approx(truth, rel=1e-6)
    if name == "gaussian":  # exact, then
        z = (p.rows.y - p.rows.offset - p.levels[0]).numpy()
        phi, noise = design(LAYOUT, p.rows.x).numpy(), float(p.parameters[0])
        prior = torch.block_diag(*prior_factors(LAYOUT, state.parameters)[0]).numpy()
        marginal = phi.T @ prior @ prior.T @ phi + np.diag(noise / p.rows.w.numpy())
        exact = log_density(z, marginal, p.rows.w.numpy(), noise)
        assert found == pytest.approx(exact, rel=1e-6)


# Rows that are hard on Newton's method.


def hard(name: str) -> Problem:
    rng = np.random.default_rng(1)
    x = tensor(random_rows(plain_features(2), N, rng))
    ones, none = torch.ones(N).double(), torch.zeros(N).double()
    likelihood: Likelihood = BernoulliLogit()
    w, offset = ones, none
    if name == "separable":
        y = (x[0] > 0).double()
    elif name == "one in a thousand":
        y, w = none.clone(), 50.0 * ones
        y[3], w[3] = 1.0, 4.0
    elif name == "one class":
        y = ones
    elif name == "huge weights":
        y, w = (x[0] > 0).double(), 1e6 * ones
    else:
        likelihood = Poisson()
        y = torch.exp(3 * x[0]).round()
        if name == "huge counts":
            y = 1e9 * y
        elif name == "one huge count":
            y = none.clone()
            y[5] = 1e7
        elif name == "no counts":
            y = none
        elif name == "far offsets":
            offset = tensor(rng.normal(0, 8, N))
            y = torch.exp(offset.clamp_max(15.0)).round()
    levels, parameters = likelihood.start(y.numpy(), w.numpy(), offset.numpy())
    return Problem(likelihood, Rows(x, y, w, offset), levels, parameters)


HARD = [
    "separable",
    "one in a thousand",
    "one class",
    "huge weights",
    "counts",
    "huge counts",
    "one huge count",
    "no counts",
    "far offsets",
]


@pytest.mark.parametrize("variance", [0.1, 10.0])
@pytest.mark.parametrize("name", HARD)
def test_hard_rows_have_a_finite_optimum_that_is_found(name: str, variance: float) -> None:
    p = hard(name)
    state = p.fitted(200, variance)
    assert bool(torch.isfinite(state.weights).all())
    found = float(p.objective(state, state.weights))
    assert math.isfinite(found)
    best = float(p.objective(state, tensor(p.optimum(state))))
    assert found > best - 1e-4 - 1e-5 * abs(best)


def test_a_step_that_goes_too_far_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    """From weights far off, where the curvature is next to nothing, Newton's step overshoots."""
    p = hard("counts")
    learner = BasisLearner(p.working, 3.0, iterations=0)
    state = learner.begin(LAYOUT, None, 10.0)
    far = state.weights.clone()
    far[0, 0] = -8.0
    found = learner.run(InMemory(p.rows), replace(state, weights=far), 200)
    assert found.converged
    assert p.slope(found) < 1e-4


def test_weights_of_terms_that_stay_are_carried_over() -> None:
    p = problem("poisson")
    learner = BasisLearner(p.working, 3.0, iterations=0)
    state = p.fitted()
    wider = BasisLayout(LAYOUT.bases, (LAYOUT.blocks[2], LAYOUT.blocks[0]))
    again = learner.begin(wider, state, 1.0)
    for u in wider.terms:
        assert torch.equal(again.weights[:, wider.slices[u]], state.weights[:, LAYOUT.slices[u]])
    assert again.parameters[0].variances.tolist() == [
        float(state.parameters[0].variances[LAYOUT.terms.index(u)]) for u in wider.terms
    ]
