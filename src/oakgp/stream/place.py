"""Where rows come from, so that a fault can be found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from oakgp.checks import RowError


@dataclass(frozen=True, eq=False)
class Place:
    """Where a chunk stands.

    Parameters
    ----------
    label
        What it is a part of, in words: a file and its row group; empty for a table in memory.
    first_row
        Number of its first row in the file or the table, counted from 0.
    rows
        Rows of the chunk that are meant, when some were left out; None for all.
    """

    label: str
    first_row: int
    rows: NDArray[np.intp] | None = None

    def keep(self, rows: NDArray[np.intp]) -> Place:
        """Return the place of some rows of the chunk."""
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def row(self, i: int) -> int:
        """Return the number, in the file or the table, of a row of the chunk."""
        return self.first_row + (i if self.rows is None else int(self.rows[i]))

    @property
    def name(self) -> str:
        """What to call the chunk in messages."""
        return f"{self.label or 'the table'}, rows from {self.first_row} on"

    @contextmanager
    def blamed(self) -> Iterator[None]:
        """Have the errors of a block say where the rows came from."""
        try:
            yield
        except (ValueError, TypeError) as error:
            self._raise(error)

    def _raise(self, error: ValueError | TypeError) -> NoReturn:
        if isinstance(error, RowError):
            raise error.at(self.label, self.row(error.row)) from error
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{self.name}: {error}") from error
