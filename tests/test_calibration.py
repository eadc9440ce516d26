"""Calibration by loops, for known distributions, and of fitted models."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax
from sklearn.metrics import brier_score_loss, log_loss
from tests.estimators.models import frame, quick

from oakgp import OAKClassifier
from oakgp.calibration import (
    brier_score,
    class_log_likelihood,
    coverage,
    expected_calibration_error,
    pit_distance,
    randomised_pit,
    reliability,
)

matplotlib.use("Agg")


def binary(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.0, 1.0, n)
    return rng.random(n) < p, p


def test_scores_are_those_of_scikit_learn() -> None:
    hits, p = binary()
    both = np.stack([1.0 - p, p], axis=1)
    assert brier_score(hits.astype(int), both) == pytest.approx(brier_score_loss(hits, p))
    assert class_log_likelihood(hits.astype(int), both) == pytest.approx(-log_loss(hits, p))
    rng = np.random.default_rng(0)
    three, codes = softmax(rng.normal(size=(50, 3)), axis=1), rng.integers(0, 3, 50)
    slow = np.mean([sum((three[i, k] - (k == codes[i])) ** 2 for k in range(3)) for i in range(50)])
    assert brier_score(codes, three) == pytest.approx(slow)
    assert class_log_likelihood(codes, three) == pytest.approx(-log_loss(codes, three))


@pytest.mark.parametrize("how", ["width", "count"])
def test_reliability_counts_each_row_once(how: str) -> None:
    hits, p = binary()
    p[:3] = 0.0, 1.0, 0.5  # edges belong to a bin too
    table = reliability(hits, p, 7, how)
    assert table["count"].sum() == len(p)
    total = 0.0
    last = table["high"].max()
    for row in table.rows():
        inside = (p >= row["low"]) & ((p < row["high"]) | (row["high"] == last) & (p == last))
        assert row["count"] == inside.sum()
        assert row["observed"] == pytest.approx(hits[inside].mean())
        assert row["predicted"] == pytest.approx(p[inside].mean())
        assert row["observed_low"] <= row["observed"] <= row["observed_high"]
        total += inside.mean() * abs(hits[inside].mean() - p[inside].mean())
    assert expected_calibration_error(table) == pytest.approx(total)
    if how == "count":
        assert table["count"].max() - table["count"].min() <= 2


def test_intervals_around_observed_shares_hold_what_they_promise() -> None:
    rng = np.random.default_rng(0)
    p = np.full(100_000, 0.3)
    inside = [
        table["observed_low"][0] < 0.3 < table["observed_high"][0]
        for table in (reliability(rng.random(60) < 0.3, p[:60], 1) for _ in range(1500))
    ]
    assert np.mean(inside) == pytest.approx(0.9, abs=0.04)


def test_one_probability_is_one_bin() -> None:
    table = reliability(np.array([True, False]), np.array([0.4, 0.4]), 5, "count")
    assert table["count"].tolist() == [2]


def test_coverage_by_hand() -> None:
    y = np.array([0.0, 1.0, 2.0, 3.0])
    low, high = np.full((4, 1), 0.5), np.full((4, 1), 2.0)
    (row,) = coverage(y, low, high, [0.5]).rows()
    assert (row["observed"], row["below"], row["above"]) == (0.5, 0.25, 0.25)
    assert row["mean_width"] == 1.5


def test_pit_of_counts_is_uniform() -> None:
    rng = np.random.default_rng(0)
    rate = rng.uniform(0.1, 3.0, 4000)
    y = rng.poisson(rate)
    pit = randomised_pit(stats.poisson.cdf(y - 1, rate), stats.poisson.cdf(y, rate))
    assert pit_distance(pit) < 1.63 / 4000**0.5  # 99% of the Kolmogorov distribution
    assert pit_distance(pit) == pytest.approx(stats.kstest(pit, "uniform").statistic)
    wrong = randomised_pit(stats.poisson.cdf(y - 1, 2 * rate), stats.poisson.cdf(y, 2 * rate))
    assert pit_distance(wrong) > 0.1


def test_a_classifier_tells_its_calibration() -> None:
    rng = np.random.default_rng(0)
    table = frame(60)
    y = np.where(rng.random(60) < 0.5 + 0.4 * np.sign(table["a"]), "yes", "no")
    model = OAKClassifier(max_iter=5, flow="normal_score", max_order=1).fit(table, y)
    found = model.calibration(table, y, bins=5)
    scores = dict(zip(found.scores["score"], found.scores["value"], strict=True))
    p = model.predict_proba(table)
    assert scores["log-likelihood"] == pytest.approx(-log_loss(y, p))
    assert scores["accuracy"] == pytest.approx(model.score(table, y))
    assert found.reliability["count"].sum() == 60
    assert set(found.by_class["class"]) == {"no", "yes"}
    assert found.by_class["count"].sum() == 120
    assert len(found.plot().axes) == 1
    assert "Brier score" in str(found)
    with pytest.raises(ValueError, match="not in training, the first is 'maybe'"):
        model.calibration(table, ["maybe", *y[1:]])
    with pytest.raises(ValueError, match="equal length"):
        model.calibration(table, y[1:])


@pytest.mark.parametrize(
    "likelihood", ["gaussian", "poisson", "gamma", "beta", "student_t", "heteroscedastic_gaussian"]
)
def test_a_regressor_tells_its_calibration(likelihood: str) -> None:
    rng = np.random.default_rng(0)
    table = frame(80)
    f = table["a"].to_numpy()
    options: dict[str, Any] = {}
    if likelihood == "poisson":
        exposure = rng.uniform(0.5, 3.0, 80)
        y, options = rng.poisson(exposure * np.exp(f)).astype(float), {"exposure": exposure}
    elif likelihood == "gamma":
        y = rng.gamma(2.0, np.exp(f))
    elif likelihood == "beta":
        y = np.clip(rng.beta(2.0 + f, 2.0 - f), 1e-6, 1 - 1e-6)
    else:
        y = 10.0 + 5.0 * (f + 0.3 * rng.standard_normal(80))
    model = quick(likelihood=likelihood, max_order=1).fit(table, y, **options)
    found = model.calibration(table, y, **options)
    scores = dict(zip(found.scores["score"], found.scores["value"], strict=True))
    density = model.predict_log_density(table, y, **options).mean()
    assert scores["log-likelihood"] == pytest.approx(density)
    low, high = model.predict_interval(table, 0.9, **options).T
    inside = np.mean((y >= low) & (y <= high))
    assert found.coverage["observed"][2] == pytest.approx(inside)
    assert abs(found.coverage["observed"][2] - 0.9) < 0.12
    assert ((found.pit > 0) & (found.pit < 1)).all()
    assert scores["PIT distance"] < 0.25
    if likelihood != "poisson":  # intervals are those of the same distribution
        np.testing.assert_allclose(
            np.mean(np.abs(found.pit - 0.5) <= 0.45), found.coverage["observed"][2], atol=1e-9
        )
    assert len(found.plot().axes) == 1
