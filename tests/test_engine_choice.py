"""Which engine is taken, and the reason that is given."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import oakgp.engine_choice as choice
from oakgp import OAKClassifier, OAKRegressor
from oakgp.engine_choice import ENGINES, choose_by_probe, choose_by_size
from oakgp.fitting import Options, _learner, _Problem
from oakgp.inference.learn import Learner, Schedule
from oakgp.model_columns import fit_columns, transform
from oakgp.schema import TableSchema

SCHEDULE = Schedule()
FEW = SCHEDULE.exact_rows


def by_size(n: int, **settings: Any) -> choice.Choice | None:
    given: dict[str, Any] = {"engine": "auto", "gaussian": True, "max_order": None, "plain": True}
    given |= settings
    return choose_by_size(n=n, schedule=SCHEDULE, **given)


@pytest.mark.parametrize(
    ("n", "settings", "engine", "reason"),
    [
        (1, {}, "exact", "1 rows are few enough for an exact solution"),
        (FEW, {}, "exact", "few enough for an exact solution"),
        (FEW + 1, {}, "sparse", "few enough for all orders at once"),
        (10_000, {}, "sparse", "10,000 rows are few enough for all orders at once"),
        (3000, {"gaussian": False}, "sparse", "3,000 rows are few enough"),
        (10**6, {"plain": False}, "sparse", "the orthogonal additive kernel only"),
        (10**6, {"max_order": 4}, "sparse", "max_order=4 is more than the basis engine has"),
        (FEW, {"max_order": 4}, "exact", "few enough"),
        (50_000, {"gaussian": False, "plain": False}, "sparse", "kernel only"),
        (50_001, {"gaussian": False, "plain": False}, "stochastic", "kernel only"),
        (10**6, {"gaussian": False, "max_order": 5}, "stochastic", "max_order=5 is more than"),
        (3001, {"gaussian": False}, "basis", "3,001 rows are many"),
        (200_001, {"max_order": 3}, "basis", "200,001 rows are many"),
        (5, {"engine": "basis"}, "basis", "it was asked for"),
        (5, {"engine": "sparse"}, "sparse", "it was asked for"),
        (10**7, {"engine": "exact", "plain": False}, "exact", "it was asked for"),
        (10**7, {"engine": "stochastic", "max_order": 9}, "stochastic", "it was asked for"),
    ],
)
def test_by_size(n: int, settings: dict[str, Any], engine: str, reason: str) -> None:
    found = by_size(n, **settings)
    assert found is not None
    assert found.engine == engine
    assert reason in found.reason


@pytest.mark.parametrize(
    ("n", "settings"),
    [(10_001, {}), (200_000, {"max_order": 3})],
)
def test_many_rows_need_a_probe(n: int, settings: dict[str, Any]) -> None:
    assert by_size(n, **settings) is None


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("max_order", [None, 1, 3, 4])
@pytest.mark.parametrize("plain", [True, False])
def test_only_the_basis_engine_refuses_and_says_what_to_do(
    engine: str, max_order: int | None, plain: bool
) -> None:
    refused = engine == "basis" and (not plain or max_order == 4)
    if not refused:
        by_size(100, engine=engine, max_order=max_order, plain=plain)
        return
    with pytest.raises(ValueError, match="engine='sparse'") as caught:
        by_size(100, engine=engine, max_order=max_order, plain=plain)
    assert ("variant=" if not plain else "leave max_order out") in str(caught.value)


# The probe.


def learner_of(truth: Any, d: int = 5, n: int = 500, max_order: int = 5) -> Learner[Any]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.5, 1.5, (n, d))
    y = truth(x)
    y = (y - y.mean()) / y.std() + 0.05 * rng.standard_normal(n)
    schema = TableSchema.infer(x)
    columns = fit_columns(
        schema, x, np.ones(n), kernel="squared_exponential", measure="auto", flow="none", rank=2
    )
    problem = _Problem(y, np.ones(n), np.zeros(n), None)
    return _learner(columns, transform(columns, x), problem, Options(max_order=max_order))


def test_a_probe_of_shallow_rows_takes_the_basis() -> None:
    found = choose_by_probe(learner_of(lambda x: x[:, 0] + x[:, 1] * x[:, 2]), 20_000, "cpu", None)
    assert found.engine == "basis"
    assert not found.deep
    assert "20,000 rows are many" in found.reason
    assert "of the variance that a probe of" in found.reason
    assert "lies in orders up to 3" in found.reason


def test_a_probe_of_deep_rows_takes_the_kernel() -> None:
    learner = learner_of(lambda x: x[:, 0] * x[:, 1] * x[:, 2] * x[:, 3])
    on_cpu, on_gpu = (choose_by_probe(learner, 500, device, None) for device in ("cpu", "cuda"))
    assert (on_cpu.engine, on_gpu.engine) == ("sparse", "exact")
    assert on_cpu.deep
    assert on_gpu.deep
    assert "lies in orders above 3" in on_cpu.reason
    assert "the GPU holds all rows" in on_gpu.reason


@pytest.mark.parametrize(
    ("n", "d", "max_order"),
    [(10**5, 5, 2), (10**5, 3, None), (10**5, 41, None)],
)
def test_where_a_probe_can_tell_nothing_there_is_none(
    n: int, d: int, max_order: int | None
) -> None:
    space = SimpleNamespace(kernel=SimpleNamespace(n_features=d))
    # Nothing else may be asked of it.
    learner: Any = SimpleNamespace(engine=SimpleNamespace(n=7, space=space))
    found = choose_by_probe(learner, n, "cpu", max_order)
    assert (found.engine, found.reason) == ("basis", f"{n:,} rows are many")


# Whole fits.


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty rows are many."""
    monkeypatch.setattr(choice, "_KERNEL_ROWS", 39)
    monkeypatch.setattr(choice, "_KERNEL_ROWS_OTHER", 39)
    few = replace(SCHEDULE, exact_rows=20)
    for name in ("oakgp.estimators.base",):
        monkeypatch.setattr(f"{name}.Schedule", lambda **k: replace(few, **k))
    monkeypatch.setattr(Schedule, "for_latents", lambda self, count: self)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("columns", [0, 1, 2, 5])
def test_auto_fits_many_rows_by_the_basis(columns: int) -> None:
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.standard_normal((60, columns)), np.ones(60)])
    y = x[:, 0] + 0.1 * rng.standard_normal(60)
    model = OAKRegressor(max_iter=4, flow="none").fit(x, y)
    assert model.model_.facts.engine == "basis"
    verdict = str(model.verdict_)
    assert "basis engine with" in verdict
    assert "engine was chosen because 60 rows are many" in verdict
    assert np.isfinite(model.predict(x)).all()
    counts = OAKRegressor(max_iter=4, flow="none", likelihood="poisson").fit(x, np.arange(60) % 4)
    assert counts.model_.facts.engine == "basis"
    labels = OAKClassifier(max_iter=4, flow="none").fit(x, np.arange(60) % 3)
    assert labels.model_.facts.engine == "basis"
    assert torch.is_tensor(labels.model_.posterior.mean_weights)


@pytest.mark.usefixtures("small")
def test_auto_fits_some_rows_by_the_kernel() -> None:
    x = np.random.default_rng(0).standard_normal((35, 2))
    model = OAKRegressor(max_iter=2, flow="none").fit(x, x[:, 0])
    assert model.model_.facts.engine == "sparse"
    assert "35 rows are few enough for all orders at once" in str(model.verdict_)
