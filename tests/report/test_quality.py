from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, r2_score, roc_auc_score

from oakgp.report import quality


@pytest.fixture
def numbers() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.normal(3.0, 2.0, 400)
    return y, y + rng.standard_t(4, 400)


def test_r_squared_is_that_of_scikit_learn(numbers: tuple[np.ndarray, np.ndarray]) -> None:
    metric = quality.r_squared(*numbers)
    assert metric is not None
    assert metric.value == pytest.approx(r2_score(*numbers))
    assert quality.r_squared(np.ones(5), np.zeros(5)) is None


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_root_mean_square_of_any_scale(size: float) -> None:
    metric = quality.root_mean_square("", size * np.array([3.0, -4.0]), "")
    assert metric.value == pytest.approx(size * np.sqrt(12.5))


def test_intervals_agree_with_the_bootstrap(numbers: tuple[np.ndarray, np.ndarray]) -> None:
    y, prediction = numbers
    positive = y > 3
    rng = np.random.default_rng(1)
    draws = [rng.integers(len(y), size=len(y)) for _ in range(600)]
    cases = [
        (
            lambda i: quality.root_mean_square("", y[i] - prediction[i], ""),
            0.12,
        ),
        (lambda i: quality.r_squared(y[i], prediction[i]), 0.12),
        (lambda i: quality.area_under_curve(positive[i], prediction[i]), 0.12),
    ]
    for make, tolerance in cases:
        found = make(np.arange(len(y)))
        assert found is not None
        low, high = np.quantile([make(i).value for i in draws], [0.05, 0.95])
        width = high - low
        assert abs(found.low - low) < tolerance * width + 0.1 * width
        assert abs(found.high - high) < tolerance * width + 0.1 * width


def test_area_under_the_curve_counts_ties_by_half() -> None:
    rng = np.random.default_rng(0)
    positive, score = rng.random(200) < 0.3, rng.integers(0, 6, 200).astype(float)
    metric = quality.area_under_curve(positive, score)
    assert metric is not None
    assert metric.value == pytest.approx(roc_auc_score(positive, score))
    assert quality.area_under_curve(np.ones(3, bool), np.arange(3.0)) is None


def test_brier_score_of_two_and_of_more_classes() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 50)
    codes = rng.integers(0, 3, 50)
    two = np.column_stack([1 - p[:, 0], p[:, 0]])
    value = quality.brier_scores((codes > 1).astype(np.intp), two).mean()
    assert value == pytest.approx(brier_score_loss(codes > 1, p[:, 0]))
    by_hand = [((p[k] - np.eye(3)[codes[k]]) ** 2).sum() for k in range(50)]
    assert quality.brier_scores(codes, p) == pytest.approx(by_hand)


def test_wilson_interval_stays_within_0_and_1() -> None:
    low, high = quality.wilson(np.array([0.0, 5.0, 10.0]), np.array([10.0, 10.0, 10.0]))
    assert (low >= 0).all()
    assert (high <= 1).all()
    assert high[0] > 0.1
    assert low[1] < 0.5 < high[1]


def test_reliability_of_honest_probabilities() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(5000)
    groups = quality.reliability(p, rng.random(5000) < p)
    inside = (groups.low <= groups.promised) & (groups.promised <= groups.high)
    assert inside.mean() >= 0.7
    assert groups.counts.sum() == 5000


def test_coverage_counts_rows_within_their_interval() -> None:
    y = np.array([0.0, 1.0, 2.0, 9.0])
    lower, upper = np.array([[-1.0, 1.5]] * 4), np.array([[1.0, 3.0]] * 4)
    found = quality.coverage(np.array([0.5, 0.9]), y, lower, upper)
    assert found.seen.tolist() == [0.5, 0.25]
