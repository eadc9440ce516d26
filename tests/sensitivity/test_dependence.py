"""The variance over dependent rows: shares that add up, and words that say when it matters."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.explain.models import fitted, frame

from oakgp import OAKRegressor
from oakgp.sensitivity.dependence import concurvity, split_variance


def test_shares_are_covariances() -> None:
    rng = np.random.default_rng(0)
    parts = rng.standard_normal((50, 4)) @ rng.standard_normal((4, 4))
    structural, correlative = split_variance(parts)
    joint = np.cov(parts.T, bias=True)
    np.testing.assert_allclose(structural, joint.diagonal() / joint.sum())
    np.testing.assert_allclose(structural + correlative, joint.sum(axis=0) / joint.sum())
    assert (structural + correlative).sum() == pytest.approx(1.0)
    assert not split_variance(np.ones((5, 2)))[0].any()


def test_concurvity_is_the_share_that_the_others_explain() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, 4000))
    parts = np.column_stack([a, b, a + b + rng.standard_normal(4000), np.zeros(4000)])
    explained, correlations = concurvity(parts)
    assert explained[2] == pytest.approx(2 / 3, abs=0.03)
    assert explained[3] == 0
    assert correlations[0, 2] == pytest.approx(3**-0.5, abs=0.03)
    # Noise is not explained by many columns just because they are many.
    noise = rng.standard_normal((60, 20))
    assert concurvity(noise)[0].mean() < 0.15
    assert np.isnan(concurvity(noise[:15])[0]).all()
    assert concurvity(parts[:, :1])[0] == [0.0]


def test_the_split_is_that_of_the_function_over_the_rows() -> None:
    model, table = fitted(), frame(300)
    found = model.dependence(table, max_terms=5)
    f = model.predict(table)
    assert len(found.terms) == 6
    assert found.variance == pytest.approx(f.var())
    assert found.terms["total"].sum() == pytest.approx(1.0)
    for row in list(found.terms.rows())[:5]:
        part, _ = model.component(table, row["term"])
        assert row["structural"] == pytest.approx(part.var() / f.var(), rel=1e-6)
        covariance = np.cov(part, f, bias=True)[0, 1]
        assert row["total"] == pytest.approx(covariance / f.var(), abs=1e-8)
    shares = dict(zip(model.components_["term"], model.components_["share"], strict=True))
    assert found.terms["sobol"][0] == pytest.approx(shares[found.terms["term"][0]])


def test_independent_features_are_no_cause_for_alarm() -> None:
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (400, 2))
    y = x[:, 0] + 2 * x[:, 1]
    model = OAKRegressor(max_order=1, max_iter=10, flow="none").fit(x[:100], y[:100])
    found = model.dependence(x)
    assert not found.far
    assert "a fair summary" in found.message
    assert (found.concurvity["concurvity"] < 0.1).all()


def test_dependent_features_are_told_in_words() -> None:
    rng = np.random.default_rng(3)
    a = rng.uniform(-1, 1, 300)
    b = a + 0.1 * rng.standard_normal(300)
    table = pd.DataFrame({"a": a, "b": b})
    y = 2 * a - b + 0.05 * rng.standard_normal(300)
    model = OAKRegressor(max_order=1, max_iter=20, flow="none").fit(table, y)
    found = model.dependence(table)
    assert found.far
    assert "far off" in found.message
    assert "read them together" in found.message
    assert (found.concurvity["concurvity"] > 0.9).all()
    assert list(found.concurvity["closest"]) == list(found.terms["term"][1::-1])
    assert found.terms["correlative"][:2].min() < -0.5  # the effects cancel
    assert found.message in str(found)


def test_a_single_term_and_too_few_rows() -> None:
    model, table = fitted(), frame(20)
    found = model.dependence(table, "a")
    assert list(found.terms["term"]) == ["a", "(other terms)"]
    assert list(found.concurvity["closest"]) == [""]
    with pytest.raises(ValueError, match="at least 3"):
        model.dependence(table[:2])
