"""Tables of the basis engine: straight between its knots, so small; and all exports of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.export.databases import run_duckdb, run_sqlite
from tests.export.models import frame, response
from tests.export.test_onnx import scored
from tests.export.test_python_file import module
from tests.export.test_sql import rows

from oakgp import OAKClassifier, OAKRegressor
from oakgp.compiled import CompiledModel
from oakgp.export.python_file import to_python
from oakgp.export.sql import to_sql
from oakgp.kernels import Periodic

FLOWS = ["normal_score", "sinh_arcsinh", "none"]


@cache
def fitted(flow: str = "normal_score", classes: bool = False) -> Any:
    table = frame(300, seed=2)
    y = response(table)
    settings: dict[str, Any] = {"engine": "basis", "max_order": 2, "flow": flow, "max_iter": 5}
    if classes:
        return OAKClassifier(**settings).fit(table, np.where(y > np.median(y), "b", "a"))
    kernel = {"hour": Periodic(period=24.0)} if flow == "none" else "squared_exponential"
    return OAKRegressor(**settings, kernel=kernel).fit(table, y)


@pytest.mark.parametrize("flow", FLOWS)
def test_means_and_bands_are_those_of_the_model(flow: str) -> None:
    model, table = fitted(flow), rows()
    tables = model.compile()
    mean, sd = model.predict_link(table)
    found, band = tables.link(table, return_std=True)
    scale = model.model_.scale
    assert tables.bound <= 1e-3
    assert np.abs(found - mean).max() <= (tables.bound + 1e-9) * scale
    np.testing.assert_allclose(band, sd, rtol=0.1, atol=0.01 * scale)
    sizes = [axis.n_coefficients for t in tables.functions[0].sum.tables for axis in t.axes]
    assert max(sizes) < 300


def test_unseen_levels_have_their_prior_variance() -> None:
    model, table = fitted(), rows()
    table["heat"] = "coal"
    _, sd = model.predict_link(table)
    _, band = model.compile().link(table, return_std=True)
    np.testing.assert_allclose(band, sd, rtol=0.02)


def test_probabilities_are_those_of_the_model() -> None:
    model, table = fitted(classes=True), rows()
    found = model.compile().predict_proba(table)
    errors = np.abs(found - model.predict_proba(table))
    assert errors.max() < 0.04  # the bands of values far out, missing or unseen are less exact
    assert np.quantile(errors, 0.9) < 0.01


@pytest.mark.parametrize("flow", FLOWS)
def test_every_export_agrees_with_the_tables(flow: str, tmp_path: Path) -> None:
    model, table = fitted(flow), rows()
    tables = model.compile(bands=False)
    expected, scale = tables.predict(table), model.model_.scale
    for dialect, run in (("duckdb", run_duckdb), ("sqlite", run_sqlite)):
        found = run(table, "data", to_sql(tables, dialect, keep=["row"])).sort_values("row")
        np.testing.assert_allclose(found["prediction"], expected, atol=1e-6 * scale)
    _, prediction = scored(tables, table, tmp_path / "model.onnx")
    np.testing.assert_allclose(prediction, expected, atol=1e-6 * scale)
    to_python(tables, tmp_path / "score.py")
    score = module(tmp_path / "score.py")
    found = [score["predict"](row) for row in table.to_dict("records")]
    np.testing.assert_allclose(found, expected, atol=1e-6 * scale)
    tables.to_json(tmp_path / "tables.json")
    again = CompiledModel.from_json(tmp_path / "tables.json")
    np.testing.assert_array_equal(again.predict(table), expected)
    tables.to_csv(tmp_path / "tables.csv")
    assert len(pd.read_csv(tmp_path / "tables.csv")) > 100
