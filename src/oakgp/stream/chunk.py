"""One chunk of rows: features, response, weights and offset, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from oakgp.checks import check_choice
from oakgp.columns import FloatArray, RawTable, read_table, select_columns, take_rows
from oakgp.stream.place import Place
from oakgp.targets import check_weights, read_labels, read_offset, read_response

TargetType = Literal["number", "label"]


@dataclass(frozen=True)
class Roles:
    """Which columns of a table mean what.

    Parameters
    ----------
    target
        Column of the response; None for a table of features alone.
    weight, exposure, offset
        Columns of row weights, exposures and offsets; None for none.
    columns
        Columns of features, in this order; None for all that have no other role.
    target_type
        ``"number"``, or ``"label"`` for classes.
    """

    target: str | None = None
    weight: str | None = None
    exposure: str | None = None
    offset: str | None = None
    columns: tuple[str, ...] | None = None
    target_type: TargetType = "number"

    def __post_init__(self) -> None:
        """Refuse a column in two roles."""
        check_choice("target_type", self.target_type, ("number", "label"))
        named = [name for name in self.not_features if name in (self.columns or ())]
        if named:
            raise ValueError(
                f"columns= names {named[0]!r}, which is target, weight, exposure or offset; a "
                "column has one role"
            )

    @property
    def not_features(self) -> tuple[str, ...]:
        """Names of the columns that are no features."""
        names = (self.target, self.weight, self.exposure, self.offset)
        return tuple(name for name in names if name is not None)

    def features(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the features among a table's columns, or say which columns are missing."""
        wanted = (*(self.columns or ()), *self.not_features)
        absent = [name for name in wanted if name not in names]
        if absent:
            raise ValueError(
                f"the table has no column {', '.join(map(repr, absent))}; it has "
                f"{', '.join(map(repr, names))}"
            )
        if self.columns is not None:
            return self.columns
        return tuple(name for name in names if name not in self.not_features)


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows with a positive weight, features not yet encoded.

    Parameters
    ----------
    table
        Readers of the feature columns.
    y
        ``[n]`` responses: float64, or labels; None when the source has no target.
    weights
        ``[n]`` row weights; None for 1 each.
    offset
        ``[n]`` offset + log exposure; None for 0.
    place
        Where the rows come from.
    n_read
        Rows that were read, those of weight 0 included.
    """

    table: RawTable
    y: NDArray[Any] | None
    weights: FloatArray | None
    offset: FloatArray | None
    place: Place
    n_read: int

    @property
    def n_rows(self) -> int:
        """Rows of the chunk."""
        return self.table.n_rows


@dataclass(frozen=True, eq=False)
class Beside:
    """Arrays that belong to the rows of a table and are no columns of it; None for none."""

    y: Any = None
    weight: Any = None
    exposure: Any = None
    offset: Any = None


def read_chunk(table: Any, roles: Roles, place: Place, beside: Beside | None = None) -> Chunk:
    """Split a table by the roles of its columns, and check what is not features.

    Parameters
    ----------
    table
        A table of any supported library, of at least one row.
    roles
        Which columns mean what.
    place
        Where the table stands.
    beside
        Responses, weights, exposures and offsets that are given beside the table.
    """
    with place.blamed():
        raw = read_table(table)
        where = {name: i for i, name in enumerate(raw.names)}
        positions = [where[name] for name in roles.features(raw.names)]
        named = (roles.target, roles.weight, roles.exposure, roles.offset)
        given = beside or Beside()
        y, weight, exposure, offset = (
            array if name is None else raw.values(where[name])
            for name, array in zip(named, vars(given).values(), strict=True)
        )
        if y is not None:
            y = read_labels(y) if roles.target_type == "label" else read_response(y)
        weights = None if weight is None else check_weights(np.asarray(weight))
        shift = read_offset(exposure, offset, raw.n_rows)
        for name, part in (("y", y), ("sample_weight", weights)):
            if part is not None and len(part) != raw.n_rows:
                raise ValueError(f"X has {raw.n_rows} rows but {name} has {len(part)}")
        n_read = raw.n_rows
        if weights is not None and not weights.all():
            # A row of weight 0 is no row: its values are not looked at.
            used = np.flatnonzero(weights)
            weights, place = weights[used], place.keep(used)
            y, shift = (None if part is None else part[used] for part in (y, shift))
            raw = read_table(take_rows(table, used)) if len(used) else replace(raw, n_rows=0)
        return Chunk(select_columns(raw, positions), y, weights, shift, place, n_read)
