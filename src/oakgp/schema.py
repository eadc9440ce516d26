"""Turn any table into a float64 matrix, and remember how.

A `TableSchema` is inferred once, from the training table, and encodes every later table in the
same way. Numbers stay numbers, categories become codes 0..L-1, NaN marks a missing value and -1 a
level that training never saw.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np

from oakgp.checks import check_count
from oakgp.columns import (
    FloatArray,
    Level,
    RawColumn,
    RawTable,
    as_text,
    read_table,
    reads_as_number,
)

__all__ = ["CategoricalColumn", "Column", "Level", "NumericColumn", "TableSchema"]

UNSEEN = -1.0
_OTHER = "(other)"
_IDENTIFIER_WORDS = frozenset({"id", "ids", "idx", "index", "key", "uid", "guid", "rowid", "row"})
_MIN_IDENTIFIER_ROWS = 20  # below this, values that are all distinct are no sign of row names


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
                raise ValueError(
                    f"Column {self.name!r} was numeric at fit, but holds the text {value!r} at "
                    f"row {row} (counted from 0). Convert the column to numbers, with NaN where "
                    "there is none."
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
        codes: dict[Level | None, float] = {level: float(i) for i, level in enumerate(kept)}
        codes.update(dict.fromkeys(self.pooled, float(len(kept))))
        codes[None] = np.nan
        labels = _as_texts(raw.labels()) if self.mixed else raw.labels()
        return np.fromiter(map(codes.get, labels, repeat(UNSEEN)), np.float64, len(labels))


def _as_texts(labels: Sequence[Level | None]) -> list[Level | None]:
    return [None if label is None else as_text(label) for label in labels]


Column: TypeAlias = NumericColumn | CategoricalColumn


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
        chosen = _chosen_categorical(categorical_features, source)
        columns: list[Column] = []
        notes: list[str] = []
        first_with: dict[tuple[object, bytes], str] = {}
        for i in range(len(source.names)):
            raw = source.read(i)
            column: Column
            if raw.kind == "number" and i not in chosen:
                column = _numeric_column(raw)
            else:
                column = _categorical_column(raw, max_levels, chosen=i in chosen)
            columns.append(column)
            values = column.encode(raw) if column.active else None
            notes += _notes_on(column, values, source.n_rows, max_levels)
            if values is not None:
                twin = first_with.setdefault(_fingerprint(column, values), column.name)
                if twin != column.name:
                    notes.append(
                        f"Columns {twin!r} and {column.name!r} hold the same values, so their "
                        "effects cannot be told apart; drop one of them."
                    )
        if not any(column.active for column in columns):
            notes.append("No column is left to learn from; the model is a constant.")
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
        source = read_table(table)
        positions = self._positions(source)
        matrix = np.empty((source.n_rows, len(self.active)), dtype=np.float64)
        for j, i in enumerate(self.active):
            matrix[:, j] = self.columns[i].encode(source.read(positions[i]))
        return matrix

    def _positions(self, source: RawTable) -> Sequence[int]:
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


def _chosen_categorical(
    features: str | Sequence[str | int] | Sequence[bool], source: RawTable
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
    n_columns = len(source.names)
    if items and all(isinstance(item, bool) for item in items):
        if len(items) != n_columns:
            raise ValueError(
                f"categorical_features is a mask of {len(items)} entries, but the table has "
                f"{n_columns} columns. Give one entry per column."
            )
        return frozenset(i for i, on in enumerate(items) if on)
    return frozenset(_position_of(item, source) for item in items)


def _position_of(item: object, source: RawTable) -> int:
    n_columns = len(source.names)
    if isinstance(item, str):
        if item in source.names:
            return source.names.index(item)
        raise ValueError(
            f"categorical_features names {item!r}, which is no column of the table. Its columns "
            f"are {_listed(source.names)}."
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


def _categorical_column(raw: RawColumn, max_levels: int, *, chosen: bool) -> CategoricalColumn:
    labels = raw.labels()
    order = raw.order or ()
    kinds = set(map(type, labels)) - {type(None)}
    mixed = str in kinds and len(kinds) > 1
    if mixed:
        labels = _as_texts(labels)
        order = tuple(map(as_text, order))
    counts: Counter[Any] = Counter(labels)
    n_missing = counts.pop(None, 0)
    n_distinct, n_present = len(counts), counts.total()
    names_rows = not chosen and n_distinct == n_present >= _MIN_IDENTIFIER_ROWS
    if names_rows or (n_distinct > max_levels and 2 * n_distinct > n_present):
        return CategoricalColumn(
            raw.name, (), (), n_missing, n_distinct, mixed=mixed, identifier=True
        )
    declared = [level for level in dict.fromkeys(order) if level in counts]
    levels = declared or sorted(counts)
    levels, pooled = _split_rare(levels, counts, max_levels)
    level_counts = [counts[level] for level in levels]
    if pooled:
        levels.append(_free_name(counts))
        level_counts.append(sum(counts[level] for level in pooled))
    return CategoricalColumn(
        name=raw.name,
        levels=tuple(levels),
        counts=tuple(level_counts),
        n_missing=n_missing,
        n_distinct=n_distinct,
        pooled=tuple(pooled),
        mixed=mixed,
    )


def _split_rare(
    levels: list[Level], counts: Counter[Any], max_levels: int
) -> tuple[list[Level], list[Level]]:
    """Split levels into the `max_levels` most frequent and the rest, both in the given order."""
    if len(levels) <= max_levels:
        return levels, []
    # The sort is stable: among equally frequent levels the first in order are kept.
    frequent = set(sorted(levels, key=lambda level: -counts[level])[:max_levels])
    return (
        [level for level in levels if level in frequent],
        [level for level in levels if level not in frequent],
    )


def _free_name(taken: Counter[Any]) -> str:
    name = _OTHER
    while name in taken:
        name += "*"
    return name


def _fingerprint(column: Column, values: FloatArray) -> tuple[object, bytes]:
    """Return a key that two columns share when they hold the same values."""
    meaning = column.levels if isinstance(column, CategoricalColumn) else None
    canonical = np.where(np.isnan(values), np.nan, values + 0.0)  # one NaN, and no -0.0
    return meaning, hashlib.blake2b(canonical.tobytes(), digest_size=16).digest()


def _notes_on(
    column: Column, values: FloatArray | None, n_rows: int, max_levels: int
) -> Iterator[str]:
    """Say, in sentences, what is unusual about a column."""
    name = f"Column {column.name!r}"
    if column.n_distinct == 0:
        yield f"{name} is left out: all of its {n_rows} values are missing."
    elif isinstance(column, CategoricalColumn):
        if column.identifier:
            raised = " and raise max_levels" if column.n_distinct > max_levels else ""
            yield (
                f"{name} is left out: with {column.n_distinct} distinct values in {n_rows} rows "
                "it looks like an identifier. To use it as categories, name it in "
                f"categorical_features{raised}."
            )
        elif column.constant:
            yield f"{name} is left out: it is constant, {column.levels[0]!r} in every row."
        elif column.pooled:
            share = column.counts[-1] / n_rows
            yield (
                f"{name} has {column.n_distinct} levels: the {len(column.levels) - 1} most "
                f"frequent are kept, the other {len(column.pooled)} ({share:.1%} of the rows) "
                f"share the level {column.levels[-1]!r}. Raise max_levels to keep more."
            )
    elif column.constant and column.n_missing:
        yield (
            f"{name} is left out: it has one value, and {column.n_missing} of {n_rows} rows are "
            "missing. To learn from the missing rows, name it in categorical_features."
        )
    elif column.constant:
        yield f"{name} is left out: it is constant, the same value in every row."
    elif values is not None and _looks_like_identifier(column, values):
        yield (
            f"{name} looks like an identifier: its {n_rows} whole numbers are all distinct. It "
            "is used all the same; drop it if it only counts or names the rows."
        )


def _looks_like_identifier(column: NumericColumn, values: FloatArray) -> bool:
    if column.n_distinct < max(values.size, _MIN_IDENTIFIER_ROWS):
        return False
    if not np.array_equal(values, np.rint(values)):
        return False
    steps = values[1:] - values[:-1]
    # "PassengerId" and "row_id" hold the word "id", "humidity" does not.
    words = re.split(r"[\W_]+|(?<=[a-z])(?=[A-Z])", column.name)
    named_so = any(word.lower() in _IDENTIFIER_WORDS for word in words)
    return named_so or bool(np.all(steps == 1.0) or np.all(steps == -1.0))
