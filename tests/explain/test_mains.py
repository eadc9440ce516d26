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
from oakgp.explain.component import simultaneous_factor
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
        means, sds = fitted().component(rows(**{name: levels}), name)
        # By effect, "missing" last.
        order = sorted(range(3), key=lambda k: (levels[k] is None, means[k]))
        np.testing.assert_array_equal(at, [0, 1, 2])
        np.testing.assert_allclose(mean, means[order], atol=1e-8)
        np.testing.assert_allclose(half, 2 * sds[order], rtol=1e-6)
        assert texts(ax.get_xticklabels()) == [labels[k] for k in order]
        shares = TABLE[name].value_counts(dropna=False)
        counts = np.array([shares[levels[k]] for k in order])
        heights = np.array([bar.get_height() for bar in ax.patches])
        np.testing.assert_allclose(heights / heights.max(), counts / counts.max())
        assert texts(ax.texts) == [str(count) for count in counts]


def test_counts_are_those_of_the_table_given() -> None:
    some = TABLE[:20]
    ax = drawn("c", X=some)
    shown = dict(zip(texts(ax.get_xticklabels()), texts(ax.texts), strict=True))
    assert shown == {level: str(count) for level, count in some["c"].value_counts().items()}


def test_levels_whose_order_means_something_keep_it() -> None:
    rng = np.random.default_rng(2)
    sizes = pd.Categorical(rng.choice(["S", "M", "L"], 60), categories=["S", "M", "L"])
    table = pd.DataFrame({"size": sizes, "grade": rng.choice([1, 2, 3], 60)})
    y = np.where(sizes == "M", 2.0, 0.0) - (table["grade"] == 2) + 0.1 * rng.standard_normal(60)
    model = OAKRegressor(max_iter=3, max_order=1, categorical_features=["grade"]).fit(table, y)
    size, grade = model.plot_components(terms=["size", "grade"]).axes
    assert texts(size.get_xticklabels()) == ["S", "M", "L"]
    assert texts(grade.get_xticklabels()) == ["1", "2", "3"]


def test_the_outer_band_holds_the_whole_curve() -> None:
    how = Settings(n_grid=25, bands=2.0, simultaneous=True)
    ax = drawn("b", how)
    inner, outer = band(ax, 0), band(ax, 1)
    assert inner.keys() == outer.keys()
    part = component("b")
    axis = axes_of(fitted())[part.term[0]]
    grid = np.r_[axis.coordinates(axis.grid(25)), np.nan]
    factor = part.simultaneous_factor({part.term[0]: grid}, how.coverage)
    assert factor > 2.3
    for at, (low, high) in inner.items():
        assert outer[at][1] - outer[at][0] == pytest.approx(factor / 2.0 * (high - low))
    # Draws of the function itself stay within it as often as they should.
    x = part._rows({part.term[0]: grid})
    posterior = part.model.posterior
    draws = posterior.sample(x, 2000, seed=9, term=part.term).numpy()
    mean, sd = part({part.term[0]: grid})
    inside = np.abs(part.model.scale * draws - mean) <= factor * sd + 1e-4 * sd.max()
    assert inside.all(axis=1).mean() == pytest.approx(how.coverage, abs=0.03)
    single = np.abs(part.model.scale * draws - mean) <= 2.0 * sd + 1e-4 * sd.max()
    assert single.all(axis=1).mean() < how.coverage - 0.03


def test_the_factor_of_simple_vectors() -> None:
    assert simultaneous_factor(np.ones((5, 5)), 0.9) == pytest.approx(1.645, abs=0.06)
    assert simultaneous_factor(np.zeros((3, 3)), 0.9) == pytest.approx(1.6449, abs=1e-3)
    # Of independent ones: the 0.9^(1/10) quantile of each.
    assert simultaneous_factor(np.eye(10), 0.9) == pytest.approx(2.56, abs=0.06)


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
    shown = np.argsort(-np.abs(mean))[:20]
    shown = shown[np.argsort(mean[shown])]
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
