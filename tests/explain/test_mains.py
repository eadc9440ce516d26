"""Main effects: curves, bands, histograms, levels and missing values as they are drawn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from tests.explain.models import (
    HOW,
    axes_of,
    band,
    component,
    fitted,
    frame,
    panel,
    points,
    rows,
    texts,
)

from oakgp import OAKRegressor
from oakgp.explain.mains import Settings, draw_main, finish_numeric
from oakgp.explain.style import literal
from oakgp.kernels import Periodic

TABLE = frame()


def drawn(name: str, how: Settings = HOW, X: pd.DataFrame | None = None) -> Axes:
    ax, part = panel(), component(name)
    (i,) = part.term
    draw_main(ax, part, i, axes_of(fitted(), X)[i], how)
    return ax


@pytest.mark.parametrize("name", ["a", "b"])
def test_the_curve_and_its_band(name: str) -> None:
    ax = drawn(name, Settings(n_grid=25, bands=1.5))
    line = max(ax.lines, key=lambda each: len(each.get_xdata()))
    x, y = line.get_data()
    mean, sd = fitted().component(rows(**{name: x}), name)
    np.testing.assert_allclose(y, mean, atol=1e-8)
    ends = band(ax)
    for at, low, high in zip(x, mean - 1.5 * sd, mean + 1.5 * sd, strict=True):
        assert ends[at] == pytest.approx((low, high), abs=1e-8)
    assert x.min() == TABLE[name].min()
    assert ax.get_xlim()[0] < x.min()
    assert ax.get_xlabel() == name


def test_missing_values_stand_apart() -> None:
    ax = drawn("b")
    ((at, mean, half),) = points(ax)
    truth = fitted().component(rows(b=[np.nan]), "b")
    assert mean[0] == pytest.approx(truth[0][0], abs=1e-8)
    assert half[0] == pytest.approx(2 * truth[1][0], rel=1e-6)
    curve = max(ax.lines, key=lambda each: len(each.get_xdata())).get_xdata()
    (rule,) = [line for line in ax.lines if line.get_linestyle() == "--"]
    assert curve.max() < rule.get_xdata()[0] < at[0] < ax.get_xlim()[1]
    labels = dict(zip(texts(ax.get_xticklabels()), ax.get_xticks(), strict=True))
    assert labels["missing"] == at[0]
    assert all(tick < rule.get_xdata()[0] for text, tick in labels.items() if text != "missing")
    assert "missing" not in texts(drawn("a").get_xticklabels())


def test_the_histogram_lies_below_the_curve() -> None:
    ax = drawn("a")
    bars = [patch for patch in ax.patches if patch.get_height() > 0]
    heights = np.array([bar.get_height() for bar in ax.patches])
    counts, edges = np.histogram(TABLE["a"], 28)
    np.testing.assert_allclose(heights / heights.max(), counts / counts.max(), atol=1e-12)
    np.testing.assert_allclose([bar.get_x() for bar in ax.patches], edges[:-1], atol=1e-12)
    top = max(bar.get_y() + bar.get_height() for bar in bars)
    low, high = ax.get_ylim()
    lowest = min(end for end, _ in band(ax).values())
    assert top < (lowest - low) / (high - low)


def test_the_histogram_is_that_of_the_table_given() -> None:
    some = TABLE[TABLE["a"] > 0.2]
    ax = drawn("a", X=some)
    counts, edges = np.histogram(some["a"], 28)
    heights = np.array([bar.get_height() for bar in ax.patches])
    np.testing.assert_allclose(heights / heights.max(), counts / counts.max(), atol=1e-12)
    assert ax.patches[0].get_x() == pytest.approx(edges[0])


def test_few_distinct_values_have_a_bar_each() -> None:
    count = np.repeat([0.0, 1.0, 4.0], [5, 10, 15])
    model = OAKRegressor(max_iter=1, flow="none").fit(count[:, None], np.sqrt(count))
    ax = model.plot_components(terms="x0").axes[0]
    places = [bar.get_x() + 0.5 * bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(places, [0.0, 1.0, 4.0], atol=1e-9)
    heights = np.array([bar.get_height() for bar in ax.patches])
    np.testing.assert_allclose(heights / heights[2], [1 / 3, 2 / 3, 1.0])


def test_levels_are_points_with_bars_over_their_frequencies() -> None:
    for name, labels in (("c", ["blue", "green", "red"]), ("d", ["no", "yes", "missing"])):
        ax = drawn(name)
        ((at, mean, half),) = points(ax)
        levels = [None if label == "missing" else label for label in labels]
        truth = fitted().component(rows(**{name: levels}), name)
        np.testing.assert_array_equal(at, [0, 1, 2])
        np.testing.assert_allclose(mean, truth[0], atol=1e-8)
        np.testing.assert_allclose(half, 2 * truth[1], rtol=1e-6)
        assert texts(ax.get_xticklabels()) == labels
        shares = TABLE[name].value_counts(dropna=False)
        counts = np.array([shares[level] for level in levels])
        heights = np.array([bar.get_height() for bar in ax.patches])
        np.testing.assert_allclose(heights / heights.max(), counts / counts.max())


def test_of_sixty_levels_those_that_explain_most_are_shown() -> None:
    rng = np.random.default_rng(1)
    names = [f"a level with the long name {k:02d}" for k in range(60)]
    levels = np.array(names * 2)
    y = np.tile(rng.standard_normal(60), 2)
    y[::60] += 20.0
    table = pd.DataFrame({"what $ kind of a thing it is, said at length": levels})
    model = OAKRegressor(max_iter=1, rank=1).fit(table, y)
    ax = model.plot_components().axes[0]
    mean, _ = model.component(table[:60], table.columns[0])
    shown = np.sort(np.argsort(-np.abs(mean))[:20])
    ((_, drawn_mean, _),) = points(ax)
    np.testing.assert_allclose(drawn_mean, mean[shown], atol=1e-8)
    assert texts(ax.get_xticklabels()) == [literal(names[k], 18) for k in shown]
    assert ax.get_xlabel() == r"what \$ kind of…length (20 of 60 levels)"
    assert len(ax.get_xlabel()) <= 42
    assert ax.get_xticklabels()[0].get_rotation() == 90


def test_one_level_and_missing() -> None:
    table = pd.DataFrame({"c": ["only", None] * 10})
    model = OAKRegressor(max_iter=1).fit(table, np.arange(20.0) % 2)
    ax = model.plot_components().axes[0]
    assert texts(ax.get_xticklabels()) == ["only", "missing"]
    ((_, mean, _),) = points(ax)
    np.testing.assert_allclose(mean, model.component(table[:2], "c")[0], atol=1e-8)


def test_a_cycle_ends_where_it_begins() -> None:
    hour = np.linspace(0.0, 70.0, 60)
    model = OAKRegressor(max_iter=3, kernel=Periodic(period=24.0))
    model.fit(hour[:, None], np.sin(2 * np.pi * hour / 24.0))
    ax = model.plot_components().axes[0]
    x, y = max(ax.lines, key=lambda each: len(each.get_xdata())).get_data()
    assert (x[0], x[-1]) == (0.0, 24.0)
    assert y[0] == pytest.approx(y[-1], abs=1e-8)
    assert np.ptp(y) > 1.0


@pytest.mark.parametrize("room", [18, 28, 40])
def test_no_number_lies_over_the_word_missing(room: int) -> None:
    rng = np.random.default_rng(3)
    x = np.where(rng.random(60) < 0.3, np.nan, rng.uniform(0.0, 187_000.0, 60))
    model = OAKRegressor(max_iter=1, flow="none").fit(x[:, None], rng.standard_normal(60))
    ax, axis = panel(), axes_of(model)[0]
    finish_numeric(ax, axis, room=room)
    low, high = axis.limits
    at = room * (ax.get_xticks() - low) / (high - low)  # in characters
    half = np.array([0.5 * len(text) for text in texts(ax.get_xticklabels())])
    assert (at[:-1] + half[:-1] < at[-1] - half[-1]).all()
    assert len(at) > 1
