"""What is no usable table or column, each with advice."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from tests.schema.tables import MAKERS

from oakgp.schema import TableSchema

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
