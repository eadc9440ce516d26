"""Settings, the scale of the response, and what a fit notes about its data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.estimators.models import frame, quick, response

from oakgp import OAKRegressor
from oakgp.fitting import AUTO_FLOWS, Options, fit_model, standardise
from oakgp.inference.learn import Schedule
from oakgp.model import Model

TABLE = frame()
Y = response(TABLE)
QUICK = Schedule(max_iterations=1)


def fit(table: Any = TABLE, y: np.ndarray = Y, **options: Any) -> Model:
    settings = Options(**{"schedule": QUICK, "flow": "normal_score", "max_order": 1, **options})
    return fit_model(table, y, np.ones(len(y)), settings)


# -- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "dense"}, "engine='dense': choose one of 'auto', 'exact', 'sparse'"),
        ({"variant": "oak"}, "variant='oak': choose one of 'additive', 'product'"),
        ({"priors": "flat"}, "priors='flat': choose one of 'default', 'paper'"),
        ({"device": "tpu"}, "device='tpu': choose one of 'auto', 'cpu', 'cuda'"),
        ({"n_inducing": 0}, "n_inducing=0: give a whole number of at least 1"),
        ({"rank": 1.5}, "rank=1.5: give a whole number of at least 1"),
        ({"max_order": 0}, "max_order=0: give a whole number of at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Options(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"feature_variances": 1}, "feature_variances=1: give True or False"),
        ({"orthogonal": "yes"}, "orthogonal='yes': give True or False"),
        ({"max_iter": 0}, "max_iter=0: give a whole number of at least 1"),
        ({"max_levels": 0}, "max_levels=0: give a whole number of at least 1"),
        ({"priors": None}, "priors=None: choose one of 'default', 'paper'"),
        ({"forced_terms": "a"}, r"forced_terms='a': give a list of terms, such as \['a', "),
        ({"forbidden_terms": [1.5]}, "forbidden_terms= holds 1.5: a term is a column's name or"),
        ({"forced_terms": [("a", "z")]}, "forced_terms= names 'z', .* it has a, b, c"),
        ({"forbidden_terms": [7]}, "forbidden_terms= names 7, which is no feature"),
        ({"forced_terms": [()]}, "forced_terms= holds an empty term; the constant is always in"),
        ({"flow": ["none"]}, r"flow=\['none'\] for column 'a': choose one of"),
        ({"flow": np.array(["none", "none"])}, "flow=array.* for column 'a': choose one of"),
        ({"random_state": -1}, "Seed must be between 0 and"),
    ],
)
def test_settings_of_the_estimator_that_cannot_be_are_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(TABLE, Y)


def test_a_device_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert Options(device="auto").torch_device == "cpu"
    with pytest.raises(
        ValueError, match="device='cuda', but torch finds no GPU; use device='auto'"
    ):
        Options(device="cuda")


# -- the response ---------------------------------------------------------------------------------


@given(
    st.lists(st.floats(-1e307, 1e307), min_size=2, max_size=8),
    st.lists(st.floats(1e-3, 1e3), min_size=8, max_size=8),
)
def test_the_response_gets_mean_zero_and_deviation_one(y: list[float], w: list[float]) -> None:
    values, weights = np.array(y), np.array(w[: len(y)])
    unit, center, scale = standardise(values, weights)
    assert np.isfinite([*unit, center, scale]).all()
    assert scale > 0
    largest = np.abs(values).max() or 1.0
    # Where the deviation is lost in rounding, the response counts as constant.
    np.testing.assert_allclose(
        center / largest + (scale / largest) * unit, values / largest, atol=1e-12, rtol=0
    )
    if unit.any():
        assert np.average(unit, weights=weights) == pytest.approx(0.0, abs=1e-2)
        assert np.average(unit**2, weights=weights) == pytest.approx(1.0, rel=1e-6)


def test_a_constant_response_keeps_its_unit() -> None:
    unit, center, scale = standardise(np.full(5, 0.1), np.ones(5))
    assert not unit.any()
    assert (center, scale) == (pytest.approx(0.1), 1.0)
    assert standardise(np.zeros(3), np.ones(3))[1:] == (0.0, 1.0)


@pytest.mark.parametrize(("shift", "factor"), [(1e6, 1.0), (0.0, 1e300), (-3.0, 1e-300)])
def test_predictions_follow_the_unit_of_the_response(shift: float, factor: float) -> None:
    plain, other = fit(), fit(y=factor * (Y + shift))
    got = other.mean(TABLE) / factor - shift
    np.testing.assert_allclose(got, plain.mean(TABLE), rtol=1e-4, atol=1e-5)


# -- what is fitted -------------------------------------------------------------------------------


def test_the_default_order_is_four_or_the_number_of_features() -> None:
    rng = np.random.default_rng(0)
    for d, variant, order in ((2, "additive", 2), (5, "additive", 4), (5, "product", 5)):
        x = rng.standard_normal((8, d))
        model = fit(x, x[:, 0], max_order=None, variant=variant)
        assert model.posterior.kernel.max_order == order


def test_the_flow_with_the_best_evidence_is_taken() -> None:
    """A curve in the logarithm of a heavy-tailed column: plain values cannot follow it."""
    x = np.exp(3.0 * np.random.default_rng(0).standard_normal((60, 1)))
    y = np.sin(np.log(x[:, 0]))
    found = {
        flow: fit(x, y, flow=flow, schedule=Schedule(max_iterations=15)) for flow in AUTO_FLOWS
    }
    auto = fit(x, y, flow="auto", schedule=Schedule(max_iterations=15))
    assert auto.facts.flow != "none"
    evidence = {flow: model.facts.log_evidence for flow, model in found.items()}
    assert evidence[auto.facts.flow] > evidence["none"] + 10.0


def test_categories_alone_need_no_choice_of_a_flow() -> None:
    model = fit(TABLE[["c"]], flow="auto")
    assert model.facts.flow == AUTO_FLOWS[0]
    assert model.columns[0].flow is None


def test_terms_may_be_forced_and_forbidden_by_name_and_number() -> None:
    model = fit(max_order=2, forced_terms=[("a", "b", "c")], forbidden_terms=[(0, "c")])
    terms = model.posterior.kernel.terms
    assert (0, 1, 2) in terms
    assert (0, 2) not in terms
    assert (0, 1) in terms
    assert model.forced == ((0, 1, 2),)


def test_facts_count_rows_and_distinct_rows() -> None:
    table, y = pd.concat([TABLE, TABLE[:10]]), np.r_[Y, Y[:10]]
    facts = fit(table, y).facts
    assert (facts.n_rows, facts.n_distinct) == (50, 40)
    assert facts.engine == "exact"
    assert facts.seconds > 0
    assert facts.n_evaluations > 0
    assert (facts.n_inducing, facts.evidence_rows) == (0, 40)


# -- what is noted --------------------------------------------------------------------------------


def test_correlated_features_are_named() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(30)
    table = pd.DataFrame({"up": x, "down": -x + 0.01 * rng.standard_normal(30)})
    table = table.assign(free=rng.standard_normal(30), holes=np.where(np.arange(30) % 3, x, np.nan))
    (note,) = fit(table, x).facts.notes
    assert "read their components together" in note
    assert "up and down (-1.00)" in note
    assert "free" not in note
    assert fit(table[["up", "free"]], x).facts.notes == ()


def test_many_correlated_pairs_are_counted() -> None:
    x = np.random.default_rng(0).standard_normal((20, 1))
    (note,) = fit(np.repeat(x, 4, axis=1), x[:, 0]).facts.notes
    assert note.count("(+1.00)") == 3
    assert " and 3 more pairs; Sobol indices" in note


def test_noise_at_its_bounds_is_noted() -> None:
    x = np.linspace(0.0, 1.0, 30)[:, None]
    plenty = Schedule(max_iterations=40)
    assert "the data are interpolated" in " ".join(fit(x, x[:, 0], schedule=plenty).facts.at_bound)
    constant = fit(x, np.full(30, 2.0))
    assert constant.facts.at_bound == ()
    assert constant.facts.notes[0].startswith("y is the same in every row")


def test_a_fit_of_rows_in_any_order_is_the_same() -> None:
    order = np.random.default_rng(1).permutation(len(TABLE))
    one, other = fit(), fit(TABLE.iloc[order], Y[order])
    np.testing.assert_array_equal(one.mean(TABLE), other.mean(TABLE))


def test_seeds_may_come_from_a_generator() -> None:
    first, second = (
        OAKRegressor(max_iter=1, random_state=np.random.RandomState(3)).fit(TABLE, Y)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.predict(TABLE), second.predict(TABLE))
