"""How columns of numbers are read."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.schema.tables import MAKERS, NAN, only, same

from oakgp.schema import CategoricalColumn, NumericColumn, TableSchema


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
