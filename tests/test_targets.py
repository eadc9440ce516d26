"""Responses and weights of any library are read, and what is no number is named with its row."""

from __future__ import annotations

import warnings
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.exceptions import DataConversionWarning

from oakgp.targets import read_response, read_weights

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "y",
    [
        [1, 2.5, -3],
        np.array([1, 2.5, -3], dtype=np.float32),
        np.array([1, 2.5, -3], dtype=object),
        np.array(["1", "2.5", "-3"]),
        [Decimal(1), Fraction(5, 2), -3],
        pd.Series([1, 2.5, -3], index=[7, 7, 7]),
        pd.array([1, 2.5, -3], dtype="Float64"),
        pd.Categorical([1, 2.5, -3]),
        pl.Series([1.0, 2.5, -3.0]),
        pa.array([1, 2.5, -3]),
        pa.chunked_array([[1, 2.5], [-3.0]]),
        np.ma.array([1, 2.5, -3], mask=False),
    ],
)
def test_numbers_of_any_library(y: Any) -> None:
    values = read_response(y)
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, [1.0, 2.5, -3.0])


def test_booleans_are_zero_and_one() -> None:
    np.testing.assert_array_equal(read_response([True, False]), [1.0, 0.0])
    nullable = pd.array([True, False], dtype="boolean")
    np.testing.assert_array_equal(read_response(nullable), [1.0, 0.0])


def test_one_column_is_flattened_with_a_warning() -> None:
    with pytest.warns(DataConversionWarning, match="column-vector"):
        values = read_response(pd.DataFrame({"y": [1.0, 2.0]}))
    np.testing.assert_array_equal(values, [1.0, 2.0])


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        ([], ValueError, "y is empty: at least one row is needed"),
        ([1.0, NAN, 2.0, NAN], ValueError, "y contains NaN: 2 of 4 rows, the first is row 1"),
        ([1.0, INF], ValueError, "y contains infinity: 1 of 2 rows, the first is row 1"),
        ([1, 10**400], ValueError, "y contains infinity: 1 of 2 rows, the first is row 1"),
        ([1, None], ValueError, "y contains NaN: 1 of 2 rows, the first is row 1"),
        (pd.array([1, None], dtype="Int64"), ValueError, "y contains NaN: 1 of 2 rows"),
        (pl.Series([None, 1.0]), ValueError, "y contains NaN.* the first is row 0"),
        (np.ma.array([1.0, 2.0], mask=[0, 1]), ValueError, "y contains NaN.* row 1"),
        ([1.0, -1e308], ValueError, r"y is -1e\+308 at row 1 .*; divide y so that it stays below"),
        (["low", "high"], ValueError, r"y holds .*'low'.* at row 0 .*convert y to numbers"),
        ([1, {}], TypeError, r"y holds {} \(dict\) at row 1"),
        ([[1, 2], [3]], ValueError, "y must hold one number per row, but some of its entries are"),
        ([[1, 2], [3, 4]], ValueError, "y should be a 1d array"),
        (3.0, ValueError, "y should be a 1d array"),
        ([1j, 2], ValueError, "Complex data not supported: y is complex; pass its real part"),
        (pd.date_range("2020", periods=2), TypeError, "y has type datetime64.*days since a fixed"),
        (np.array([1, 2], "m8[D]"), TypeError, "y has type timedelta64.*convert it to numbers"),
    ],
)
def test_responses_that_are_none_are_refused(y: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read_response(y)


@pytest.mark.parametrize(
    ("weights", "value"),
    [
        (None, 1.0),
        ([True, True, True], 1.0),
        (2, 2.0),
        (2.5, 2.5),
        ([2, 2, 2], 2.0),
        (pl.Series([2, 2, 2]), 2.0),
        (pd.Series([2, 2, 2], index=[5, 6, 7]), 2.0),
    ],
)
def test_weights_of_any_library(weights: Any, value: float) -> None:
    values = read_weights(weights, 3)
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, [value] * 3)


def test_weights_may_be_far_apart() -> None:
    given = [0.0, 1e-300, 1e300]
    np.testing.assert_array_equal(read_weights(given, 3), given)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (
            [1.0, -2.0, -3.0],
            ValueError,
            r"negative in 2 of 3 rows, the first is row 1 \(-2, .*0 or",
        ),
        ([0.0, 0.0, 0.0], ValueError, "sample_weight is zero in every row: nothing is left to fit"),
        (0, ValueError, "zero in every row"),
        ([1.0, NAN, 1.0], ValueError, "sample_weight contains NaN: 1 of 3 rows, .* row 1"),
        ([1.0, 1.0, INF], ValueError, "sample_weight contains infinity: 1 of 3 rows, .* row 2"),
        ([1.0, 1e-310, 1.0], ValueError, "below 1e-300 in 1 of 3 rows.*set it to 0 to drop"),
        ([1e308, 1e308, 1.0], ValueError, "sum of sample_weight is too large.*scale it down"),
        ([1.0, 1.0], ValueError, r"shape \(2,\), but there are 3 rows: give one weight per row"),
        ([[1.0]] * 3, ValueError, r"shape \(3, 1\), but there are 3 rows"),
        ("balanced", ValueError, r"shape \(\), but there are 3 rows"),
        (["a", "b", "c"], ValueError, r"sample_weight holds .*'a'.* at row 0"),
        ([1j] * 3, ValueError, "sample_weight is complex"),
    ],
)
def test_weights_that_are_none_are_refused(
    weights: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        read_weights(weights, 3)


def test_long_doubles_beyond_float64_are_infinite() -> None:
    huge = np.array([1.0, 2.0], dtype=np.longdouble) * np.longdouble(1e308) * 100
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="y contains infinity: 2 of 2 rows"):
            read_response(huge)
