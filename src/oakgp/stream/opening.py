"""One door to all sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from oakgp.checks import check_count
from oakgp.stream.chunk import Beside, Roles, TargetType
from oakgp.stream.csv_files import SUFFIXES as CSV_SUFFIXES
from oakgp.stream.csv_files import csv_source
from oakgp.stream.files import is_path, list_files
from oakgp.stream.iterators import iterator_source
from oakgp.stream.memory import table_source
from oakgp.stream.parquet_files import SUFFIXES as PARQUET_SUFFIXES
from oakgp.stream.parquet_files import parquet_source
from oakgp.stream.source import Source

_CHUNK_ROWS = 1 << 16
_CHUNK_VALUES = 1 << 21  # of wide tables, fewer rows: some chunks are in memory at a time


def open_source(
    data: Any,
    target: Any = None,
    *,
    weight: Any = None,
    exposure: Any = None,
    offset: Any = None,
    columns: Sequence[str] | None = None,
    target_type: TargetType = "number",
    chunk_rows: int | None = None,
    delimiter: str | None = None,
    names: Sequence[str] | None = None,
    types: Mapping[str, str] | None = None,
) -> Source:
    """Open a table that is to be read in chunks, as often as needed.

    Parameters
    ----------
    data : table, path, list of paths or callable
        A table in memory of any supported library; a Parquet or CSV file, a folder of them, a
        pattern such as ``"2024-*.parquet"`` or a list of these, local or by any URL that fsspec
        knows; or a function without arguments that returns a new iterator over tables, or over
        tuples ``(X, y)``, ``(X, y, weight)``, each time it is called.
    target : str or array, optional
        Column of the response. For a table in memory also the responses themselves.
    weight, exposure, offset : str, array or number, optional
        Columns (or arrays) of row weights, exposures and offsets.
    columns : sequence of str, optional
        Columns to use as features, in this order; by default all that have no other role.
    target_type : {"number", "label"}
        ``"label"`` for classes.
    chunk_rows : int, optional
        Rows of a chunk, at most; by default 65,536, fewer for tables of more than 32 columns.
    delimiter : str, optional
        Of a CSV file; by default a comma, or a tab where the name says ``.tsv``.
    names : sequence of str, optional
        Column names of CSV files that have no line of names.
    types : mapping from column to {"integer", "number", "boolean", "text"}, optional
        Types of columns of CSV files. Columns without a type here are decided by a first reading
        of all rows: integer, number and boolean where all values are, else text.

    Returns
    -------
    Source
        The parts, with nothing read yet but names, types and sizes.
    """
    if chunk_rows is not None:
        check_count("chunk_rows", chunk_rows, 1)
    given = {"target": target, "weight": weight, "exposure": exposure, "offset": offset}
    by_name = {role: value for role, value in given.items() if isinstance(value, str)}
    roles = Roles(
        **by_name,
        columns=None if columns is None else tuple(columns),
        target_type=target_type,
    )
    if isinstance(data, Iterator):
        raise TypeError(
            f"{type(data).__name__} can be read only once, and several passes are needed: pass a "
            "function that returns a new one each time"
        )
    arrays = [None if role in by_name else value for role, value in given.items()]
    rows = chunk_rows or _CHUNK_ROWS
    if not (is_path(data) or callable(data)):
        source = table_source(data, roles, Beside(*arrays), rows)
        return source if chunk_rows else _fitting(source)
    for role, array in zip(given, arrays, strict=True):
        if array is not None:
            raise TypeError(
                f"{role}= must be the name of a column when rows are read from files or from an "
                f"iterator, not {type(array).__name__}"
            )
    if callable(data) and not is_path(data):
        source = iterator_source(data, roles, rows)
    elif _is_csv(data):
        source = csv_source(data, roles, rows, delimiter=delimiter, names=names, types=types)
    else:
        source = parquet_source(data, roles, rows)
    return source if chunk_rows else _fitting(source)


def _fitting(source: Source) -> Source:
    """Return a source whose chunks have as many rows as suit its columns."""
    rows = chunk_rows_for(len(source.names))
    return replace(source, parts=[part.in_chunks_of(rows) for part in source.parts])


def chunk_rows_for(n_columns: int) -> int:
    """Return how many rows of a table make a chunk."""
    return min(max(_CHUNK_VALUES // max(n_columns, 1), 1 << 10), _CHUNK_ROWS)


def _is_csv(data: Any) -> bool:
    files = list_files(data, (*PARQUET_SUFFIXES, *CSV_SUFFIXES))
    csv = [name for name in files if name.endswith(CSV_SUFFIXES) or name.endswith(".txt")]
    if csv and len(csv) < len(files):
        other = next(name for name in files if name not in csv)
        raise ValueError(f"{csv[0]} is CSV and {other} is not; name files of one kind")
    return bool(csv)
