"""The response and the row weights of a fit: read from any library, checked row by row."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from oakgp.checks import RowError

Array = NDArray[np.float64]

# Predictions go beyond the largest response, and must stay below the largest float.
_LARGEST_RESPONSE = 1e307
# The noise variance of a row is divided by its weight: the quotient must stay finite.
_SMALLEST_WEIGHT = 1e-300
# Recognised by name, because pandas must not be imported to recognise its missing values.
_MISSING_TYPES = frozenset({"NoneType", "NAType", "NaTType"})


def read_response(y: Any) -> Array:
    """Return the response as finite float64, ``[n]``, or say which row is at fault.

    Parameters
    ----------
    y : array-like of shape (n,)
        Numbers of any library; a single column is flattened with a warning, as in scikit-learn.
    """
    values = _as_floats(column_or_1d(_as_array(y, "y"), warn=True), "y")
    if len(values) == 0:
        raise ValueError("y is empty: at least one row is needed")
    _check_finite(values, "y")
    largest = int(np.abs(values).argmax())
    if abs(values[largest]) > _LARGEST_RESPONSE:
        raise RowError(
            f"y is {values[largest]:g} at row ",
            largest,
            " (counted from 0), so large that predictions would overflow; divide y so that it "
            f"stays below {_LARGEST_RESPONSE:g}",
        )
    return values


def read_weights(sample_weight: Any, n: int) -> Array:
    """Return the row weights as float64, ``[n]``; all 1 when there are none.

    Parameters
    ----------
    sample_weight : array-like of shape (n,), number or None
        Finite and not negative, at least one positive.
    n
        Number of rows.
    """
    if sample_weight is None:
        return np.ones(n)
    array = _as_array(sample_weight, "sample_weight")
    if array.ndim == 0 and isinstance(sample_weight, Real):
        array = np.full(n, sample_weight)
    if array.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {array.shape}, but there are {n} rows: "
            "give one weight per row"
        )
    weights = check_weights(array)
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if total == 0:
        raise ValueError("sample_weight is zero in every row: nothing is left to fit")
    if not math.isfinite(total):
        raise ValueError("the sum of sample_weight is too large for float64; scale it down")
    return weights


def check_weights(array: NDArray[Any]) -> Array:
    """Return row weights, ``[n]``, of which each by itself is a fair one."""
    weights = _as_floats(array, "sample_weight")
    _check_finite(weights, "sample_weight")
    _refuse_rows(weights < 0, weights, "is negative", "weights must be 0 or more")
    tiny = (weights > 0) & (weights < _SMALLEST_WEIGHT)
    _refuse_rows(tiny, weights, f"is below {_SMALLEST_WEIGHT:g}", "set it to 0 to drop the row")
    return weights


def read_labels(y: Any) -> NDArray[Any]:
    """Return class labels, ``[n]``, or say which row is at fault.

    Parameters
    ----------
    y : array-like of shape (n,)
        Numbers, texts or booleans of any library, none missing.
    """
    labels: NDArray[Any] = column_or_1d(_as_array(y, "y"), warn=True)
    if len(labels) == 0:
        raise ValueError("y is empty: at least one row is needed")
    if labels.dtype.kind == "f":
        _check_finite(labels, "y")
    elif labels.dtype.kind == "O":
        missing = np.array([_is_missing(value) for value in labels])
        if missing.any():
            raise RowError(
                f"Input y contains NaN: {int(missing.sum())} of {len(labels)} labels are missing, "
                "the first in row ",
                int(missing.argmax()),
                " (counted from 0); drop these rows, or name the missing ones a class",
            )
        kinds = {str if isinstance(v, str) else float for v in labels}
        if len(kinds) > 1:
            raise ValueError(
                "y mixes texts and numbers, which have no order together; convert all labels to "
                "text"
            )
        labels = np.array(labels.tolist())
    check_classification_targets(labels)
    return labels


def _is_missing(value: Any) -> bool:
    return type(value).__name__ in _MISSING_TYPES or (isinstance(value, float) and value != value)


def read_offset(exposure: Any, offset: Any, n: int) -> Array | None:
    """Return offset + log exposure of each row, ``[n]``; None when neither is given.

    Parameters
    ----------
    exposure, offset : array-like of shape (n,), number or None
        Exposures are positive; both are finite.
    n
        Number of rows.
    """
    total = None
    if exposure is not None:
        values = _per_row(exposure, "exposure", n)
        bad = values <= 0
        if bad.any():
            row = int(bad.argmax())
            raise RowError(
                f"exposure is not positive in {int(bad.sum())} of {n} rows, the first is row ",
                row,
                f" ({values[row]:g}, counted from 0); nothing can happen without exposure: drop "
                "these rows",
            )
        total = np.log(values)
    if offset is not None:
        values = _per_row(offset, "offset", n)
        total = values if total is None else total + values
    return total


def _per_row(given: Any, name: str, n: int) -> Array:
    array = _as_array(given, name)
    if array.ndim == 0 and isinstance(given, Real):
        array = np.full(n, given)
    if array.shape != (n,):
        raise ValueError(f"{name} has shape {array.shape}, but there are {n} rows: give one a row")
    values = _as_floats(array, name)
    _check_finite(values, name)
    return values


def _as_array(values: Any, name: str) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(values)
        values = np.where(masked, np.array(None, dtype=object), values.data.astype(object))
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(
            f"{name} must hold one number per row, but some of its entries are sequences ({error})"
        ) from error
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} is complex; pass its real part")
    return array


def _as_floats(values: NDArray[Any], name: str) -> Array:
    """Return a vector as float64, NaN where missing; refuse what is no number."""
    kind = values.dtype.kind
    if kind in "biuf":
        with np.errstate(over="ignore"):  # a long double may overflow: it counts as infinite
            return values.astype(np.float64)
    if kind in "mM":
        raise TypeError(
            f"{name} has type {values.dtype}, which has no numeric meaning; convert it to numbers, "
            "for example to days since a fixed date"
        )
    return np.array([_number(value, row, name) for row, value in enumerate(values)])


def _number(value: Any, row: int, name: str) -> float:
    if type(value).__name__ in _MISSING_TYPES:
        return math.nan
    try:
        return float(value)
    except OverflowError:  # an integer above the range of float64
        return math.inf
    except ValueError as error:
        raise RowError(
            f"{name} holds {value!r} ({type(value).__name__}) at row ",
            row,
            f" (counted from 0), which is no number; convert {name} to numbers or drop the row",
        ) from error
    except TypeError as error:
        raise TypeError(
            f"{name} holds {value!r} ({type(value).__name__}) at row {row} (counted from 0), "
            f"which is no number; convert {name} to numbers or drop the row"
        ) from error


def _check_finite(values: Array, name: str) -> None:
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        what = "NaN" if np.isnan(values[bad[0]]) else "infinity"
        raise RowError(
            f"Input {name} contains {what}: {len(bad)} of {len(values)} rows, the first is row ",
            int(bad[0]),
            " (counted from 0); drop these rows or mend them before fitting",
        )


def _refuse_rows(bad: NDArray[np.bool_], weights: Array, what: str, remedy: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise RowError(
            f"sample_weight {what} in {int(bad.sum())} of {len(weights)} rows, the first is row ",
            row,
            f" ({weights[row]:g}, counted from 0); {remedy}",
        )
