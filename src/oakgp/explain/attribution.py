"""What each term, or each feature, adds to the predictions of some rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oakgp.table import Table

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Attribution:
    """Predictions split into parts: ``base + values.sum(axis=1)`` is the prediction of each row.

    Parameters
    ----------
    names
        Of the terms or features, one a column of ``values``.
    values
        ``[n, k]`` the parts.
    sd
        ``[n, k]`` their posterior standard deviations, NaN where unknown; None where the parts
        are averages over the posterior.
    error
        ``[n, k]`` standard errors of parts that were estimated by sampling; None for exact ones.
    base
        ``[n]`` what the parts are added to.
    """

    names: tuple[str, ...]
    values: Array
    sd: Array | None
    error: Array | None
    base: Array

    @property
    def prediction(self) -> Array:
        """The sum of base and parts, ``[n]``."""
        return np.asarray(self.base + self.values.sum(axis=1))

    def to_table(self, kind: str) -> Table:
        """Return a row for each part of each row: ``row``, ``kind``, ``value``, ``sd``, ``error``.

        ``kind`` is the name of the second column.
        """
        n, k = self.values.shape
        columns: dict[str, list[Any]] = {
            "row": np.repeat(np.arange(n), k).tolist(),
            kind: list(self.names) * n,
            "value": self.values.ravel().tolist(),
        }
        for name, numbers in (("sd", self.sd), ("error", self.error)):
            if numbers is not None:
                columns[name] = numbers.ravel().tolist()
        return Table(columns)

    def take(self, row: int) -> Attribution:
        """Return the attribution of one row."""
        rows = slice(row, row + 1)
        return Attribution(
            self.names,
            self.values[rows],
            None if self.sd is None else self.sd[rows],
            None if self.error is None else self.error[rows],
            self.base[rows],
        )
