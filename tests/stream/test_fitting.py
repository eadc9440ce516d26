"""Estimators fitted to streams: the model of a fit in memory, interrupted or not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.stream.tables import many_kinds

from oakgp import OAKClassifier, OAKRegressor, load
from oakgp.basis.fit import BasisSchedule
from oakgp.progress import listening


def problem(n: int = 4000, seed: int = 3):
    rng = np.random.default_rng(seed)
    table = many_kinds(n, seed)[["normal", "count", "gaps", "color", "flag"]]
    signal = np.sin(2 * table.normal) + 0.1 * table["count"] + (table.color == "red")
    return table, signal.to_numpy(), rng


def test_a_regression_is_close_to_that_of_a_fit_in_memory(tmp_path) -> None:
    table, signal, rng = problem()
    y = 10.0 + 5.0 * (signal + 0.3 * rng.normal(size=len(signal)))
    w = rng.integers(1, 3, len(y)).astype(float)
    inside = OAKRegressor(engine="basis", flow="normal_score").fit(table, y, w)
    table.assign(y=y, w=w).to_parquet(tmp_path / "a.parquet", row_group_size=700, index=False)
    streamed = OAKRegressor().fit_stream(tmp_path / "a.parquet", "y", weight="w", chunk_rows=500)
    test = table.iloc[:300]
    mean, sd = streamed.predict(test, return_std=True)
    want, want_sd = inside.predict(test, return_std=True)
    # The rows come in another order, and the optimiser stops a little elsewhere.
    assert np.abs(mean - want).max() < 0.01 * y.std()
    np.testing.assert_allclose(sd, want_sd, rtol=0.01)
    assert streamed.feature_names_in_.tolist() == list(table)
    assert "read in chunks" in str(streamed.verdict_)
    streamed.save(tmp_path / "model.oak")
    np.testing.assert_array_equal(load(tmp_path / "model.oak").predict(test), mean)


SMALL = BasisSchedule(learning_rows=800, screen_rows=800)


class SmallSample:
    """Terms are found on 800 rows, so that passes over all rows are needed."""

    def _options(self):
        return replace(super()._options(), basis_schedule=SMALL)


class SmallRegressor(SmallSample, OAKRegressor):
    pass


class SmallClassifier(SmallSample, OAKClassifier):
    pass


def test_the_order_of_the_rows_does_not_matter() -> None:
    table, signal, rng = problem(3000)
    y = signal + 0.3 * rng.normal(size=len(signal))
    one = SmallRegressor().fit_stream(table, y, chunk_rows=400)
    order = rng.permutation(len(y))
    other = SmallRegressor().fit_stream(table.iloc[order], y[order], chunk_rows=1111)
    assert any("found on 800 of 3,000 rows" in note for note in one.model_.facts.notes)
    np.testing.assert_allclose(one.predict(table), other.predict(table), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_are_close_to_those_of_a_fit_in_memory(classes) -> None:
    table, signal, rng = problem(3000)
    noisy = signal + rng.logistic(size=len(signal))
    cuts = np.quantile(noisy, np.arange(1, classes) / classes)
    y = np.array(["low", "mid", "top"])[np.searchsorted(cuts, noisy)]
    inside = OAKClassifier(engine="basis", flow="normal_score").fit(table, y)
    streamed = OAKClassifier().fit_stream(table, y, chunk_rows=700)
    assert streamed.classes_.tolist() == inside.classes_.tolist()
    np.testing.assert_allclose(
        streamed.predict_proba(table), inside.predict_proba(table), atol=2e-3
    )
    balanced = OAKClassifier(class_weight={"low": 5.0, "mid": 1.0, "top": 1.0}).fit_stream(table, y)
    assert (balanced.predict_proba(table)[:, 0] > streamed.predict_proba(table)[:, 0]).mean() > 0.9


def test_counts_with_exposure_and_impossible_responses() -> None:
    table, signal, rng = problem(3000)
    exposure = rng.random(3000) + 0.5
    y = rng.poisson(exposure * np.exp(0.3 * signal)).astype(float)
    model = OAKRegressor(likelihood="poisson").fit_stream(
        table, y, exposure=exposure, chunk_rows=640
    )
    rate = model.predict(table)
    assert np.corrcoef(rate, np.exp(0.3 * signal))[0, 1] > 0.95
    y[2500] = -1.0
    with pytest.raises(ValueError, match="rows from 1920 on: .*-1"):
        OAKRegressor(likelihood="poisson").fit_stream(table, y, chunk_rows=640)
    with pytest.raises(ValueError, match="gaussian likelihood has no exposure"):
        OAKRegressor().fit_stream(table, y, exposure=exposure)
    with pytest.raises(ValueError, match="neither exposure nor offset"):
        OAKClassifier().fit_stream(table, y, offset=exposure)
    with pytest.raises(ValueError, match="engine='exact' needs all rows in memory"):
        OAKRegressor(engine="exact").fit_stream(table, y)
    with pytest.raises(ValueError, match="needs a response"):
        OAKRegressor().fit_stream(table)


def test_an_interrupted_fit_goes_on_and_gives_the_same(tmp_path) -> None:
    table, signal, rng = problem(3000)
    labels = np.where(signal + rng.logistic(size=3000) > 1.5, "yes", "no")
    frame = pd.concat([table, pd.Series(labels, name="y")], axis=1)
    frame.to_parquet(tmp_path / "a.parquet", index=False)
    settings = {"chunk_rows": 50, "checkpoint": tmp_path / "kept"}

    def fit(stop_at=None):
        model = SmallClassifier()
        passes = []

        def listen(event):
            if event.step == "summing rows" and "all rows" in event.path:
                passes.append(event)
                if stop_at is not None and len(passes) == stop_at:
                    raise KeyboardInterrupt

        with listening(listen):
            model.fit_stream(tmp_path / "a.parquet", "y", **settings)
        return model, passes

    whole, passes = fit()
    assert not (tmp_path / "kept").exists()
    assert len(passes) > 8
    with pytest.raises(KeyboardInterrupt):
        fit(stop_at=len(passes) // 2)
    assert list((tmp_path / "kept").iterdir())
    resumed, _ = fit()
    np.testing.assert_array_equal(resumed.predict_proba(table), whole.predict_proba(table))
    assert not (tmp_path / "kept").exists()
