"""Tables that come after the one the schema was made of; schemas in files."""

import datetime as dt
import json

import numpy as np
import pandas as pd
import pytest
from tests.schema.tables import MAKERS, NAN, same

from oakgp.schema import TableSchema

TRAIN = {"n": [1.5, 2.5, 4.0], "s": ["u", "v", "u"]}


@pytest.mark.parametrize("make", MAKERS)
def test_order_and_further_columns_do_not_matter(make):
    schema = TableSchema.infer(make(TRAIN))
    dates = [dt.date(2020, 1, 1)] * 3
    table = make({"s": ["v", "w", "u"], "extra": dates, "n": [3.0, 4.0, 5.0]})
    same(schema.encode(table), [[3, 1], [4, -1], [5, 0]])


def test_missing_columns_are_named():
    schema = TableSchema.infer(pd.DataFrame(TRAIN | {"m": [1, 2, 4]}))
    with pytest.raises(ValueError, match="(?s)now missing:\n- n\n- m\n.*NaN"):
        schema.encode(pd.DataFrame({"s": ["u"]}))


def test_tables_without_names_are_matched_by_position():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 5.0]})
    array = frame.to_numpy()
    same(TableSchema.infer(frame).encode(array), array)
    same(TableSchema.infer(array).encode(frame), array)
    same(TableSchema.infer(array).encode(frame.rename(columns={"a": "x1", "b": "x0"})), array)


def test_integer_names_become_text():
    schema = TableSchema.infer(pd.DataFrame(np.eye(2)))
    assert schema.named
    assert schema.names == ("0", "1")
    same(schema.encode(pd.DataFrame([[5, 6]], columns=[1, 0])), [[6, 5]])


@pytest.mark.parametrize("named", [False, True])
def test_the_number_of_columns_must_match(named):
    train = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    schema = TableSchema.infer(train if named else train.to_numpy())
    with pytest.raises(ValueError, match="X has 3 features, but this model was fitted with 2"):
        schema.encode(np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"X has 1 features, but \w+ is expecting 2 features as"):
        schema.encode(np.ones((2, 1)))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("text", ["1.0", "many"])
def test_text_in_a_numeric_column_is_refused(make, text):
    schema = TableSchema.infer(make({"a": [1.0, 2.0]}))
    with pytest.raises(ValueError, match=f"'a' was numeric at fit.* text '{text}' at row 1"):
        schema.encode(make({"a": [None, text, "x"]}))


def test_text_among_numbers_is_found():
    schema = TableSchema.infer(np.array([[1.0], [2.0]]))
    with pytest.raises(ValueError, match="'x0' was numeric at fit.* text 'x' at row 2"):
        schema.encode(np.array([[1], ["2"], ["x"]], dtype=object))


def test_numeric_columns_take_booleans_and_categories_of_numbers():
    schema = TableSchema.infer(pd.DataFrame({"a": [1.0, 2.0]}))
    same(schema.encode(pd.DataFrame({"a": [True, False]}))[:, 0], [1, 0])
    same(schema.encode(pd.DataFrame({"a": pd.Categorical([5, None])}))[:, 0], [5, NAN])


@pytest.mark.parametrize("make", MAKERS)
def test_missing_values_may_appear_later(make):
    schema = TableSchema.infer(make({"n": [1, 2], "s": ["u", "v"], "b": [True, False]}))
    same(schema.encode(make({"n": [None], "s": [None], "b": [None]})), [[NAN, NAN, NAN]])


def test_columns_that_are_not_used_are_not_looked_at():
    schema = TableSchema.infer(pd.DataFrame({"c": [1, 1], "a": [1.0, 2.0]}))
    same(schema.encode(pd.DataFrame({"c": [dt.date(2020, 1, 1)], "a": [3.0]})), [[3.0]])


def test_levels_keep_their_types_through_json():
    table = pd.DataFrame(
        {"s": ["1", "2"], "i": [1, 2], "f": [1.0, 2.0], "b": [False, True], "n": [0.1, 0.2]}
    )
    schema = TableSchema.infer(table, categorical_features=["i", "f"])
    again = TableSchema.from_dict(json.loads(json.dumps(schema.to_dict(), allow_nan=False)))
    assert again == schema
    types = [type(column.levels[0]) for column in again.columns[:4]]
    assert types == [str, int, float, bool]
    same(again.encode(table), schema.encode(table))


def test_every_field_survives_json():
    table = pd.DataFrame({"a": ["x", 1, 1, 1, 2, 2], "<script>": list("uvwxyz")})
    schema = TableSchema.infer(table, max_levels=2)
    assert schema.columns[0].pooled
    assert schema.columns[0].mixed
    assert schema.columns[1].identifier
    assert schema.notes
    assert TableSchema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


def test_unknown_kinds_of_columns_are_refused():
    saved = TableSchema.infer(np.eye(2)).to_dict()
    saved["columns"][0]["kind"] = "cyclic"
    with pytest.raises(ValueError, match="'x0' has the unknown kind 'cyclic'"):
        TableSchema.from_dict(saved)
