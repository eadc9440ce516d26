"""Entries of a model file's JSON, each of the type it must have."""

from __future__ import annotations

import math
from collections.abc import Container
from itertools import pairwise
from typing import Any, TypeVar

from oakgp.kernels.terms import Term

T = TypeVar("T")


class ModelFileError(ValueError):
    """The file is not a model of this library, or it is damaged, or too new."""


def require(condition: bool, message: str) -> None:
    """Refuse the file with a message unless the condition holds."""
    if not condition:
        raise ModelFileError(message)


def _wrong(key: str, value: object, wanted: str) -> ModelFileError:
    return ModelFileError(f"{key!r} holds {value!r:.60}, not {wanted}")


def present(d: object, key: str) -> Any:
    """Return an entry of any type."""
    if not isinstance(d, dict):
        raise ModelFileError(f"a part of the file holds {d!r:.60} where {key!r} should be")
    if key not in d:
        raise ModelFileError(f"{key!r} is missing")
    return d[key]


def entry(d: object, key: str, kind: type[T]) -> T:
    """Return an entry of exactly this type: True is no whole number here."""
    value = present(d, key)
    if type(value) is not kind:
        raise _wrong(key, value, kind.__name__)
    return value


def number(d: object, key: str) -> float:
    """Return a finite number."""
    value = present(d, key)
    if type(value) not in (int, float) or not math.isfinite(value):
        raise _wrong(key, value, "a finite number")
    return float(value)


def count(d: object, key: str) -> int:
    """Return a whole number of at least 0."""
    value = entry(d, key, int)
    if value < 0:
        raise _wrong(key, value, "a count")
    return value


def texts(d: object, key: str) -> tuple[str, ...]:
    """Return a list of strings."""
    values = entry(d, key, list)
    if not all(isinstance(value, str) for value in values):
        raise _wrong(key, values, "a list of strings")
    return tuple(values)


def term(value: object, key: str, n_features: int) -> Term:
    """Return a sorted list of distinct feature numbers as a term."""
    numbers = value if isinstance(value, list) else [None]
    if any(type(i) is not int or not 0 <= i < n_features for i in numbers):
        raise _wrong(key, value, f"a list of feature numbers below {n_features}")
    if any(a >= b for a, b in pairwise(numbers)):
        raise _wrong(key, value, "increasing")
    return tuple(numbers)


def terms(d: object, key: str, n_features: int, known: Container[Term]) -> tuple[Term, ...]:
    """Return a list of terms, all of them known."""
    found = tuple(term(value, key, n_features) for value in entry(d, key, list))
    unknown = [u for u in found if u not in known]
    if unknown:
        raise _wrong(key, list(unknown[0]), "a term of the model")
    return found
