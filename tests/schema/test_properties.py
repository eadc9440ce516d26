"""Laws of the schema, over random tables."""

import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oakgp.schema import CategoricalColumn, TableSchema

pytestmark = pytest.mark.filterwarnings("error")
settings.register_profile(
    "tables", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
COMMON = settings(settings.get_profile("tables"))

ODD_NAMES = [
    "",
    " ",
    "<script>alert(1)</script>",
    "a,b",
    'say "hi"',
    "%s {x}",
    "é",
    "数",
    "x0",
    "id",
]
text = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=4)
names = st.one_of(st.sampled_from(ODD_NAMES), text)

VALUES = {
    "float": st.floats(allow_nan=False, allow_infinity=False, width=64),
    "integer": st.integers(-(2**31), 2**31),
    "text": st.one_of(text, st.sampled_from(["", "1", "nan", "None", "(other)"])),
    "boolean": st.booleans(),
    "code": st.sampled_from([1, 2, 3, 7]),
}
ARROW_TYPES = {
    "float": pa.float64(),
    "integer": pa.int64(),
    "text": pa.string(),
    "boolean": pa.bool_(),
    "code": pa.int64(),
}


@st.composite
def arrow_tables(draw):
    """Draw a table of columns of one type each, with some values missing."""
    n_rows = draw(st.integers(1, 12))
    columns = {}
    for name in draw(st.lists(names, min_size=1, max_size=5, unique=True)):
        kind = draw(st.sampled_from(sorted(VALUES)))
        cell = st.one_of(st.none(), VALUES[kind]) if draw(st.booleans()) else VALUES[kind]
        values = draw(st.lists(cell, min_size=n_rows, max_size=n_rows))
        columns[name] = pa.array(values, ARROW_TYPES[kind])
    return pa.table(columns)


@st.composite
def options(draw, table):
    """Draw options that suit a table."""
    positions = st.lists(st.integers(0, table.num_columns - 1), unique=True)
    numeric = [i for i in draw(positions) if table.schema.types[i] in (pa.int64(), pa.float64())]
    return {"categorical_features": numeric, "max_levels": draw(st.integers(1, 6))}


def value_of(column, code):
    """Decode one cell: the level, "pooled", or None."""
    if math.isnan(code):
        return None
    is_pooled = column.pooled and code == len(column.levels) - 1
    return "pooled" if is_pooled else column.levels[int(code)]


@COMMON
@given(st.data(), arrow_tables())
def test_codes_decode_to_the_cells(data, table):
    schema = TableSchema.infer(table, **data.draw(options(table)))
    matrix = schema.encode(table)
    assert matrix.shape == (table.num_rows, len(schema.active))
    assert schema.names == tuple(table.column_names)
    for j, i in enumerate(schema.active):
        column, cells = schema.columns[i], table.column(i).to_pylist()
        if isinstance(column, CategoricalColumn):
            assert not (matrix[:, j] == -1).any()
            for cell, code in zip(cells, matrix[:, j], strict=True):
                level = value_of(column, code)
                assert cell in column.pooled if level == "pooled" else level == cell
            counts = [(matrix[:, j] == code).sum() for code in range(len(column.levels))]
            assert list(column.counts) == counts
        else:
            numbers = [np.nan if cell is None else cell for cell in cells]
            np.testing.assert_array_equal(matrix[:, j], numbers)


@COMMON
@given(arrow_tables())
def test_columns_left_out_are_explained(table):
    schema = TableSchema.infer(table, max_levels=4)
    for i, column in enumerate(schema.columns):
        if i not in schema.active:
            assert any(note.startswith(f"Column {column.name!r} is left") for note in schema.notes)
            cells = table.column(i).drop_null().unique()
            assert len(cells) <= 1 or len(cells) > 4


@COMMON
@given(st.data(), arrow_tables())
def test_json_keeps_the_encoding(data, table):
    schema = TableSchema.infer(table, **data.draw(options(table)))
    again = TableSchema.from_dict(json.loads(json.dumps(schema.to_dict(), allow_nan=False)))
    assert again == schema
    for column, twin in zip(schema.columns, again.columns, strict=True):
        if isinstance(column, CategoricalColumn):
            assert list(map(type, column.levels)) == list(map(type, twin.levels))
    np.testing.assert_array_equal(again.encode(table), schema.encode(table))


@COMMON
@given(st.data(), arrow_tables())
def test_every_library_gives_the_same_matrix(data, table):
    chosen = data.draw(options(table))
    # Column by column, because polars renames a column without a name when it reads a whole table.
    columns = zip(table.column_names, table.columns, strict=True)
    frames = [
        table,
        table.to_pandas(),
        pl.DataFrame({name: pl.from_arrow(column) for name, column in columns}),
    ]
    schemas = [TableSchema.infer(frame, **chosen) for frame in frames]
    assert schemas[0].active == schemas[1].active == schemas[2].active
    matrices = [schemas[0].encode(frame) for frame in frames]
    matrices += [schema.encode(table) for schema in schemas]
    for matrix in matrices[1:]:
        np.testing.assert_array_equal(matrix, matrices[0])


@COMMON
@given(st.data(), arrow_tables())
def test_permuted_columns_and_single_rows_give_the_same_matrix(data, table):
    schema = TableSchema.infer(table)
    matrix = schema.encode(table)
    order = data.draw(st.permutations(table.column_names))
    np.testing.assert_array_equal(schema.encode(table.select(order)), matrix)
    rows = [schema.encode(table.slice(i, 1)) for i in range(table.num_rows)]
    np.testing.assert_array_equal(np.vstack(rows), matrix)


@COMMON
@given(st.data(), arrow_tables())
def test_permuted_rows_give_the_same_codes(data, table):
    order = data.draw(st.permutations(range(table.num_rows)))
    schema, shuffled = TableSchema.infer(table), TableSchema.infer(table.take(order))
    assert shuffled.columns == schema.columns
    np.testing.assert_array_equal(shuffled.encode(table), schema.encode(table))


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_infinity=False),
    st.fractions(),
    st.text(max_size=3),
    st.sampled_from(["1", "1.0", "2", "nan", "True"]),
    st.sampled_from([pd.NA, pd.NaT, np.float32("nan"), np.int8(1), np.True_, np.str_("u")]),
)
anything = st.one_of(
    scalars,
    st.floats(),
    st.decimals(),
    st.binary(max_size=2),
    st.dates(),
    st.complex_numbers(),
    st.builds(dict),
)


@COMMON
@given(st.data(), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_objects_are_encoded_or_refused(data, n_rows, n_columns, as_frame):
    cells = data.draw(st.sampled_from([scalars, anything]))
    table = np.empty((n_rows, n_columns), dtype=object)
    for i, j in np.ndindex(n_rows, n_columns):
        table[i, j] = data.draw(cells)
    source = pd.DataFrame(table, columns=[f"c{j}" for j in range(n_columns)]) if as_frame else table
    refusal = None
    try:
        schema = TableSchema.infer(source)
    except (TypeError, ValueError) as error:
        refusal = str(error)
    if refusal is not None:
        assert any(word in refusal for word in ("column", "Column"))
        return
    matrix = schema.encode(source)
    assert matrix.dtype == np.float64
    assert not np.isinf(matrix).any()
    for j, i in enumerate(schema.active):
        if isinstance(schema.columns[i], CategoricalColumn):
            assert not (matrix[:, j] == -1).any()
    # A row by itself reads as it does among the others.
    singles = [schema.encode(source[i : i + 1]) for i in range(n_rows)]
    np.testing.assert_array_equal(np.vstack(singles), matrix)


@COMMON
@given(arrow_tables(), arrow_tables())
def test_a_foreign_table_is_encoded_or_refused(train, later):
    schema = TableSchema.infer(train)
    refusal = None
    try:
        matrix = schema.encode(later)
    except ValueError as error:
        refusal = str(error)
    if refusal is not None:
        assert "missing" in refusal or "numeric at fit" in refusal
        return
    assert matrix.shape == (later.num_rows, len(schema.active))
