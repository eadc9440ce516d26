"""Explanations of the basis engine's models: the same promises as for the kernel engine."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from tests.explain.models import fitted, frame, response

from oakgp import OAKClassifier, OAKRegressor
from oakgp.explain import plot_all

TABLE = frame(400)
ROWS = frame(30).assign(c=["never seen", *["red"] * 29])


@cache
def regression() -> OAKRegressor:
    return OAKRegressor(engine="basis", max_order=2, flow="none").fit(TABLE, response(TABLE))


@cache
def classes() -> OAKClassifier:
    labels = pd.qcut(response(TABLE), 3, labels=list("uvw")).astype(str)
    return OAKClassifier(engine="basis", max_order=2, flow="none").fit(TABLE, labels)


def test_parts_add_up_with_their_deviations() -> None:
    model = regression()
    found = model.explain(ROWS)
    for kind in ("terms", "features"):
        np.testing.assert_allclose(
            found.attribution(kind).prediction, model.predict(ROWS), atol=1e-8
        )
    for k, term in enumerate(found.terms.names[:5]):
        mean, sd = model.component(ROWS, term)
        assert found.terms.sd is not None
        np.testing.assert_allclose(found.terms.values[:, k], mean, atol=1e-9)
        np.testing.assert_allclose(found.terms.sd[:, k], sd, atol=1e-9)
    joint = found.feature_covariance
    assert found.features.sd is not None
    np.testing.assert_allclose(
        np.sqrt(joint.diagonal(axis1=1, axis2=2)), found.features.sd, atol=1e-8
    )
    few = model.explain(ROWS, ["a", "b"]).of_row(0, "terms")
    assert few.sd is not None
    assert few.sd[0, -1] > 0


def test_both_engines_tell_the_same_story() -> None:
    exact = OAKRegressor(engine="exact", max_order=2, flow="none").fit(TABLE, response(TABLE))
    rows = frame(60)
    ours, theirs = (m.explain(rows).features.values for m in (regression(), exact))
    # The truth has order 3 too, which is noise to both, and each prior shrinks it its own way.
    assert np.abs(ours - theirs).mean() < 0.2 * np.abs(theirs).mean()
    ours, theirs = (m.sobol_.features["shapley"] for m in (regression(), exact))
    np.testing.assert_allclose(ours, theirs, atol=0.03)


def test_probabilities_contrasts_and_dependence() -> None:
    model = classes()
    found = model.explain(ROWS[:4], scale="response", output="v", n_samples=8)
    column = list(model.classes_).index("v")
    for kind in ("terms", "features"):
        np.testing.assert_allclose(
            found.attribution(kind).prediction, model.predict_proba(ROWS[:4])[:, column], atol=1e-8
        )
    table = regression().contrast(ROWS.iloc[0], ROWS.iloc[1])
    mean = regression().predict(ROWS[:2])
    assert table["difference"][0] == pytest.approx(mean[1] - mean[0])
    assert regression().dependence(TABLE).terms["total"].sum() == pytest.approx(1.0)


def test_every_plot() -> None:
    figures = plot_all(regression(), TABLE[:100], response(TABLE[:100]))
    assert {"components", "order_variances", "shapley", "pit", "truncation"} <= set(figures)


def test_models_that_were_edited() -> None:
    table = frame(30)
    edited = fitted().edit(
        scale={"a": 0.5}, drop=[("a", "b")], monotone={"b": "increasing"}, interactions=False
    )
    found = edited.explain(table)
    for kind in ("terms", "features"):
        np.testing.assert_allclose(
            found.attribution(kind).prediction, edited.predict(table), atol=1e-7
        )
    before = fitted().explain(table, ["a"]).terms
    after = edited.explain(table, ["a"]).terms
    np.testing.assert_allclose(after.values[:, 0], 0.5 * before.values[:, 0], atol=1e-9)
    assert after.sd is not None
    assert before.sd is not None
    np.testing.assert_allclose(after.sd[:, 0], 0.5 * before.sd[:, 0], atol=1e-9)
    assert edited.dependence(table).terms["total"].sum() == pytest.approx(1.0)
    assert "order_variances" in plot_all(edited)
