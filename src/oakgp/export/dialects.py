"""How three databases write what a scoring query needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from oakgp.columns import Level

Array = NDArray[np.float64]


class Dialect(ABC):
    """A database: its constants, arrays and functions."""

    name: ClassVar[str]
    true: ClassVar[str] = "TRUE"
    false: ClassVar[str] = "FALSE"
    #: What keeps a stage from being copied into the next, which would compute it many times.
    fence: ClassVar[str] = ""
    #: Whether guide tables find cells faster than branches do.
    guides: ClassVar[bool] = False

    @abstractmethod
    def number(self, column: str) -> str:
        """Return a column as float64, NULL where it is missing or NaN."""

    @abstractmethod
    def array(self, values: Array) -> str:
        """Return a constant that holds many numbers."""

    @abstractmethod
    def element(self, array: str, index: str) -> str:
        """Return an entry of such a constant, by its number from 0."""

    def entry(self, array: str, index: str) -> str:
        """Return an entry of a constant of the stage ``oak_a``."""
        return self.element(f"oak_a.{array}", index)

    def real(self, x: str) -> str:
        """Return a constant as float64."""
        return f"CAST({x} AS double precision)"

    def missing_level(self, column: str, levels: Sequence[Level]) -> str:
        """Return whether a column of levels has none."""
        return f"{column} IS NULL"

    def floor(self, x: str) -> str:
        """Return the whole number below."""
        return f"floor({x})"

    def whole(self, x: str) -> str:
        """Return the whole part of a number that is not negative, as an integer."""
        return f"CAST(floor({x}) AS INTEGER)"

    def least(self, a: str, b: str) -> str:
        """Return the smaller of two."""
        return f"least({a}, {b})"

    def clamp(self, x: str) -> str:
        """Return a number held between 0 and 1."""
        return f"least(greatest({x}, 0.0), 1.0)"

    def exp_difference(self, a: str, b: str) -> str:
        """Return e^(a - b), held below overflow."""
        return f"exp({self.least(f'{a} - {b}', '700.0')})"


class DuckDB(Dialect):
    """DuckDB: lists."""

    name: ClassVar[str] = "DuckDB"
    guides: ClassVar[bool] = True

    def number(self, column: str) -> str:
        """Return a double; NaN counts as missing."""
        x = f"CAST({column} AS DOUBLE)"
        return f"CASE WHEN isnan({x}) THEN NULL ELSE {x} END"

    def array(self, values: Array) -> str:
        """Return a list, written as text: quicker to parse than as many constants."""
        return "'[" + ",".join(map(repr, values.tolist())) + "]'::DOUBLE[]"

    def element(self, array: str, index: str) -> str:
        """Return an element."""
        return f"({array})[{index} + 1]"

    def missing_level(self, column: str, levels: Sequence[Level]) -> str:
        """Return whether the value is NULL, or NaN where levels are numbers."""
        if any(isinstance(level, float) for level in levels):
            return f"{column} IS NULL OR isnan(CAST({column} AS DOUBLE))"
        return f"{column} IS NULL"


class PostgreSQL(Dialect):
    """PostgreSQL: arrays."""

    name: ClassVar[str] = "PostgreSQL"
    fence: ClassVar[str] = " OFFSET 0"

    def number(self, column: str) -> str:
        """Return a double; NaN counts as missing."""
        return f"NULLIF(CAST({column} AS double precision), 'NaN'::double precision)"

    def array(self, values: Array) -> str:
        """Return an array, written as text likewise."""
        return "'{" + ",".join(map(repr, values.tolist())) + "}'::double precision[]"

    def element(self, array: str, index: str) -> str:
        """Return an element."""
        return f"({array})[{index} + 1]"

    def missing_level(self, column: str, levels: Sequence[Level]) -> str:
        """Return whether the value is NULL, or NaN where levels are numbers."""
        if any(isinstance(level, float) for level in levels):
            return f"{column} IS NULL OR {column} = 'NaN'"
        return f"{column} IS NULL"


class SQLite(Dialect):
    """SQLite has no arrays: numbers of a fixed width in a blob, which substr finds at once."""

    name: ClassVar[str] = "SQLite"
    true: ClassVar[str] = "1"
    false: ClassVar[str] = "0"
    fence: ClassVar[str] = " LIMIT -1"
    width: ClassVar[int] = 24

    def number(self, column: str) -> str:
        """Return a real; SQLite stores NaN as NULL."""
        return f"CAST({column} AS REAL)"

    def array(self, values: Array) -> str:
        """Return a blob of numbers as text."""
        text = "".join(f"{v:.16e}".ljust(self.width) for v in values.tolist())
        return f"x'{text.encode('ascii').hex()}'"

    def element(self, array: str, index: str) -> str:
        """Return a number."""
        return f"CAST(substr({array}, ({index}) * {self.width} + 1, {self.width}) AS REAL)"

    def floor(self, x: str) -> str:
        """Return the whole number below: not all builds have floor()."""
        return f"(CAST({x} AS INTEGER) - ({x} < CAST({x} AS INTEGER)))"

    def whole(self, x: str) -> str:
        """Return the whole part."""
        return f"CAST({x} AS INTEGER)"

    def least(self, a: str, b: str) -> str:
        """Return the smaller of two."""
        return f"min({a}, {b})"

    def clamp(self, x: str) -> str:
        """Return a number held between 0 and 1."""
        return f"min(max({x}, 0.0), 1.0)"


DIALECTS: dict[str, Dialect] = {
    "duckdb": DuckDB(),
    "postgresql": PostgreSQL(),
    "sqlite": SQLite(),
}
