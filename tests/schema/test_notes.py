"""Columns that are left out, and what is said about odd ones."""

import numpy as np
import pandas as pd
import pytest
from tests.schema.tables import MAKERS, NAN, one_note, only, same

from oakgp.schema import CategoricalColumn, TableSchema

BASE = {"ok": [0.5, 1.5, 3.0]}


@pytest.mark.parametrize("value", [7, "u", True])
@pytest.mark.parametrize("make", MAKERS)
def test_constants_are_left_out(make, value):
    table = make({"c": [value] * 3} | BASE)
    schema = TableSchema.infer(table)
    assert schema.columns[0].constant
    assert schema.active == (1,)
    assert schema.encode(table).shape == (3, 1)
    assert "'c' is left out" in one_note(table)
    assert "constant" in one_note(table)


def test_one_number_or_missing_is_left_out_with_a_way_to_keep_it():
    table = pd.DataFrame({"c": [1.0, NAN, 1.0]} | BASE)
    note = one_note(table)
    assert "1 of 3 rows are missing" in note
    assert "categorical_features" in note
    assert TableSchema.infer(table).active == (1,)
    schema = TableSchema.infer(table, categorical_features=["c"])
    same(schema.encode(table)[:, 0], [0, NAN, 0])


@pytest.mark.parametrize("make", MAKERS)
def test_missing_columns_are_left_out(make):
    table = make({"m": [None] * 3} | BASE)
    assert TableSchema.infer(table).active == (1,)
    assert one_note(table) == "Column 'm' is left out: all of its 3 values are missing."


def test_a_column_of_nan_is_left_out():
    assert "all of its 2 values are missing" in one_note(np.array([[NAN, 1], [NAN, 2]]))


def test_identifiers_are_left_out():
    values = [f"customer {i}" for i in range(300)]
    table = pd.DataFrame({"name": values, "ok": np.arange(300) ** 0.5})
    schema = TableSchema.infer(table)
    assert schema.columns[0] == CategoricalColumn("name", (), (), 0, 300, identifier=True)
    assert schema.active == (1,)
    assert "'name' is left out" in one_note(table)
    assert "300 distinct values" in one_note(table)
    assert "name it in categorical_features and raise max_levels." in one_note(table)
    # Neither alone is a wish to use the names: 300 levels are too many, and each has one row.
    for options in ({"max_levels": 300}, {"categorical_features": ["name"]}):
        assert TableSchema.infer(table, **options).active == (1,)
    schema = TableSchema.infer(table, max_levels=300, categorical_features=["name"])
    assert schema.active == (0, 1)
    assert schema.notes == ()


@pytest.mark.parametrize("n_missing", [0, 15])
def test_text_that_differs_in_every_row_is_an_identifier(n_missing):
    values = [f"name {i}" for i in range(60)]
    table = pd.DataFrame({"who": values + [None] * n_missing, "ok": np.arange(60 + n_missing) % 3})
    assert TableSchema.infer(table).active == (1,)
    note = one_note(table)
    assert f"with 60 distinct values in {60 + n_missing} rows it looks like an identifier" in note
    assert note.endswith("To use it as categories, name it in categorical_features.")
    assert TableSchema.infer(table, categorical_features=["who"]).active == (0, 1)
    twice = pd.DataFrame({"who": [*values, values[0]]})
    assert TableSchema.infer(twice).active == (0,)
    assert TableSchema.infer(pd.DataFrame({"who": values[:19]})).active == (0,)


def test_many_levels_that_repeat_are_no_identifier():
    assert not only(pd.DataFrame({"a": list("abcd") * 2}), max_levels=3)[0].identifier
    assert only(pd.DataFrame({"a": list("abcda")}), max_levels=3)[0].identifier


def test_few_rows_are_no_identifier():
    assert only(pd.DataFrame({"a": ["u", "v", "w"]}))[1] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("name", ["id", "customer_id", "PassengerId", "INDEX", "Unnamed index"])
def test_whole_numbers_named_as_identifiers_are_used_but_noted(name):
    values = np.random.default_rng(0).permutation(1000)[:30]
    table = pd.DataFrame({name: values})
    assert "looks like an identifier" in one_note(table)
    assert TableSchema.infer(table).active == (0,)
    assert TableSchema.infer(table + 0.5).notes == ()
    assert TableSchema.infer(pd.DataFrame({name: [*values[:-1], values[0]]})).notes == ()


@pytest.mark.parametrize("name", ["humidity", "idle", "price", "video"])
def test_other_names_are_no_identifiers(name):
    values = np.random.default_rng(0).permutation(1000)[:30]
    assert TableSchema.infer(pd.DataFrame({name: values})).notes == ()


@pytest.mark.parametrize("values", [np.arange(30), np.arange(30)[::-1] + 100])
def test_row_numbers_are_noted(values):
    assert "looks like an identifier" in one_note(pd.DataFrame({"n": values}))
    assert TableSchema.infer(pd.DataFrame({"n": values[:10]})).notes == ()


def test_duplicates_are_noted():
    table = pd.DataFrame({"a": [1, 2, NAN], "b": [3.0, 4, 5], "c": [1, 2, NAN], "d": [1, 2, NAN]})
    schema = TableSchema.infer(table)
    assert schema.active == (0, 1, 2, 3)
    assert [note[:22] for note in schema.notes] == [
        "Columns 'a' and 'c' ho",
        "Columns 'a' and 'd' ho",
    ]


def test_negative_zero_does_not_hide_a_duplicate():
    assert "same values" in one_note(np.array([[0.0, -0.0], [1.0, 1.0]]))


def test_equal_codes_of_other_levels_are_no_duplicates():
    table = pd.DataFrame({"a": ["u", "v"], "b": ["x", "y"], "c": [0, 1]})
    assert TableSchema.infer(table).notes == ()


def test_a_table_without_any_use_is_allowed():
    table = np.ones((4, 2))
    schema = TableSchema.infer(table)
    assert schema.active == ()
    assert "No column is left" in schema.notes[-1]
    matrix = schema.encode(table)
    assert matrix.shape == (4, 0)
    assert matrix.dtype == np.float64


def test_one_row():
    assert TableSchema.infer(pd.DataFrame({"a": [1], "b": ["u"]})).active == ()
