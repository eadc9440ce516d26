"""Checks of settings: each names the setting, what was given and what is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral
from typing import Any

import numpy as np


class RowError(ValueError):
    """A fault at one row of a table; who reads a table in parts can say where the row stands.

    Parameters
    ----------
    before, row, after
        The message is the three put together.
    """

    def __init__(self, before: str, row: int, after: str) -> None:
        super().__init__(f"{before}{row}{after}")
        self.before, self.row, self.after = before, row, after

    def __reduce__(self) -> tuple[type[RowError], tuple[str, int, str]]:
        """Travel between processes with all three parts."""
        return RowError, (self.before, self.row, self.after)

    def at(self, where: str, row: int) -> RowError:
        """Return the same fault with the row's number in the whole, and what the whole is."""
        return RowError(f"{where}: {self.before}" if where else self.before, row, self.after)


def check_count(name: str, value: Any, least: int) -> None:
    """Refuse what is no whole number of at least ``least``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r}: give a whole number of at least {least}")


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name}={value!r}: give True or False")


def check_choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    """Refuse what is not one of a few words."""
    if value not in allowed:
        raise ValueError(f"{name}={value!r}: choose one of {', '.join(map(repr, allowed))}")


def check_terms(name: str, terms: Any) -> None:
    """Refuse what is no list of terms; whether the model has them shows at fit."""
    if isinstance(terms, str) or not isinstance(terms, Iterable):
        raise ValueError(f"{name}={terms!r}: give a list of terms, such as ['a', ('a', 'b')]")
    for term in terms:
        parts = [term] if isinstance(term, str) or not isinstance(term, Iterable) else list(term)
        if not all(isinstance(p, (str, Integral)) and not isinstance(p, bool) for p in parts):
            raise ValueError(
                f"{name}= holds {term!r}: a term is a column's name or number, or a tuple of these"
            )


def check_directions(name: str, directions: Any) -> None:
    """Refuse what is no mapping from single features to directions; None is no feature."""
    if directions is None:
        return
    if not isinstance(directions, Mapping):
        raise ValueError(f"{name}={directions!r}: give a mapping, such as {{'age': 'increasing'}}")
    for feature, direction in directions.items():
        if not isinstance(feature, (str, Integral)) or isinstance(feature, bool):
            raise ValueError(f"{name}= holds {feature!r}: give a column's name or number")
        check_choice(f"{name}[{feature!r}]", direction, ("increasing", "decreasing"))
