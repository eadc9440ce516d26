"""Laws of the input transforms, over the registry and over awkward columns."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from oakgp.flows import (
    FLOWS,
    Flow,
    NormalScore,
    SinhArcsinh,
    Standardize,
    flow_from_dict,
    normal_kl,
)
from oakgp.flows.minimum_kl import profile_kl

Column = NDArray[np.float64]
Maker = Callable[[np.random.Generator], Column]

N = 1500
SMOOTH: dict[str, Maker] = {
    "normal": lambda r: r.normal(size=N),
    "uniform": lambda r: r.uniform(size=N),
    "lognormal": lambda r: np.exp(r.normal(size=N)),
    "very skewed": lambda r: np.exp(2.0 * r.normal(size=N)),
    "skewed left": lambda r: -np.exp(r.normal(size=N)),
    "exponential": lambda r: r.exponential(size=N),
    "heavy tails": lambda r: r.standard_t(3, size=N),
    "cauchy": lambda r: r.standard_cauchy(size=N),
    "bimodal": lambda r: np.r_[r.normal(-3.0, 1.0, N // 2), r.normal(3.0, 0.5, N // 2)],
    "small and offset": lambda r: 1e5 + 1e-3 * r.normal(size=N),
    "large": lambda r: 1e300 * r.normal(size=N),
    "small": lambda r: 1e-300 * r.normal(size=N),
}
AWKWARD: dict[str, Maker] = {
    "one value": lambda _: np.array([3.5]),
    "constant": lambda _: np.full(20, -7.25),
    "huge constant": lambda _: np.full(20, 1e300),
    "two values": lambda r: r.integers(0, 2, N).astype(float),
    "rare value": lambda _: np.r_[np.zeros(N), 1.0],
    "three values": lambda _: np.array([1.0, 2.0, 1e300]),
    "integers": lambda r: r.integers(0, 11, N).astype(float),
    "counts": lambda r: r.poisson(2.0, N).astype(float),
    "zero inflated": lambda r: np.where(r.uniform(size=N) < 0.5, 0.0, np.exp(r.normal(size=N))),
    "mostly zero": lambda r: np.where(r.uniform(size=N) < 0.97, 0.0, r.exponential(size=N)),
    "spike": lambda r: np.where(r.uniform(size=N) < 0.3, 0.0, r.normal(size=N)),
    "outlier": lambda r: np.r_[r.normal(size=N), 1e300],
    "outlier left": lambda r: np.r_[r.normal(size=N), -1e300],
    "two outliers": lambda r: np.r_[r.normal(size=N), 1e300, -1e308],
    "mild outliers": lambda r: np.r_[r.normal(size=N), 1e4, -1e3],
    "whole float range": lambda r: r.uniform(-1.0, 1.0, N) * np.finfo(float).max,
    "nearly constant": lambda r: 1.0 + 1e-15 * r.normal(size=N),
    "denormals": lambda r: 5e-324 * r.integers(0, 20, N),
    "denormal gaps": lambda r: np.r_[0.0, 5e-324, 1e-323, r.normal(size=N)],
}
COLUMNS = {**SMOOTH, **AWKWARD}
EXTREMES = np.array([1e-308, 1.0, 1e3, 1e10, 1e100, 1e200, 1e300, np.finfo(float).max])

registry = pytest.mark.parametrize("kind", FLOWS)
columns = pytest.mark.parametrize("name", COLUMNS)


def make(name: str) -> Column:
    return COLUMNS[name](np.random.default_rng(0))


def affine_sinh_arcsinh(x: Column) -> SinhArcsinh:
    """Give the map that the sinh-arcsinh falls back to."""
    affine = Standardize.fit(x)
    return SinhArcsinh(center=affine.center, scale=affine.scale)


def check_laws(flow: Flow, x: Column) -> None:
    """Finite and increasing on the whole line; inverse after forward in the training range."""
    below = np.maximum(x.min() - 1.0, -np.finfo(float).max)
    grid = np.sort(np.r_[-EXTREMES, 0.0, EXTREMES, x, below, 0.5 * x.min() + 0.5 * x.max()])
    z = flow.forward(grid)
    assert np.all(np.isfinite(z))
    assert np.all(np.isfinite(z**2))
    # Between neighbouring floats rounding may turn an increase around by a few units.
    assert np.all(np.diff(z) >= -1e-13 * (1.0 + np.abs(z[1:])))
    assert np.all(np.isfinite(flow.inverse(z)))
    assert np.all(np.isfinite(flow.log_derivative(grid)))
    back = flow.inverse(flow.forward(x))
    # Linear maps resolve the range of the column, not more: an outlier of 1e300 hides the rest.
    linear_range = 0.25 * x.max() - 0.25 * x.min()
    linear = isinstance(flow, Standardize) or flow == affine_sinh_arcsinh(x)
    size = 0.25 * np.abs(x) + (linear_range if linear else 0.0)
    resolution = 1e-9 * size + np.minimum(1e-9, 1e-9 * linear_range) + 5e-324
    assert np.all(np.abs(0.25 * back - 0.25 * x) <= resolution)


def test_the_registry_knows_its_flows_by_kind() -> None:
    assert {kind: flow.kind for kind, flow in FLOWS.items()} == {kind: kind for kind in FLOWS}
    assert list(FLOWS) == ["none", "normal_score", "sinh_arcsinh"]


@registry
@columns
def test_laws_on_named_columns(kind: str, name: str) -> None:
    x = make(name)
    check_laws(FLOWS[kind].fit(x), x)


finite_floats = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(-10.0, 10.0),
    st.integers(-3, 3).map(float),
)


@registry
@settings(max_examples=60)
@given(x=hnp.arrays(np.float64, st.integers(1, 40), elements=finite_floats))
def test_finite_and_increasing_on_any_column(kind: str, x: Column) -> None:
    flow = FLOWS[kind].fit(x)
    z = flow.forward(np.sort(np.r_[-EXTREMES, 0.0, EXTREMES, x]))
    assert np.all(np.isfinite(z))
    assert np.all(np.diff(z) >= -1e-12 * (1.0 + np.abs(z[1:])))
    assert flow_from_dict(json.loads(json.dumps(flow.to_dict()))) == flow


@registry
@settings(max_examples=40)
@given(x=hnp.arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e6, 1e6)))
def test_laws_on_ordinary_columns(kind: str, x: Column) -> None:
    check_laws(FLOWS[kind].fit(x), x)


@registry
@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_columns_become_standard(kind: str, name: str) -> None:
    x = make(name)
    z = FLOWS[kind].fit(x).forward(x)
    assert abs(z.mean()) < 0.01
    assert abs(z.std() - 1.0) < 0.01


@pytest.mark.parametrize("kind", ["normal_score", "sinh_arcsinh"])
@pytest.mark.parametrize(
    "name", ["normal", "lognormal", "very skewed", "skewed left", "exponential"]
)
def test_skewed_columns_become_normal(kind: str, name: str) -> None:
    x = make(name)
    z = FLOWS[kind].fit(x).forward(x)
    quantiles = np.quantile(z, [0.025, 0.16, 0.5, 0.84, 0.975])
    np.testing.assert_allclose(quantiles, ndtri([0.025, 0.16, 0.5, 0.84, 0.975]), atol=0.15)


@registry
@pytest.mark.parametrize("name", ["normal", "lognormal", "bimodal", "zero inflated", "large"])
def test_log_derivative_against_finite_differences(kind: str, name: str) -> None:
    x = make(name)
    flow = FLOWS[kind].fit(x)
    low, high = np.quantile(x, [0.001, 0.999])
    beyond = 0.1 * (high - low)
    at = np.r_[np.linspace(low, high, 101), x.min() - beyond, x.max() + beyond]
    step = 1e-6 * (high - low)
    slope = (flow.forward(at + step) - flow.forward(at - step)) / (2.0 * step)
    error = np.abs(np.log(slope) - flow.log_derivative(at))
    # The normal score is piecewise linear: a few of the steps straddle a kink.
    assert np.quantile(error, 0.9 if kind == "normal_score" else 1.0) < 1e-4


def test_log_derivative_beyond_the_knees_of_the_sinh_arcsinh() -> None:
    x = np.r_[make("lognormal"), 1e9]
    for flow in (SinhArcsinh.fit(x), SinhArcsinh.fit(-x), SinhArcsinh.fit(np.r_[x, -1e9])):
        at = np.array([-1e12, -1e8, -1e3, -10.0, 10.0, 1e3, 1e8, 1e12])
        step = 1e-6 * np.abs(at)
        slope = (flow.forward(at + step) - flow.forward(at - step)) / (2.0 * step)
        np.testing.assert_allclose(np.log(slope), flow.log_derivative(at), atol=1e-3)


@registry
def test_nan_stays_and_infinity_is_the_largest_float(kind: str) -> None:
    for name in ("normal", "constant", "two values", "skewed left"):
        flow = FLOWS[kind].fit(make(name))
        largest = np.finfo(float).max
        assert np.isnan(flow.forward([np.nan, 1.0])).tolist() == [True, False]
        assert np.isnan(flow.inverse([np.nan, 1.0])).tolist() == [True, False]
        assert np.isnan(flow.log_derivative([np.nan, 1.0])).tolist() == [True, False]
        ends = flow.forward([-largest, largest])
        np.testing.assert_array_equal(flow.forward([-np.inf, np.inf]), ends)


@registry
@columns
def test_save_and_load_bit_by_bit(kind: str, name: str) -> None:
    x = make(name)
    flow = FLOWS[kind].fit(x)
    values = flow.to_dict()
    text = json.dumps(values, allow_nan=False)
    assert json.loads(text) == values
    restored = flow_from_dict(json.loads(text))
    assert restored == flow
    assert type(restored) is FLOWS[kind]
    assert restored.forward(x).tobytes() == flow.forward(x).tobytes()


@registry
@columns
def test_same_data_same_flow(kind: str, name: str) -> None:
    x = make(name)
    assert FLOWS[kind].fit(x) == FLOWS[kind].fit(x)


@columns
def test_kl_is_never_above_that_of_the_affine_map(name: str) -> None:
    x = make(name)
    weights = np.random.default_rng(1).integers(0, 3, x.size).astype(float)
    weights[-1] = 1.0
    for w in (None, weights):
        affine, fitted = Standardize.fit(x, w), SinhArcsinh.fit(x, w)
        assert normal_kl(fitted, x, w) <= normal_kl(affine, x, w) + 1e-9


def test_kl_of_a_lognormal_column_reaches_the_entropy_bound() -> None:
    # KL + const = E[z^2]/2 - E[log g'] is at least 1/2 + E[log x] + log sd(log x), reached by log.
    x = make("lognormal")
    bound = 0.5 + np.log(x).mean() + np.log(np.log(x).std())
    assert normal_kl(SinhArcsinh.fit(x), x) < bound + 0.005
    assert normal_kl(Standardize.fit(x), x) > bound + 0.5


def test_the_half_belongs_in_the_kl() -> None:
    # Without the half, scaling z by 1/sqrt(2) would lower the divergence.
    x = make("normal")
    flow = Standardize.fit(x)
    for factor in (0.5, 2.0**-0.5, 1.1, 2.0):
        scaled = Standardize(flow.center, flow.scale / factor)
        assert normal_kl(scaled, x) > normal_kl(flow, x)
    assert normal_kl(flow, x) == pytest.approx(0.5 + np.log(x.std()))


@pytest.mark.parametrize("side", [-1, 0, 1])
def test_gradient_of_the_objective(side: int) -> None:
    rng = np.random.default_rng(0)
    y = np.sort(rng.normal(size=60))
    mass, density = rng.dirichlet(np.ones(60)), rng.dirichlet(np.ones(60))
    distance = side * y - np.min(side * y)
    for theta in (
        [0.3, 0.2, 0.7, -0.3, -0.5],
        [-2.0, 1.0, -3.0, 1.5, 2.0],
        [9.0, 2.5, 3.0, 1.9, 1.0],
    ):
        at = np.array(theta)
        steps = 1e-6 * np.eye(5)
        args = (y, distance, mass, density, side)
        numeric = [
            (profile_kl(at + s, *args)[0] - profile_kl(at - s, *args)[0]) / 2e-6 for s in steps
        ]
        np.testing.assert_allclose(profile_kl(at, *args)[1], numeric, rtol=1e-5, atol=1e-6)


def test_finite_below_the_training_minimum_minus_one() -> None:
    # An existing implementation took log(x - min + 1) and gave NaN there.
    x = make("lognormal")
    for shifted in (x, x + 100.0, x - 100.0):
        for kind, flow_type in FLOWS.items():
            flow = flow_type.fit(shifted)
            at = shifted.min() - np.array([0.0, 0.5, 1.0, 1.5, 10.0, 1e6])
            z = flow.forward(at)
            assert np.all(np.isfinite(z)), kind
            assert np.all(np.diff(z) < 0), kind


@pytest.mark.parametrize("kind", ["normal_score", "sinh_arcsinh"])
@pytest.mark.parametrize("outlier", [1e2, 1e4, 1e6, 1e20, 1e300, -1e300])
def test_one_outlier_does_not_move_the_bulk(kind: str, outlier: float) -> None:
    x = make("normal")
    flow = FLOWS[kind].fit(np.r_[x, outlier])
    z = flow.forward(x)
    assert abs(z.mean()) < 0.05
    assert abs(z.std() - 1.0) < 0.05
    assert abs(flow.forward([outlier])[0]) < 10.0


@pytest.mark.parametrize("kind", ["normal_score", "sinh_arcsinh"])
def test_an_unseen_outlier_has_a_moderate_score(kind: str) -> None:
    x = make("normal")
    z = FLOWS[kind].fit(x).forward([-1e300, 1e300])
    assert np.all(np.abs(z) < {"normal_score": 400.0, "sinh_arcsinh": 1e6}[kind])
    assert np.all(np.abs(z) > 5.0)


def test_standardize_is_mean_and_standard_deviation() -> None:
    x = make("exponential")
    np.testing.assert_allclose(Standardize.fit(x).forward(x), (x - x.mean()) / x.std(), atol=1e-12)
    assert Standardize.fit([4.0, 4.0]) == Standardize(center=4.0, scale=1.0)


def test_normal_score_is_the_score_of_the_mid_rank() -> None:
    x = np.array([3.0, 1.0, 1.0, 1.0, 2.0, 8.0])
    expected = ndtri(np.array([4.5, 1.5, 1.5, 1.5, 3.5, 5.5]) / 6.0)
    np.testing.assert_allclose(NormalScore.fit(x).forward(x), expected, atol=1e-12)


def test_normal_score_keeps_few_knots_and_little_error() -> None:
    x = np.exp(np.random.default_rng(0).normal(size=100_000))
    flow = NormalScore.fit(x)
    assert len(flow.knots) <= 256
    ranks = (np.argsort(np.argsort(x)) + 0.5) / x.size
    assert np.max(np.abs(ndtr(flow.forward(x)) - ranks)) < 0.002


def test_normal_score_joins_knots_whose_scores_coincide() -> None:
    # Weights too small to move the cdf would give 0/0 between two knots.
    flow = NormalScore.fit([1.0, 2.0, 3.0, 4.0], weights=[1.0, 1e-30, 1e-30, 1.0])
    assert np.all(np.diff(flow.scores) > 0)
    assert np.all(np.diff(flow.forward(np.linspace(0.0, 5.0, 51))) > 0)


def test_an_atom_does_not_flatten_the_rest() -> None:
    # The KL alone rewards any slope at a tie: the values beside it would lose their distances.
    x = make("spike")
    flow = SinhArcsinh.fit(x)
    rest = flow.forward(x[x != 0.0])
    assert np.corrcoef(rest, x[x != 0.0])[0, 1] > 0.99


@registry
@pytest.mark.parametrize("name", ["normal", "lognormal", "integers", "zero inflated", "outlier"])
def test_integer_weights_are_repeated_rows(kind: str, name: str) -> None:
    x = make(name)
    weights = np.random.default_rng(2).integers(0, 3, x.size)
    weights[-1] = 1
    weighted = FLOWS[kind].fit(x, weights)
    repeated = FLOWS[kind].fit(np.repeat(x, weights))
    at = np.sort(x)
    np.testing.assert_allclose(weighted.forward(at), repeated.forward(at), rtol=1e-4, atol=1e-4)


@registry
def test_a_row_of_weight_zero_is_absent(kind: str) -> None:
    x = make("lognormal")
    weights = np.ones(x.size + 1)
    weights[-1] = 0.0
    fitted = FLOWS[kind].fit(np.r_[x, 1e300], weights)
    z = fitted.forward(x)
    np.testing.assert_allclose(z, FLOWS[kind].fit(x).forward(x), rtol=1e-6, atol=1e-6)


@registry
def test_shapes_and_dtypes_of_the_input_do_not_matter(kind: str) -> None:
    flow = FLOWS[kind].fit(np.array([1, 2, 3, 5, 8, 13, 21, 34, 55, 89]))
    grid = np.arange(6).reshape(2, 3)
    z = flow.forward(grid)
    assert z.shape == (2, 3)
    assert z.dtype == np.float64
    assert flow.forward(4.0).shape == ()
    np.testing.assert_array_equal(z.ravel(), flow.forward(grid.astype(np.float32).ravel()))


@registry
def test_inputs_are_not_changed(kind: str) -> None:
    x = make("lognormal")
    x.flags.writeable = False
    flow = FLOWS[kind].fit(x)
    z = flow.forward(x)
    z.flags.writeable = False
    flow.inverse(z)
    flow.log_derivative(x)


@registry
@pytest.mark.parametrize(
    ("x", "weights", "message"),
    [
        ([], None, "at least one value, got shape"),
        ([[1.0, 2.0]], None, "Pass a 1-D array"),
        ([1.0, np.nan, np.inf], None, "2 of 3 are NaN or infinite"),
        ([1.0, 2.0], [1.0], "Pass one weight per row"),
        ([1.0, 2.0], [1.0, -1.0], "smallest is -1"),
        ([1.0, 2.0], [0.0, 0.0], "at least one positive"),
        ([1.0, 2.0], [np.nan, 1.0], "finite and nonnegative"),
    ],
)
def test_errors_say_what_where_and_how(
    kind: str, x: list[float], weights: list[float] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        FLOWS[kind].fit(x, weights)


def test_errors_of_restoring() -> None:
    with pytest.raises(ValueError, match="known kinds are"):
        flow_from_dict({"kind": "spline"})
    with pytest.raises(ValueError, match="Pass what to_dict"):
        flow_from_dict({"kind": "none", "center": 1.0})
    with pytest.raises(ValueError, match="expected kind 'none'"):
        Standardize.from_dict(SinhArcsinh.fit([1.0, 2.0]).to_dict())


@pytest.mark.slow
@registry
@pytest.mark.parametrize("weighted", [False, True])
def test_five_million_values_take_a_few_seconds(kind: str, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    x = np.exp(rng.normal(size=5_000_000))
    weights = rng.uniform(size=x.size) if weighted else None
    # The time of this thread: that of others on the machine says nothing about the flow.
    start = time.thread_time()
    flow = FLOWS[kind].fit(x, weights)
    elapsed = time.thread_time() - start
    z = flow.forward(x)
    assert elapsed < 3.0
    assert abs(np.average(z, weights=weights)) < 1e-3
    if kind != "none":
        for level in (0.05, 0.5, 0.95):
            assert np.mean(z < norm.ppf(level)) == pytest.approx(level, abs=0.01)
