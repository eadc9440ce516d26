"""Which table libraries are needed, and which objects are read."""

import subprocess
import sys

import narwhals
import numpy as np
import polars as pl
from tests.schema.tables import same

from oakgp.schema import TableSchema


def test_no_table_library_is_imported():
    code = (
        "import sys, oakgp.schema as s; s.TableSchema.infer([[1, 'u'], [2, 'v']]);"
        "print([m for m in ('pandas', 'polars', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_any_object_with_an_array_is_read():
    class Holder:
        def __array__(self, dtype=None, copy=None):
            return np.eye(2)

    same(TableSchema.infer(Holder()).encode(Holder()), np.eye(2))


def test_frames_already_wrapped_are_read():
    frame = narwhals.from_native(pl.DataFrame({"a": [1, 2]}))
    same(TableSchema.infer(frame).encode(frame)[:, 0], [1, 2])
