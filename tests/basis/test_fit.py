"""Whole fits of the basis engine: what they recover, and what they say of themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.basis.tables import classification, frame, regression, regressor, response, rows, signal

from oakgp import OAKClassifier, OAKRegressor
from oakgp.basis.fit import BasisSchedule


def within(model: OAKRegressor, table: pd.DataFrame, y: np.ndarray, sds: float) -> float:
    """Share of the responses within so many standard deviations of the prediction."""
    mean, sd = model.predict(table, return_std=True)
    noise = model.verdict_.noise or 0.0
    return float((np.abs(y - mean) < sds * np.sqrt(sd**2 + noise**2)).mean())


def test_the_truth_is_recovered_with_its_noise() -> None:
    model = regression(max_order=2)
    table = frame(300, seed=9)
    error = model.predict(table) - 2.0 - signal(table)
    assert np.sqrt(np.mean(error**2)) < 0.1
    assert model.verdict_.noise == pytest.approx(0.1, rel=0.25)
    assert within(model, table, response(table, 4), 2.0) > 0.9
    shares = dict(zip(model.components_["term"], model.components_["share"], strict=True))
    assert {"a", "b", "c"} <= set(list(shares)[:4])
    assert shares["a × b"] > 0.03
    assert shares.get("d", 0.0) < 0.01


def test_the_verdict_says_what_was_done() -> None:
    model = regression(max_order=2, max_iter=400)
    text = str(model.verdict_)
    columns, terms = model.model_.posterior.layout.size, len(model.model_.posterior.layout.terms)
    assert f"200 rows, 4 features, {terms - 1} terms up to order 2; basis engine with" in text
    assert f"basis engine with {columns} columns, flow normal_score" in text
    assert "the basis engine was chosen because it was asked for" in text
    assert "converged after" in text
    assert "of the variance is signal" in text
    assert model.verdict_.converged
    assert model.model_.facts.engine == "basis"
    assert sum(model.verdict_.order_shares) == pytest.approx(1.0)
    assert "2 kept terms" in str(model.truncate(n_terms=2).verdict_)


def test_the_verdict_of_labels_and_of_constant_responses() -> None:
    assert "basis engine" in str(classification(3).verdict_)
    flat = regressor(max_iter=4).fit(frame(30), np.full(30, 7.0))
    assert "y is the same in every row, so there is nothing to learn" in str(flat.verdict_)
    np.testing.assert_allclose(flat.predict(rows()), 7.0)
    assert flat.verdict_.explained == 0.0


def test_noise_at_a_bound_is_told() -> None:
    x = np.linspace(-1, 1, 60)[:, None]
    model = regressor(flow="none", max_iter=200).fit(x, np.round(x[:, 0] > 0) * 1.0)
    noise = model.model_.posterior.noise
    assert ("interpolated" in str(model.verdict_)) == (noise <= 1.001e-7)


def test_log_evidence_prefers_the_truth() -> None:
    """It is in units that allow models of the same rows to be compared."""
    table, y = frame(), response(frame())
    values = {}
    for name, options in {"all": {"max_order": 2}, "mains": {"max_order": 1}}.items():
        values[name] = regressor(**options).fit(table, y).model_.facts.log_evidence
    assert values["all"] > values["mains"] + 10
    binary = (y > np.median(y)).astype(int)
    both = OAKClassifier(engine="basis", max_order=1).fit(table, binary)
    none = OAKClassifier(engine="basis", max_order=1).fit(table[["d"]], binary)
    guessing = len(y) * np.log(0.5)
    assert both.model_.facts.log_evidence > guessing + 10
    assert guessing - 5 < none.model_.facts.log_evidence < guessing + 2


# Many rows: terms from a sample, weights from all.


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred and twenty rows are all that terms are found on."""
    few = replace(BasisSchedule(), learning_rows=120, screen_rows=80)
    monkeypatch.setattr(BasisSchedule, "within", lambda self, max_iter: few)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "student_t", "negative_binomial"])
def test_terms_from_a_sample_and_weights_from_all(likelihood: str) -> None:
    table = frame(900)
    y = response(table)
    if likelihood in ("poisson", "negative_binomial"):
        y = np.random.default_rng(0).poisson(np.exp(0.5 * y)).astype(float)
    model = regressor(likelihood=likelihood, max_order=2).fit(table, y)
    text = str(model.verdict_)
    assert "terms were found on 120 of 900 rows, weights and variances on all" in text
    other = regressor(likelihood=likelihood, max_order=2).fit(table, y)
    np.testing.assert_array_equal(model.predict(rows()), other.predict(rows()))
    if likelihood in ("gaussian", "student_t"):
        test = frame(200, seed=11)
        error = model.predict(test) - 2.0 - signal(test)
        assert np.sqrt(np.mean(error**2)) < 0.15
    else:
        truth = np.exp(0.5 * (2.0 + signal(table)))
        assert np.corrcoef(model.predict(table), truth)[0, 1] > 0.9


@pytest.mark.usefixtures("small")
def test_the_seed_picks_the_sample() -> None:
    table, y = frame(600), response(frame(600))
    first, second = (regressor(random_state=k, max_order=2).fit(table, y) for k in (0, 1))
    assert not np.array_equal(first.predict(rows()), second.predict(rows()))
    np.testing.assert_allclose(first.predict(frame(50)), second.predict(frame(50)), atol=0.2)


# Responses that are hard.


def test_one_in_a_thousand() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4000, 2))
    y = np.zeros(4000, dtype=int)
    y[np.argsort(x[:, 0])[-4:]] = 1
    model = OAKClassifier(engine="basis", max_order=2).fit(x, y)
    p = model.predict_proba(x)[:, 1]
    assert np.isfinite(p).all()
    assert p.mean() == pytest.approx(0.001, abs=0.0007)
    assert p[y == 1].mean() > 3 * p[y == 0].mean()


def test_separable_classes() -> None:
    x = np.linspace(-1, 1, 200)[:, None]
    model = OAKClassifier(engine="basis").fit(x, np.where(x[:, 0] > 0.2, "yes", "no"))
    p = model.predict_proba(x)[:, 1]
    assert ((p > 0) & (p < 1)).all()
    assert ((p > 0.5) == (x[:, 0] > 0.2)).mean() > 0.98


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
def test_counts_of_any_size(size: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (400, 2))
    rate = 10 * size * np.exp(x[:, 0])
    model = regressor(likelihood="poisson", max_order=1).fit(x, rng.poisson(rate).astype(float))
    mean = model.predict(x)
    assert np.isfinite(mean).all()
    if size >= 1.0:
        assert np.abs(mean / rate - 1.0).mean() < 0.1
    else:
        assert 0 < mean.mean() < 0.05


def test_noise_that_varies_is_found() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (800, 2))
    sd = 0.1 * np.exp(1.5 * x[:, 1])
    y = np.sin(3 * x[:, 0]) + sd * rng.standard_normal(800)
    model = regressor(likelihood="heteroscedastic_gaussian", max_order=1).fit(x, y)
    low, high = model.predict_interval(x, 0.9).T
    inside = (y > low) & (y < high)
    assert inside.mean() == pytest.approx(0.9, abs=0.06)
    assert np.corrcoef(np.log(high - low), np.log(sd))[0, 1] > 0.9


def test_outliers_do_not_bend_a_student_t() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (300, 1))
    y = np.sin(3 * x[:, 0]) + 0.1 * rng.standard_normal(300)
    y[::20] += 30.0
    model = regressor(likelihood="student_t").fit(x, y)
    np.testing.assert_allclose(model.predict(x), np.sin(3 * x[:, 0]), atol=0.25)


def test_exposure_is_a_factor_of_the_rate() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (500, 1))
    exposure = rng.uniform(0.5, 4.0, 500)
    y = rng.poisson(exposure * np.exp(1.0 + x[:, 0])).astype(float)
    model = regressor(likelihood="poisson").fit(x, y, exposure=exposure)
    np.testing.assert_allclose(
        model.predict(x, exposure=np.full(500, 2.0)), 2.0 * model.predict(x), rtol=1e-9
    )
    np.testing.assert_allclose(model.predict(x), np.exp(1.0 + x[:, 0]), rtol=0.25)
