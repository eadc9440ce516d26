"""Read any table column by column.

The schema needs two views of a column, as numbers and as labels, whatever library the table comes
from. `read_table` gives both, lazily, so that a column the model does not use is never looked at.
"""

from __future__ import annotations

import datetime as dt
import math
import numbers
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any, Literal, TypeAlias, cast

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from oakgp.checks import RowError

FloatArray: TypeAlias = npt.NDArray[np.float64]
Level: TypeAlias = str | int | float | bool
Factors: TypeAlias = tuple[list[Level], npt.NDArray[np.intp]]

# Recognised by name, because pandas must not be imported to recognise its missing values.
_MISSING_TYPES = frozenset({"NoneType", "NAType", "NaTType"})
_TEMPORAL_TYPES = (dt.date, dt.time, dt.timedelta, np.datetime64, np.timedelta64)
_SCALAR_TYPES = (str, numbers.Real, Decimal, np.bool_)
_BINARY_TYPES = (bytes, bytearray, memoryview)
_TEMPORAL_ADVICE = (
    "Derive numbers from it, for example the year, the month, the day of the week, the hour, or "
    "the days since a fixed date."
)
_BINARY_ADVICE = "Decode it to text or to numbers first."
_NESTED_ADVICE = "Spread it into one column per element first."
_OBJECT_ADVICE = "Convert the column to numbers or to text first."


@dataclass(frozen=True)
class RawColumn:
    """One column of a table, before anything is decided about it.

    Attributes
    ----------
    name : str
        The column's name.
    kind : {"number", "boolean", "label"}
        What the values are by themselves, when the user says nothing.
    numbers : callable
        Returns the values as float64, NaN where missing. Only for "number" and "boolean".
    labels : callable
        Returns the values as a list of Python scalars, None where missing.
    order : tuple of levels or None
        The order of the levels that the table declares.
    parses_text : bool
        Whether text that reads as a number counts as that number: so it does in NumPy arrays and
        lists, where one string turns every neighbour into a string.
    quick_factor : callable or None
        A faster way to what `factor` returns, None from it where there is none.
    """

    name: str
    kind: Literal["number", "boolean", "label"]
    numbers: Callable[[], FloatArray]
    labels: Callable[[], list[Level | None]]
    order: tuple[Level, ...] | None = None
    parses_text: bool = False
    quick_factor: Callable[[], Factors | None] | None = None

    def factor(self) -> Factors:
        """Return the distinct levels and each row's position among them, -1 where missing."""
        factors = None if self.quick_factor is None else self.quick_factor()
        return factor_list(self.labels()) if factors is None else factors


@dataclass(frozen=True)
class RawTable:
    """A table of any library: names, length, readers of columns by position and of raw values."""

    names: tuple[str, ...]
    named: bool
    n_rows: int
    read: Callable[[int], RawColumn]
    values: Callable[[int], npt.NDArray[Any]]


def read_table(table: Any) -> RawTable:
    """Wrap a table of any supported library.

    Parameters
    ----------
    table : table-like
        A pandas or polars data frame, a pyarrow table, a 2-d NumPy array or a list of lists.

    Returns
    -------
    RawTable
        Its columns are read on demand.
    """
    frame = _as_frame(table)
    raw = _from_array(_as_array(table)) if frame is None else _from_frame(frame)
    shape = (raw.n_rows, len(raw.names))
    for size, what in zip(shape, ("sample", "feature"), strict=True):
        if size == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={shape}) while a minimum of 1 is required."
            )
    repeated = [name for name, count in Counter(raw.names).items() if count > 1]
    if repeated:
        raise ValueError(_duplicates_message(repeated))
    return raw


def select_columns(raw: RawTable, positions: Sequence[int]) -> RawTable:
    """Return some columns of a table, in the given order."""
    return RawTable(
        tuple(raw.names[i] for i in positions),
        raw.named,
        raw.n_rows,
        lambda j: raw.read(positions[j]),
        lambda j: raw.values(positions[j]),
    )


def factor_list(labels: Sequence[Level | None]) -> Factors:
    """Return the distinct levels of a list and each row's position among them.

    True and 1 are equal in Python, yet their texts differ: here they are two levels.
    """
    keys: Sequence[Any] = labels
    if bool in set(map(type, labels)):
        keys = [(value,) if isinstance(value, bool) else value for value in labels]
    distinct = [key for key in dict.fromkeys(keys) if key is not None]
    where: dict[Any, int] = {key: i for i, key in enumerate(distinct)}
    where[None] = -1
    levels = [key[0] if isinstance(key, tuple) else key for key in distinct]
    return levels, np.fromiter(map(where.__getitem__, keys), np.intp, len(keys))


def take_rows(table: Any, rows: npt.NDArray[np.intp]) -> Any:
    """Return some rows of a table of any supported library."""
    frame = _as_frame(table)
    return _as_array(table)[rows] if frame is None else frame[rows].to_native()


def slice_rows(table: Any, start: int, stop: int) -> Any:
    """Return consecutive rows of a table of any supported library, without a copy."""
    frame = _as_frame(table)
    return _as_array(table)[start:stop] if frame is None else frame[start:stop].to_native()


def as_text(value: object) -> str:
    """Write a level of a mixed column as text, so that 1 and 1.0 are one level."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def reads_as_number(text: str) -> bool:
    """Tell whether `float` accepts the text."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def to_floats(values: Sequence[Any], name: str) -> FloatArray:
    """Turn numbers, booleans, numeric text and None into finite float64, NaN where missing."""
    return checked_finite(np.fromiter(map(_as_float, values), np.float64, len(values)), name)


def checked_finite(values: FloatArray, name: str) -> FloatArray:
    """Return the values, or refuse them when one is infinite."""
    infinite = np.isinf(values)
    if infinite.any():
        raise RowError(
            f"Input X contains infinity or a value too large for float64: column {name!r}, "
            f"{int(infinite.sum())} of {values.size} rows, first at row ",
            int(infinite.argmax()),
            " (counted from 0). Replace it by NaN to mark it as missing, or by a finite number.",
        )
    return values


def _as_float(value: Any) -> float:
    if value is None:
        return math.nan
    try:
        return float(value)
    except OverflowError:
        # An integer above the range of float64 is an infinity in all but name.
        return math.inf if value > 0 else -math.inf


def _as_frame(table: Any) -> nw.DataFrame[Any] | None:
    try:
        frame: object = nw.from_native(table, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        # pyarrow calls the names column_names and has arrays in columns.
        names: Iterable[object] = getattr(table, "column_names", None) or table.columns
        repeated = [name for name, count in Counter(map(str, names)).items() if count > 1]
        raise ValueError(_duplicates_message(repeated)) from error
    if isinstance(frame, nw.LazyFrame):
        raise TypeError(
            f"A lazy table was passed ({type(table).__name__}). Collect it first: 'X.collect()'."
        )
    return frame if isinstance(frame, nw.DataFrame) else None


def _duplicates_message(names: Sequence[str]) -> str:
    return (
        f"Duplicate column names: {', '.join(map(repr, names))}. Rename or drop columns so that "
        "every name occurs once."
    )


def _as_array(table: Any) -> npt.NDArray[Any]:
    if hasattr(table, "toarray") and hasattr(table, "nnz"):
        raise TypeError(
            "Sparse data was passed, but dense data is required. Use '.toarray()' to turn the "
            "sparse matrix into a dense NumPy array."
        )
    if isinstance(table, np.ma.MaskedArray):
        table = np.where(
            np.ma.getmaskarray(table), np.array(None, dtype=object), table.data.astype(object)
        )
    try:
        array = np.asarray(table)
    except ValueError:
        if not isinstance(table, list | tuple):
            raise
        array = np.array(table, dtype=object)  # rows, or values in them, of unequal length
        if array.ndim < 2:
            raise ValueError(_ragged_message(table)) from None
    if array.dtype.kind in "US" and not isinstance(table, np.ndarray):
        # NumPy would turn the numbers and NaN of a list with strings into text.
        array = np.array(table, dtype=object)
    if array.dtype.kind == "c":
        raise ValueError(
            "Complex data not supported. Pass the real and the imaginary part as two columns, "
            "X.real and X.imag."
        )
    if array.ndim < 2:
        raise ValueError(_flat_message(table, array))
    if array.ndim > 2:
        raise ValueError(
            f"Found array with dim {array.ndim} (shape={array.shape}), while dim <= 2 is required. "
            "Use array.reshape(len(array), -1) to lay the features of a row side by side."
        )
    return array


def _flat_message(table: Any, array: npt.NDArray[Any]) -> str:
    if array.ndim == 0:
        return (
            f"Expected 2D array, got scalar array instead: {type(table).__name__} is no table. "
            "Pass a data frame, a 2D NumPy array or a list of rows."
        )
    if hasattr(table, "to_frame"):
        return (
            f"Expected 2D array, got 1D array instead: one {type(table).__name__} of {array.size} "
            "values. Make it a table of one column with X.to_frame()."
        )
    if array.dtype.names or (array.size and isinstance(array[0], Mapping)):
        return (
            f"Expected 2D array, got 1D array instead: {array.size} records with named fields. "
            "Make them a table with pandas.DataFrame(X)."
        )
    return (
        f"Expected 2D array, got 1D array instead: array={array!r}. Reshape your data "
        "either using array.reshape(-1, 1) if your data has a single feature or "
        "array.reshape(1, -1) if it contains a single sample."
    )


def _ragged_message(table: Sequence[Any]) -> str:
    lengths = [len(row) if hasattr(row, "__len__") else 1 for row in table]
    odd = next((i for i, length in enumerate(lengths) if length != lengths[0]), 0)
    return (
        f"The rows differ in length: row 0 has {lengths[0]} values, row {odd} has {lengths[odd]}. "
        "Give every row one value per column, None where it is missing."
    )


def _from_array(array: npt.NDArray[Any]) -> RawTable:
    n_rows, n_columns = array.shape
    names = tuple(f"x{i}" for i in range(n_columns))
    return RawTable(
        names,
        False,
        n_rows,
        lambda i: _array_column(names[i], array[:, i]),
        lambda i: array[:, i],
    )


def _from_frame(frame: nw.DataFrame[Any]) -> RawTable:
    series = [cast("nw.Series[Any]", column) for column in frame.iter_columns()]
    names = tuple(str(name) for name in frame.columns)
    return RawTable(
        names,
        True,
        frame.shape[0],
        lambda i: _series_column(names[i], series[i]),
        lambda i: series[i].to_numpy(),
    )


def _array_column(name: str, values: npt.NDArray[Any], parses_text: bool = True) -> RawColumn:
    kind = values.dtype.kind
    if kind in "iufb":
        floats = partial(_array_floats, values, name)
        return RawColumn(
            name=name,
            kind="boolean" if kind == "b" else "number",
            numbers=floats,
            labels=lambda: _masked(values.tolist(), np.isnan(floats())),
        )
    if kind in "OUT":
        return _object_column(name, values.tolist(), parses_text)
    if kind == "c":
        raise _complex_refusal(name)
    if kind in "Mm":
        raise _refusal(name, values.dtype, _TEMPORAL_ADVICE)
    raise _refusal(name, values.dtype, _BINARY_ADVICE)


def _array_floats(values: npt.NDArray[Any], name: str) -> FloatArray:
    with np.errstate(over="ignore"):  # a long double may overflow; checked_finite says so
        return checked_finite(values.astype(np.float64), name)


def _series_column(name: str, series: nw.Series[Any]) -> RawColumn:
    dtype = series.dtype
    if dtype.is_temporal():
        raise _refusal(name, dtype, _TEMPORAL_ADVICE)
    if dtype.is_nested():
        raise _refusal(name, dtype, _NESTED_ADVICE)
    if dtype == nw.Binary:
        raise _refusal(name, dtype, _BINARY_ADVICE)
    if dtype.is_numeric():
        floats = partial(_series_floats, series, name)
        return RawColumn(
            name=name,
            kind="number",
            numbers=floats,
            labels=lambda: _masked(series.to_list(), np.isnan(floats())),
        )
    if dtype == nw.Boolean:
        column = _value_column(name, "boolean", lambda: _series_labels(series))
        return replace(column, quick_factor=partial(_boolean_factors, series))
    if dtype == nw.String:
        column = _value_column(name, "label", lambda: _series_labels(series))
        return replace(column, quick_factor=partial(_text_factors, series))
    if dtype == nw.Categorical or dtype == nw.Enum:
        return _categorical_column(name, series)
    if dtype == nw.Object:
        return _object_column(name, series.to_list(), parses_text=False)
    # Types narwhals has no name for (sparse, complex, periods): NumPy's view of them decides.
    return _array_column(name, series.to_numpy(), parses_text=False)


def _series_floats(series: nw.Series[Any], name: str) -> FloatArray:
    if series.dtype.is_decimal() or series.dtype in (nw.Int128, nw.UInt128):
        series = series.cast(nw.Float64)  # NumPy has neither
    return checked_finite(series.to_numpy().astype(np.float64), name)


def _boolean_factors(series: nw.Series[Any]) -> Factors | None:
    """Factor a column of booleans; None where some are missing."""
    if series.null_count() or not len(series):
        return None
    values = series.to_numpy().astype(bool)
    other = (values != values[0]).astype(np.intp)
    levels: list[Level] = [bool(values[0]), not values[0]]
    return (levels if other.any() else levels[:1]), other


def _text_factors(series: nw.Series[Any]) -> Factors | None:
    """Factor a column of text by its own library; None where that has no quick way."""
    if series.implementation.is_pandas_like():
        codes, levels = series.to_native().factorize()
        return levels.tolist(), np.asarray(codes, dtype=np.intp)
    try:
        text = series.to_arrow()
    except ModuleNotFoundError:
        return None
    encoded = text.dictionary_encode()
    if hasattr(encoded, "combine_chunks"):
        encoded = encoded.combine_chunks()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return encoded.dictionary.to_pylist(), codes.astype(np.intp)


def _series_labels(series: nw.Series[Any]) -> list[Level | None]:
    values = series.to_list()
    return _masked(values, series.is_null().to_numpy()) if series.null_count() else values


def _categorical_column(name: str, series: nw.Series[Any]) -> RawColumn:
    order: Iterable[Any] | None = None
    if isinstance(series.dtype, nw.Enum):
        order = series.dtype.categories
    elif series.implementation.is_pandas_like():
        order = series.cat.get_categories().to_list()
    # Elsewhere the dictionary is in order of appearance, which is no order of the user's.
    declared = None if order is None else tuple(map(_declared_level, order))
    labels = partial(_declared_labels, series, name)
    return replace(_value_column(name, "label", labels), order=declared)


def _declared_labels(series: nw.Series[Any], name: str) -> list[Level | None]:
    values = _series_labels(series)
    levels = {value: None if value is None else _declared_level(value) for value in set(values)}
    labels = list(map(levels.__getitem__, values))
    if not {math.inf, -math.inf}.isdisjoint(levels):
        to_floats([value if isinstance(value, float) else 0.0 for value in labels], name)
    return labels


def _declared_level(value: Any) -> Level:
    clean = _cleaner(type(value))(value) if isinstance(value, _SCALAR_TYPES) else None
    # Intervals (pandas.cut) and dates are fair names of levels once declared categorical.
    return str(value) if clean is None else clean


def _object_column(name: str, values: list[Any], parses_text: bool) -> RawColumn:
    """Find out what a column of Python objects holds, by the types that occur in it."""
    types = {kind for kind in set(map(type, values)) if kind.__name__ not in _MISSING_TYPES}
    for kind in types:
        if not issubclass(kind, _SCALAR_TYPES):
            raise _object_refusal(name, next(v for v in enumerate(values) if type(v[1]) is kind))
    cleaners = {kind: _cleaner(kind) for kind in set(map(type, values))}
    cleaned = [cleaners[type(value)](value) for value in values]
    texts = any(issubclass(kind, str) for kind in types)
    all_read = (
        texts and parses_text and all(reads_as_number(v) for v in cleaned if isinstance(v, str))
    )
    if types and all(issubclass(kind, bool | np.bool_) for kind in types):
        return _value_column(name, "boolean", lambda: cleaned)
    if not types or (texts and not all_read):
        return replace(_value_column(name, "label", lambda: cleaned), parses_text=parses_text)
    floats = to_floats(cleaned, name)
    return RawColumn(name, "number", numbers=lambda: floats, labels=lambda: cleaned)


def _value_column(
    name: str,
    kind: Literal["number", "boolean", "label"],
    labels: Callable[[], list[Level | None]],
) -> RawColumn:
    return RawColumn(name, kind, numbers=lambda: to_floats(labels(), name), labels=labels)


def _cleaner(kind: type) -> Callable[[Any], Level | None]:
    """Return what reduces objects of a type to plain Python scalars, None where missing."""
    if kind.__name__ in _MISSING_TYPES:
        return lambda _: None
    if issubclass(kind, str):
        return str.__str__  # also takes the text out of subclasses: NumPy strings, enumerations
    if issubclass(kind, bool | np.bool_):
        return bool
    if issubclass(kind, numbers.Integral):
        return int
    return _float_or_none


def _float_or_none(value: Any) -> float | None:
    if isinstance(value, Decimal) and value.is_nan():
        return None  # float() refuses the signalling kind
    number = _as_float(value)
    return None if math.isnan(number) else number


def _masked(values: list[Any], missing: npt.NDArray[np.bool_]) -> list[Level | None]:
    if not missing.any():
        return values
    return [None if gone else value for value, gone in zip(values, missing.tolist(), strict=True)]


def _refusal(name: str, dtype: object, advice: str) -> TypeError:
    return TypeError(f"Column {name!r} has type {dtype}, which has no numeric meaning. {advice}")


def _complex_refusal(name: str) -> ValueError:
    return ValueError(
        f"Complex data not supported: column {name!r}. Pass the real and the imaginary part as "
        "two columns."
    )


def _object_refusal(name: str, where: tuple[int, Any]) -> Exception:
    row, value = where
    if isinstance(value, numbers.Complex):
        return _complex_refusal(name)
    if isinstance(value, _TEMPORAL_TYPES) or type(value).__name__ == "Period":
        advice = _TEMPORAL_ADVICE
    elif isinstance(value, _BINARY_TYPES):
        advice = _BINARY_ADVICE
    elif isinstance(value, Iterable):
        advice = _NESTED_ADVICE
    else:
        advice = _OBJECT_ADVICE
    return TypeError(
        f"Column {name!r}, row {row} (counted from 0): argument must be a string or a real "
        f"number, not {type(value).__name__!r}. {advice}"
    )
