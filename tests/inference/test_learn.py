"""Learning: the optimiser, and what a fit promises whatever its schedule."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.references import tensor

from oakgp import OAKRegressor
from oakgp.inference import exact
from oakgp.inference.cholesky import NotPositiveDefiniteError
from oakgp.inference.data import TrainingData, merge_rows
from oakgp.inference.optimize import minimise
from oakgp.inference.space import ParameterSpace

BOX = [(-3.0, 3.0)] * 3


def bowl(theta: torch.Tensor) -> torch.Tensor:
    center = theta.new_tensor([0.5, -1.0, 5.0])  # the last one is out of bounds
    return ((theta - center) ** 2 * theta.new_tensor([1.0, 50.0, 3.0])).sum() + 7.0


def table(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Three numeric columns with gaps and ties, one of codes; a smooth response with noise."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(n, 2)), rng.integers(0, 4, n), rng.exponential(size=n)])
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] * (X[:, 2] > 1) + 0.1 * rng.standard_normal(n)
    X[rng.random(n) < 0.1, 0] = np.nan
    return X, y


def parameters_of(model: OAKRegressor) -> list[torch.Tensor]:
    p = model.model_.posterior.parameters
    return [p.lengthscales, p.scales, p.order_variances, p.noise, *p.mixing, *p.diagonal]


# The optimiser.


def test_the_optimiser_finds_the_minimum_within_its_bounds() -> None:
    optimum = minimise(bowl, np.zeros(3), BOX, max_iter=100, tolerance=1e-10)
    np.testing.assert_allclose(optimum.theta, [0.5, -1.0, 3.0], atol=1e-4)
    assert optimum.value == pytest.approx(float(bowl(tensor([0.5, -1.0, 3.0]))), abs=1e-8)
    assert optimum.converged


def test_the_iteration_limit_is_not_convergence() -> None:
    def valley(theta: torch.Tensor) -> torch.Tensor:
        return 100 * (theta[1] - theta[0] ** 2) ** 2 + (1 - theta[0]) ** 2

    optimum = minimise(valley, np.array([-2.0, 2.0]), BOX[:2], max_iter=3, tolerance=1e-12)
    assert not optimum.converged
    assert optimum.n_evaluations >= 3


def test_an_indefinite_matrix_on_the_way_is_backed_off_from() -> None:
    def cliff(theta: torch.Tensor) -> torch.Tensor:
        if float(theta.detach()[0]) > 0.6:
            raise NotPositiveDefiniteError("over the edge")
        return bowl(theta)

    optimum = minimise(cliff, np.full(3, -2.0), BOX, max_iter=200, tolerance=1e-10)
    assert optimum.theta[0] <= 0.6
    assert optimum.value < 7.0 + 12.5


def test_an_indefinite_matrix_at_the_start_is_an_error() -> None:
    def broken(theta: torch.Tensor) -> torch.Tensor:
        raise NotPositiveDefiniteError("the kernel matrix of the training rows")

    with pytest.raises(NotPositiveDefiniteError, match="training rows"):
        minimise(broken, np.zeros(3), BOX, max_iter=10, tolerance=1e-6)


def test_a_gradient_that_is_no_number_is_not_convergence() -> None:
    def poisoned(theta: torch.Tensor) -> torch.Tensor:
        masked = torch.where(theta > 9, (theta * torch.nan), theta)  # value fine, gradient NaN
        return (masked**2).sum() + 3.0

    optimum = minimise(poisoned, np.ones(3), BOX, max_iter=10, tolerance=1e-6)
    assert not optimum.converged


# What a fit promises.


@pytest.mark.parametrize("engine", ["exact", "sparse"])
def test_same_seed_same_result_to_the_bit(engine: str) -> None:
    X, y = table(90)
    settings = {"engine": engine, "n_inducing": 30, "categorical_features": [2], "max_iter": 15}
    one, other = (OAKRegressor(random_state=3, **settings).fit(X, y) for _ in range(2))
    for a, b in zip(parameters_of(one), parameters_of(other), strict=True):
        assert torch.equal(a, b)
    for a, b in zip(
        one.predict(X, return_std=True), other.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one.sample_y(X[:5], 3), other.sample_y(X[:5], 3))
    assert repr(one.components_) == repr(other.components_)


@pytest.mark.parametrize("engine", ["exact", "sparse"])
def test_the_order_of_rows_is_irrelevant(engine: str) -> None:
    X, y = table(90)
    order = np.random.default_rng(1).permutation(90)
    settings = {"engine": engine, "n_inducing": 30, "categorical_features": [2], "max_iter": 15}
    one = OAKRegressor(**settings).fit(X, y)
    other = OAKRegressor(**settings).fit(X[order], y[order])
    for a, b in zip(
        one.predict(X, return_std=True), other.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-8)


def test_a_weight_is_a_number_of_rows() -> None:
    X, y = table(60)
    counts = np.random.default_rng(2).integers(0, 4, 60)
    one = OAKRegressor(max_iter=15).fit(X, y, sample_weight=counts)
    other = OAKRegressor(max_iter=15).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    for a, b in zip(
        one.predict(X, return_std=True), other.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-8)
    assert one.model_.facts.n_distinct == other.model_.facts.n_distinct == (counts > 0).sum()


def test_the_reported_evidence_is_that_of_the_model() -> None:
    X, y = table(70)
    model = OAKRegressor().fit(X, y).model_
    x = model.encode(X).numpy().T
    rows, means, weight, within = merge_rows(x, (y - model.center) / model.scale, np.ones(70))
    data = TrainingData(tensor(rows.T.copy()), tensor(means), tensor(weight), within)
    kernel, parameters = model.posterior.kernel, model.posterior.parameters
    truth = -float(exact.negative_evidence(kernel, parameters, data))
    assert model.facts.log_evidence == pytest.approx(truth, abs=1e-6)
    assert model.facts.evidence_rows == 70


def test_the_end_is_a_local_optimum() -> None:
    """No single hyperparameter, moved a little, gains more than the tolerance of a run."""
    X, y = table(70)
    model = OAKRegressor(max_iter=500).fit(X, y).model_
    assert model.facts.converged
    x = model.encode(X).numpy().T
    rows, means, weight, within = merge_rows(x, (y - model.center) / model.scale, np.ones(70))
    data = TrainingData(tensor(rows.T.copy()), tensor(means), tensor(weight), within)
    space = ParameterSpace(model.posterior.kernel, learn_scales=True)
    theta = space.pack(model.posterior.parameters)

    def value(vector: np.ndarray) -> float:
        p = space.unpack(tensor(vector))
        return float(exact.negative_evidence(space.kernel, p, data) - space.log_prior(p))

    here = value(theta)
    low, high = np.array(space.limits()).T
    for k in range(len(theta)):
        for step in (-0.05, 0.05):
            moved = theta.copy()
            moved[k] = np.clip(moved[k] + step, low[k], high[k])
            assert value(moved) > here - 0.05


def test_engines_agree_when_the_inducing_points_are_all_rows() -> None:
    X, y = table(80)
    one = OAKRegressor(engine="exact").fit(X, y)
    other = OAKRegressor(engine="sparse", n_inducing=80).fit(X, y)
    assert one.model_.facts.engine == "exact"
    assert other.model_.facts.engine == "sparse"
    assert 0 < other.model_.facts.n_inducing <= 80
    scale = y.std()
    np.testing.assert_allclose(one.predict(X), other.predict(X), atol=0.05 * scale)


def test_learning_tells_signal_from_noise() -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(150, 3))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(150)
    model = OAKRegressor(max_order=2).fit(X, y)
    assert model.verdict_.noise == pytest.approx(0.3, rel=0.2)
    assert model.components_["term"][0] == "x0"
    assert model.components_["share"][0] > 0.9


def test_noise_alone_is_recognised() -> None:
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(120, 2)), rng.standard_normal(120)
    model = OAKRegressor(max_order=2).fit(X, y)
    assert model.verdict_.explained < 0.3
    assert np.abs(model.predict(X)).mean() < 0.4
