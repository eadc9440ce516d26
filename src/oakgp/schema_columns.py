"""What the columns of a training table hold, and how each is encoded in later tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from oakgp.checks import RowError
from oakgp.columns import FloatArray, Level, RawColumn, as_text, reads_as_number

UNSEEN = -1.0


@dataclass(frozen=True)
class NumericColumn:
    """A column of numbers.

    Attributes
    ----------
    name : str
        The column's name.
    n_missing : int
        Rows without a value in training.
    n_distinct : int
        Distinct values in training, missing ones aside.
    """

    name: str
    n_missing: int
    n_distinct: int

    @property
    def constant(self) -> bool:
        """Whether training saw a single value."""
        return self.n_distinct == 1

    @property
    def active(self) -> bool:
        """Whether the model uses the column."""
        return self.n_distinct > 1

    def encode(self, raw: RawColumn) -> FloatArray:
        """Return the values of the column in a table, NaN where missing."""
        if raw.kind == "label":
            self._refuse_text(raw)
        return raw.numbers()

    def _refuse_text(self, raw: RawColumn) -> None:
        for row, value in enumerate(raw.labels()):
            if isinstance(value, str) and not (raw.parses_text and reads_as_number(value)):
                raise RowError(
                    f"Column {self.name!r} was numeric at fit, but holds the text {value!r} at "
                    "row ",
                    row,
                    " (counted from 0). Convert the column to numbers, with NaN where there is "
                    "none.",
                )


@dataclass(frozen=True)
class CategoricalColumn:
    """A column of levels.

    Attributes
    ----------
    name : str
        The column's name.
    levels : tuple of str, int, float or bool
        The level of each code. The last one stands for all pooled levels, if there are any.
    counts : tuple of int
        Training rows of each level.
    n_missing : int
        Rows without a value in training.
    n_distinct : int
        Distinct values in training, missing ones aside.
    pooled : tuple of str, int, float or bool
        The rare levels that share the last code.
    mixed : bool
        Whether training held both text and numbers; all are then compared as text.
    identifier : bool
        Whether all rows had their own level, or nearly all and there were more than could be kept.
        Such a column is not used and keeps no levels.
    """

    name: str
    levels: tuple[Level, ...]
    counts: tuple[int, ...]
    n_missing: int
    n_distinct: int
    pooled: tuple[Level, ...] = ()
    mixed: bool = False
    identifier: bool = False

    @property
    def constant(self) -> bool:
        """Whether training saw a single value, and in every row."""
        return self.n_distinct == 1 and self.n_missing == 0

    @property
    def active(self) -> bool:
        """Whether the model uses the column."""
        return bool(self.levels) and not self.constant

    def encode(self, raw: RawColumn) -> FloatArray:
        """Return the codes of the column in a table, NaN where missing and -1 where unseen."""
        kept = self.levels[:-1] if self.pooled else self.levels
        codes: dict[Level, float] = {level: float(i) for i, level in enumerate(kept)}
        codes.update(dict.fromkeys(self.pooled, float(len(kept))))
        levels, index = raw.factor()
        if self.mixed:
            levels = [as_text(level) for level in levels]
        table = [codes.get(level, UNSEEN) for level in levels]
        return np.array([*table, np.nan])[index]  # a missing value has index -1: the last


Column: TypeAlias = NumericColumn | CategoricalColumn
