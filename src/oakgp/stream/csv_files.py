"""CSV files as a source. What a column holds is decided over all rows, before any is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from oakgp.checks import check_choice
from oakgp.progress import step
from oakgp.stream.chunk import Chunk, Roles, read_chunk
from oakgp.stream.files import PathSpec, identity, list_files, open_binary
from oakgp.stream.place import Place
from oakgp.stream.source import Part, Source

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".csv.bz2", ".csv.zst")
_BLOCK = 1 << 22  # bytes of text that are parsed at a time
_KINDS = ("integer", "number", "boolean", "text", "missing")


@dataclass(frozen=True)
class CsvFormat:
    """How a file is to be read.

    Parameters
    ----------
    delimiter
        The character between two fields.
    names
        Names of the columns when the files have no line of names; None when they have one.
    """

    delimiter: str
    names: tuple[str, ...] | None


@dataclass(frozen=True, eq=False)
class CsvPart(Part):
    """One file, read from its beginning to its end.

    Parameters
    ----------
    file
        Name or URL.
    format
        How it is to be read.
    kinds
        What each of the columns in use holds, in the order of reading.
    roles, chunk_rows
        As of `oakgp.stream.open_source`.
    """

    file: str
    format: CsvFormat
    kinds: tuple[tuple[str, str], ...]
    roles: Roles
    chunk_rows: int

    def in_chunks_of(self, rows: int) -> CsvPart:
        """Return the same part in chunks of so many rows."""
        return replace(self, chunk_rows=rows)

    @property
    def label(self) -> str:
        """Name of the part."""
        return self.file

    def chunks(self) -> Iterator[Chunk]:
        """Read the file chunk by chunk."""
        row = 0
        for table in _tables(self.file, self.format, dict(self.kinds)):
            for start in range(0, table.num_rows, self.chunk_rows):
                some = table.slice(start, self.chunk_rows)
                yield read_chunk(some, self.roles, Place(self.file, row + start))
            row += table.num_rows


def csv_source(
    spec: PathSpec,
    roles: Roles,
    chunk_rows: int,
    *,
    delimiter: str | None,
    names: Sequence[str] | None,
    types: Mapping[str, str] | None,
) -> Source:
    """Make a source of CSV files; see `oakgp.stream.open_source`."""
    files = list_files(spec, SUFFIXES)
    if delimiter is None:
        delimiter = "\t" if ".tsv" in files[0] else ","
    form = CsvFormat(delimiter, None if names is None else tuple(names))
    header = _header(files[0], form)
    features = roles.features(header)
    columns = (*features, *roles.not_features)
    given = _checked_types(types or {}, columns)
    kinds = {column: given.get(column, "missing") for column in columns}
    open_columns = [column for column in columns if column not in given]
    n_rows = None
    if open_columns:
        n_rows = 0
        with step("reading column types", unit="rows") as progress:
            for name in files:
                found = _header(name, form)
                absent = [column for column in columns if column not in found]
                if absent:
                    raise ValueError(
                        f"{name} has no column {', '.join(map(repr, absent))}; it has "
                        f"{', '.join(map(repr, found))}"
                    )
                for table in _tables(name, form, dict.fromkeys(open_columns, "text")):
                    for column in open_columns:
                        kinds[column] = _wider(kinds[column], table.column(column))
                    n_rows += table.num_rows
                    progress.advance(table.num_rows, name)
        if n_rows == 0:
            raise ValueError(f"{', '.join(files)}: no row; at least one is needed")
    parts = [CsvPart(name, form, tuple(kinds.items()), roles, chunk_rows) for name in files]
    return Source(parts, roles, features, True, n_rows, [identity(files), kinds])


def _checked_types(types: Mapping[str, str], columns: Sequence[str]) -> dict[str, str]:
    for column, kind in types.items():
        if column not in columns:
            raise ValueError(f"types= names {column!r}, which is no column in use")
        check_choice(f"types[{column!r}]", kind, _KINDS[:-1])
    return dict(types)


def _header(name: str, form: CsvFormat) -> tuple[str, ...]:
    if form.names is not None:
        return form.names
    with _reader(name, form, None) as reader:
        names = tuple(reader.schema.names)
    repeated = sorted({column for column in names if names.count(column) > 1})
    if repeated:
        raise ValueError(
            f"{name}: Duplicate column names: {', '.join(map(repr, repeated))}. Rename or drop "
            "columns so that every name occurs once."
        )
    return names


def _tables(name: str, form: CsvFormat, kinds: Mapping[str, str]) -> Iterator[Any]:
    """Yield the file as Arrow tables of the given columns, blocks without a row left out."""
    import pyarrow as pa

    with _reader(name, form, kinds) as reader:
        row = 0
        while True:
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            except (pa.ArrowException, OSError) as error:
                raise ValueError(
                    f"{name}, after row {row}: cannot be read as CSV ({error}). The file may be "
                    "damaged or cut short; mend the line, or leave the file out."
                ) from error
            row += batch.num_rows
            if batch.num_rows:
                yield pa.Table.from_batches([batch])


def _reader(name: str, form: CsvFormat, kinds: Mapping[str, str] | None) -> Any:
    try:
        import pyarrow as pa
        from pyarrow import csv
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'CSV files in chunks need pyarrow: pip install "oakgp[parquet]"'
        ) from error
    types = {
        "integer": pa.int64(),
        "number": pa.float64(),
        "boolean": pa.bool_(),
        "text": pa.string(),
        "missing": pa.float64(),  # as every reader of CSV takes an empty column
    }
    convert = csv.ConvertOptions(strings_can_be_null=True)
    if kinds is not None:
        convert.include_columns = list(kinds)
        convert.column_types = {column: types[kind] for column, kind in kinds.items()}
    try:
        return csv.open_csv(
            open_binary(name),
            read_options=csv.ReadOptions(block_size=_BLOCK, column_names=form.names),
            parse_options=csv.ParseOptions(delimiter=form.delimiter),
            convert_options=convert,
        )
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ValueError(f"{name} cannot be read as CSV ({error})") from error


def _wider(kind: str, texts: Any) -> str:
    """Return what a column holds that held ``kind`` so far, once these texts are seen."""
    if kind == "text" or texts.null_count == len(texts):
        return kind
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(texts)
    order = {
        "missing": ("integer", "number", "boolean"),
        "integer": ("integer", "number"),
        "number": ("number",),
        "boolean": ("boolean",),
    }[kind]
    types = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
    for candidate in order:
        try:
            pc.cast(trimmed, types[candidate])
        except pa.ArrowInvalid:
            continue
        return candidate
    return "text"
