"""Scores against formulas written out, and against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import brier_score_loss, log_loss, mean_poisson_deviance, roc_auc_score

from benchmarks import metrics


def test_regression_scores_are_in_the_unit(rng):
    y, mean, sd = rng.normal(3.0, 2.0, 50), rng.normal(3.0, 2.0, 50), rng.uniform(0.5, 2.0, 50)
    found = metrics.regression_scores(y, mean, sd, unit=2.0)
    scaled = metrics.regression_scores(y / 2.0, mean / 2.0, sd / 2.0)
    assert found == pytest.approx(scaled)
    expected = stats.norm.logpdf(y / 2.0, mean / 2.0, sd / 2.0).mean()
    assert found["loglik"] == pytest.approx(expected)
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)) / 2.0)


def test_coverage_of_a_true_normal(rng):
    y = rng.standard_normal(20_000)
    found = metrics.regression_scores(y, np.zeros_like(y), np.ones_like(y))
    for level in metrics.LEVELS:
        assert found[f"coverage{level}"] == pytest.approx(level / 100, abs=0.01)
    assert found["width90"] == pytest.approx(2 * 1.6449, abs=1e-3)


def test_no_deviation_no_likelihood():
    assert set(metrics.regression_scores(np.arange(3.0), np.zeros(3), None)) == {"rmse"}


def test_binary_scores_are_those_of_scikit_learn(rng):
    p = rng.uniform(0.01, 0.99, 400)
    y = (rng.uniform(size=400) < p).astype(int)
    found = metrics.class_scores(y, np.column_stack([1 - p, p]))
    assert found["auc"] == pytest.approx(roc_auc_score(y, p))
    assert found["brier"] == pytest.approx(brier_score_loss(y, p))
    assert found["loglik"] == pytest.approx(-log_loss(y, p))
    assert found["accuracy"] == np.mean((p > 0.5) == y)
    assert found["ece"] < 0.1


def test_certain_and_wrong_is_clipped():
    p = np.array([[1.0, 0.0], [0.0, 1.0]])
    found = metrics.class_scores([1, 1], p)
    assert found["loglik"] == pytest.approx(0.5 * np.log(metrics.CLIP), rel=1e-6)
    assert "auc" not in found  # one class only


def test_calibration_error_by_hand():
    p = np.array([0.1, 0.1, 0.9, 0.9])
    y = np.array([0, 0, 1, 0])
    assert metrics.calibration_error(y, p) == pytest.approx(0.5 * 0.1 + 0.5 * 0.4)


def test_several_classes(rng):
    p = rng.dirichlet(np.ones(3), 300)
    y = np.array([rng.choice(3, p=row) for row in p])
    found = metrics.class_scores(y, p)
    assert found["auc"] == pytest.approx(roc_auc_score(y, p, multi_class="ovr"))
    assert found["brier"] == pytest.approx(((p - np.eye(3)[y]) ** 2).sum(axis=1).mean())


def test_counts(rng):
    mean = rng.uniform(0.1, 3.0, 200)
    y = rng.poisson(mean)
    found = metrics.count_scores(y, mean, np.full(200, 0.5))
    assert found["deviance"] == pytest.approx(mean_poisson_deviance(y, mean))
    assert found["loglik"] == pytest.approx(stats.poisson.logpmf(y, mean).mean())
    assert found["deviance_per_exposure"] == pytest.approx(2 * found["deviance"])
