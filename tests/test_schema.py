"""Every rule by which a table becomes a matrix."""

import datetime as dt
import json
import subprocess
import sys
from decimal import Decimal

import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from oakgp.schema import CategoricalColumn, NumericColumn, TableSchema

pytestmark = pytest.mark.filterwarnings("error")

MAKERS = [pd.DataFrame, pl.DataFrame, pa.table]
NAN = float("nan")


def only(table, **options):
    """Return the schema's only column and its encoding."""
    schema = TableSchema.infer(table, **options)
    assert len(schema.columns) == 1
    return schema.columns[0], schema.encode(table)[:, 0].tolist() if schema.active else None


def same(got, want):
    np.testing.assert_array_equal(np.asarray(got, dtype=float), np.asarray(want, dtype=float))


# -- numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make", MAKERS)
def test_numbers_keep_their_values_and_missing_ones_become_nan(make):
    table = make({"a": [1.5, None, 3.0, 3.0], "b": [1, 2, None, 4]})
    schema = TableSchema.infer(table)
    assert schema.columns == (NumericColumn("a", 1, 2), NumericColumn("b", 1, 3))
    assert schema.named
    assert schema.n_rows == 4
    matrix = schema.encode(table)
    assert matrix.dtype == np.float64
    assert matrix.flags.c_contiguous
    same(matrix, [[1.5, 1], [NAN, 2], [3, NAN], [3, 4]])


@pytest.mark.parametrize(
    "dtype",
    ["Int64", "UInt8", "Float32", "Float64", "int64[pyarrow]", "double[pyarrow]", "Sparse[float]"],
)
def test_pandas_number_types(dtype):
    column = pd.Series([1.0, 2.0, 3.0]).astype(dtype)
    assert only(pd.DataFrame({"a": column})) == (NumericColumn("a", 0, 3), [1.0, 2.0, 3.0])


def test_pandas_na_is_missing():
    table = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64")})
    same(only(table)[1], [1, NAN, 3])
    table = pd.DataFrame({"a": pd.Series([1, pd.NA, None, pd.NaT, NAN, 2], dtype=object)})
    column, values = only(table)
    assert column == NumericColumn("a", 4, 2)
    same(values, [1, NAN, NAN, NAN, NAN, 2])


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt64, pl.Int128, pl.Float32, pl.Decimal(10, 2)])
def test_polars_number_types(dtype):
    table = pl.DataFrame({"a": pl.Series([1, None, 3]).cast(dtype)})
    same(only(table)[1], [1, NAN, 3])


def test_arrow_decimals_and_half_floats():
    same(only(pa.table({"a": pa.array([1, None, 3], pa.decimal128(5, 2))}))[1], [1, NAN, 3])
    same(only(pa.table({"a": pa.array(np.array([1, 2], dtype="float16"))}))[1], [1, 2])


def test_polars_nan_and_null_are_both_missing():
    column, values = only(pl.DataFrame({"a": [1.0, None, NAN, 2.0]}))
    assert column.n_missing == 2
    same(values, [1, NAN, NAN, 2])


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", "float32", "longdouble"])
def test_numpy_number_types(dtype):
    assert only(np.array([[1], [2]], dtype=dtype)) == (NumericColumn("x0", 0, 2), [1.0, 2.0])


def test_numpy_arrays_have_no_names():
    schema = TableSchema.infer(np.arange(6.0).reshape(3, 2))
    assert not schema.named
    assert schema.names == ("x0", "x1")


def test_masked_entries_are_missing():
    table = np.ma.MaskedArray([[1.0], [2.0], [3.0]], mask=[[False], [True], [False]])
    same(only(table)[1], [1, NAN, 3])


def test_object_arrays_of_numbers_are_numeric():
    table = np.array([[1, Decimal("2.5")], [None, NAN], [np.float32(3), True]], dtype=object)
    schema = TableSchema.infer(table)
    assert schema.columns == (NumericColumn("x0", 1, 2), NumericColumn("x1", 1, 2))
    same(schema.encode(table), [[1, 2.5], [NAN, NAN], [3, 1]])


def test_object_decimal_nans_are_missing():
    table = np.array([[Decimal(1)], [Decimal("sNaN")], [Decimal("NaN")], [2]], dtype=object)
    same(only(table)[1], [1, NAN, NAN, 2])


@pytest.mark.parametrize("dtype", [object, str])
def test_numeric_text_in_arrays_is_numeric(dtype):
    table = np.array([["1", "2.5"], ["2", "nan"], ["3", "1e3"]], dtype=dtype)
    schema = TableSchema.infer(table)
    assert [type(column) for column in schema.columns] == [NumericColumn, NumericColumn]
    same(schema.encode(table), [[1, 2.5], [2, NAN], [3, 1000]])


def test_numeric_text_in_data_frames_is_categorical():
    for make in MAKERS:
        assert only(make({"a": ["1", "2", "10"]}))[0].levels == ("1", "10", "2")


def test_lists_of_lists():
    schema = TableSchema.infer([[1, "u"], [2.5, NAN], [None, "v"]])
    assert [type(column) for column in schema.columns] == [NumericColumn, CategoricalColumn]
    same(schema.encode([[1, "u"], [2.5, NAN], [None, "v"]]), [[1, 0], [2.5, NAN], [NAN, 1]])


def test_strings_in_a_list_leave_its_numbers_and_nans_alone():
    schema = TableSchema.infer([[1, "u"], [2, NAN], [3, "v"]])
    assert schema.columns[1].levels == ("u", "v")
    assert schema.columns[1].n_missing == 1


def test_huge_finite_values_are_fine():
    table = np.array([[1e300], [-1e300], [0.0]])
    assert only(table)[1] == [1e300, -1e300, 0.0]


def test_the_table_is_not_changed():
    table = np.array([[1.0, NAN], [2.0, 3.0]])
    before = table.copy()
    TableSchema.infer(table, categorical_features=[0]).encode(table)[:] = 7
    np.testing.assert_array_equal(table, before)


# -- categories ------------------------------------------------------------------------------


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


# -- what is left out, and what is said about it ------------------------------------------------


def one_note(table, **options):
    notes = TableSchema.infer(table, **options).notes
    assert len(notes) == 1
    return notes[0]


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


# -- categorical_features ------------------------------------------------------------------------


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


# -- refusals ------------------------------------------------------------------------------------

DATES = [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2)]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "values", [DATES, [d.date() for d in DATES], [d.time() for d in DATES], [dt.timedelta(1)] * 2]
)
def test_dates_are_refused_with_advice(make, values):
    with pytest.raises(TypeError, match="(?s)'when'.*Derive numbers.*day of the week"):
        TableSchema.infer(make({"ok": [1, 2], "when": values}))


@pytest.mark.parametrize("make", MAKERS)
def test_bytes_are_refused_with_advice(make):
    with pytest.raises(TypeError, match="'raw'.*Decode"):
        TableSchema.infer(make({"raw": [b"u", b"v"]}))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("values", [[[1], [2]], [{"k": 1}, {"k": 2}]])
def test_nested_columns_are_refused_with_advice(make, values):
    with pytest.raises(TypeError, match="'deep'.*one column per element"):
        TableSchema.infer(make({"deep": values}))


@pytest.mark.parametrize("dtype", ["datetime64[D]", "timedelta64[s]"])
def test_numpy_dates_are_refused(dtype):
    with pytest.raises(TypeError, match="'x0'.*Derive numbers"):
        TableSchema.infer(np.array([[1], [2]]).astype(dtype))


def test_numpy_bytes_are_refused():
    with pytest.raises(TypeError, match="'x0'.*Decode"):
        TableSchema.infer(np.array([[b"u"], [b"v"]]))


def test_periods_are_refused():
    table = pd.DataFrame({"p": pd.period_range("2020", periods=2, freq="D")})
    with pytest.raises(TypeError, match="'p', row 0.*'Period'. Derive numbers from it"):
        TableSchema.infer(table)


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        ({"foo": "bar"}, "Spread it into one column per element"),
        ([1, 2], "Spread it into one column per element"),
        (object(), "Convert the column to numbers or to text"),
    ],
)
def test_other_objects_are_refused_where_they_stand(value, advice):
    table = np.ones((3, 2)).astype(object)
    table[2, 1] = value
    match = f"'x1', row 2 .*argument must be a string or a real number.*{advice}"
    with pytest.raises(TypeError, match=match):
        TableSchema.infer(table)
    with pytest.raises(TypeError, match=match):
        TableSchema.infer(np.eye(3, 2)).encode(table)


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
@pytest.mark.parametrize("make", MAKERS)
def test_infinities_are_refused(make, bad):
    good = {"ok": [0.0, 2.0, 1.0], "a": [1.0, 2.0, 3.0]}
    table = make(good | {"a": [1.0, bad, bad]})
    match = "Input X contains infinity.*'a', 2 of 3 rows, first at row 1.*Replace it by NaN"
    with pytest.raises(ValueError, match=match):
        TableSchema.infer(table)
    with pytest.raises(ValueError, match=match):
        TableSchema.infer(table, categorical_features=["a"])
    with pytest.raises(ValueError, match=match):
        TableSchema.infer(make(good)).encode(table)


@pytest.mark.parametrize(
    "table",
    [
        np.array([[1], [10**400]], dtype=object),
        np.array([[1], [-(10**400)]], dtype=object),
        np.array([["1"], ["inf"]]),
        np.array([[1], [np.longdouble("1e4000")]], dtype="longdouble"),
        pd.DataFrame({"x0": pd.Categorical([1.0, np.inf])}),
    ],
)
def test_infinities_in_disguise_are_refused(table):
    with pytest.raises(ValueError, match="contains infinity.*'x0', 1 of 2 rows, first at row 1"):
        TableSchema.infer(table)


@pytest.mark.parametrize(
    "table",
    [
        np.array([[1j], [2]]),
        np.array([[1j], [2]], dtype=object),
        [[1j], [2]],
        pd.DataFrame({"a": [1j, 2]}),
    ],
)
def test_complex_numbers_are_refused(table):
    with pytest.raises(ValueError, match="Complex data not supported"):
        TableSchema.infer(table)


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.coo_matrix, sparse.dok_array])
def test_sparse_matrices_are_refused(make):
    with pytest.raises(TypeError, match=r"Sparse data was passed.*toarray\(\)"):
        TableSchema.infer(make(np.eye(3)))


@pytest.mark.parametrize("table", [np.arange(3.0), [1, 2], ["u", "v"]])
def test_one_dimension_is_refused(table):
    match = r"(?s)Expected 2D array, got 1D array instead.*Reshape your data either using "
    with pytest.raises(ValueError, match=match + r"array.reshape\(-1, 1\)"):
        TableSchema.infer(table)


@pytest.mark.parametrize("table", [pd.Series([1, 2]), pl.Series([1, 2])])
def test_one_column_by_itself_is_refused(table):
    with pytest.raises(ValueError, match=r"got 1D array instead: one Series of 2 .*X.to_frame\(\)"):
        TableSchema.infer(table)


@pytest.mark.parametrize(
    "table", [[{"a": 1}, {"a": 2}], np.zeros(2, dtype=[("a", float), ("b", int)])]
)
def test_records_are_refused_with_a_way_to_make_them_a_table(table):
    with pytest.raises(ValueError, match=r"got 1D array instead: 2 records .*DataFrame\(X\)"):
        TableSchema.infer(table)


@pytest.mark.parametrize("table", [3.0, None, {"a": [1, 2]}, iter([[1], [2]])])
def test_what_is_no_table_is_refused(table):
    match = f"got scalar array instead: {type(table).__name__} is no table. Pass a data frame"
    with pytest.raises(ValueError, match=match):
        TableSchema.infer(table)


def test_three_dimensions_are_refused():
    with pytest.raises(ValueError, match=r"dim 3 .*reshape\(len\(array\), -1\)"):
        TableSchema.infer(np.ones((2, 2, 2)))


def test_ragged_lists_are_refused():
    with pytest.raises(ValueError, match="row 0 has 2 values, row 1 has 1"):
        TableSchema.infer([[1, 2], [3], [4, 5]])
    with pytest.raises(TypeError, match="'x1', row 0 .*not 'list'"):
        TableSchema.infer([[1, [2, 3]], [4, 5]])


def test_lazy_tables_are_refused():
    with pytest.raises(TypeError, match="lazy.*collect"):
        TableSchema.infer(pl.LazyFrame({"a": [1]}))


@pytest.mark.parametrize(
    "table",
    [np.empty((0, 3)), pd.DataFrame(columns=["a", "b", "c"]), pl.DataFrame(np.empty((0, 3)))],
)
def test_no_rows(table):
    match = r"Found array with 0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required."
    with pytest.raises(ValueError, match=match):
        TableSchema.infer(table)


@pytest.mark.parametrize("table", [np.empty((5, 0)), pd.DataFrame(index=range(5))])
def test_no_columns(table):
    match = r"0 feature\(s\) \(shape=\(5, 0\)\) while a minimum of 1 is required."
    with pytest.raises(ValueError, match=match):
        TableSchema.infer(table)


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]),
        pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "b", "a"]),
    ],
)
def test_duplicate_names_are_refused(table):
    with pytest.raises(ValueError, match="Duplicate column names: 'a'. Rename"):
        TableSchema.infer(table)


def test_names_that_read_the_same_are_duplicates():
    with pytest.raises(ValueError, match="Duplicate column names: '1'"):
        TableSchema.infer(pd.DataFrame([[1, 2]], columns=[1, "1"]))


# -- later tables --------------------------------------------------------------------------------

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


# -- saving --------------------------------------------------------------------------------------


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


# -- the package ---------------------------------------------------------------------------------


def test_no_table_library_is_imported():
    code = (
        "import sys, oakgp.schema as s; s.TableSchema.infer([[1, 'u'], [2, 'v']]);"
        "print([m for m in ('pandas', 'polars', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_any_object_with_an_array_is_read():
    class Holder:
        def __array__(self, dtype=None, copy=None):
            return np.eye(2)

    same(TableSchema.infer(Holder()).encode(Holder()), np.eye(2))


def test_frames_already_wrapped_are_read():
    frame = narwhals.from_native(pl.DataFrame({"a": [1, 2]}))
    same(TableSchema.infer(frame).encode(frame)[:, 0], [1, 2])
