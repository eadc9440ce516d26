"""What a fitted estimator says: moments, intervals, draws, components, the report."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from tests.estimators.models import (
    NOISE,
    all_terms,
    fitted,
    frame,
    quick,
    response,
)

from oakgp import OAKRegressor

TABLE = frame()
Y = response(TABLE)
ROWS = frame(9, seed=5)

ENGINES: dict[str, dict[str, object]] = {
    "exact": {"engine": "exact"},
    "sparse": {"engine": "sparse", "n_inducing": 15},
    "product": {"variant": "product"},
}
engines = pytest.mark.parametrize("engine", list(ENGINES))


def model_of(engine: str) -> OAKRegressor:
    return fitted(**ENGINES[engine])


# -- moments ----------------------------------------------------------------------------------


def test_predictions_follow_the_function() -> None:
    model, rows = fitted(n=120), frame(200, seed=5)
    mean, sd = model.predict(rows, return_std=True)
    np.testing.assert_array_equal(mean, model.predict(rows))
    assert model.score(rows, response(rows, seed=6)) > 0.9
    assert model.verdict_.noise == pytest.approx(NOISE, rel=0.5)
    assert sd.min() >= model.verdict_.noise  # of a new response: the noise is part of it


def test_deviations_grow_away_from_the_data() -> None:
    model = quick().fit(np.linspace(0, 1, 30)[:, None], np.sin(9 * np.linspace(0, 1, 30)))
    _, sd = model.predict([[0.5], [1.5], [9.0]], return_std=True)
    assert sd[0] < sd[1] < sd[2]


def drawn(seed: int) -> tuple[OAKRegressor, np.ndarray, np.ndarray]:
    """A fit to data from a model, and held-out data from the same."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, (300, 2))
    origin = quick(max_order=2).fit(x[:12], np.sin(3.0 * x[:12, 0]) + x[:12, 0] * x[:12, 1])
    y = origin.sample_y(x, random_state=seed)[:, 0]
    y += 0.2 * y.std() * rng.standard_normal(len(y))
    return quick(max_order=2, max_iter=30).fit(x[:80], y[:80]), x[80:], y[80:]


def test_intervals_cover_held_out_rows_of_data_from_the_model() -> None:
    inside: dict[float, list[float]] = {0.5: [], 0.9: []}
    for seed in range(4):
        model, x, y = drawn(seed)
        for coverage, found in inside.items():
            low, high = model.predict_interval(x, coverage).T
            found.append(float(((low < y) & (y < high)).mean()))
    assert np.mean(inside[0.9]) == pytest.approx(0.9, abs=0.04)
    assert np.mean(inside[0.5]) == pytest.approx(0.5, abs=0.08)


@engines
def test_quantiles_are_those_of_a_normal_response(engine: str) -> None:
    model = model_of(engine)
    mean, sd = model.predict(ROWS, return_std=True)
    levels = [0.01, 0.05, 0.5, 0.9, 0.999]
    quantiles = model.predict_quantiles(ROWS, levels)
    assert quantiles.shape == (len(ROWS), 5)
    assert (np.diff(quantiles, axis=1) > 0).all()
    np.testing.assert_allclose(quantiles[:, 2], mean, rtol=1e-12)
    reached = norm.cdf((quantiles - mean[:, None]) / sd[:, None])
    np.testing.assert_allclose(reached, np.tile(levels, (len(ROWS), 1)), rtol=1e-9)
    np.testing.assert_array_equal(
        model.predict_interval(ROWS, 0.9), model.predict_quantiles(ROWS, (0.05, 0.95))
    )
    assert model.predict_quantiles(ROWS).shape == (len(ROWS), 3)


@pytest.mark.parametrize("quantiles", [[0.0], [1.0], [0.5, np.nan], 0.5, ["half"], [[0.5]]])
def test_quantiles_that_are_none_are_refused(quantiles: object) -> None:
    with pytest.raises(ValueError, match="quantiles=.* numbers strictly between 0 and 1"):
        fitted().predict_quantiles(ROWS, quantiles)


@pytest.mark.parametrize("coverage", [0, 1, 1.5, -0.1, float("nan"), "most"])
def test_coverages_that_are_none_are_refused(coverage: object) -> None:
    with pytest.raises(ValueError, match="coverage=.* strictly between 0 and 1"):
        fitted().predict_interval(ROWS, coverage)


# -- draws and covariances ----------------------------------------------------------------------


@engines
def test_covariance_is_that_of_the_deviations(engine: str) -> None:
    model = model_of(engine)
    covariance = model.predict_covariance(ROWS)
    _, sd = model.predict(ROWS, return_std=True)
    np.testing.assert_allclose(covariance, covariance.T, atol=1e-12)
    np.testing.assert_allclose(covariance.diagonal() + model.verdict_.noise**2, sd**2, rtol=1e-9)
    assert np.linalg.eigvalsh(covariance).min() > -1e-10
    of_one = model.predict_covariance(ROWS, ("a", "b"))
    np.testing.assert_allclose(
        np.sqrt(of_one.diagonal()), model.component(ROWS, ("a", "b"))[1], rtol=1e-6
    )


@engines
def test_draws_have_the_moments_of_the_posterior(engine: str) -> None:
    model, count = model_of(engine), 4000
    draws = model.sample_y(ROWS, count, random_state=3)
    assert draws.shape == (len(ROWS), count)
    mean, covariance = model.predict(ROWS), model.predict_covariance(ROWS)
    variance = covariance.diagonal()
    error = np.abs(draws.mean(axis=1) - mean)
    assert (error < 4.5 * np.sqrt(variance / count)).all()
    spread = np.sqrt((np.outer(variance, variance) + covariance**2) / count)
    assert (np.abs(np.cov(draws) - covariance) < 4.5 * spread).all()


def test_draws_are_those_of_their_seed() -> None:
    model = fitted()
    np.testing.assert_array_equal(model.sample_y(ROWS, 2, 7), model.sample_y(ROWS, 2, 7))
    assert np.abs(model.sample_y(ROWS, 2, 7) - model.sample_y(ROWS, 2, 8)).min() > 0
    assert model.sample_y(ROWS).shape == (len(ROWS), 1)
    twin = np.random.RandomState(4)
    np.testing.assert_array_equal(
        model.sample_y(ROWS, 1, np.random.RandomState(4)), model.sample_y(ROWS, 1, twin)
    )


def test_draws_at_many_equal_rows_are_equal() -> None:
    rows = pd.concat([ROWS[:1]] * 30)
    draws = fitted().sample_y(rows, 3)
    np.testing.assert_allclose(draws, np.tile(draws[0], (30, 1)), atol=1e-3)


@pytest.mark.parametrize("n_samples", [0, -1, 1.5, None, "many"])
def test_a_number_of_draws_that_is_none_is_refused(n_samples: object) -> None:
    with pytest.raises(ValueError, match="n_samples=.*whole number of at least 1"):
        fitted().sample_y(ROWS, n_samples)


# -- components -------------------------------------------------------------------------------


@engines
def test_components_and_constant_sum_to_the_prediction(engine: str) -> None:
    model = model_of(engine)
    parts = [model.component(ROWS, term)[0] for term in all_terms(model)]
    assert len(parts) == 7
    np.testing.assert_allclose(sum(parts) + model.constant_[0], model.predict(ROWS), atol=1e-8)


@engines
def test_components_have_mean_zero_and_the_constant_has_the_mean(engine: str) -> None:
    """Under the empirical measure, means over the training rows (all different here)."""
    model = model_of(engine)
    for name in "abc":
        assert model.component(TABLE, name)[0].mean() == pytest.approx(0.0, abs=1e-8)
    grid = pd.DataFrame(list(product(TABLE["a"], TABLE["b"])), columns=["a", "b"])
    pair, _ = model.component(grid.assign(c="red"), ("a", "b"))
    by_value = pair.reshape(len(TABLE), len(TABLE))
    np.testing.assert_allclose(by_value.mean(axis=0), 0.0, atol=1e-8)
    np.testing.assert_allclose(by_value.mean(axis=1), 0.0, atol=1e-8)


def test_the_constant() -> None:
    model = fitted()
    mean, sd = model.constant_
    values, deviations = model.component(ROWS, ())
    np.testing.assert_allclose(values, mean, rtol=1e-12)
    np.testing.assert_allclose(deviations, sd, rtol=1e-9)
    assert mean == pytest.approx(Y.mean(), abs=0.15)
    assert 0 < sd < 0.2


def test_all_ways_to_name_a_term() -> None:
    model = fitted()
    truth = model.component(ROWS, ("a", "c"))
    for name in ("a × c", "c × a", ["c", "a"], (0, 2), (np.int64(2), "a"), {"a", "c"}):
        np.testing.assert_array_equal(model.component(ROWS, name), truth)
    np.testing.assert_array_equal(model.component(ROWS, 1), model.component(ROWS, "b"))


def test_numbers_of_terms_are_those_of_the_table() -> None:
    """A column that was left out keeps its number, here as in categorical_features."""
    x = np.column_stack([np.ones(40), TABLE["a"], TABLE["b"]])
    model = quick(max_order=1).fit(x, Y)
    np.testing.assert_array_equal(model.component(x, 1), model.component(x, "x1"))
    with pytest.raises(ValueError, match="no feature 'x0': the column was left out.* 'x1', 'x2'"):
        model.component(x, 0)


@pytest.mark.parametrize(
    ("term", "error", "message"),
    [
        ("z", ValueError, "no feature 'z'; it has 'a', 'b', 'c'"),
        ("a × z", ValueError, "no feature 'z'"),
        (("a", "z"), ValueError, "no feature 'z'"),
        (3, ValueError, "no feature 3"),
        (-1, ValueError, "no feature -1"),
        (None, TypeError, "None names no term: give a column's name or number"),
        (1.5, TypeError, "1.5 names no term"),
        (("a", "b", "c"), ValueError, "no term 'a × b × c': its highest order is 2"),
    ],
)
def test_terms_that_are_none_are_refused(
    term: object, error: type[Exception], message: str
) -> None:
    model = fitted(max_order=2)
    with pytest.raises(error, match=message):
        model.component(ROWS, term)
    if term is not None:  # then the covariance is that of the whole
        with pytest.raises(error, match=message):
            model.predict_covariance(ROWS, term)


def test_a_column_whose_name_looks_like_a_term() -> None:
    table = pd.DataFrame({"a": TABLE["a"], "b": TABLE["b"], "a × b": TABLE["b"] * TABLE["a"]})
    model = quick(max_order=2).fit(table, Y)
    assert model.model_.term("a × b") == (2,)
    assert model.model_.term(("a", "b")) == (0, 1)


# -- the report -------------------------------------------------------------------------------


@engines
def test_shares_are_variances_over_the_measure(engine: str) -> None:
    """Sobol indices of main effects against plain variances over the training rows."""
    model = model_of(engine)
    table = model.components_
    share = dict(zip(table["term"], table["share"], strict=True))
    deviation = dict(zip(table["term"], table["sd"], strict=True))
    total = (deviation["a"] ** 2) / share["a"]
    for name in "abc":
        variance = model.component(TABLE, name)[0].var()
        assert deviation[name] ** 2 == pytest.approx(variance, rel=1e-6)
        assert share[name] == pytest.approx(variance / total, rel=1e-6)
    grid = pd.DataFrame(list(product(TABLE["a"], TABLE["b"])), columns=["a", "b"]).assign(c="red")
    variance = model.component(grid, ("a", "b"))[0].var()
    assert share["a × b"] == pytest.approx(variance / total, rel=1e-6)
    assert list(table["share"]) == sorted(table["share"], reverse=True)
    assert (table["low"] <= table["high"]).all()
    assert sum(table["share"]) == pytest.approx(1.0, abs=7e-4)  # those below 1e-4 are not listed
    assert model.sobol_.terms is table


def test_sobol_tables_agree_with_each_other() -> None:
    model = fitted()
    sobol = model.sobol_
    assert list(sobol.features["feature"]) == ["a", "b", "c"]
    assert sum(sobol.orders["share"]) == pytest.approx(1.0)
    assert sum(sobol.features["first_order"]) == pytest.approx(sobol.orders["share"][0])
    assert (sobol.features["total"] >= sobol.features["first_order"]).all()
    np.testing.assert_allclose(model.verdict_.order_shares, sobol.orders["share"])
    assert model.sobol_ is sobol  # once computed, it is kept


def test_the_verdict_says_what_happened() -> None:
    model = fitted(max_order=2)
    text = str(model.verdict_)
    assert text == repr(model.verdict_)
    assert "40 rows, 3 features, 6 terms up to order 2; exact engine, flow normal_score" in text
    assert f"standard deviation {model.verdict_.noise:.4g}" in text
    assert 0.5 < model.verdict_.explained < 1.0
    table = TABLE.assign(one=1.0, twin=TABLE["a"])
    warnings = " ".join(quick(max_order=1).fit(table, Y).verdict_.warnings)
    assert "Column 'one' is left out: it is constant" in warnings
    assert "Columns 'a' and 'twin' hold the same values" in warnings


def test_the_verdict_counts_rows_by_weight() -> None:
    weights = np.r_[np.zeros(10), np.ones(30)]
    verdict = quick(max_order=1).fit(TABLE, Y, sample_weight=weights).verdict_
    assert verdict.lines[0].startswith("30 rows, 3 features")


def test_transform_is_the_listed_components() -> None:
    model = fitted()
    names = list(model.get_feature_names_out())
    columns = model.transform(ROWS)
    assert columns.shape == (len(ROWS), len(names))
    for name, column in zip(names, columns.T, strict=True):
        np.testing.assert_array_equal(column, model.component(ROWS, name)[0])
