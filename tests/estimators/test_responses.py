"""Regression of counts, amounts, proportions, outliers and varying noise."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats
from tests.estimators.models import all_terms, frame, response

from oakgp import OAKRegressor
from oakgp.estimators.regressor import RESPONSES

OTHERS = [name for name in RESPONSES if name != "gaussian"]
LOG = ["poisson", "negative_binomial", "gamma"]
TABLE = frame(60)
ROWS = frame(9, seed=5)
others = pytest.mark.parametrize("name", OTHERS)


def target(name: str, table: Any = TABLE, seed: int = 0) -> np.ndarray:
    rng, f = np.random.default_rng(seed), response(table) - 2.0
    n = len(f)
    if name == "poisson":
        return rng.poisson(np.exp(f)).astype(float)
    if name == "negative_binomial":
        return rng.poisson(np.exp(f) * rng.gamma(2.0, 0.5, n)).astype(float)
    if name == "gamma":
        return rng.gamma(3.0, np.exp(f) / 3.0)
    if name == "beta":
        p = 1 / (1 + np.exp(-f))
        return rng.beta(9 * p, 9 * (1 - p))
    if name == "student_t":
        return 100.0 + 10.0 * (f + 0.1 * rng.standard_t(3, n))
    return 100.0 + 10.0 * (f + 0.3 * np.exp(table["a"]) * rng.standard_normal(n))


def quick(name: str, **options: Any) -> OAKRegressor:
    settings = {"max_iter": 5, "flow": "normal_score", "max_order": 2, **options}
    return OAKRegressor(likelihood=name, **settings)


@cache
def fitted(name: str, **options: Any) -> OAKRegressor:
    """A model of `frame(60)`; callers must not change it."""
    return quick(name, **options).fit(TABLE, target(name))


# -- every response -------------------------------------------------------------------------------


@others
def test_predictions_agree_with_draws(name: str) -> None:
    """Mean, deviation and quantiles against new responses drawn at each row."""
    model = fitted(name)
    mean, sd = model.predict(ROWS, return_std=True)
    np.testing.assert_array_equal(mean, model.predict(ROWS))
    draws = model.sample_y(ROWS, 40_000, noise=True)
    assert draws.shape == (9, 40_000)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=0.06 * sd.max())
    if name != "student_t":  # its draws have too heavy tails
        np.testing.assert_allclose(draws.std(axis=1), sd, rtol=0.15)
    low, high = model.predict_interval(ROWS, 0.8).T
    within = ((draws >= low[:, None]) & (draws <= high[:, None])).mean(axis=1)
    counts = name in ("poisson", "negative_binomial")
    assert (within > 0.78).all()
    assert counts or (within < 0.82).all()


@others
def test_draws_without_noise_are_of_the_expected_response(name: str) -> None:
    model = fitted(name)
    draws = model.sample_y(ROWS, 20_000)
    mean, sd = model.predict(ROWS, return_std=True)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=0.05 * sd.max())
    assert (draws.std(axis=1) < sd).all()


@others
def test_components_add_up_to_the_link(name: str) -> None:
    model = fitted(name)
    total = sum(model.component(ROWS, term)[0] for term in [(), *all_terms(model)])
    np.testing.assert_allclose(total, model.predict_link(ROWS)[0], atol=1e-7)
    assert np.abs(model.predict_covariance(ROWS).diagonal() ** 0.5) == pytest.approx(
        model.predict_link(ROWS)[1], rel=1e-6
    )


@others
@pytest.mark.parametrize("engine", ["exact", "sparse"])
def test_same_seed_same_bits_and_rows_in_any_order(name: str, engine: str) -> None:
    y, order = target(name), np.random.default_rng(1).permutation(60)
    options: dict[str, Any] = {"engine": engine, "n_inducing": 12, "max_iter": 3}
    one, other = (quick(name, **options).fit(TABLE, y) for _ in range(2))
    shuffled = quick(name, **options).fit(TABLE.iloc[order], y[order])
    assert one.model_.facts.engine == engine
    for a, b, c in zip(
        *(m.predict(ROWS, return_std=True) for m in (one, other, shuffled)), strict=True
    ):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


@others
def test_a_weight_is_a_number_of_rows(name: str) -> None:
    counts = np.random.default_rng(2).integers(0, 4, 60)
    one = quick(name, max_iter=3).fit(TABLE, target(name), sample_weight=counts)
    rows = TABLE.loc[TABLE.index.repeat(counts)]
    other = quick(name, max_iter=3).fit(rows, np.repeat(target(name), counts))
    for a, b in zip(*(m.predict(ROWS, return_std=True) for m in (one, other)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7)


@others
def test_truncation_and_its_curve(name: str) -> None:
    model = fitted(name)
    short = model.truncate(n_terms=1)
    assert 0 <= short.dropped_variance_ < 1
    curve = model.truncation_curve(TABLE, target(name), n_terms=2)
    error = np.sqrt(np.mean((target(name) - short.predict(TABLE)) ** 2))
    assert curve["metric"][1] == pytest.approx(error)
    assert model.transform(ROWS).shape == (9, len(model.get_feature_names_out()))


def test_log_densities() -> None:
    for name in OTHERS:
        model, y = fitted(name), target(name, frame(200, seed=7), seed=8)
        density = model.predict_log_density(frame(200, seed=7), y)
        assert density.shape == (200,)
        assert np.isfinite(density).all()
    gaussian = OAKRegressor(max_iter=3, flow="normal_score").fit(TABLE, target("student_t"))
    mean, sd = gaussian.predict(ROWS, return_std=True)
    truth = stats.norm.logpdf(mean + 1.0, mean, sd)
    np.testing.assert_allclose(gaussian.predict_log_density(ROWS, mean + 1.0), truth)


@pytest.mark.parametrize("name", ["student_t", "heteroscedastic_gaussian"])
def test_real_responses_follow_their_unit(name: str) -> None:
    y = target(name)
    one, other = quick(name).fit(TABLE, y), quick(name).fit(TABLE, 1e3 * y - 7.0)
    for a, b, shift in zip(
        one.predict(ROWS, return_std=True),
        other.predict(ROWS, return_std=True),
        (7, 0),
        strict=True,
    ):
        np.testing.assert_allclose(1e3 * a - shift, b, rtol=1e-2)
    np.testing.assert_allclose(
        1e3 * one.component(ROWS, "a")[0], other.component(ROWS, "a")[0], rtol=1e-2, atol=10.0
    )
    a, b = (m.predict_log_density(ROWS, m.predict(ROWS)) for m in (one, other))
    np.testing.assert_allclose(a - np.log(1e3), b, atol=1e-2)


# -- counts and exposure --------------------------------------------------------------------------


def test_a_rate_with_exposure_is_recovered() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (300, 2))
    log_rate = np.sin(2.0 * X[:, 0]) - 1.0
    exposure = rng.uniform(0.2, 6.0, 300)
    y = rng.poisson(exposure * np.exp(log_rate))
    model = OAKRegressor(likelihood="poisson", max_order=2, flow="normal_score")
    model.fit(X, y, exposure=exposure)
    assert model.verdict_.converged
    mean, sd = model.predict_link(X)
    z = (mean - log_rate) / sd
    assert (np.abs(z) < 2).mean() > 0.85
    assert np.sqrt(np.mean((mean - log_rate) ** 2)) < 0.25
    assert model.components_["term"][0] == "x0"
    assert model.components_["share"][0] > 0.9
    # Twice the exposure, twice the count; without one, the rate.
    np.testing.assert_allclose(
        model.predict(X, exposure=np.full(300, 2.0)), 2.0 * model.predict(X), rtol=1e-12
    )
    np.testing.assert_allclose(
        model.predict(X, offset=np.log(exposure)), model.predict(X, exposure=exposure), rtol=1e-12
    )
    interval = model.predict_interval(X, 0.9, exposure=exposure)
    assert ((y >= interval[:, 0]) & (y <= interval[:, 1])).mean() > 0.88
    assert (interval == np.round(interval)).all()


@pytest.mark.parametrize("name", LOG)
def test_exposure_is_an_offset_of_its_logarithm(name: str) -> None:
    exposure = np.random.default_rng(3).uniform(0.5, 3.0, 60)
    one = quick(name).fit(TABLE, target(name), exposure=exposure)
    other = quick(name).fit(TABLE, target(name), offset=np.log(exposure))
    both = quick(name).fit(TABLE, target(name), exposure=exposure**2, offset=-np.log(exposure))
    for model in (other, both):
        np.testing.assert_allclose(one.predict(ROWS), model.predict(ROWS), rtol=1e-6)
    plain = fitted(name)
    assert np.abs(one.predict(ROWS) / plain.predict(ROWS) - 1).max() > 0.05


@pytest.mark.parametrize("name", ["gaussian", "student_t", "heteroscedastic_gaussian"])
def test_an_offset_of_a_real_response_is_taken_from_it(name: str) -> None:
    offset = np.random.default_rng(3).normal(0.0, 5.0, 60)
    one = quick(name).fit(TABLE, target("student_t") + offset, offset=offset)
    other = quick(name).fit(TABLE, target("student_t"))
    np.testing.assert_allclose(one.predict(ROWS), other.predict(ROWS), rtol=1e-3)
    shifted = one.predict(ROWS, offset=np.full(9, 2.0))
    np.testing.assert_allclose(shifted, one.predict(ROWS) + 2.0)
    np.testing.assert_allclose(
        one.predict_interval(ROWS, offset=2.0), one.predict_interval(ROWS) + 2.0
    )
    np.testing.assert_allclose(one.sample_y(ROWS, offset=2.0), one.sample_y(ROWS) + 2.0)
    np.testing.assert_allclose(
        one.predict_log_density(ROWS, shifted, offset=2.0),
        one.predict_log_density(ROWS, one.predict(ROWS)),
    )


# -- outliers and varying noise -------------------------------------------------------------------


def test_outliers_do_not_pull() -> None:
    rng = np.random.default_rng(0)
    x = np.linspace(-2, 2, 120)[:, None]
    truth = np.sin(2 * x[:, 0])
    y = truth + 0.05 * rng.standard_normal(120)
    y[::9] += 20.0 * rng.standard_normal(14)
    robust = OAKRegressor(likelihood="student_t", flow="none").fit(x, y)
    plain = OAKRegressor(flow="none").fit(x, y)
    errors = [np.sqrt(np.mean((m.predict(x) - truth) ** 2)) for m in (robust, plain)]
    assert errors[0] < 0.1
    assert errors[0] < 0.5 * errors[1]


def test_what_drives_the_noise_is_found() -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, (300, 2))
    y = 3.0 * X[:, 0] + np.exp(1.2 * X[:, 1] - 1.0) * rng.standard_normal(300)
    model = OAKRegressor(
        likelihood="heteroscedastic_gaussian", max_order=2, flow="normal_score"
    ).fit(X, y)
    assert model.components_["term"][0] == "x0"
    noise = model.sobol_of("log noise").terms
    assert noise["term"][0] == "x1"
    assert noise["share"][0] > 0.8
    effect, _ = model.component(X, "x1", output="log noise")
    slope = np.polyfit(X[:, 1], effect, 1)[0]
    assert slope == pytest.approx(2.4, abs=0.6)
    total, _ = model.predict_link(X, "log noise")
    assert np.sqrt(np.mean((total - 2.4 * X[:, 1] + 2.0) ** 2)) < 0.6
    interval = model.predict_interval(X, 0.9)
    inside = (y >= interval[:, 0]) & (y <= interval[:, 1])
    for part in (X[:, 1] < 0, X[:, 1] > 0):
        assert inside[part].mean() == pytest.approx(0.9, abs=0.07)
    assert {n.split(": ")[0] for n in model.get_feature_names_out()} == {"mean", "log noise"}


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "y", "message"),
    [
        ("poisson", -1.0, "is negative in 1 of 60 rows, the first is row 3"),
        ("poisson", 0.5, "is not a whole number"),
        ("negative_binomial", -2.0, "is negative"),
        ("gamma", 0.0, "is not positive"),
        ("beta", 1.0, "y .* in 1 of 60 rows, the first is row 3"),
        ("beta", -0.2, "y .* in 1 of 60 rows, the first is row 3"),
        ("student_t", np.nan, "contains NaN"),
    ],
)
def test_responses_that_cannot_be_are_refused(name: str, y: float, message: str) -> None:
    values = target(name)
    values[3] = y
    with pytest.raises(ValueError, match=message):
        quick(name).fit(TABLE, values)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"exposure": np.r_[0.0, np.ones(59)]}, "exposure is not positive in 1 of 60 rows, .* 0"),
        ({"exposure": -np.ones(60)}, "exposure is not positive in 60 of 60 rows"),
        ({"exposure": np.ones(3)}, r"exposure has shape \(3,\), but there are 60 rows"),
        ({"exposure": np.full(60, np.nan)}, "exposure contains NaN"),
        ({"offset": np.full(60, np.inf)}, "offset contains infinity"),
        ({"offset": ["a"] * 60}, "offset holds .*'a'.* which is no number"),
    ],
)
def test_exposures_that_cannot_be_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quick("poisson").fit(TABLE, target("poisson"), **given)


@pytest.mark.parametrize("name", ["gaussian", "student_t", "beta", "heteroscedastic_gaussian"])
def test_exposure_is_for_counts_and_amounts(name: str) -> None:
    y = target("beta")
    with pytest.raises(ValueError, match=f"the {name} likelihood has no exposure: use offset="):
        quick(name).fit(TABLE, y, exposure=np.ones(60))


def test_likelihoods_that_are_none_are_refused() -> None:
    for name in ("cauchy", "softmax", "bernoulli_logit"):
        with pytest.raises(ValueError, match=f"likelihood='{name}': choose one of 'gaussian'"):
            quick(name).fit(TABLE, target("poisson"))


@pytest.mark.parametrize(
    ("name", "value"), [("poisson", 0.0), ("negative_binomial", 7.0), ("gamma", 2.0)]
)
def test_constant_responses(name: str, value: float) -> None:
    model = quick(name, max_iter=20).fit(TABLE, np.full(60, value))
    mean, sd = model.predict(ROWS, return_std=True)
    assert np.isfinite([*mean, *sd]).all()
    np.testing.assert_allclose(mean, value, atol=0.3)
    assert any(text.startswith("y is the same in every row") for text in model.verdict_.warnings)


@others
def test_one_row(name: str) -> None:
    y = {"beta": [0.3]}.get(name, [3.0])
    model = quick(name, max_order=1).fit([[1.0]], y)
    mean, sd = model.predict([[1.0], [5.0]], return_std=True)
    assert np.isfinite([*mean, *sd]).all()
