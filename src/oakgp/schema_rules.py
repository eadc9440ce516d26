"""What a table's columns are taken for: levels kept and pooled, identifiers, notes to the user.

Every rule is a function of counts, so that it does not matter whether a column was read at once or
chunk by chunk.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from oakgp.columns import FloatArray, Level, as_text
from oakgp.schema_columns import CategoricalColumn, Column, NumericColumn

OTHER = "(other)"
MIN_IDENTIFIER_ROWS = 20  # below this, values that are all distinct are no sign of row names
_IDENTIFIER_WORDS = frozenset({"id", "ids", "idx", "index", "key", "uid", "guid", "rowid", "row"})


def categorical_column(
    name: str,
    counted: Sequence[tuple[Level, int]],
    n_missing: int,
    order: Sequence[Level] | None,
    max_levels: int,
    *,
    chosen: bool,
) -> CategoricalColumn:
    """Decide which levels of a column are kept.

    Parameters
    ----------
    name
        The column's name.
    counted
        Levels and the rows of each.
    n_missing
        Rows without a value.
    order
        The order of the levels that the table declares; None for the sorted order.
    max_levels
        Levels kept; the rarer ones share one further level.
    chosen
        Whether the user asked for categories.
    """
    order = order or ()
    mixed = is_mixed(level for level, _ in counted)
    if mixed:
        order = tuple(map(as_text, order))
    counts: Counter[Any] = Counter()
    for level, count in counted:
        counts[as_text(level) if mixed else level] += count
    n_distinct, n_present = len(counts), counts.total()
    names_rows = not chosen and n_distinct == n_present >= MIN_IDENTIFIER_ROWS
    if names_rows or (n_distinct > max_levels and 2 * n_distinct > n_present):
        return CategoricalColumn(name, (), (), n_missing, n_distinct, mixed=mixed, identifier=True)
    declared = [level for level in dict.fromkeys(order) if level in counts]
    levels = declared or sorted(counts)
    levels, pooled = _split_rare(levels, counts, max_levels)
    level_counts = [counts[level] for level in levels]
    if pooled:
        levels.append(_free_name(counts))
        level_counts.append(sum(counts[level] for level in pooled))
    return CategoricalColumn(
        name=name,
        levels=tuple(levels),
        counts=tuple(level_counts),
        n_missing=n_missing,
        n_distinct=n_distinct,
        pooled=tuple(pooled),
        mixed=mixed,
    )


def is_mixed(levels: Iterable[Level]) -> bool:
    """Tell whether a column holds both text and numbers, which are then compared as text."""
    kinds = set(map(type, levels))
    return str in kinds and len(kinds) > 1


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
    name = OTHER
    while name in taken:
        name += "*"
    return name


def column_notes(
    column: Column, n_rows: int, max_levels: int, *, numbers_rows: bool
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
    elif numbers_rows:
        yield (
            f"{name} looks like an identifier: its {n_rows} whole numbers are all distinct. It "
            "is used all the same; drop it if it only counts or names the rows."
        )


def twin_note(first: str, second: str) -> str:
    """Say that two columns are one."""
    return (
        f"Columns {first!r} and {second!r} hold the same values, so their effects cannot be told "
        "apart; drop one of them."
    )


def numbers_rows(column: NumericColumn, values: FloatArray) -> bool:
    """Tell whether a column of distinct whole numbers only counts or names the rows."""
    if column.n_distinct < max(values.size, MIN_IDENTIFIER_ROWS):
        return False
    if not np.array_equal(values, np.rint(values)):
        return False
    steps = values[1:] - values[:-1]
    return named_as_identifier(column.name) or bool(np.all(steps == 1.0) or np.all(steps == -1.0))


def named_as_identifier(name: str) -> bool:
    """Tell whether a name has the word: "PassengerId" and "row_id" do, "humidity" does not."""
    words = re.split(r"[\W_]+|(?<=[a-z])(?=[A-Z])", name)
    return any(word.lower() in _IDENTIFIER_WORDS for word in words)
