"""Turn any table into a float64 matrix, and remember how.

A `TableSchema` is inferred once, from the training table, and encodes every later table in the
same way. Numbers stay numbers, categories become codes 0..L-1, NaN marks a missing value and -1 a
level that training never saw.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from oakgp.checks import check_count
from oakgp.columns import FloatArray, Level, RawColumn, RawTable, read_table
from oakgp.schema_columns import UNSEEN, CategoricalColumn, Column, NumericColumn
from oakgp.schema_rules import categorical_column, column_notes, numbers_rows, twin_note

__all__ = ["UNSEEN", "CategoricalColumn", "Column", "Level", "NumericColumn", "TableSchema"]


NOTHING_LEFT = "No column is left to learn from; the model is a constant."


@dataclass(frozen=True)
class TableSchema:
    """What the columns of the training table hold, and how to encode them.

    Attributes
    ----------
    columns : tuple of NumericColumn or CategoricalColumn
        Every column of the training table, in its order.
    named : bool
        Whether the table had names; if not, the columns are called x0, x1, ...
    notes : tuple of str
        What the user should know: columns left out, pooled, duplicated or suspect.
    n_rows : int
        Rows of the training table.
    """

    columns: tuple[Column, ...]
    named: bool
    notes: tuple[str, ...]
    n_rows: int

    @classmethod
    def infer(
        cls,
        table: Any,
        *,
        categorical_features: str | Sequence[str | int] | Sequence[bool] = "auto",
        max_levels: int = 256,
    ) -> TableSchema:
        """Read the schema of a training table.

        Parameters
        ----------
        table : table-like of shape (n_rows, n_columns)
            A pandas or polars data frame, a pyarrow table, a 2-d NumPy array or a list of lists.
        categorical_features : "auto", sequence of names or positions, or boolean mask
            Columns to treat as categories besides text, booleans and declared categories; text
            that differs in every row is used only if it is named here.
        max_levels : int
            Levels kept per column; the rarer ones share one further level.

        Returns
        -------
        TableSchema
            The schema of all columns.

        Raises
        ------
        TypeError
            If a column's type has no numeric meaning (dates, bytes, lists), or the table is sparse.
        ValueError
            If the table is empty or not two-dimensional, or a column holds an infinity.
        """
        check_count("max_levels", max_levels, 1)
        source = read_table(table)
        chosen = chosen_categorical(categorical_features, source.names)
        columns: list[Column] = []
        notes: list[str] = []
        first_with: dict[tuple[object, bytes], str] = {}
        for i in range(len(source.names)):
            raw = source.read(i)
            column: Column
            if raw.kind == "number" and i not in chosen:
                column = _numeric_column(raw)
            else:
                levels, index = raw.factor()
                missing, *counts = np.bincount(index + 1, minlength=len(levels) + 1).tolist()
                counted = list(zip(levels, counts, strict=True))
                column = categorical_column(
                    raw.name, counted, missing, raw.order, max_levels, chosen=i in chosen
                )
            columns.append(column)
            values = column.encode(raw) if column.active else None
            in_order = (
                isinstance(column, NumericColumn)
                and values is not None
                and numbers_rows(column, values)
            )
            notes += column_notes(column, source.n_rows, max_levels, numbers_rows=in_order)
            if values is not None:
                twin = first_with.setdefault(_fingerprint(column, values), column.name)
                if twin != column.name:
                    notes.append(twin_note(twin, column.name))
        if not any(column.active for column in columns):
            notes.append(NOTHING_LEFT)
        return cls(tuple(columns), source.named, tuple(notes), source.n_rows)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns, in training order."""
        return tuple(column.name for column in self.columns)

    @property
    def active(self) -> tuple[int, ...]:
        """Positions, among `columns`, of those the model uses."""
        return tuple(i for i, column in enumerate(self.columns) if column.active)

    def encode(self, table: Any) -> FloatArray:
        """Encode a table of any library as the model's matrix.

        Parameters
        ----------
        table : table-like of shape (n_rows, n_columns)
            Named tables are matched by name, so that order and further columns do not matter;
            if this table or the training table has no names, by position.

        Returns
        -------
        ndarray of float64, shape (n_rows, len(active)), C order
            Values or codes, NaN where missing, -1 for levels unseen in training.

        Raises
        ------
        ValueError
            If columns are missing, or a numeric column holds text or an infinity.
        """
        return self.encode_columns(read_table(table))

    def encode_columns(self, source: RawTable) -> FloatArray:
        """Encode a table that was opened before; see `encode`."""
        positions = self.positions(source)
        matrix = np.empty((source.n_rows, len(self.active)), dtype=np.float64)
        for j, i in enumerate(self.active):
            matrix[:, j] = self.columns[i].encode(source.read(positions[i]))
        return matrix

    def positions(self, source: RawTable) -> Sequence[int]:
        """Say where in the table each column of the schema stands."""
        if self.named and source.named:
            where = {name: i for i, name in enumerate(source.names)}
            missing = [name for name in self.names if name not in where]
            if missing:
                # The first two lines are scikit-learn's wording, which its users know.
                raise ValueError(
                    "The feature names should match those that were passed during fit.\n"
                    "Feature names seen at fit time, yet now missing:\n"
                    + "".join(f"- {name}\n" for name in missing)
                    + "Add these columns; fill them with NaN where the values are not known."
                )
            return [where[name] for name in self.names]
        k, d = len(source.names), len(self.columns)
        if k != d:
            raise ValueError(
                f"X has {k} features, but this model was fitted with {d} features "
                f"({_listed(self.names)}). Pass the columns of the training table, in its order. "
                f"[X has {k} features, but oakgp is expecting {d} features as input]"
            )
        return range(d)

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain lists, dictionaries and scalars that JSON can hold."""
        return {
            "named": self.named,
            "n_rows": self.n_rows,
            "notes": list(self.notes),
            "columns": [
                {"kind": _KIND_OF[type(column)]}
                | {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(column).items()}
                for column in self.columns
            ],
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> TableSchema:
        """Rebuild the schema from what `to_dict` returned."""
        return cls(
            columns=tuple(map(_column_from_dict, saved["columns"])),
            named=saved["named"],
            notes=tuple(saved["notes"]),
            n_rows=saved["n_rows"],
        )


_COLUMN_KINDS: dict[str, type[Column]] = {
    "numeric": NumericColumn,
    "categorical": CategoricalColumn,
}
_KIND_OF = {column: kind for kind, column in _COLUMN_KINDS.items()}


def _column_from_dict(saved: Mapping[str, Any]) -> Column:
    fields: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in saved.items() if k != "kind"
    }
    if saved["kind"] not in _COLUMN_KINDS:
        raise ValueError(
            f"Column {saved.get('name')!r} has the unknown kind {saved['kind']!r}; expected one "
            f"of {', '.join(_COLUMN_KINDS)}. Load the schema with the version that saved it."
        )
    return _COLUMN_KINDS[saved["kind"]](**fields)


def _listed(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown}, and {len(names) - most} more"


def chosen_categorical(
    features: str | Sequence[str | int] | Sequence[bool], names: Sequence[str]
) -> frozenset[int]:
    """Turn names, positions or a mask into positions."""
    if isinstance(features, str):
        if features != "auto":
            raise ValueError(
                f"categorical_features={features!r} is not 'auto'. To name one column, pass a "
                f"list: [{features!r}]."
            )
        return frozenset()
    if not isinstance(features, Iterable):
        raise _bad_choice(features)
    items = [item.item() if isinstance(item, np.generic) else item for item in features]
    n_columns = len(names)
    if items and all(isinstance(item, bool) for item in items):
        if len(items) != n_columns:
            raise ValueError(
                f"categorical_features is a mask of {len(items)} entries, but the table has "
                f"{n_columns} columns. Give one entry per column."
            )
        return frozenset(i for i, on in enumerate(items) if on)
    return frozenset(_position_of(item, names) for item in items)


def _position_of(item: object, names: Sequence[str]) -> int:
    n_columns = len(names)
    if isinstance(item, str):
        if item in names:
            return names.index(item)
        raise ValueError(
            f"categorical_features names {item!r}, which is no column of the table. Its columns "
            f"are {_listed(names)}."
        )
    if isinstance(item, int) and not isinstance(item, bool):
        if 0 <= item < n_columns:
            return item
        raise ValueError(
            f"categorical_features holds position {item}, but the {n_columns} columns are "
            f"numbered from 0 to {n_columns - 1}."
        )
    raise _bad_choice(item)


def _bad_choice(item: object) -> TypeError:
    return TypeError(
        f"categorical_features holds {item!r}. Pass 'auto', a list of column names or positions, "
        "or one boolean per column."
    )


def _numeric_column(raw: RawColumn) -> NumericColumn:
    values = raw.numbers()
    missing = np.isnan(values)
    n_missing = int(missing.sum())
    present = values[~missing] if n_missing else values
    return NumericColumn(raw.name, n_missing, int(np.unique(present).size))


def _fingerprint(column: Column, values: FloatArray) -> tuple[object, bytes]:
    """Return a key that two columns share when they hold the same values."""
    meaning = column.levels if isinstance(column, CategoricalColumn) else None
    canonical = np.where(np.isnan(values), np.nan, values + 0.0)  # one NaN, and no -0.0
    return meaning, hashlib.blake2b(canonical.tobytes(), digest_size=16).digest()
