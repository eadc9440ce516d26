"""How columns of categories are read, and which columns are."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.schema.tables import MAKERS, NAN, only, same

from oakgp.schema import CategoricalColumn, NumericColumn, TableSchema


@pytest.mark.parametrize("make", MAKERS)
def test_strings_are_coded_alphabetically(make):
    column, codes = only(make({"a": ["b", None, "a", "b", ""]}))
    assert column == CategoricalColumn("a", ("", "a", "b"), (1, 1, 2), 1, 3)
    same(codes, [2, NAN, 1, 2, 0])


@pytest.mark.parametrize("make", MAKERS)
def test_booleans_are_categorical(make):
    column, codes = only(make({"a": [True, None, False, True]}))
    assert column.levels == (False, True)
    assert all(type(level) is bool for level in column.levels)
    assert column.counts == (1, 2)
    same(codes, [1, NAN, 0, 1])


def test_numpy_booleans_are_categorical():
    assert only(np.array([[True], [False]]))[0].levels == (False, True)
    assert only(np.array([[np.True_], [False], [None]], dtype=object))[0].levels == (False, True)


@pytest.mark.parametrize("make", MAKERS)
def test_integer_codes_of_any_kind(make):
    column, codes = only(make({"a": [3, 1, 2, 10]}), categorical_features=["a"])
    assert column.levels == (1, 2, 3, 10)
    assert all(type(level) is int for level in column.levels)
    assert codes == [2.0, 0.0, 1.0, 3.0]
    assert only(make({"a": [0, 2, 2]}), categorical_features=["a"])[1] == [0.0, 1.0, 1.0]


def test_float_codes():
    column, codes = only(np.array([[0.5], [NAN], [-1.5]]), categorical_features=[0])
    assert column.levels == (-1.5, 0.5)
    same(codes, [1, NAN, 0])


def test_big_integer_codes_stay_apart():
    big = 2**60
    for make in MAKERS:
        column, codes = only(make({"a": [big, big + 1, None]}), categorical_features=["a"])
        if make is not pd.DataFrame:  # pandas itself turns these into floats
            assert column.levels == (big, big + 1)
            same(codes, [0, 1, NAN])
    assert only(np.array([[big], [big + 1]]), categorical_features=[0])[0].n_distinct == 2


def test_declared_orders_are_kept_for_levels_that_occur():
    declared = ["low", "unused", "high", "mid"]
    values = ["mid", None, "low", "high"]
    for ordered in (False, True):
        table = pd.DataFrame({"a": pd.Categorical(values, declared, ordered=ordered)})
        column, codes = only(table)
        assert column.levels == ("low", "high", "mid")
        same(codes, [2, NAN, 0, 1])
    table = pl.DataFrame({"a": pl.Series(values, dtype=pl.Enum(declared))})
    assert only(table)[0].levels == ("low", "high", "mid")


def test_orders_of_appearance_are_not_declared_orders():
    table = pl.DataFrame({"a": pl.Series(["z", "a"], dtype=pl.Categorical)})
    assert only(table)[0].levels == ("a", "z")
    assert only(pa.table({"a": pa.array(["z", "a"]).dictionary_encode()}))[0].levels == ("a", "z")


def test_categoricals_of_numbers_booleans_and_intervals():
    column, codes = only(pd.DataFrame({"a": pd.Categorical([1, None, 3], [3, 2, 1])}))
    assert column.levels == (3, 1)
    same(codes, [1, NAN, 0])
    assert only(pd.DataFrame({"a": pd.Categorical([True, False])}))[0].levels == (False, True)
    column, codes = only(pd.DataFrame({"a": pd.cut([1, 5, 9], [0, 4, 8, 12])}))
    assert column.levels == ("(0, 4]", "(4, 8]", "(8, 12]")
    assert codes == [0.0, 1.0, 2.0]


def test_mixed_text_and_numbers_are_compared_as_text():
    table = np.array([[1, "u"], ["a", "u"], [1.0, "v"], [2.5, None]], dtype=object)
    schema = TableSchema.infer(table)
    assert schema.columns[0].levels == ("1", "2.5", "a")
    assert schema.columns[0].mixed
    same(schema.encode(table)[:, 0], [0, 2, 0, 1])
    # A batch without any text in the column keeps its codes.
    part = np.array([[1.0, 0.0], [2.5, 0.0]])
    same(schema.encode(part)[:, 0], [0, 1])
    assert only(pd.DataFrame({"a": ["x", 1, True]}))[0].levels == ("1", "True", "x")


def test_mixed_categories_that_read_the_same_are_one_level():
    column, codes = only(pd.DataFrame({"a": pd.Categorical(["b", 1, "1"], ["b", "1", 1])}))
    assert column.levels == ("b", "1")
    assert column.counts == (1, 2)
    assert codes == [0.0, 1.0, 1.0]


def test_unseen_levels_are_minus_one():
    schema = TableSchema.infer(pd.DataFrame({"a": ["u", "v"]}))
    same(schema.encode(pd.DataFrame({"a": ["v", "w", None]}))[:, 0], [1, -1, NAN])


def test_levels_match_by_value():
    schema = TableSchema.infer(pd.DataFrame({"a": [1, 2]}), categorical_features=["a"])
    same(schema.encode(pd.DataFrame({"a": [2.0, 1.0, NAN, 1.5]}))[:, 0], [1, 0, NAN, -1])
    same(schema.encode(pd.DataFrame({"a": ["1", "2"]}))[:, 0], [-1, -1])
    same(schema.encode(pd.DataFrame({"a": [True, False]}))[:, 0], [0, -1])
    schema = TableSchema.infer(pd.DataFrame({"a": [False, True]}))
    same(schema.encode(pd.DataFrame({"a": [0, 1, 2]}))[:, 0], [0, 1, -1])
    same(schema.encode(pd.DataFrame({"a": ["True", "False"]}))[:, 0], [-1, -1])


def test_numeric_text_matches_text_levels_in_a_batch_of_numeric_text():
    schema = TableSchema.infer(np.array([["1"], ["2"], ["a"]]))
    same(schema.encode(np.array([["2"], ["1"]]))[:, 0], [1, 0])


def test_rare_levels_share_one():
    values = ["a"] * 4 + ["b"] * 3 + ["c"] * 2 + ["d"]
    column, codes = only(pd.DataFrame({"a": values}), max_levels=2)
    assert column.levels == ("a", "b", "(other)")
    assert column.counts == (4, 3, 3)
    assert column.pooled == ("c", "d")
    assert codes == [0.0] * 4 + [1.0] * 3 + [2.0] * 3
    schema = TableSchema.infer(pd.DataFrame({"a": values}), max_levels=2)
    assert "4 levels" in schema.notes[0]
    assert "30.0% of the rows" in schema.notes[0]
    # Pooled levels are known, others are not, and nor is the name of the shared level.
    table = pd.DataFrame({"a": ["d", "e", "(other)", "b"]})
    same(schema.encode(table)[:, 0], [2, -1, -1, 1])


def test_ties_among_rare_levels_go_to_the_first():
    column, _ = only(pd.DataFrame({"a": list("dcba") * 2}), max_levels=2)
    assert column.levels == ("a", "b", "(other)")


@pytest.mark.parametrize("where", ["kept", "pooled"])
def test_the_name_of_the_shared_level_is_never_taken(where):
    many, few = ("(other)", "z") if where == "kept" else ("z", "(other)")
    values = [many] * 4 + ["(other)*"] * 3 + [few] * 2 + ["y"] * 2
    column, codes = only(pd.DataFrame({"a": values}), max_levels=2)
    assert column.levels[-1] == "(other)**"
    assert codes[0] in (0.0, 1.0)
    assert codes[-3:] == [2.0] * 3


def test_numbers_pool_too():
    values = np.repeat([5.0, 6.0, 7.0], [1, 4, 3])[:, None]
    column, codes = only(values, categorical_features=[0], max_levels=2)
    assert column.levels == (6.0, 7.0, "(other)")
    assert codes[0] == 2.0


def test_the_default_keeps_256_levels():
    values = [f"{i:03}" for i in range(300)] * 2 + ["000"] * 2
    column, _ = only(pd.DataFrame({"a": values}))
    assert len(column.levels) == 257
    assert len(column.pooled) == 44


@pytest.mark.parametrize(
    "features",
    [["b"], [1], (1,), np.array([1]), [False, True, False], np.array([False, True, False])],
)
def test_ways_to_choose_categories(features):
    table = pd.DataFrame({"a": [1, 2], "b": [3, 4], "c": ["u", "v"]})
    columns = TableSchema.infer(table, categorical_features=features).columns
    assert [type(c) for c in columns] == [NumericColumn, CategoricalColumn, CategoricalColumn]


def test_generated_names_choose_categories_of_arrays():
    schema = TableSchema.infer(np.eye(2), categorical_features=["x1"])
    assert isinstance(schema.columns[1], CategoricalColumn)


@pytest.mark.parametrize(
    ("features", "error", "words"),
    [
        ("a", ValueError, r"not 'auto'.*\['a'\]"),
        (["z"], ValueError, "names 'z'.*a, b"),
        ([2], ValueError, "position 2.*0 to 1"),
        ([-1], ValueError, "position -1"),
        ([True], ValueError, "mask of 1 entries.*2 columns"),
        ([0.5], TypeError, "holds 0.5"),
        ([True, 0], TypeError, "holds True"),
        (None, TypeError, "holds None.*Pass 'auto'"),
        (1, TypeError, "holds 1"),
    ],
)
def test_bad_choices_of_categories(features, error, words):
    table = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    with pytest.raises(error, match=words):
        TableSchema.infer(table, categorical_features=features)


@pytest.mark.parametrize("max_levels", [0, -1, 2.5, True, "3"])
def test_bad_max_levels(max_levels):
    with pytest.raises(ValueError, match="max_levels=.*: give a whole number of at least 1"):
        TableSchema.infer(np.eye(2), max_levels=max_levels)
