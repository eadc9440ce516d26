"""Ranges, samples and values of the axes that features are drawn along."""

from __future__ import annotations

import numpy as np
import pytest
from tests.explain.models import axes_of, fitted, frame

from oakgp import OAKRegressor
from oakgp.explain.feature_axis import LevelAxis, NumericAxis, feature_axis, weighted_quantiles
from oakgp.kernels import Periodic

TABLE = frame()


def numeric(values: np.ndarray, **options: object) -> NumericAxis:
    """The axis of a column, as a model of it has it."""
    model = OAKRegressor(max_iter=1, flow="normal_score", **options)
    model.fit(values[:, None], np.cos(np.arange(len(values))))
    axis = feature_axis(model.model_, 0, None)
    assert isinstance(axis, NumericAxis)
    return axis


def test_a_numeric_axis_spans_the_values_in_their_own_units() -> None:
    axes = axes_of(fitted())
    a, b = axes[0], axes[1]
    assert isinstance(a, NumericAxis)
    assert isinstance(b, NumericAxis)
    assert (a.low, a.high) == pytest.approx((TABLE["a"].min(), TABLE["a"].max()))
    np.testing.assert_allclose(np.sort(a.sample), np.sort(TABLE["a"]), rtol=1e-9)
    assert not a.has_missing
    assert b.has_missing
    assert b.limits[0] < b.low < b.high < b.missing_at < b.limits[1]


def test_a_level_axis_has_labels_codes_and_shares() -> None:
    axis = axes_of(fitted())[3]
    assert isinstance(axis, LevelAxis)
    assert axis.labels == ("no", "yes", "missing")
    np.testing.assert_array_equal(axis.codes, [0.0, 1.0, np.nan])
    shares = TABLE["d"].value_counts(dropna=False, normalize=True)
    np.testing.assert_allclose(axis.shares, [shares["no"], shares["yes"], shares[None]])


def test_the_distribution_of_another_table() -> None:
    some = TABLE[TABLE["a"] > 0.2].assign(c="green")
    axes = axes_of(fitted(), some)
    np.testing.assert_array_equal(axes[0].sample, some["a"])
    assert axes[0].low == some["a"].min()
    np.testing.assert_array_equal(axes[2].shares, [0.0, 1.0, 0.0])
    unseen = axes_of(fitted(), some.assign(c="never seen", b=np.nan))
    np.testing.assert_array_equal(unseen[2].shares, 0.0)
    assert unseen[1].low == axes_of(fitted())[1].low  # nothing to show: that of training


def test_the_grid_stays_within_the_range_and_is_denser_where_the_data_are() -> None:
    axis = axes_of(fitted())[1]
    grid = axis.grid(60)
    assert (np.diff(grid) > 0).all()
    assert (grid[0], grid[-1]) == (axis.low, axis.high)
    middle = 0.5 * (axis.low + axis.high)
    assert (grid < middle).sum() > 1.5 * (grid > middle).sum()  # of a skewed column


@pytest.mark.parametrize("outlier", [30.0, 1e6, 1e300])
def test_a_far_value_is_out_of_the_picture(outlier: float) -> None:
    values = np.r_[np.linspace(-1.0, 1.0, 30), outlier]
    axis = numeric(values)
    assert axis.low == pytest.approx(-1.0)
    assert axis.high == pytest.approx(1.0)


def test_values_that_are_nearly_all_equal() -> None:
    axis = numeric(np.r_[np.zeros(40), 1.0, 2.0])
    assert axis.low == pytest.approx(0.0)
    assert axis.high == pytest.approx(2.0)


def test_a_periodic_axis_is_one_cycle() -> None:
    axis = numeric(np.linspace(-30.0, 40.0, 25), kernel=Periodic(period=24.0))
    assert (axis.low, axis.high) == (0.0, 24.0)
    assert ((axis.sample >= 0) & (axis.sample <= 24.0)).all()
    np.testing.assert_allclose(axis.coordinates(np.array([0.0, 12.0, 24.0])), [0.0, 0.5, 1.0])


def test_slices_are_a_low_a_middle_and_a_high_value_or_the_frequent_levels() -> None:
    axes = axes_of(fitted())
    texts, at = zip(*axes[0].slices(3), strict=True)
    want = np.quantile(TABLE["a"], [0.1, 0.5, 0.9], method="inverted_cdf")
    back = fitted().model_.columns[0].flow.inverse(np.array(at))
    np.testing.assert_allclose(back, want, rtol=1e-9)
    assert [float(t.replace("\N{MINUS SIGN}", "-")) for t in texts] == pytest.approx(want, rel=5e-3)
    assert axes[2].slices(2) == [("green", 1.0), ("red", 2.0)]


def test_quantiles_are_values_of_the_sample() -> None:
    sample, weights = np.array([3.0, 1.0, 2.0, 100.0]), np.array([0.2, 0.5, 0.2, 0.1])
    levels = np.array([0.0, 0.5, 0.51, 0.9, 1.0])
    assert list(weighted_quantiles(sample, weights, levels)) == [1.0, 1.0, 2.0, 3.0, 100.0]
