"""The scoring file, run by a bare interpreter, against the tables."""

from __future__ import annotations

import csv
import io
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.export.models import model
from tests.export.test_sql import compiled, rows

from oakgp import OAKRegressor
from oakgp.compiled.links import plug_in
from oakgp.export.python_file import to_python


def module(path: Path) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "scoring"}
    exec(compile(path.read_text("utf-8"), str(path), "exec"), names)
    return names


@pytest.mark.parametrize(
    "name", ["all columns", "periodic", "sinh-arcsinh", "gamma", "codes as categories"]
)
def test_numbers_are_those_of_the_tables(name: str, tmp_path: Path) -> None:
    tables, table = compiled(name), rows()
    to_python(tables, tmp_path / "score.py")
    score = module(tmp_path / "score.py")
    links = np.stack([tables.link(table, output=f.name) for f in tables.functions])
    records = table.to_dict("records")
    scale = 1.0 if name == "gamma" else model(name).model_.scale
    found = [score["links"](row)[0] for row in records]
    np.testing.assert_allclose(found, links[0], atol=1e-6 * scale)
    expected = plug_in(tables, links)
    np.testing.assert_allclose([score["predict"](row) for row in records], expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["two classes", "three classes", "probit"])
def test_probabilities_are_those_of_the_tables(name: str, tmp_path: Path) -> None:
    tables, table = compiled(name), rows()
    to_python(tables, tmp_path / "score.py")
    score = module(tmp_path / "score.py")
    links = np.stack([tables.link(table, output=f.name) for f in tables.functions])
    expected = plug_in(tables, links)
    for row, p in zip(table.to_dict("records"), expected, strict=True):
        found = score["predict"](row)
        assert list(found) == list(tables.classes or ())
        last = found[tables.classes[-1]] if tables.classes else math.nan
        assert abs(last - (p[-1] if np.ndim(p) else p)) < 1e-6


def test_it_runs_without_anything_installed(tmp_path: Path) -> None:
    tables, table = compiled("all columns"), rows()
    to_python(tables, tmp_path / "score.py")
    text = table.drop(columns="row").to_csv(index=False)
    # -I -S: neither packages nor the folder of this project can be found.
    command = [sys.executable, "-I", "-S", str(tmp_path / "score.py")]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    found = [float(row["prediction"]) for row in csv.DictReader(io.StringIO(done.stdout))]
    np.testing.assert_allclose(found, tables.predict(table), atol=1e-6)


def test_names_cannot_break_out_of_the_file(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    names = ['"""', "\\", "a\nb", "'''); raise SystemExit('''"]
    table = pd.DataFrame({name: random.normal(size=40) for name in names})
    table["level"] = random.choice(['"""', "\\u0022", "ü"], 40)
    y = table['"""'] + (table["level"] == "ü")
    estimator = OAKRegressor(max_order=1, max_iter=3, flow="normal_score").fit(table, y)
    tables = estimator.compile(bands=False)
    to_python(tables, tmp_path / "score.py")
    score = module(tmp_path / "score.py")
    found = [score["predict"](row) for row in table.to_dict("records")]
    np.testing.assert_allclose(found, tables.predict(table), atol=1e-6)
