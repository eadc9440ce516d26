"""On a cluster of processes: the same answers as on one machine, also when workers die."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pandas as pd
import pytest
from tests.stream.tables import assert_same_pass, many_kinds

from oakgp.distributed import first_pass, map_reduce, open_distributed, sum_over
from oakgp.progress import listening
from oakgp.stream import first_pass as local_pass
from oakgp.stream import open_source
from oakgp.stream import sum_over as local_sum

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.slow,
    # Clusters of processes leave sockets to the collector, and say when they wait.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:distributed"),
]


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            memory_limit=0,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("parts")
    table = data()
    for i in range(10):
        table.iloc[i * 300 : (i + 1) * 300].to_parquet(
            path / f"part-{i}.parquet", row_group_size=100, index=False
        )
    return path


def data() -> pd.DataFrame:
    rng = np.random.default_rng(11)
    table = many_kinds(3000).drop(columns=["grade"])
    return table.assign(y=rng.normal(size=3000), w=rng.random(3000))


def moments():
    """Return a statistic that workers get by value: they cannot import this module."""

    def statistic(chunk):
        filled = np.nan_to_num(np.clip(chunk.z, -1e3, 1e3))
        weighted = filled * chunk.weights[:, None]
        return {"gram": weighted.T @ filled, "zy": weighted.T @ chunk.y, "n": len(chunk.y)}

    return statistic


def test_files_give_the_same_as_on_one_machine(client, folder) -> None:
    source = open_distributed(folder, "y", weight="w", chunk_rows=70)
    events = []
    with listening(events.append):
        found = first_pass(client, source)
    local = open_source(folder, "y", weight="w")
    want = local_pass(local)
    assert_same_pass(found, want, 1e-12)
    assert {event.step for event in events} == {"first pass"}
    columns = found.fit_columns()
    sums = sum_over(client, source, found.schema, columns, moments())
    expected = local_sum(local, want.schema, columns, moments())
    assert sums["n"] == expected["n"] == 3000
    for name in expected:
        np.testing.assert_allclose(sums[name], expected[name], rtol=1e-9, atol=1e-9)


def test_data_frames_and_arrays_are_read_where_they_lie(client) -> None:
    import dask.array as da
    import dask.dataframe as dd

    table = data()
    features = table.drop(columns=["y", "w"])
    want = local_pass(open_source(features, table.y, weight=table.w))
    frame = dd.from_pandas(table, npartitions=7)
    assert_same_pass(first_pass(client, open_distributed(frame, "y", weight="w")), want, 1e-12)
    beside = open_distributed(frame.drop(columns=["y", "w"]), frame.y, weight=frame.w)
    assert_same_pass(first_pass(client, beside), want, 1e-12)
    x = features[["normal", "gaps"]].to_numpy()
    array = da.from_array(x, chunks=(500, 1))
    found = first_pass(client, open_distributed(array, da.from_array(table.y.to_numpy(), 500)))
    assert_same_pass(found, local_pass(open_source(x, table.y)), 1e-12)


def test_a_killed_worker_changes_nothing(client, folder) -> None:
    source = open_distributed(folder, "y", weight="w", chunk_rows=50)
    found = first_pass(client, source)
    columns = found.fit_columns()
    quick = sum_over(client, source, found.schema, columns, moments())
    inner = moments()

    def slow(chunk):
        time.sleep(0.05)
        return inner(chunk)

    pids = client.run(os.getpid)
    victim = next(iter(pids.values()))
    done = []

    def kill(event) -> None:
        if event.done >= 3 and not done:
            done.append(event.done)
            os.kill(victim, signal.SIGKILL)

    with listening(kill):
        sums = sum_over(client, source, found.schema, columns, slow)
    assert done
    assert done[0] < len(source.parts)
    for name in quick:
        np.testing.assert_array_equal(sums[name], quick[name])  # to the bit
    client.wait_for_workers(2, timeout=300)
    assert victim not in client.run(os.getpid).values()


def test_a_fault_in_a_part_is_named_and_nothing_hangs(client, tmp_path) -> None:
    for i in range(3):
        x = np.zeros(200)
        x[150] = np.inf if i == 1 else 0.0
        pd.DataFrame({"a": x, "y": 0.0}).to_parquet(
            tmp_path / f"{i}.parquet", row_group_size=100, index=False
        )
    with pytest.raises(ValueError, match=r"1.parquet, row group 1: .*infinity.* row 150 "):
        first_pass(client, open_distributed(tmp_path, "y"))
    assert map_reduce(client, [1, 2, 3], abs, sum) == 6


def test_the_tree_is_fixed_and_keeps_the_order(client) -> None:
    def text(part, end):
        return f"{part}{end}"

    def joined(parts):
        return f"({' '.join(parts)})"

    want = "((0! 1! 2!) (3! 4! 5!) (6!))"
    assert map_reduce(client, list(range(7)), text, joined, shared=["!"], fan_in=3) == want
    assert map_reduce(client, [0], text, joined, shared=["!"]) == "(0!)"
    with pytest.raises(ValueError, match="no part"):
        map_reduce(client, [], text, joined)


def test_what_is_no_collection_is_refused() -> None:
    import dask.array as da

    with pytest.raises(TypeError, match="neither a Dask DataFrame, a Dask Array nor"):
        open_distributed(np.ones((3, 2)))
    array = da.ones((6, 2), chunks=(3, 2))
    with pytest.raises(ValueError, match="target has 3 partitions and the table 2"):
        open_distributed(array, da.ones(6, chunks=2))
    with pytest.raises(TypeError, match="target= must be the name of a column, or a Dask"):
        open_distributed(array, np.ones(6))
