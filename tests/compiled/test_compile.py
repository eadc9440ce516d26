"""Tables against the model itself: means within the stated bound, whatever the features are."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from tests.export.models import MODELS, constants, frame, model, only_numbers

from oakgp import OAKClassifier
from oakgp.compiled import CompiledModel

#: All kinds of features, flows, measures and responses, up to order 2.
NAMES = [name for name in MODELS if name not in ("forced terms", "product")]


#: Those whose bands are compiled too.
BANDS = [
    "all columns",
    "sparse",
    "student t",
    "gamma",
    "varying noise",
    "two classes",
    "probit",
    "three numbers",
    "no features",
]


@cache
def compiled(name: str) -> CompiledModel:
    return model(name).compile(bands=name in BANDS)


def table(name: str) -> Any:
    """Rows beyond the training range, unseen levels and missing values among them."""
    rows = frame(300, seed=3)
    rows.loc[5, "heat"] = "coal"
    rows.loc[6, "hour"] = np.nan
    rows["new"] = rows["new"].astype(object)
    rows.loc[7, "new"] = None
    rows.loc[8:30, "area"] *= 50.0
    rows.loc[31:50, "hour"] += 30.0
    rows.loc[51:60, "hour"] -= 1e6
    if name == "no names":
        return only_numbers(rows).to_numpy()
    if name == "polars":
        return pl.from_pandas(rows)
    return constants(rows) if name == "no features" else rows


@pytest.mark.parametrize("name", NAMES)
def test_means_are_within_the_bound(name: str) -> None:
    tables, rows = compiled(name), table(name)
    for output in model(name).model_.outputs:
        function = tables.function(output.name)
        error = np.abs(tables.link(rows, output=output.name) - output.moments(rows, noisy=False)[0])
        assert error.max() / output.scale <= function.bound + 1e-9
    if name != "matern12":  # it has a kink at every row: its bound says what is reached
        assert tables.bound <= tables.tolerance


@pytest.mark.parametrize("name", BANDS)
def test_predictions_are_those_of_the_model(name: str) -> None:
    tables, rows, estimator = compiled(name), table(name), model(name)
    if isinstance(estimator, OAKClassifier):
        p = tables.predict_proba(rows)
        np.testing.assert_allclose(p, estimator.predict_proba(rows), atol=0.02)
        sure = np.sort(p, axis=1)[:, -1] - np.sort(p, axis=1)[:, -2] > 0.05
        assert (tables.predict(rows) == estimator.predict(rows))[sure].all()
        return
    mean, sd = tables.predict(rows, return_std=True)
    expected, deviation = estimator.predict(rows, return_std=True)
    scale = estimator.model_.scale if name != "gamma" else expected.mean()
    np.testing.assert_allclose(mean / scale, expected / scale, atol=5e-3)
    np.testing.assert_allclose(sd, deviation, atol=0.25 * deviation.max())
    assert np.median(np.abs(sd / deviation - 1.0)) < 0.05


@pytest.mark.parametrize("name", ["all columns", "two classes", "gamma"])
def test_json_gives_the_same_model_back(name: str, tmp_path: Any) -> None:
    tables, rows = compiled(name), table(name)
    tables.to_json(tmp_path / "tables.json")
    back = CompiledModel.from_json(tmp_path / "tables.json")
    np.testing.assert_array_equal(back.link(rows, True), tables.link(rows, True))
    np.testing.assert_array_equal(back.predict(rows), tables.predict(rows))
    assert back.bound == tables.bound
    assert back.to_dict() == tables.to_dict()


def test_json_without_bands_is_small_and_says_so(tmp_path: Any) -> None:
    compiled("all columns").to_json(tmp_path / "tables.json", bands=False)
    assert (tmp_path / "tables.json").stat().st_size < 1_500_000
    back = CompiledModel.from_json(tmp_path / "tables.json")
    with pytest.raises(ValueError, match="compile\\(bands=True\\)"):
        back.predict(table("all columns"), return_std=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(kind="other"), "no document"),
        (lambda d: d.update(format=99), "update oakgp"),
        (lambda d: d["features"][0].update(knots=[0.0], positions=[0.0]), "positions"),
        (lambda d: d["features"][0].update(knots=[2.0, 1.0], positions=[0.0, 1.0]), "increase"),
        (lambda d: d["functions"][0]["tables"][0].update(coefficients=[1.0]), "shape"),
        (lambda d: d["functions"][0]["tables"][0].update(counts=[3]), "entries"),
    ],
)
def test_damaged_documents_are_refused(change: Any, message: str) -> None:
    document = json.loads(json.dumps(compiled("no names").to_dict(bands=False)))
    change(document)
    with pytest.raises(ValueError, match=message):
        CompiledModel.from_dict(document)


def test_components_add_up_to_the_link() -> None:
    tables, rows = compiled("all columns"), table("all columns")
    parts = tables.components(rows)
    total = tables.functions[0].sum.constant + sum(parts.values())
    np.testing.assert_allclose(total, tables.link(rows), atol=1e-12)
    expected = model("all columns").component(rows, ("area", "heat"))[0]
    np.testing.assert_allclose(parts["area × heat"], expected, atol=2e-3)


def test_entries_are_those_of_the_component(tmp_path: Any) -> None:
    tables, estimator = compiled("all columns"), model("all columns")
    tables.to_csv(tmp_path / "tables.csv")
    found = pd.read_csv(tmp_path / "tables.csv")
    heat = found[found["term"] == "heat"].set_index("value_1")["effect"]
    rows = frame(3).assign(heat=["gas", "oil", "wood"])
    expected = estimator.component(rows, "heat")[0]
    np.testing.assert_allclose(heat[["gas", "oil", "wood"]], expected, atol=1e-12)
    assert set(heat.index) == {"gas", "oil", "wood", "(missing)", "(unseen)"}
    area = found[(found["term"] == "area") & (found["value_1"] != "(missing)")]
    rows = pd.DataFrame({"area": area["value_1"].astype(float)})
    rows = rows.assign(hour=1.0, heat="gas", new=True, **{"class": "A"})
    np.testing.assert_allclose(area["effect"], estimator.component(rows, "area")[0], atol=1e-9)


def test_encoded_rows_are_read_as_they_are() -> None:
    tables, rows = compiled("all columns"), table("all columns")
    encoded = tables.encode(rows)
    np.testing.assert_array_equal(tables.link_encoded(encoded), tables.link(rows))
    with pytest.raises(ValueError, match="one column for each"):
        tables.link_encoded(encoded[:, :2])


def test_terms_of_three_features_are_refused_with_a_remedy() -> None:
    with pytest.raises(ValueError, match="truncate\\(\\)"):
        model("product").compile()
    with pytest.raises(ValueError, match="truncate\\(\\)"):
        model("forced terms").compile()
    some = model("forced terms").compile(terms=["area", ("area", "heat")], bands=False)
    assert [t.label for t in some.functions[0].sum.tables] == ["area", "area × heat"]


def test_a_tighter_tolerance_is_kept() -> None:
    rows = table("truncated")
    estimator = model("truncated")
    tight = estimator.compile(tol=1e-6, bands=False)
    assert tight.bound <= 1e-6
    np.testing.assert_allclose(
        tight.predict(rows), estimator.predict(rows), atol=1e-6 * estimator.model_.scale
    )
    with pytest.raises(ValueError, match="positive"):
        estimator.compile(tol=0.0)


def test_exposure_and_offset_count() -> None:
    tables, rows, estimator = compiled("gamma"), table("gamma"), model("gamma")
    years = np.linspace(0.5, 3.0, len(rows))
    np.testing.assert_allclose(
        tables.predict(rows, exposure=years), estimator.predict(rows, exposure=years), rtol=2e-3
    )


def test_many_rows_are_shared_among_threads() -> None:
    tables, rows = compiled("truncated"), table("truncated")
    encoded = np.tile(tables.encode(rows), (500, 1))
    found = tables.link_encoded(encoded)
    np.testing.assert_array_equal(found.reshape(500, -1), np.tile(tables.link(rows), (500, 1)))
