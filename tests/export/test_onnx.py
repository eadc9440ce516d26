"""Graphs run by onnxruntime against the tables and against the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.export.models import model
from tests.export.test_sql import compiled, rows

from oakgp.compiled import CompiledModel
from oakgp.compiled.links import plug_in
from oakgp.export.onnx import to_onnx
from oakgp.schema import CategoricalColumn

ort = pytest.importorskip("onnxruntime")


def feed(tables: CompiledModel, table: pd.DataFrame) -> dict[str, Any]:
    columns = {}
    for i in tables.schema.active:
        column = tables.schema.columns[i]
        values = table[column.name]
        if isinstance(column, CategoricalColumn) and isinstance(column.levels[0], str):
            columns[column.name] = values.astype(object).fillna("").to_numpy(object)[:, None]
        else:
            columns[column.name] = values.astype(float).to_numpy()[:, None]
    return columns


def scored(tables: CompiledModel, table: pd.DataFrame, path: Path) -> tuple[Any, Any]:
    to_onnx(tables, path)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    link, prediction = session.run(["link", "prediction"], feed(tables, table))
    return link, prediction


@pytest.mark.parametrize(
    "name",
    ["all columns", "truncated", "periodic", "sinh-arcsinh", "no flow", "codes as categories"],
)
def test_numbers_are_those_of_the_tables_and_the_model(name: str, tmp_path: Path) -> None:
    tables, table = compiled(name), rows()
    link, prediction = scored(tables, table, tmp_path / "model.onnx")
    assert prediction.dtype == np.float64
    scale = model(name).model_.scale
    np.testing.assert_allclose(prediction, tables.predict(table), atol=1e-6 * scale)
    np.testing.assert_array_equal(link[:, 0], prediction)
    full = model(name).predict(table)
    assert np.abs(prediction - full).max() <= (tables.bound + 1e-6) * scale


@pytest.mark.parametrize("name", ["two classes", "three classes", "probit", "gamma"])
def test_other_responses(name: str, tmp_path: Path) -> None:
    tables, table = compiled(name), rows()
    links = np.stack([tables.link(table, output=f.name) for f in tables.functions])
    link, prediction = scored(tables, table, tmp_path / "model.onnx")
    np.testing.assert_allclose(link.T, links, atol=1e-6)
    expected = plug_in(tables, links)
    if expected.ndim == 1 and tables.classes is not None:
        expected = np.column_stack([1.0 - expected, expected])
    np.testing.assert_allclose(prediction, expected, rtol=1e-6, atol=1e-6)


def test_a_model_without_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no column"):
        to_onnx(compiled("no features"), tmp_path / "model.onnx")
