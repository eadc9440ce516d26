"""What the tests of the schema share."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from oakgp.schema import TableSchema

MAKERS = [pd.DataFrame, pl.DataFrame, pa.table]
NAN = float("nan")


def only(table, **options):
    """Return the schema's only column and its encoding."""
    schema = TableSchema.infer(table, **options)
    assert len(schema.columns) == 1
    return schema.columns[0], schema.encode(table)[:, 0].tolist() if schema.active else None


def same(got, want):
    np.testing.assert_array_equal(np.asarray(got, dtype=float), np.asarray(want, dtype=float))


def one_note(table, **options):
    notes = TableSchema.infer(table, **options).notes
    assert len(notes) == 1
    return notes[0]
