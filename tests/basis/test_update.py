"""Rows added to a basis model, taken back, and models merged: against fits of all rows at once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.optimize import minimize

import oakgp
from oakgp import OAKClassifier, OAKRegressor
from oakgp.basis.evidence import Solution, block_factors
from oakgp.basis.layout import design
from oakgp.basis.passes import gather
from oakgp.basis.prior import prior_blocks


def table(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a": rng.standard_normal(n), "b": rng.uniform(-1, 1, n)})
    X["c"] = rng.choice(["u", "v"], n)
    X.loc[rng.random(n) < 0.1, "b"] = np.nan
    f = np.sin(2 * X["a"]) + X["b"].fillna(0.5) * (X["c"] == "u")
    return X, (f + 0.2 * rng.standard_normal(n)).to_numpy()


def regression() -> OAKRegressor:
    X, y = table(300, 0)
    return OAKRegressor(engine="basis").fit(X, y)


def whole(model: OAKRegressor, parts: list[tuple[pd.DataFrame, np.ndarray]]) -> np.ndarray:
    """Predictions for `table(50, 9)` of the posterior given all rows, hyperparameters kept."""
    fitted = model.model_
    posterior = fitted.posterior
    layout = posterior.layout
    x = torch.cat([fitted.encode(X) for X, _ in parts], dim=1)
    z = torch.from_numpy((np.concatenate([y for _, y in parts]) - fitted.center) / fitted.scale)
    factors = block_factors(prior_blocks(layout, posterior.parameters))
    solution = Solution(gather(layout, x, z, torch.ones_like(z)), factors, posterior.noise)
    phi = design(layout, fitted.encode(table(50, 9)[0]))
    return fitted.center + fitted.scale * (solution.mean @ phi).numpy()


def test_new_rows_are_learned_as_if_they_had_been_there() -> None:
    model, new = regression(), table(200, 1)
    more = model.update(*new)
    expected = whole(model, [table(300, 0), new])
    np.testing.assert_allclose(more.predict(table(50, 9)[0]), expected, atol=1e-8)
    assert more.model_.facts.n_rows == 500
    assert model.model_.facts.n_rows == 300
    _, before = model.predict_link(table(50, 9)[0])
    _, after = more.predict_link(table(50, 9)[0])
    assert (after < before).all()


def test_rows_taken_back_leave_no_trace() -> None:
    model, new = regression(), table(200, 1)
    X = table(50, 9)[0]
    back = model.update(*new).forget(*new)
    for one, two in zip(back.predict_link(X), model.predict_link(X), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-8)
    old = tuple(part[:100] for part in table(300, 0))
    kept = tuple(part[100:] for part in table(300, 0))
    np.testing.assert_allclose(model.forget(*old).predict(X), whole(model, [kept]), atol=1e-7)


def test_rows_that_were_never_there_cannot_be_taken_back() -> None:
    X, y = table(3000, 5)
    with pytest.raises(ValueError, match="cannot be taken back"):
        regression().forget(X, y)


def test_merging_is_learning_from_all_rows() -> None:
    model, first, second = regression(), table(200, 1), table(150, 2)
    merged = model.merge(model.update(*first), model.update(*second))
    one_by_one = model.update(*first).update(*second)
    X = table(50, 9)[0]
    for one, two in zip(merged.predict_link(X), one_by_one.predict_link(X), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-7)
    assert merged.model_.facts.n_rows == 650


def test_models_of_other_functions_cannot_be_merged() -> None:
    X, y = table(300, 4)
    other = OAKRegressor(engine="basis").fit(X, y)
    with pytest.raises(ValueError, match="cannot|can be merged"):
        regression().merge(other)


def test_weights_are_repeated_rows() -> None:
    model, (X, y) = regression(), table(40, 1)
    weighted = model.update(X, y, np.full(40, 2.0))
    twice = model.update(pd.concat([X, X]), np.r_[y, y])
    T = table(50, 9)[0]
    np.testing.assert_allclose(weighted.predict(T), twice.predict(T), atol=1e-9)


def test_labels_are_learned_to_the_largest_posterior_density() -> None:
    X, y = table(600, 0)
    labels = np.where(y > 0.3, "yes", "no")
    model = OAKClassifier(engine="basis").fit(X[:400], labels[:400])
    more = model.update(X[400:], labels[400:])
    before, after = model.model_.posterior, more.model_.posterior
    phi = design(before.layout, model.model_.encode(X[400:]))
    level = model.model_.response.levels[0]
    sign = torch.from_numpy(np.where(labels[400:] == "yes", 1.0, -1.0))
    inverse = torch.linalg.inv(before.root)

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        w = torch.tensor(values, requires_grad=True)
        white = inverse.T @ (w - before.mean_weights)
        margin = sign * (level + w @ phi)
        total = 0.5 * (white**2).sum() - torch.nn.functional.logsigmoid(margin).sum()
        (slope,) = torch.autograd.grad(total, w)
        return float(total.detach()), slope.numpy()

    own, slope = loss(after.mean_weights.numpy())
    best = minimize(loss, before.mean_weights.numpy(), jac=True, options={"maxiter": 2000}).fun
    assert own <= best + 1e-4
    assert np.isfinite(slope).all()
    assert set(more.predict(X)) == {"yes", "no"}


def test_updates_of_other_models_say_why_not() -> None:
    X, y = table(60, 0)
    with pytest.raises(ValueError, match="engine='basis'"):
        OAKRegressor(max_iter=2).fit(X, y).update(X, y)
    counts = OAKRegressor(engine="basis", likelihood="poisson").fit(X, np.arange(60) % 5)
    with pytest.raises(ValueError, match="Gaussian noise only"):
        counts.forget(X, np.arange(60) % 5)
    with pytest.raises(ValueError, match="negative|whole"):
        counts.update(X, np.full(60, -1.0))
    with pytest.raises(TypeError, match="unknown argument 'weight'"):
        counts.update(X, np.ones(60), weight=1)
    labels = np.where(y > 0, "yes", "no")
    with pytest.raises(ValueError, match="class 'maybe'"):
        OAKClassifier(engine="basis").fit(X, labels).update(X[:1], ["maybe"])


def test_counts_with_exposure_are_learned() -> None:
    X, _ = table(400, 0)
    rng = np.random.default_rng(0)
    exposure = rng.uniform(0.5, 3.0, 400)
    y = rng.poisson(exposure * np.exp(0.5 * np.sin(2 * X["a"])))
    model = OAKRegressor(engine="basis", likelihood="poisson")
    model.fit(X[:200], y[:200], exposure=exposure[:200])
    more = model.update(X[200:], y[200:], exposure=exposure[200:])
    assert np.isfinite(more.predict(X)).all()
    rate = np.exp(0.5 * np.sin(2 * X["a"]))
    error = [np.mean((np.log(m.predict(X)) - np.log(rate)) ** 2) for m in (model, more)]
    assert error[1] < error[0]


def test_an_updated_model_is_saved(tmp_path) -> None:
    more = regression().update(*table(100, 1))
    more.save(tmp_path / "m.oak")
    T = table(50, 9)[0]
    np.testing.assert_array_equal(oakgp.load(tmp_path / "m.oak").predict(T), more.predict(T))
