from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.base
from tests.edits.models import classifier, frame, regressor, response, rows

import oakgp
from oakgp.edits.posterior import EditedPosterior
from oakgp.response import as_array

NAMES = ["rise", "bowl", "kind"]
TERMS = [(n,) for n in NAMES] + list(combinations(NAMES, 2))
SHAPES = [
    ("monotone", "rise", "increasing"),
    ("monotone", "bowl", "decreasing"),
    ("convex", "rise", "concave"),
    ("convex", "bowl", "convex"),
]


def variance(model: Any, table: pd.DataFrame) -> np.ndarray:
    return model.model_.moments(table, noisy=False)[1] ** 2


def test_a_scaled_term_counts_so_often() -> None:
    model, table = regressor(), rows()
    half = model.edit(scale={("rise", "kind"): 0.5})
    part, deviation = model.component(table, ("rise", "kind"))
    np.testing.assert_allclose(half.predict(table), model.predict(table) - 0.5 * part)
    found = half.component(table, "rise × kind")
    np.testing.assert_allclose(found[0], 0.5 * part)
    np.testing.assert_allclose(found[1], 0.5 * deviation)
    np.testing.assert_allclose(half.component(table, "rise")[0], model.component(table, "rise")[0])
    assert not isinstance(model.model_.posterior, EditedPosterior)


def test_the_variance_is_a_parabola_in_the_factor() -> None:
    model, table = regressor(), rows()
    term = model.model_.term("rise")
    others = [u for u in map(model.model_.term, TERMS) if u != term]
    without = variance_of(model, table, others)
    whole, own = variance(model, table), model.component(table, "rise")[1] ** 2
    cross = whole - without - own  # twice the covariance
    for factor in (0.0, 0.5, 2.0, -1.0):
        found = variance(model.edit(scale={"rise": factor}), table)
        expected = without + factor * cross + factor**2 * own
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def variance_of(model: Any, table: pd.DataFrame, terms: list[Any]) -> np.ndarray:
    return model.model_.keep(terms).moments(table, noisy=False)[1] ** 2


def test_a_dropped_term_is_gone() -> None:
    model, table = regressor(), rows()
    found = model.edit(drop=["rise × kind", "bowl"])
    kept = [u for u in TERMS if u not in (("bowl",), ("rise", "kind"))]
    short = model.model_.keep([model.model_.term(u) for u in kept])
    np.testing.assert_allclose(found.predict(table), short.mean(table))
    np.testing.assert_allclose(
        variance(found, table), short.moments(table, noisy=False)[1] ** 2, rtol=1e-6, atol=1e-9
    )
    assert not {"bowl", "rise × kind"} & set(found.components_["term"])
    x = model.model_.encode(table)
    covariance = as_array(found.model_.posterior.covariance(x))
    np.testing.assert_allclose(covariance, as_array(short.posterior.covariance(x)), atol=1e-8)


@pytest.mark.parametrize(("option", "name", "shape"), SHAPES)
def test_a_shape_is_kept_everywhere_and_bands_survive(option: str, name: str, shape: str) -> None:
    model = regressor()
    found = model.edit(**{option: {name: shape}}, interactions=False)
    column = frame()[name].dropna()
    x = np.linspace(column.min(), column.max(), 300)
    if option == "convex":  # exact at the nodes, between which the flow bends a little
        x = x[::10]
    table = frame().iloc[[0] * len(x)].assign(**{name: x})
    mean, sd = found.component(table, name)
    steps = np.diff(mean) if option == "monotone" else np.diff(np.diff(mean))
    sign = -1.0 if shape in ("decreasing", "concave") else 1.0
    assert (sign * steps).min() > -0.02 * np.ptp(mean) * (option == "convex") - 1e-12
    before = model.component(table, name)
    assert sd.min() >= 0
    assert np.median(sd) > 0.2 * np.median(before[1])
    assert np.median(sd) < 1.5 * np.median(before[1])


def test_the_band_is_that_of_projected_draws() -> None:
    model = regressor()
    found = model.edit(monotone={"rise": "increasing"}, interactions=False).model_.posterior
    (edit,) = found.edits
    assert edit.grid is not None
    nodes = np.array(edit.grid.axes[0].nodes)
    z = np.zeros((3, len(nodes)))
    z[0] = nodes
    x = model.model_.posterior.mean_weights.new_tensor(z)
    from sklearn.isotonic import isotonic_regression

    draws = as_array(model.model_.posterior.sample(x, 3000, seed=9, term=(0,)))
    p = edit.grid.probability[:-1]
    projected = np.stack([isotonic_regression(d, sample_weight=p) for d in draws])
    mean, var = (as_array(part) for part in found.mean_and_variance(x, (0,)))
    sd = projected.std(axis=0)
    assert np.abs(mean - projected.mean(axis=0)).max() < 0.2 * np.median(sd)
    assert np.abs(np.sqrt(var) / sd - 1).max() < 0.25


@pytest.mark.parametrize(("option", "name", "shape"), SHAPES)
def test_edited_components_are_centred_and_add_up(option: str, name: str, shape: str) -> None:
    model, table = regressor(), rows()
    found = model.edit(**{option: {name: shape}}, interactions=False, scale={"kind": 2.0})
    parts = [found.component(table, u)[0] for u in [(), *TERMS]]
    np.testing.assert_allclose(np.sum(parts, axis=0), found.predict(table), rtol=1e-10)
    edit = found.model_.posterior.edit_of(model.model_.term(name))
    assert edit.grid.probability.sum() == pytest.approx(1.0)
    assert abs((edit.grid.probability * edit.grid.mean).sum()) < 0.02


@pytest.mark.parametrize("interactions", [False, True])
def test_missing_values_keep_their_effect(interactions: bool) -> None:
    model = regressor()
    table = rows().assign(bowl=np.nan)
    found = model.edit(monotone={"bowl": "increasing"}, interactions=interactions)
    for k in range(2):
        np.testing.assert_allclose(
            found.component(table, "bowl")[k], model.component(table, "bowl")[k], rtol=1e-9
        )


def test_what_has_the_shape_already_hardly_moves() -> None:
    table = frame()
    y = 3.0 * table["rise"].to_numpy() + 0.05 * np.random.default_rng(0).standard_normal(70)
    model = oakgp.OAKRegressor(max_order=1, flow="none", max_iter=10).fit(table, y)
    found = model.edit(monotone={"rise": "increasing"})
    assert found.edits_["moved"][0] < 0.003 * np.std(y)
    new = rows()
    np.testing.assert_allclose(found.predict(new), model.predict(new), atol=0.02)
    np.testing.assert_allclose(
        found.predict(new, return_std=True)[1], model.predict(new, return_std=True)[1], rtol=0.1
    )


@pytest.mark.parametrize("name", ["rise", "bowl"])
@pytest.mark.parametrize("shape", ["increasing", "decreasing"])
def test_predictions_are_monotone_whatever_the_other_features(name: str, shape: str) -> None:
    model = regressor()
    found = model.edit(monotone={name: shape})
    x = np.linspace(0.3 if name == "bowl" else -1.0, 2.0 if name == "bowl" else 1.0, 60)
    sign = 1.0 if shape == "increasing" else -1.0
    spread = np.std(response(frame()))
    before = []
    for k in range(len(rows())):
        table = rows().iloc[[k] * len(x)].assign(**{name: x})
        assert (sign * np.diff(found.predict(table))).min() > -1e-9 * spread
        before.append((sign * np.diff(model.predict(table))).min())
    assert min(before) < -0.01 * spread
    table = rows()
    parts = [found.component(table, u)[0] for u in [(), *TERMS]]
    np.testing.assert_allclose(np.sum(parts, axis=0), found.predict(table), rtol=1e-10)
    for edit in found.model_.posterior.edits:
        p, mean = edit.grid.probability, edit.grid.mean
        assert np.abs((p * mean).sum(axis=0)).max() < 0.02
        assert np.abs((p * mean).sum(axis=-1)).max() < 0.02
    sd, old = (
        found.model_.moments(table, noisy=False)[1],
        model.model_.moments(table, noisy=False)[1],
    )
    assert 0.3 < np.median(sd / old) < 1.5


def test_monotone_pairs_that_were_so_hardly_move() -> None:
    table = frame(120)
    slope = table["kind"].map({"x": 2.0, "y": 4.0, "z": 6.0}).to_numpy()
    y = slope * table["rise"] + 0.05 * np.random.default_rng(0).standard_normal(120)
    model = oakgp.OAKRegressor(max_order=2, flow="none", max_iter=15).fit(table, y)
    found = model.edit(monotone={"rise": "increasing"})
    new = frame(60, seed=4)
    assert np.abs(found.predict(new) - model.predict(new)).max() < 0.03 * np.std(y)
    assert found.edits_["moved"][0] < 0.01 * np.std(y)
    assert found.edits_["change"][0] == "made increasing with its interactions"


def test_terms_of_three_features_stand_in_the_way_of_monotone_pairs() -> None:
    model = regressor(max_order=3)
    with pytest.raises(ValueError, match="three or more features"):
        model.edit(monotone={"rise": "increasing"})
    assert model.edit(monotone={"rise": "increasing"}, interactions=False)


def test_a_feature_taken_out_has_no_effect() -> None:
    model, table = regressor(max_order=3), rows()
    found = model.edit(without=["kind"])
    other = table.assign(kind=table["kind"].to_numpy()[::-1])
    np.testing.assert_allclose(found.predict(other), found.predict(table))
    np.testing.assert_allclose(variance(found, other), variance(found, table), atol=1e-9)
    assert not any("kind" in term for term in found.components_["term"])
    assert found.edits_["change"].tolist() == ["taken out"]
    names = found.sobol_.features["feature"].tolist()
    before = model.sobol_.features["total"][names.index("kind")]
    assert found.edits_["share_before"][0] == pytest.approx(before, rel=1e-6)


def test_classes_have_no_shape_of_their_own() -> None:
    with pytest.raises(ValueError, match="a shape needs one function"):
        classifier(3).edit(monotone={"rise": "increasing"})


@pytest.mark.parametrize("max_order", [1, 3])
def test_monotone_at_fit(max_order: int) -> None:
    table, y = frame(), response(frame())
    model = oakgp.OAKRegressor(
        max_order=max_order, flow="normal_score", max_iter=5, monotone={"rise": "decreasing"}
    ).fit(table, y)
    x = np.linspace(-1.2, 1.2, 50)
    for k in range(10):
        f = model.predict(rows().iloc[[k] * 50].assign(rise=x))
        assert np.diff(f).max() < 1e-9 * np.std(y)
    terms = model.model_.posterior.terms
    assert (0, 1, 2) not in terms
    assert ((0, 1) in terms) == (max_order > 1)
    assert model.edits_["reason"].tolist() == ["asked for at fit"]
    assert sklearn.base.clone(model).monotone == {"rise": "decreasing"}


def test_changes_of_one_call_go_together() -> None:
    model, table = regressor(max_order=3), rows()
    found = model.edit(
        without=["kind"],
        drop=[("rise", "bowl")],
        monotone={"rise": "increasing", "bowl": "decreasing"},
    )
    assert found.edits_["change"].tolist() == [
        "dropped",
        "taken out",
        "made increasing",
        "made decreasing",
    ]
    x = np.linspace(-1.0, 1.0, 40)
    f = found.predict(table.iloc[[2] * 40].assign(rise=x))
    assert np.diff(f).min() > -1e-12
    both = oakgp.OAKRegressor(
        max_iter=2, flow="none", monotone={"rise": "increasing", "bowl": "increasing"}
    ).fit(frame(), response(frame()))
    assert (0, 1) not in both.model_.posterior.terms


def test_basis_models_are_edited_alike(tmp_path: Path) -> None:
    model, table = regressor(engine="basis"), rows()
    found = model.edit(monotone={"rise": "decreasing"}, without=["bowl"], scale={"kind": 0.5})
    x = np.linspace(-1.0, 1.0, 40)
    assert np.diff(found.predict(frame().iloc[[3] * 40].assign(rise=x))).max() < 1e-9
    parts = [found.component(table, u)[0] for u in [(), *TERMS] if found_in(found, u)]
    np.testing.assert_allclose(np.sum(parts, axis=0), found.predict(table))
    found.save(tmp_path / "m.oak")
    again = oakgp.load(tmp_path / "m.oak")
    np.testing.assert_array_equal(again.predict(table), found.predict(table))


def found_in(model: Any, term: Any) -> bool:
    numbers = tuple(sorted(model.model_.names.index(name) for name in term))
    return not term or numbers in model.model_.posterior.terms


def test_monotone_classes_at_fit() -> None:
    y = np.where(response(frame()) > 6, "b", "a")
    model = oakgp.OAKClassifier(max_iter=2, flow="normal_score", monotone={"rise": "increasing"})
    x = np.linspace(-1, 1, 40)
    link, _ = model.fit(frame(), y).predict_link(frame().iloc[[3] * 40].assign(rise=x))
    assert np.diff(link).min() > -1e-9


@pytest.mark.parametrize(
    ("monotone", "message"),
    [
        ({"rise": "up"}, "choose one of 'increasing', 'decreasing'"),
        (["rise"], "give a mapping"),
        ({("rise", "bowl"): "increasing"}, "name or number"),
        ({"nobody": "increasing"}, "no feature"),
        ({"kind": "increasing"}, "no direction"),
    ],
)
def test_wrong_directions_at_fit(monotone: Any, message: str) -> None:
    model = oakgp.OAKRegressor(max_iter=1, max_order=1, flow="none", monotone=monotone)
    with pytest.raises(ValueError, match=message):
        model.fit(frame(), response(frame()))


def test_sobol_indices_are_those_of_the_edited_function() -> None:
    model = regressor()
    found = model.edit(
        monotone={"rise": "increasing"}, scale={"kind": 3.0}, drop=[("bowl", "kind")]
    )
    names = found.model_.names
    rng = np.random.default_rng(0)
    atoms = [c.feature.measure.atoms for c in found.model_.columns]
    z = np.stack([rng.choice(nodes, 20_000, p=p / p.sum()) for nodes, p in atoms])
    x = found.model_.posterior.mean_weights.new_tensor(z)
    v = {}
    for u in TERMS:
        term = found.model_.term(u)
        v[found.model_.label(term)] = as_array(found.model_.posterior.mean(x, term)).var()
    whole = sum(v.values())
    shares = dict(zip(found.sobol_.terms["term"], found.sobol_.terms["share"], strict=True))
    for label, value in v.items():
        assert shares.get(label, 0.0) == pytest.approx(value / whole, rel=0.06, abs=1e-4)
    first = dict(zip(names, found.sobol_.features["first_order"], strict=True))
    assert first["kind"] == pytest.approx(shares["kind"])
    orders = found.sobol_.orders["share"]
    assert orders.sum() == pytest.approx(1.0)
    table = found.sobol_.terms
    assert (table["low"] <= table["mean_share"] + 1e-9).all()
    assert (table["mean_share"] <= table["high"] + 1e-9).all()


def test_edits_follow_one_another() -> None:
    model, table = regressor(), rows()
    once = model.edit(scale={"kind": 0.5}, reason="first")
    twice = once.edit(scale={"kind": 0.5}, reason="then")
    np.testing.assert_allclose(
        twice.predict(table), model.edit(scale={"kind": 0.25}).predict(table)
    )
    assert twice.edits_["reason"].tolist() == ["first", "then"]
    shaped = model.edit(monotone={"rise": "increasing"}).edit(scale={"rise": 2.0})
    plain = model.edit(monotone={"rise": "increasing"}).component(table, "rise")
    found = shaped.component(table, "rise")
    np.testing.assert_allclose(found[0], 2 * plain[0])
    np.testing.assert_allclose(found[1], 2 * plain[1])
    gone = model.edit(drop=["rise"]).edit(monotone={"rise": "increasing"}, interactions=False)
    assert np.abs(gone.component(table, "rise")[0]).max() == 0.0
    again = shaped.edit(convex={"rise": "convex"})
    assert len(again.model_.posterior.edits) == len(shaped.model_.posterior.edits) == 3


def test_truncation_and_edits_go_together() -> None:
    model, table = regressor(), rows()
    short = model.edit(scale={"rise": 0.5}).truncate(n_terms=2)
    kept = [u for u in short.model_.posterior.kept if u]
    expected = short.component(table, ())[0] + sum(
        short.component(table, short.model_.label(u))[0] for u in kept
    )
    np.testing.assert_allclose(short.predict(table), expected)
    other = model.truncate(n_terms=2).edit(scale={"rise": 0.5})
    assert np.isfinite(other.predict(table)).all()
    with pytest.raises(ValueError, match="dropped by truncation"):
        model.truncate(n_terms=1).edit(drop=[("bowl", "kind")])


def test_the_cost_is_that_of_held_out_rows() -> None:
    model, table = regressor(), rows()
    y = response(table)
    found = model.edit(drop=["kind"], X_test=table, y_test=y, reason="not allowed by law")
    (line,) = found.edits_.rows()
    assert line["metric"] == "RMSE"
    for key, fitted in (("before", model), ("after", found)):
        error = np.sqrt(np.mean((y - fitted.predict(table)) ** 2))
        assert line[key] == pytest.approx(error)
    assert line["after"] > line["before"]
    assert line["n_rows"] == len(table)
    assert line["reason"] == "not allowed by law"
    assert line["share_after"] == 0.0 < line["share_before"]
    assert len(model.edits_) == 0


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_are_edited_alike(n_classes: int) -> None:
    model, table = classifier(n_classes), rows()
    found = model.edit(scale={"rise": 0.5}, drop=[("bowl", "kind")])
    for output, before in zip(found.model_.outputs, model.model_.outputs, strict=True):
        half, whole = (o.component(table, o.term("rise"))[0] for o in (output, before))
        np.testing.assert_allclose(half, 0.5 * whole)
        assert not output.component(table, output.term(("bowl", "kind")))[0].any()
    p = found.predict_proba(table)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    labels = model.predict(table)
    cost = model.edit(drop=["rise"], X_test=table, y_test=labels).edits_
    assert cost["metric"][0] == "log loss"
    assert cost["after"][0] > cost["before"][0]
    shares = found.sobol_.terms["share"]
    assert 0.9 < shares.sum() <= 1.0 + 1e-9


@pytest.mark.parametrize("make", [regressor, lambda: classifier(2), lambda: classifier(3)])
def test_edits_are_saved(make: Any, tmp_path: Path) -> None:
    table, model = rows(), make()
    shape = {} if model.model_.pooled else {"rise": "increasing"}
    found = model.edit(monotone=shape, scale={"kind": 0.5}, drop=["bowl"], reason="é")
    found.save(tmp_path / "m.oak")
    again = oakgp.load(tmp_path / "m.oak")
    np.testing.assert_array_equal(again.predict(table), found.predict(table))
    for a, b in zip(again.model_.outputs, found.model_.outputs, strict=True):
        np.testing.assert_array_equal(
            a.moments(table, noisy=False)[1], b.moments(table, noisy=False)[1]
        )
    assert again.edits_.to_dict() == found.edits_.to_dict()
    assert again.sobol_.terms.to_dict() == found.sobol_.terms.to_dict()
    again.save(tmp_path / "n.oak")
    assert (tmp_path / "m.oak").read_bytes() == (tmp_path / "n.oak").read_bytes()


def test_draws_and_the_compiled_model_agree_with_the_edit() -> None:
    model, table = regressor(), rows()
    found = model.edit(monotone={"rise": "decreasing"}, drop=["kind"])
    draws = found.sample_y(table, 4000)
    mean, sd = found.model_.moments(table, noisy=False)
    assert np.abs(draws.mean(axis=1) - mean).max() < 0.1 * sd.max()
    np.testing.assert_allclose(draws.std(axis=1), sd, rtol=0.1)
    compiled = found.compile(tol=0.01, bands=False)
    np.testing.assert_allclose(
        compiled.predict(table), found.predict(table), atol=0.02 * np.std(response(table))
    )


def test_plots_and_reports_show_the_edit(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    found = regressor().edit(drop=["kind"], reason="<b>law</b>")
    text = found.report(tmp_path / "r.html").read_text("utf-8")
    assert "&lt;b&gt;law&lt;/b&gt;" in text
    assert "not measured" in text
    plain = regressor().report(tmp_path / "r.html").read_text("utf-8")
    assert 'id="edits"' not in plain
    plt = pytest.importorskip("matplotlib.pyplot")
    found.plot_components()
    plt.close("all")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "nothing to edit"),
        ({"drop": ["nobody"]}, "no feature 'nobody'"),
        ({"drop": [()]}, "the constant cannot be edited"),
        ({"scale": {"rise": np.nan}}, "give a number"),
        ({"scale": {"rise": "half"}}, "give a number"),
        ({"monotone": {"rise": "up"}}, "choose 'increasing' or 'decreasing'"),
        ({"convex": {"rise": "increasing"}}, "choose 'convex' or 'concave'"),
        ({"monotone": {"kind": "increasing"}}, "holds categories"),
        ({"monotone": {("rise", "bowl"): "increasing"}}, "no single feature"),
        ({"without": [("rise", "bowl")]}, "no single feature"),
        ({"without": ["rise"], "drop": [("rise", "kind")]}, "changed twice"),
        ({"drop": ["rise"], "scale": {"rise": 2.0}}, "changed twice"),
        ({"monotone": {"rise": "increasing"}, "convex": {"rise": "convex"}}, "changed twice"),
        ({"monotone": {"rise": "increasing", "bowl": "decreasing"}}, "'rise × bowl' .* twice"),
        ({"monotone": {"rise": "increasing"}, "drop": ["rise"]}, "no shape then"),
        ({"drop": ["rise"], "X_test": [[1]]}, "give X_test and y_test together"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        regressor().edit(**options)
