"""Scoring queries on real databases against the tables and against the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.export.databases import postgres_server, run_duckdb, run_postgres, run_sqlite
from tests.export.models import frame, model

from oakgp import OAKRegressor
from oakgp.compiled import CompiledModel
from oakgp.compiled.links import plug_in
from oakgp.export.sql import to_sql

Run = Callable[[pd.DataFrame, str, str], pd.DataFrame]


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with postgres_server() as address:
        yield address


@pytest.fixture(params=["duckdb", "sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> tuple[str, Run]:
    if request.param == "postgresql":
        address = request.getfixturevalue("postgres")
        return request.param, lambda *a: run_postgres(address, *a)
    return request.param, {"duckdb": run_duckdb, "sqlite": run_sqlite}[request.param]


@cache
def compiled(name: str) -> CompiledModel:
    return model(name).compile(bands=False)


def rows() -> pd.DataFrame:
    """Rows of every sort, with a number each: missing, unseen, far out, and at the knots."""
    table = frame(120, seed=5)
    table["new"] = table["new"].astype(object)
    table["class"] = table["class"].astype(object)
    table.loc[3, "heat"] = 'it\'s "coal"'
    table.loc[4, "heat"] = None
    table.loc[5, "hour"] = np.nan
    table.loc[6, "new"] = None
    table.loc[7, "class"] = "Z"
    table.loc[8:15, "area"] *= 1e3
    table.loc[16:25, "area"] /= 1e3
    table.loc[26:30, "hour"] -= 100.0
    table.loc[31:35, "hour"] += 1e7
    table.loc[36:60, "area"] = frame()["area"].dropna().to_numpy()[:25]
    table["row"] = np.arange(len(table))
    return table


@pytest.mark.parametrize(
    "name", ["all columns", "truncated", "periodic", "matern12", "sinh-arcsinh", "no flow"]
)
def test_numbers_are_those_of_the_tables_and_the_model(
    name: str, database: tuple[str, Run]
) -> None:
    dialect, run = database
    tables, table = compiled(name), rows()
    found = run(table, "data", to_sql(tables, dialect, keep=["row"])).sort_values("row")
    scale = model(name).model_.scale
    np.testing.assert_allclose(found["prediction"], tables.predict(table), atol=1e-6 * scale)
    np.testing.assert_array_equal(found["link"], found["prediction"])
    full = model(name).predict(table)
    assert np.abs(found["prediction"] - full).max() <= (tables.bound + 1e-6) * scale


@pytest.mark.parametrize("name", ["two classes", "three classes", "probit", "gamma"])
def test_other_responses(name: str, database: tuple[str, Run]) -> None:
    dialect, run = database
    tables, table = compiled(name), rows()
    found = run(table, "data", to_sql(tables, dialect, keep=["row"])).sort_values("row")
    links = np.stack([tables.link(table, output=f.name) for f in tables.functions])
    expected = plug_in(tables, links)
    if name == "gamma":
        np.testing.assert_allclose(found["prediction"], expected, rtol=1e-6)
        return
    labels = np.array(tables.classes)
    if name == "three classes":
        p = found[[f"probability_{label}" for label in labels]].to_numpy()
        np.testing.assert_allclose(p, expected, atol=1e-6)
        assert found["prediction"].tolist() == labels[expected.argmax(axis=1)].tolist()
        return
    np.testing.assert_allclose(found["link"], links[0], atol=1e-6)
    assert found["prediction"].tolist() == labels[(expected > 0.5).astype(int)].tolist()
    if name == "two classes":
        np.testing.assert_allclose(found["probability"], expected, atol=1e-6)


def test_names_and_levels_are_quoted(database: tuple[str, Run]) -> None:
    dialect, run = database
    random = np.random.default_rng(0)
    odd = {'a "b" c': "x", "select": "y", "-- ;'": "z", "ünï": "w"}
    levels = ["it's", '"quoted"', "'; DROP TABLE data; --", "back\\slash", "%s", "$1", "naïve"]
    table = pd.DataFrame({name: random.normal(size=70) for name in odd})
    table["or 1=1"] = random.choice(levels, 70)
    y = table["select"] + (table["or 1=1"] == "it's") + table['a "b" c'] ** 2
    estimator = OAKRegressor(max_order=1, max_iter=3, flow="normal_score").fit(table, y)
    tables = estimator.compile(bands=False)
    named = table.assign(**{'my "id"': np.arange(70)})
    query = to_sql(tables, dialect, table='my "data"', keep=['my "id"'])
    found = run(named, 'my "data"', query).sort_values('my "id"')
    np.testing.assert_allclose(found["prediction"], tables.predict(table), atol=1e-6)


def test_numbers_as_levels_and_rare_levels(database: tuple[str, Run]) -> None:
    dialect, run = database
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {"code": random.choice([1.0, 2.5, 7.0, np.nan], 80), "size": random.normal(size=80)}
    )
    table["kind"] = random.choice(["a", "b", "c", "d", "e"], 80, p=[0.4, 0.3, 0.1, 0.1, 0.1])
    y = table["size"] + (table["code"] == 2.5) + (table["kind"] == "b")
    settings: dict[str, Any] = {"max_order": 2, "max_iter": 3, "flow": "normal_score"}
    estimator = OAKRegressor(**settings, categorical_features=["code"], max_levels=3)
    tables = estimator.fit(table, y).compile(bands=False)
    assert "(other)" in str(tables.to_dict())
    asked = table.assign(row=np.arange(80))
    asked.loc[0, "code"], asked.loc[1, "kind"] = 99.0, "(other)"
    found = run(asked, "data", to_sql(tables, dialect, keep=["row"])).sort_values("row")
    np.testing.assert_allclose(found["prediction"], tables.predict(asked), atol=1e-6)


def test_a_model_without_features_is_its_constant(database: tuple[str, Run]) -> None:
    dialect, run = database
    tables = compiled("no features")
    found = run(pd.DataFrame({"row": [0, 1]}), "data", to_sql(tables, dialect))
    assert found["prediction"].tolist() == [tables.functions[0].sum.constant] * 2


def test_bad_requests_are_refused() -> None:
    with pytest.raises(ValueError, match="duckdb"):
        to_sql(compiled("truncated"), "oracle")
    with pytest.raises(ValueError, match="null character"):
        to_sql(compiled("truncated"), "duckdb", table="a\0b")
