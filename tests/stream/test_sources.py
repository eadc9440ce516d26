"""Sources of tables in memory and of iterators: roles, faults, positions, reading ahead."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
from tests.stream.tables import assert_same_pass, many_kinds

from oakgp.progress import listening
from oakgp.stream import encoded_chunks, first_pass, open_source
from oakgp.stream.prefetch import prefetched


def data(n: int = 1000):
    rng = np.random.default_rng(8)
    return many_kinds(n), rng.normal(size=n), rng.random(n)


def test_roles_by_name_and_by_array_are_the_same() -> None:
    table, y, w = data()
    by_array = open_source(table, y, weight=w, offset=y * 2, exposure=w + 1)
    whole = table.assign(y=y, w=w, o=y * 2, e=w + 1)
    by_name = open_source(whole, "y", weight="w", offset="o", exposure="e")
    assert_same_pass(first_pass(by_name), first_pass(by_array))
    (one,), (other,) = by_name.chunks(), by_array.chunks()
    np.testing.assert_array_equal(one.offset, other.offset)
    np.testing.assert_allclose(one.offset, y * 2 + np.log(w + 1))


def test_an_iterator_is_read_as_its_tables_together() -> None:
    table, y, w = data()

    def batches():
        for start in range(0, 1000, 300):
            rows = slice(start, start + 300)
            yield table.iloc[rows], y[rows], w[rows]

    found = first_pass(open_source(batches, chunk_rows=128))
    assert_same_pass(found, first_pass(open_source(table, y, weight=w)))


def test_an_iterator_that_cannot_begin_again_is_refused() -> None:
    once = iter([np.ones((3, 2))])
    with pytest.raises(TypeError, match="list_iterator can be read only once"):
        open_source(once)
    lengths = iter([4, 4, 3])

    def shrinking():
        yield np.ones((next(lengths), 2))

    source = open_source(shrinking)
    list(source.chunks())
    with pytest.raises(ValueError, match=r"shrinking\(\) gave 3 rows in this pass and 4"):
        list(source.chunks())


def test_tables_of_an_iterator_with_other_columns_are_named() -> None:
    def batches():
        yield pd.DataFrame({"a": [1.0], "y": [0.0]})
        yield pd.DataFrame({"b": [1.0], "y": [0.0]})

    with pytest.raises(ValueError, match=r"table 1 of batches\(\) has the columns b, y, but"):
        first_pass(open_source(batches, "y"))

    def kinds():
        yield pd.DataFrame({"a": [1.0, 2.0]})
        yield pd.DataFrame({"a": ["one", "two"]})

    with pytest.raises(ValueError, match=r"'a' holds numbers in table 0 .* but text in table 1"):
        first_pass(open_source(kinds))
    found = first_pass(open_source(kinds), categorical_features=["a"])
    assert found.schema.columns[0].levels == ("1", "2", "one", "two")


def test_faults_of_roles_are_named() -> None:
    table, y, w = data(20)
    with pytest.raises(ValueError, match="no column 'z'"):
        open_source(table, "z")
    with pytest.raises(ValueError, match="X has 20 rows but y has 19"):
        open_source(table, y[:19])
    with pytest.raises(ValueError, match="a column has one role"):
        open_source(table, "normal", columns=["normal"])
    with pytest.raises(TypeError, match=r"weight= must be the name of a column"):
        open_source(lambda: iter([table]), "normal", weight=w)
    with pytest.raises(ValueError, match="target_type='other'"):
        open_source(table, y, target_type="other")
    words = np.array([0.0] * 7 + ["seven"] * 13, dtype=object)
    with pytest.raises(ValueError, match="y holds 'seven' .* at row 7 "):
        first_pass(open_source(table, words, chunk_rows=4))
    with pytest.raises(ValueError, match="sample_weight is zero in all 20 rows"):
        first_pass(open_source(table, y, weight=0.0))
    with pytest.raises(ValueError, match="exposure is not positive .* row 3 "):
        first_pass(open_source(table, y, exposure=np.r_[[1.0] * 3, [0.0] * 17], chunk_rows=2))


def test_the_row_of_an_infinity_is_that_of_the_table() -> None:
    x = np.zeros((5_000, 2))
    x[4_999, 1] = np.inf
    with pytest.raises(ValueError, match="column 'x1', .* first at row 4999 "):
        first_pass(open_source(x, chunk_rows=512))
    # Of the rows that count: those of weight 0 are not looked at.
    weights = np.ones(5_000)
    weights[::2] = 0.0
    with pytest.raises(ValueError, match="first at row 4999 "):
        first_pass(open_source(x, weight=weights, chunk_rows=512))
    weights[4_999] = 0.0
    assert first_pass(open_source(x, weight=weights, chunk_rows=512)).n_rows == 2499


def test_the_row_of_an_infinity_among_five_million() -> None:
    x = np.zeros((5_000_000, 1))
    x[4_999_999] = np.inf
    with pytest.raises(ValueError, match="column 'x0', .* first at row 4999999 "):
        first_pass(open_source(x))


def test_wide_tables_are_read_in_chunks_of_fewer_rows() -> None:
    (narrow,) = open_source(np.zeros((30_000, 2))).chunks()
    assert narrow.n_rows == 30_000
    wide = [chunk.n_rows for chunk in open_source(np.zeros((30_000, 400))).chunks()]
    assert wide == [5242] * 5 + [3790]
    assert next(iter(open_source(np.zeros((30_000, 400)), chunk_rows=9000).chunks())).n_rows == 9000


def test_reading_goes_on_at_a_position() -> None:
    table, y, _ = data(1000)
    source = open_source(table, y, chunk_rows=90)
    found = first_pass(source)
    columns = found.fit_columns()
    whole = list(encoded_chunks(source, found.schema, columns))
    assert sum(chunk.n_rows for chunk in whole) == 1000
    for stop in (0, 3, len(whole) - 1):
        rest = list(encoded_chunks(source, found.schema, columns, start=whole[stop].position))
        assert [c.place.first_row for c in rest] == [c.place.first_row for c in whole[stop + 1 :]]
        for one, other in zip(rest, whole[stop + 1 :], strict=True):
            np.testing.assert_array_equal(one.z, other.z)
            np.testing.assert_array_equal(one.y, other.y)


def test_parts_travel_between_processes_with_their_own_rows_only() -> None:
    table = np.random.default_rng(0).normal(size=(1 << 21, 1))
    source = open_source(table, table[:, 0])
    assert len(source.parts) == 2
    sent = pickle.dumps(source.parts[1])
    assert len(sent) < 1.2 * 2 * 8 * (1 << 20)
    rows = [chunk.y for chunk in pickle.loads(sent).chunks()]
    np.testing.assert_array_equal(np.concatenate(rows), table[1 << 20 :, 0])


def test_progress_counts_rows() -> None:
    table, y, _ = data(1000)
    events = []
    with listening(events.append):
        first_pass(open_source(table, y, chunk_rows=400))
    assert [event.done for event in events] == [0, 400, 800, 1000, 1000]
    assert {(event.step, event.total, event.unit) for event in events} == {
        ("first pass", 1000, "rows")
    }


def test_prefetching_keeps_order_bounds_and_errors() -> None:
    made = []

    def numbers():
        for i in range(100):
            made.append(i)
            yield i
        raise KeyError("the end")

    got = []
    with pytest.raises(KeyError, match="the end"):
        got.extend((i, len(made)) for i in prefetched(numbers(), 2))
    assert all(count <= i + 5 for i, count in got)
    assert [i for i, _ in got] == list(range(100))
    before = threading.active_count()
    reader = prefetched(iter(range(10**9)), 2)
    assert next(reader) == 0
    reader.close()
    for _ in range(50):
        if threading.active_count() <= before:
            break
        time.sleep(0.1)
    assert threading.active_count() <= before


def test_the_fingerprint_tells_data_and_roles_apart() -> None:
    table, y, _ = data(500)
    one = open_source(table, y).fingerprint()
    assert one == open_source(table.copy(), y, chunk_rows=7).fingerprint()
    other = table.copy()
    other.loc[250, "normal"] += 1.0
    assert one != open_source(other, y).fingerprint()
    assert one != open_source(table, y, columns=["normal"]).fingerprint()
    assert one != open_source(table, y + 1.0).fingerprint()


def test_optional_packages_are_not_imported() -> None:
    code = (
        "import sys, oakgp.stream, oakgp.distributed; "
        "print([m for m in ('dask', 'distributed', 'fsspec', 'pyspark') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
