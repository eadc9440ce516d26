"""Classification: labels, probabilities, what explains them, tables that leave little choice."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from tests.estimators.models import frame, response

from oakgp import OAKClassifier

TABLE = frame()
ROWS = frame(9, seed=5)
LABELS = np.where(response(TABLE) > 2.3, "yes", "no")
THREE = np.array(["low", "middle", "top"])[np.digitize(response(TABLE), [1.7, 2.8])]


def quick(**options: Any) -> OAKClassifier:
    return OAKClassifier(**{"max_iter": 5, "flow": "normal_score", "max_order": 2, **options})


@cache
def fitted(n_classes: int = 2, **options: Any) -> OAKClassifier:
    """A classifier of `frame()`; callers must not change it."""
    return quick(**options).fit(TABLE, LABELS if n_classes == 2 else THREE)


both = pytest.mark.parametrize("n_classes", [2, 3])


# -- what it predicts -----------------------------------------------------------------------------


def crossed(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log odds of an interaction and a bump, which a linear model cannot see."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 3))
    odds = 1.5 * X[:, 0] * X[:, 1] + np.cos(2.0 * X[:, 2])
    return X, rng.random(n) < 1 / (1 + np.exp(-odds)), odds


def test_an_interaction_is_found() -> None:
    X, y, _ = crossed(250, 0)
    new, labels, odds = crossed(500, 1)
    model = OAKClassifier(max_order=2, flow="normal_score").fit(X, y)
    ours = model.predict_proba(new)[:, 1]
    theirs = LogisticRegression().fit(X, y).predict_proba(new)[:, 1]
    assert model.verdict_.converged
    assert roc_auc_score(labels, ours) > roc_auc_score(labels, theirs) + 0.15
    truth = 1 / (1 + np.exp(-odds))
    assert log_loss(labels, ours) < log_loss(labels, truth) + 0.06
    assert log_loss(labels, ours) < log_loss(labels, theirs) - 0.1
    assert np.corrcoef(model.predict_link(new)[0], odds)[0, 1] > 0.9
    assert model.components_["term"][0] == "x0 × x1"
    mean, sd = model.component(new, ("x0", "x1"))
    inside = np.abs(mean - 1.5 * new[:, 0] * new[:, 1]) < 3 * sd
    assert inside.mean() > 0.8


@both
def test_probabilities_are_shares(n_classes: int) -> None:
    model = fitted(n_classes)
    p = model.predict_proba(ROWS)
    assert p.shape == (9, n_classes)
    assert (p > 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(model.predict_log_proba(ROWS), np.log(p), rtol=1e-9)
    np.testing.assert_array_equal(model.predict(ROWS), model.classes_[p.argmax(axis=1)])
    assert model.score(TABLE, LABELS if n_classes == 2 else THREE) > 0.8


def test_decisions_are_those_of_the_probabilities() -> None:
    model = fitted()
    decision = model.decision_function(ROWS)
    p = model.predict_proba(ROWS)[:, 1]
    np.testing.assert_allclose(decision, np.log(p / (1 - p)), rtol=1e-9)
    np.testing.assert_array_equal(model.predict(ROWS), np.where(decision > 0, "yes", "no"))
    assert fitted(3).decision_function(ROWS).shape == (9, 3)


def test_probabilities_average_over_the_latent_function() -> None:
    for link in ("logit", "probit"):
        model = fitted(link=link)
        mean, sd = model.predict_link(ROWS)
        f = mean + sd * np.random.default_rng(0).standard_normal((200_000, 1))
        if link == "logit":
            p = 1 / (1 + np.exp(-f))
        else:
            from scipy.special import ndtr

            p = ndtr(f)
        np.testing.assert_allclose(model.predict_proba(ROWS)[:, 1], p.mean(axis=0), atol=3e-3)


@both
def test_components_add_up_to_the_latent_functions(n_classes: int) -> None:
    model = fitted(n_classes)
    names = model.model_.names
    terms = [(), *names, *[(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]]
    for output in [None] if n_classes == 2 else model.classes_:
        total = sum(model.component(ROWS, term, output)[0] for term in terms)
        np.testing.assert_allclose(total, model.predict_link(ROWS, output)[0], atol=1e-8)


# -- labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [
        ["b", "a"],
        [True, False],
        [3, 7],
        [-1.0, 2.0],
        ["", "é × $x$"],
        ["a", "b", "c"],
        [10, 2, 33],
    ],
    ids=str,
)
def test_labels_of_any_kind(labels: list[Any]) -> None:
    codes = np.digitize(response(TABLE), [2.3] if len(labels) == 2 else [1.7, 2.8])
    y = np.array(labels)[codes]
    model = quick(max_iter=2).fit(TABLE, y)
    assert model.classes_.tolist() == sorted(labels)
    assert set(model.predict(ROWS).tolist()) <= set(labels)
    assert model.predict(ROWS).dtype == y.dtype
    for same in (pd.Series(y), pd.Series(y, dtype="category"), pl.Series(y.tolist()), y.tolist()):
        other = quick(max_iter=2).fit(TABLE, same)
        np.testing.assert_array_equal(other.predict_proba(ROWS), model.predict_proba(ROWS))


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a"] * 40, "only one class, 'a': a classifier needs rows of at least two classes"),
        (np.zeros(40), "only one class, 0.0"),
        (np.linspace(0, 1, 40), "Unknown label type"),
        (["a", None] * 20, "contains NaN: 20 of 40 labels are missing, the first in row 1"),
        ([0.0, np.nan] * 20, "contains NaN: 20 of 40 rows, the first is row 1"),
        (["a", 1] * 20, "mixes texts and numbers"),
        (["a", "b"], "X has 40 rows but y has 2"),
        ([], "y is empty"),
        (None, "requires y to be passed"),
    ],
)
def test_labels_that_cannot_be_are_refused(y: Any, message: str) -> None:
    if isinstance(y, list) and len(y) == 40 and {type(v) for v in y} == {str, int}:
        y = np.array(y, dtype=object)
    with pytest.raises(ValueError, match=message):
        quick().fit(TABLE, y)


def test_one_class_is_left_by_the_weights() -> None:
    with pytest.raises(ValueError, match="only one class, 'yes': .*of positive weight"):
        quick().fit(TABLE, LABELS, sample_weight=(LABELS == "yes").astype(float))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"link": "cloglog"}, "link='cloglog': choose one of 'logit', 'probit'"),
        ({"class_weight": "even"}, "class_weight"),
        ({"max_iter": 0}, "max_iter=0"),
    ],
)
def test_settings_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(TABLE, LABELS)


@pytest.mark.parametrize("name", ["predict", "predict_proba", "decision_function", "transform"])
def test_nothing_is_predicted_before_fit(name: str) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(quick(), name)(ROWS)


# -- weights --------------------------------------------------------------------------------------


@pytest.mark.parametrize("class_weight", [None, "balanced", {"yes": 3.0, "no": 0.5}], ids=str)
def test_a_weight_is_a_number_of_rows(class_weight: Any) -> None:
    counts = np.random.default_rng(2).integers(0, 4, 40)
    settings = {"class_weight": class_weight}
    one = quick(**settings).fit(TABLE, LABELS, sample_weight=counts)
    rows = TABLE.loc[TABLE.index.repeat(counts)]
    other = quick(**settings).fit(rows, np.repeat(LABELS, counts))
    np.testing.assert_allclose(one.predict_proba(ROWS), other.predict_proba(ROWS), atol=1e-8)


def test_class_weights_are_row_weights() -> None:
    shares = {label: (label == LABELS).mean() for label in ("no", "yes")}
    each = {label: 0.5 / share for label, share in shares.items()}
    one = quick(class_weight="balanced").fit(TABLE, LABELS)
    two = quick(class_weight=each).fit(TABLE, LABELS)
    rows = np.array([each[label] for label in LABELS])
    three = quick().fit(TABLE, LABELS, sample_weight=rows)
    plain = fitted()
    for other in (two, three):
        np.testing.assert_allclose(one.predict_proba(ROWS), other.predict_proba(ROWS), atol=1e-9)
    assert np.abs(one.predict_proba(ROWS) - plain.predict_proba(ROWS)).max() > 1e-3


# -- what a fit promises --------------------------------------------------------------------------


@both
@pytest.mark.parametrize("engine", ["exact", "sparse"])
def test_same_seed_same_bits_and_rows_in_any_order(n_classes: int, engine: str) -> None:
    options = {"engine": engine, "n_inducing": 15}
    y = LABELS if n_classes == 2 else THREE
    order = np.random.default_rng(1).permutation(40)
    one, other = (quick(**options).fit(TABLE, y) for _ in range(2))
    shuffled = quick(**options).fit(TABLE.iloc[order], y[order])
    np.testing.assert_array_equal(one.predict_proba(ROWS), other.predict_proba(ROWS))
    np.testing.assert_array_equal(one.predict_proba(ROWS), shuffled.predict_proba(ROWS))
    assert repr(one.sobol_) == repr(other.sobol_)


def test_equal_rows_of_different_classes_are_not_averaged() -> None:
    """Merging rows into a mean label of 1/2 would be no label at all."""
    table = pd.concat([TABLE, TABLE])
    y = np.r_[np.full(40, "no"), np.full(40, "yes")]
    model = quick().fit(table, y)
    assert model.model_.facts.n_distinct == 80
    np.testing.assert_allclose(model.predict_proba(ROWS), 0.5, atol=1e-3)
    again = quick().fit(pd.concat([TABLE] * 3), np.r_[LABELS, LABELS, LABELS])
    assert (again.model_.facts.n_rows, again.model_.facts.n_distinct) == (120, 40)


# -- explanations ---------------------------------------------------------------------------------


def test_classes_have_their_own_shares() -> None:
    model = fitted(3)
    whole = model.model_.totals.orders
    each = [model.model_.of(c).totals.orders for c in model.classes_]
    np.testing.assert_allclose(whole, sum(each) / 3, rtol=1e-9)
    assert repr(model.sobol_of("top")) != repr(model.sobol_of("low"))
    ranked = dict(zip(model.sobol_.ranking.terms, model.sobol_.ranking.variances, strict=True))
    parts = [model.sobol_of(c).ranking for c in model.classes_]
    for term in list(ranked)[:2]:
        found = [dict(zip(r.terms, r.variances, strict=True)).get(term, 0.0) for r in parts]
        assert ranked[term] == pytest.approx(np.mean(found), rel=1e-2)
    table = model.sobol_.terms
    assert ((table["low"] <= table["mean_share"]) & (table["mean_share"] <= table["high"])).all()


def test_a_class_must_be_named_where_there_are_several() -> None:
    model = fitted(3)
    with pytest.raises(ValueError, match="give output=, one of 'low', 'middle', 'top'"):
        model.component(ROWS, "a")
    with pytest.raises(ValueError, match="no latent function for output='high'; it has 'low'"):
        model.component(ROWS, "a", output="high")
    one = fitted()
    np.testing.assert_array_equal(
        one.component(ROWS, "a")[0], one.component(ROWS, "a", output="yes")[0]
    )


@both
def test_truncation(n_classes: int) -> None:
    model = fitted(n_classes)
    short = model.truncate(n_terms=1)
    (name,) = {n.split(": ")[-1] for n in short.get_feature_names_out()}
    assert name == model.components_["term"][0]
    assert 0 < short.dropped_variance_ < 1
    np.testing.assert_array_equal(short.classes_, model.classes_)
    for output in [None] if n_classes == 2 else model.classes_:
        total = short.component(ROWS, (), output)[0] + short.component(ROWS, name, output)[0]
        np.testing.assert_allclose(total, short.predict_link(ROWS, output)[0], atol=1e-9)
    y = LABELS if n_classes == 2 else THREE
    curve = model.truncation_curve(TABLE, y, n_terms=2)
    assert list(curve["term"][:2]) == ["(constant)", name]
    expected = log_loss(y, short.predict_proba(TABLE), labels=model.classes_)
    assert curve["metric"][1] == pytest.approx(expected)
    assert curve["metric"][2] < curve["metric"][0]


@both
def test_transform_has_a_column_for_each_term_and_output(n_classes: int) -> None:
    model = fitted(n_classes)
    names = list(model.get_feature_names_out())
    columns = model.transform(ROWS)
    assert columns.shape == (9, len(names))
    if n_classes == 2:
        np.testing.assert_array_equal(columns[:, names.index("a")], model.component(ROWS, "a")[0])
    else:
        found = columns[:, names.index("top: a")]
        np.testing.assert_array_equal(found, model.component(ROWS, "a", "top")[0])


def test_the_verdict_names_the_likelihood() -> None:
    verdict = fitted().verdict_
    assert "likelihood bernoulli_logit" in verdict.lines
    assert "; dense variational engine, flow" in verdict.lines[0]
    assert verdict.noise is None
    assert verdict.explained is None
    assert "likelihood softmax" in str(fitted(3).verdict_)


def test_plots() -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    from oakgp.explain import plot_components, plot_orders, plot_sobol

    try:
        figure = plot_components(fitted(), TABLE)
        assert "effect on the log odds" in {ax.get_ylabel() for ax in figure.axes}
        figure = fitted(3).plot_components(TABLE, ["a", ("a", "b")], output="top")
        assert "effect on the class's score" in {ax.get_ylabel() for ax in figure.axes}
        with pytest.raises(ValueError, match="give output="):
            plot_components(fitted(3))
        plot_sobol(fitted(3))
        plot_orders(fitted(3))
    finally:
        plt.close("all")


# -- little choice --------------------------------------------------------------------------------


def sensible(model: OAKClassifier, table: Any) -> np.ndarray:
    p = model.predict_proba(table)
    assert np.isfinite(p).all()
    assert np.isfinite(model.decision_function(table)).all()
    mean, sd = model.predict_link(table, None if len(model.classes_) == 2 else model.classes_[0])
    assert np.isfinite([*mean, *sd]).all()
    assert np.isfinite(model.sobol_.terms["share"]).all()
    assert str(model.verdict_)
    return p


def test_a_class_with_one_row() -> None:
    y = np.array(["common"] * 39 + ["rare"])
    p = sensible(quick(max_iter=20).fit(TABLE, y), TABLE)
    assert p[:, 1].mean() == pytest.approx(1 / 40, abs=0.02)
    y = np.array(["a"] * 20 + ["b"] * 19 + ["rare"])
    p = sensible(quick(max_iter=20).fit(TABLE, y), TABLE)
    assert p[:, 2].mean() == pytest.approx(1 / 40, abs=0.03)


def test_two_rows() -> None:
    p = sensible(quick(max_order=1).fit([[0.0], [1.0]], ["a", "b"]), [[0.0], [0.5], [1.0]])
    assert p[0, 0] >= 0.5 >= p[2, 0]


def test_separable_classes() -> None:
    x = np.r_[np.linspace(-2, -1, 30), np.linspace(1, 2, 30)][:, None]
    model = OAKClassifier(flow="none").fit(x, np.repeat(["left", "right"], 30))
    p = sensible(model, x)
    assert p[:30, 0].min() > 0.9
    assert p[30:, 1].min() > 0.9
    assert 0.2 < model.predict_proba([[0.0]])[0, 0] < 0.8


def test_a_thousandth_of_the_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 2))
    y = np.zeros(1000, dtype=int)
    y[X[:, 0].argmax()] = 1
    p = sensible(quick(max_order=1, max_iter=2).fit(X, y), X)
    assert p[:, 1].mean() == pytest.approx(1e-3, abs=2e-3)


def test_pure_noise_gives_the_shares_of_the_classes() -> None:
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((120, 2)), rng.choice(["a", "b"], 120, p=[0.7, 0.3])
    p = sensible(OAKClassifier(max_order=2, flow="normal_score").fit(X, y), X)
    assert p[:, 0].mean() == pytest.approx((y == "a").mean(), abs=0.02)
    assert p[:, 0].std() < 0.15


def test_a_table_without_features() -> None:
    model = quick(max_order=None).fit(pd.DataFrame({"a": np.ones(40)}), LABELS)
    p = model.predict_proba(pd.DataFrame({"a": np.ones(3)}))
    np.testing.assert_allclose(p[:, 1], (LABELS == "yes").mean(), atol=0.02)
