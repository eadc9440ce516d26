"""Parquet files as a source: only the columns in use are read, row group by row group."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oakgp.stream.chunk import Chunk, Roles, read_chunk
from oakgp.stream.files import PathSpec, folder_values, identity, list_files, open_binary
from oakgp.stream.place import Place
from oakgp.stream.source import Part, Source

_PART_ROWS = 1 << 20
SUFFIXES = (".parquet", ".pq", ".parq")


@dataclass(frozen=True, eq=False)
class ParquetPart(Part):
    """Consecutive row groups of one file.

    Parameters
    ----------
    file
        Name or URL.
    groups
        Numbers of the row groups.
    first_rows
        Number, in the file, of the first row of each group.
    sizes
        Rows of each group.
    columns
        Columns to read, in this order.
    roles, chunk_rows
        As of `oakgp.stream.open_source`.
    constants
        Columns that the file's folder tells, and their value in all rows.
    """

    file: str
    groups: tuple[int, ...]
    first_rows: tuple[int, ...]
    sizes: tuple[int, ...]
    columns: tuple[str, ...]
    roles: Roles
    chunk_rows: int
    constants: tuple[tuple[str, int | str | None], ...] = ()

    def in_chunks_of(self, rows: int) -> ParquetPart:
        """Return the same part in chunks of so many rows."""
        return replace(self, chunk_rows=rows)

    @property
    def label(self) -> str:
        """Name of the part."""
        return f"{self.file}, row groups {self.groups[0]} to {self.groups[-1]}"

    def chunks(self) -> Iterator[Chunk]:
        """Read the row groups chunk by chunk."""
        import pyarrow as pa

        with open_parquet(self.file) as file:
            if file.num_row_groups <= self.groups[-1]:
                self._check_length(self.groups[-1], 0)
            for group, first_row in zip(self.groups, self.first_rows, strict=True):
                label = f"{self.file}, row group {group}"
                batches = file.iter_batches(
                    self.chunk_rows, row_groups=[group], columns=list(self.columns)
                )
                row = first_row
                for batch in _readable(batches, label):
                    table = pa.Table.from_batches([batch]).select(list(self.columns))
                    for name, value in self.constants:
                        table = table.append_column(name, pa.array([value] * batch.num_rows))
                    yield read_chunk(table, self.roles, Place(label, row))
                    row += batch.num_rows
                self._check_length(group, row - first_row)

    def _check_length(self, group: int, n_rows: int) -> None:
        expected = self.sizes[self.groups.index(group)]
        if n_rows != expected:
            raise ValueError(
                f"{self.file}, row group {group} has {n_rows} rows, and had {expected} when it "
                "was opened: the file was changed meanwhile; open the source again"
            )


def open_parquet(name: str) -> Any:
    """Open a Parquet file, or say why that cannot be."""
    pq = _pyarrow_parquet()
    import pyarrow as pa

    try:
        return pq.ParquetFile(open_binary(name))
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(
            f"{name} cannot be read as Parquet ({error}). It may have been cut short: write it "
            "again, or leave it out."
        ) from error


def parquet_source(spec: PathSpec, roles: Roles, chunk_rows: int) -> Source:
    """Make a source of Parquet files; see `oakgp.stream.open_source`."""
    files = list_files(spec, SUFFIXES)
    parts: list[ParquetPart] = []
    total = 0
    first: tuple[str, dict[str, str | None]] | None = None
    features: tuple[str, ...] = ()
    folders = folder_values(files)
    for k, name in enumerate(files):
        with open_parquet(name) as file:
            schema = file.schema_arrow
            if first is None:
                index = _index_columns(schema)
                kept = [column for column in schema.names if column not in index]
                folders = {key: folders[key] for key in folders if key not in schema.names}
                features = roles.features([*kept, *folders])
            used = (*features, *roles.not_features)
            columns = tuple(column for column in used if column not in folders)
            constants = tuple((key, folders[key][k]) for key in folders if key in used)
            families = _families(name, schema, columns)
            if first is None:
                first = (name, families)
            _check_same(first, (name, families))
            sizes = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
        parts += _parts(ParquetPart(name, (), (), (), columns, roles, chunk_rows, constants), sizes)
        total += sum(sizes)
    if total == 0:
        raise ValueError(f"{_named(files)} hold no row; at least one is needed")
    return Source(parts, roles, features, True, total, identity(files))


def _parts(whole: ParquetPart, sizes: Sequence[int]) -> Iterator[ParquetPart]:
    """Group consecutive row groups of a file until a part has about a million rows."""
    row, groups, rows = 0, [], []
    held = 0
    for group, size in enumerate(sizes):
        if size:
            groups.append(group)
            rows.append(row)
            row, held = row + size, held + size
        if groups and (held >= _PART_ROWS or group == len(sizes) - 1):
            yield replace(
                whole,
                groups=tuple(groups),
                first_rows=tuple(rows),
                sizes=tuple(sizes[g] for g in groups),
            )
            groups, rows, held = [], [], 0


def _readable(batches: Iterator[Any], label: str) -> Iterator[Any]:
    import pyarrow as pa

    while True:
        try:
            batch = next(batches)
        except StopIteration:
            return
        except (pa.ArrowException, OSError) as error:
            raise ValueError(
                f"{label} cannot be read ({error}). The file may be damaged or cut short: write "
                "it again, or leave it out."
            ) from error
        if batch.num_rows:
            yield batch


def _families(name: str, schema: Any, columns: Sequence[str]) -> dict[str, str | None]:
    repeated = [column for column in columns if schema.names.count(column) > 1]
    if repeated:
        raise ValueError(
            f"{name}: Duplicate column names: {', '.join(map(repr, repeated))}. Rename or drop "
            "columns so that every name occurs once."
        )
    absent = [column for column in columns if column not in schema.names]
    if absent:
        raise ValueError(
            f"{name} has no column {', '.join(map(repr, absent))}; it has "
            f"{', '.join(map(repr, schema.names))}"
        )
    return {column: _family(schema.field(column).type) for column in columns}


def _family(kind: Any) -> str | None:
    """Return what a type is to a model: types of one family may stand for one another."""
    import pyarrow.types as pt

    if pt.is_null(kind):
        return None
    if pt.is_dictionary(kind):
        return _family(kind.value_type)
    if pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind):
        return "numbers"
    if pt.is_boolean(kind):
        return "booleans"
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        return "text"
    return str(kind)


def _check_same(
    first: tuple[str, dict[str, str | None]], other: tuple[str, dict[str, str | None]]
) -> None:
    """Refuse a file whose columns hold something else; remember what nulls left open."""
    for column, family in other[1].items():
        known = first[1][column]
        if known is None:
            first[1][column] = family
        elif family is not None and family != known:
            raise ValueError(
                f"column {column!r} holds {family} in {other[0]}, but {known} in {first[0]} (or "
                "in a file after it). Write the files with one schema, or leave the column out "
                "with columns="
            )


def _index_columns(schema: Any) -> set[str]:
    """Return the columns that pandas wrote for its index: no part of the table."""
    pandas = (schema.metadata or {}).get(b"pandas")
    if pandas is None:
        return set()
    return {name for name in json.loads(pandas)["index_columns"] if isinstance(name, str)}


def _named(files: Sequence[str]) -> str:
    return files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more files"


def _pyarrow_parquet() -> Any:
    try:
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'Parquet files need pyarrow: pip install "oakgp[parquet]"'
        ) from error
    return pq
