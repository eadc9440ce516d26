"""Estimators on a cluster: the models of one machine, answers where the data lie."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from tests.stream.tables import many_kinds

from oakgp import OAKClassifier, OAKRegressor, load
from oakgp.distributed import DaskOAKClassifier, DaskOAKRegressor
from oakgp.progress import listening

pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.slow,
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


def frame(n: int = 3000):
    rng = np.random.default_rng(21)
    table = many_kinds(n)[["normal", "count", "gaps", "color"]]
    signal = np.sin(2 * table.normal) + 0.1 * table["count"] + (table.color == "red")
    y = 3.0 + signal + 0.3 * rng.normal(size=n)
    return table.assign(y=y, w=rng.random(n), label=np.where(y > 5.5, "yes", "no"))


def small_sample(estimator):
    """Have terms found on 800 rows, so that passes over all rows are needed."""
    from dataclasses import replace

    options = estimator._options()
    schedule = replace(options.basis_schedule, learning_rows=800, screen_rows=800)
    changed = replace(options, basis_schedule=schedule)
    estimator._options = lambda: changed
    return estimator


def test_without_a_client_or_a_response(tmp_path) -> None:
    # First: later tests have a client, which would be found.
    frame(50).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="there is no Dask client"):
        DaskOAKRegressor().fit(tmp_path, "y")


def test_a_regressor_is_that_of_one_machine(client, tmp_path) -> None:
    import dask.array as da
    import dask.dataframe as dd

    table = frame()
    columns = ["normal", "count", "gaps", "color"]
    data = dd.from_pandas(table.drop(columns=["label"]), npartitions=5)
    model = DaskOAKRegressor().fit(data, "y", "w", client=client)
    alone = OAKRegressor().fit_stream(table.drop(columns=["label"]), "y", weight="w")
    want = alone.predict(table)
    np.testing.assert_allclose(model.predict(table), want, rtol=1e-9)
    answer = model.predict(data[columns])
    assert isinstance(answer, da.Array)
    np.testing.assert_allclose(client.compute(answer).result(), want, rtol=1e-9)
    score = model.score(data, "y", "w", client=client)
    assert score == pytest.approx(alone.score(table, table.y, table.w), rel=1e-9)
    with pytest.raises(ValueError, match="only the expected response"):
        model.predict(data, return_std=True)
    model.save(tmp_path / "model.oak")
    again = load(tmp_path / "model.oak")
    assert type(again) is OAKRegressor
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    matrix = da.from_array(table[["normal", "count"]].to_numpy(), chunks=(700, 1))
    plain = DaskOAKRegressor().fit(matrix, da.from_array(table.y.to_numpy(), 700), client=client)
    assert client.compute(plain.predict(matrix)).result().shape == (3000,)


def test_a_classifier_outlives_a_worker(client, tmp_path) -> None:
    import dask.dataframe as dd

    table = frame()
    columns = ["normal", "count", "gaps", "color"]
    for i in range(6):
        piece = table.iloc[i * 500 : (i + 1) * 500]
        piece.to_parquet(tmp_path / f"{i}.parquet", row_group_size=200, index=False)
    settings = {"columns": columns, "client": client, "chunk_rows": 100}
    calm = small_sample(DaskOAKClassifier()).fit(tmp_path, "label", **settings)
    victim = next(iter(client.run(os.getpid).values()))
    killed = []

    def kill(event) -> None:
        if event.step == "summing rows" and "all rows" in event.path and event.done and not killed:
            killed.append(event)
            os.kill(victim, signal.SIGKILL)

    with listening(kill):
        model = small_sample(DaskOAKClassifier()).fit(tmp_path, "label", **settings)
    assert killed
    np.testing.assert_array_equal(model.predict_proba(table), calm.predict_proba(table))
    alone = small_sample(OAKClassifier())
    alone.fit_stream(tmp_path, "label", columns=columns)
    np.testing.assert_allclose(
        model.predict_proba(table), alone.predict_proba(table), rtol=1e-6, atol=1e-9
    )
    data = dd.from_pandas(table, npartitions=3)
    labels = client.compute(model.predict(data)).result()
    assert (labels == alone.predict(table)).all()
    accuracy = model.score(data, "label", client=client)
    assert accuracy == pytest.approx(np.mean(labels == table.label))
