"""Tables in and out: CSV and Parquet, files and streams."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

_MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL"]
_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".txt", ".tsv", ".gz")


def read(path: str) -> pa.Table:
    """Return the table in a CSV or Parquet file; ``-`` is CSV (or Parquet) from standard input."""
    if path == "-":
        data = sys.stdin.buffer.read()
        source: Any = io.BytesIO(data)
        if data[:4] == b"PAR1":
            return parquet.read_table(source)
        return _read_csv(source, "standard input", ",")
    file = Path(path)
    if not file.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    if file.is_dir() or file.suffix.lower() in _PARQUET:
        try:
            return parquet.read_table(path)
        except pa.ArrowException as error:
            raise ValueError(f"{path}: no readable Parquet file: {error}") from error
    if file.suffix.lower() not in _CSV:
        raise ValueError(f"{path}: the name must end in one of {', '.join(_PARQUET + _CSV)}")
    return _read_csv(path, path, "\t" if ".tsv" in file.suffixes else ",")


def _read_csv(source: Any, name: str, delimiter: str) -> pa.Table:
    try:
        return csv.read_csv(
            source,
            parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                null_values=_MISSING, strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )
    except pa.ArrowException as error:
        raise ValueError(f"{name}: no readable CSV: {error}") from error


def write(table: pa.Table, path: str) -> None:
    """Write a table to a CSV or Parquet file; ``-`` is CSV to standard output.

    A file appears under its name when it is complete.
    """
    if path == "-":
        buffer = io.BytesIO()
        csv.write_csv(table, buffer)
        sys.stdout.buffer.write(buffer.getvalue())
        sys.stdout.buffer.flush()
        return
    suffix = Path(path).suffix.lower()
    if suffix not in (*_PARQUET, ".csv"):
        raise ValueError(f"{path}: the name must end in .csv or .parquet")
    partial = f"{path}.{os.getpid()}.partial"
    try:
        if suffix == ".csv":
            csv.write_csv(table, partial)
        else:
            parquet.write_table(table, partial)
        os.replace(partial, path)
    finally:
        Path(partial).unlink(missing_ok=True)


def column(table: pa.Table, name: str, option: str) -> pa.ChunkedArray:
    """Return a column by its name."""
    if name not in table.column_names:
        known = ", ".join(map(repr, table.column_names[:12]))
        raise ValueError(f"{option} {name!r}: the table has no such column; it has {known}")
    return table.column(name)


def without(table: pa.Table, names: list[str | None]) -> pa.Table:
    """Return the table without some columns."""
    return table.drop_columns([n for n in set(names) if n is not None and n in table.column_names])
