"""The stochastic engine in the hands of the estimators."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from tests.estimators.models import NOISE, frame, quick, response

import oakgp
from oakgp import OAKClassifier
from oakgp.inference.learn import Schedule

SHORT: dict[str, Any] = {"max_iter": 8, "flow": "normal_score", "max_order": 2, "n_inducing": 30}


def labels(n: int, seed: int = 0) -> Any:
    table, rng = frame(n), np.random.default_rng(77 + seed)
    f = 2.0 * np.sin(3.0 * table["a"].to_numpy()) + (table["c"] == "red").to_numpy() - 0.3
    return table, np.where(rng.random(n) < expit(f), "yes", "no"), expit(f)


def test_binary_classes() -> None:
    table, y, p = labels(150)
    model = OAKClassifier(engine="stochastic", **SHORT).fit(table, y)
    facts = model.model_.facts
    assert facts.engine == "stochastic"
    assert facts.n_inducing == 30
    assert facts.evidence_rows == facts.n_distinct == 150
    assert "stochastic variational engine with 30 inducing points" in str(model.verdict_)
    assert np.abs(model.predict_proba(table)[:, 1] - p).mean() < 0.15
    full = OAKClassifier(engine="sparse", **SHORT).fit(table, y)
    other = np.abs(model.predict_proba(table) - full.predict_proba(table))
    assert other.mean() < 0.08


def test_gaussian_noise_gives_a_model_of_regression() -> None:
    table = frame(150)
    y = 1000.0 + 50.0 * response(table)
    model = quick(engine="stochastic", n_inducing=40, max_iter=40, max_order=2).fit(table, y)
    assert model.model_.response is None
    assert "stochastic engine" in str(model.verdict_)
    assert model.verdict_.noise == pytest.approx(50.0 * NOISE, rel=0.5)
    mean, sd = model.predict(table, return_std=True)
    assert np.std(y - mean) < 0.25 * np.std(y)
    assert np.mean(np.abs(y - mean) < 1.645 * sd) > 0.8
    total = sum(model.component(table, term)[0] for term in [(), "a", "b", "c"])
    total += sum(model.component(table, term)[0] for term in [("a", "b"), ("a", "c"), ("b", "c")])
    np.testing.assert_allclose(total, mean, rtol=1e-8)


@pytest.mark.parametrize("kind", ["classes", "heteroscedastic_gaussian"])
def test_several_latent_functions_are_saved_and_loaded(kind: str, tmp_path: Path) -> None:
    table, y, _ = labels(90)
    if kind == "classes":
        third = np.where(table["b"] > 1.5, "maybe", y)
        model: Any = OAKClassifier(engine="stochastic", **SHORT).fit(table, third)
        values = model.predict_proba
    else:
        model = quick(likelihood=kind, engine="stochastic", max_order=1, n_inducing=20)
        model.fit(table, response(table))
        values = model.predict
    assert len(model.model_.outputs) == (3 if kind == "classes" else 2)
    model.save(tmp_path / "model.oak")
    again = oakgp.load(tmp_path / "model.oak")
    same = again.predict_proba if kind == "classes" else again.predict
    np.testing.assert_array_equal(same(table), values(table))
    assert again.model_.facts.engine == "stochastic"


def test_same_seed_same_bits() -> None:
    table, y, _ = labels(120)
    one, two = (OAKClassifier(engine="stochastic", **SHORT).fit(table, y) for _ in range(2))
    np.testing.assert_array_equal(one.predict_proba(table), two.predict_proba(table))


def test_auto_takes_minibatches_beyond_the_rows_of_the_full_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def few(self: Schedule, count: int) -> Schedule:
        return Schedule(
            max_iterations=4, exact_rows=20, middle_rows=20, sparse_rows=30, full_batch_rows=60
        )

    monkeypatch.setattr(Schedule, "for_latents", few)
    for n, engine in ((15, "exact"), (50, "sparse"), (80, "stochastic")):
        table, y, _ = labels(n)
        facts = OAKClassifier(**SHORT).fit(table, y).model_.facts
        assert facts.engine == engine


def test_an_unknown_engine_is_refused() -> None:
    table, y, _ = labels(20)
    with pytest.raises(ValueError, match="stochastic"):
        OAKClassifier(engine="minibatch").fit(table, y)
