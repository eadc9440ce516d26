"""Checkpoints: whole or not at all, and only for the data they were written for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from oakgp.stream import Checkpoint, State, encoded_chunks, fingerprint, first_pass, open_source


def problem(n: int = 2000):
    rng = np.random.default_rng(9)
    table = pd.DataFrame({"a": rng.normal(size=n), "b": rng.gamma(2.0, size=n)})
    return table, rng.normal(size=n)


class InterruptError(Exception):
    pass


def gram(source, found, checkpoint, stop_after=None):
    """Sum z z^T over a source, from a checkpoint on when there is one."""
    state = checkpoint.load() or State({"gram": np.zeros((2, 2))}, (0, 0), {})
    total, seen = state.arrays["gram"], 0
    columns = found.fit_columns()
    for chunk in encoded_chunks(source, found.schema, columns, start=state.position):
        total = total + chunk.z.T @ chunk.z
        checkpoint.save(State({"gram": total}, chunk.position, {"pass": 1}))
        seen += 1
        if seen == stop_after:
            raise InterruptError
    return total, seen


def test_an_interrupted_pass_goes_on_and_gives_the_same(tmp_path) -> None:
    table, y = problem()
    source = open_source(table, y, chunk_rows=150)
    found = first_pass(source)
    key = fingerprint(source, found.schema)
    whole, n = gram(source, found, Checkpoint(tmp_path / "whole.npz", key))
    checkpoint = Checkpoint(tmp_path / "part.npz", key)
    with pytest.raises(InterruptError):
        gram(source, found, checkpoint, stop_after=5)
    assert checkpoint.load().info == {"pass": 1}
    resumed, rest = gram(source, found, checkpoint)
    np.testing.assert_array_equal(resumed, whole)
    assert (n, rest) == (14, 9)
    checkpoint.remove()
    assert checkpoint.load() is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["whole.npz"]


def test_other_data_or_another_schema_is_refused(tmp_path) -> None:
    table, y = problem()
    source = open_source(table, y)
    schema = first_pass(source).schema
    Checkpoint(tmp_path / "a.npz", fingerprint(source, schema)).save(State({}, (0, 1), {}))
    other = open_source(table.iloc[:-1], y[:-1])
    for key in (
        fingerprint(other, schema),
        fingerprint(source, first_pass(other).schema),
        fingerprint(source, schema, {"terms": [[0]]}),
    ):
        with pytest.raises(ValueError, match="other data or other settings"):
            Checkpoint(tmp_path / "a.npz", key).load()


def test_a_damaged_file_is_refused_and_nothing_half_written_stays(tmp_path) -> None:
    checkpoint = Checkpoint(tmp_path / "a.npz", "key")
    checkpoint.save(State({"x": np.arange(1000.0)}, (1, 2), {}))
    whole = (tmp_path / "a.npz").read_bytes()
    for damaged in (whole[:500], b"", whole[:-300]):
        (tmp_path / "a.npz").write_bytes(damaged)
        with pytest.raises(ValueError, match="no checkpoint that can be read"):
            checkpoint.load()
    (tmp_path / "a.npz").write_bytes(whole)
    with pytest.raises(TypeError):
        checkpoint.save(State({"x": np.zeros(3)}, (1, 2), {"not JSON": object()}))
    with pytest.raises(ValueError, match="allow_pickle"):
        checkpoint.save(State({"x": np.array([object()])}, (1, 2), {}))
    assert (tmp_path / "a.npz").read_bytes() == whole
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]
    np.testing.assert_array_equal(checkpoint.load().arrays["x"], np.arange(1000.0))
