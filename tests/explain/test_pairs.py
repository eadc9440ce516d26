"""Pairs: surfaces, lines by level and tiles, with the values that the estimator gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex
from matplotlib.contour import QuadContourSet
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
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
from oakgp.explain.mains import Settings
from oakgp.explain.pairs import Lines, Pair, Surface, Tiles, pair
from oakgp.explain.style import LINES

TABLE = frame()


def picture(first: str, second: str, **options: Any) -> Pair:
    part = component(first, second)
    i, j = ("abcd".index(name) for name in (first, second))
    return pair(part, i, j, axes_of(fitted()), options.pop("how", HOW), **options)


def drawn(first: str, second: str, **options: Any) -> tuple[Axes, Any]:
    ax, view = panel(), picture(first, second, **options)
    view.draw(ax, view.limit, 28)
    return ax, view


def of_type(ax: Axes, kind: type) -> list[Any]:
    return [each for each in ax.collections if isinstance(each, kind)]


def dots(ax: Axes) -> list[Rectangle]:
    return [each for each in ax.patches if each.get_hatch()]


# -- two numbers ----------------------------------------------------------------------------------


def test_a_surface_has_the_values_of_the_component() -> None:
    ax, view = drawn("a", "b")
    assert isinstance(view, Surface)
    x, y = np.meshgrid(view.x, view.y)
    mean, sd = fitted().component(rows(a=x.ravel(), b=y.ravel()), ("a", "b"))
    inner = view.mean[: len(view.y), : len(view.x)]
    np.testing.assert_allclose(inner.ravel(), mean, atol=1e-8)
    doubt = view.doubt[: len(view.y), : len(view.x)].ravel()
    # Deviations at many points leave out what adds next to nothing.
    np.testing.assert_allclose(doubt, np.abs(mean) - 2 * sd, atol=1e-4)
    filled, hatched = of_type(ax, QuadContourSet)
    assert (filled.zmin, filled.zmax) == (inner.min(), inner.max())
    assert hatched.hatches == ["...."]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "b")


def test_colours_are_symmetric_about_no_effect() -> None:
    ax, view = drawn("a", "b")
    levels = of_type(ax, QuadContourSet)[0].levels
    np.testing.assert_allclose(levels, -levels[::-1], atol=1e-12)
    assert levels[-1] == view.limit == np.abs(view.mean).max()


def test_missing_values_of_a_surface_are_a_strip() -> None:
    ax, view = drawn("a", "b")
    (strip,) = of_type(ax, QuadMesh)
    mean, sd = fitted().component(rows(a=view.x, b=np.nan), ("a", "b"))
    np.testing.assert_allclose(strip.get_array().ravel(), mean, atol=1e-8)
    assert strip.get_clim() == (-view.limit, view.limit)
    assert strip.get_coordinates()[..., 1].min() > view.b.high
    assert len(dots(ax)) == (np.abs(mean) < 2 * sd).sum()


def test_rows_of_a_table_are_drawn_over_a_surface() -> None:
    many = np.linspace(-1.0, 1.0, 2000)
    ax, _ = drawn("a", "b", points=(many, many + 2.0))
    (cloud,) = [line for line in ax.lines if line.get_marker() == "o"]
    assert 300 <= len(cloud.get_xdata()) <= 600
    np.testing.assert_allclose(cloud.get_ydata() - cloud.get_xdata(), 2.0)
    without, _ = drawn("a", "b")
    assert not [line for line in without.lines if line.get_marker() == "o"]


def test_a_certain_surface_has_no_dots() -> None:
    certain, _ = drawn("a", "b", how=Settings(n_grid=30, bands=0.0))
    assert len(of_type(certain, QuadContourSet)) == 1
    assert not dots(certain)


# -- a number and levels --------------------------------------------------------------------------


@pytest.mark.parametrize("order", [("a", "c"), ("c", "a")])
def test_each_level_has_its_line(order: tuple[str, str]) -> None:
    ax, view = drawn(*order)
    assert isinstance(view, Lines)
    lines = [line for line in ax.lines if len(line.get_xdata()) > 2]
    assert [line.get_label() for line in lines] == ["blue", "green", "red"]
    assert [line.get_color() for line in lines] == list(LINES[:3])
    for k, line in enumerate(lines):
        x, y = line.get_data()
        mean, sd = fitted().component(rows(a=x, c=line.get_label()), ("a", "c"))
        np.testing.assert_allclose(y, mean, atol=1e-8)
        low, high = band(ax, k)[x[3]]
        assert (low, high) == pytest.approx((mean[3] - 2 * sd[3], mean[3] + 2 * sd[3]), abs=1e-6)
    assert ax.get_xlabel() == "a"


def test_missing_values_of_both() -> None:
    ax, view = drawn("b", "d")
    found = points(ax)
    assert len(found) == 3
    assert len({float(at[0]) for at, _, _ in found}) == 3  # side by side
    for (_, mean, half), level in zip(found, ["no", "yes", None], strict=True):
        truth = fitted().component(rows(b=[np.nan], d=[level]), ("b", "d"))
        assert mean[0] == pytest.approx(truth[0][0], abs=1e-8)
        assert half[0] == pytest.approx(2 * truth[1][0], rel=1e-6)
    view.annotate([ax], view.limit)
    assert texts(ax.get_legend().get_texts()) == ["no", "yes", "missing"]
    assert ax.get_legend().get_title().get_text() == "d"


def test_of_many_levels_the_frequent_ones_have_lines() -> None:
    levels = np.repeat([f"l{k}" for k in range(9)], range(1, 10))
    table = pd.DataFrame({"x": np.linspace(0, 1, 45), "long name of levels": levels})
    model = OAKRegressor(max_iter=1, flow="none", max_order=2).fit(table, np.arange(45.0) % 7)
    ax = model.plot_components(terms=[(0, 1)]).axes[0]
    legend = ax.get_legend()
    assert texts(legend.get_texts()) == ["l3", "l4", "l5", "l6", "l7", "l8"]
    assert legend.get_title().get_text() == "long name…vels\n(6 of 9)"


# -- two kinds of levels --------------------------------------------------------------------------


@pytest.mark.parametrize("order", [("c", "d"), ("d", "c")])
def test_each_pair_of_levels_has_its_tile(order: tuple[str, str]) -> None:
    ax, view = drawn(*order)
    assert isinstance(view, Tiles)
    (tiles,) = of_type(ax, QuadMesh)
    across, upward = (texts(labels) for labels in (ax.get_xticklabels(), ax.get_yticklabels()))
    assert {frozenset(across), frozenset(upward)} == {
        frozenset({"blue", "green", "red"}),
        frozenset({"no", "yes", "missing"}),
    }
    values = tiles.get_array().reshape(3, 3)
    written = iter(ax.texts)
    for row, column in np.ndindex(3, 3):
        names = {ax.get_xlabel(): across[column], ax.get_ylabel(): upward[row]}
        given = {k: [None if v == "missing" else v] for k, v in names.items()}
        mean, sd = (part[0] for part in fitted().component(rows(**given), ("c", "d")))
        assert values[row, column] == pytest.approx(mean, abs=1e-8)
        text = next(written)
        assert text.get_position() == (column, row)
        value, deviation = text.get_text().replace("\N{MINUS SIGN}", "-").split("\n±")
        assert float(value) == pytest.approx(mean, abs=0.05 * view.limit)
        assert float(deviation) == pytest.approx(sd, abs=0.05 * view.limit)
    assert tiles.get_clim() == (-view.limit, view.limit)


def test_tiles_whose_band_includes_zero_are_dotted() -> None:
    for bands in (0.0, 2.0, 1e6):
        ax, view = drawn("c", "d", how=Settings(30, bands))
        doubtful = np.abs(view.mean) < bands * view.sd
        places = {(round(r.get_y() + 0.5), round(r.get_x() + 0.5)) for r in dots(ax)}
        assert places == set(map(tuple, np.argwhere(doubtful).tolist()))
        assert {r.get_hatch() for r in dots(ax)} <= {"...."}
    assert len(places) == 9


def test_numbers_on_dark_tiles_are_light() -> None:
    ax, view = drawn("c", "d")
    for text, value in zip(ax.texts, view.mean.ravel(), strict=True):
        light = to_hex(text.get_color()) == "#ffffff"
        assert light == (abs(value) > 0.6 * view.limit)


def many_levels() -> OAKRegressor:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "few": rng.choice(["u", "v"], 120),
            "many": np.resize([f"level {k:02d}" for k in range(30)], 120),
        }
    )
    y = (table["few"] == "u") * table["many"].str[-2:].astype(float)
    return OAKRegressor(max_iter=1, max_order=2, rank=1).fit(table, y)


def test_the_longer_list_of_levels_stands_upright_and_is_cut() -> None:
    model = many_levels()
    ax = model.plot_components(terms=[("few", "many")]).axes[0]
    assert texts(ax.get_xticklabels()) == ["u", "v"]
    names = texts(ax.get_yticklabels())
    assert len(names) == 12
    assert names == sorted(names)
    assert ax.get_xlabel() == "few (24 of 60 tiles)"
    mean, _ = model.component(pd.DataFrame({"few": "u", "many": names}), ("few", "many"))
    (tiles,) = of_type(ax, QuadMesh)
    np.testing.assert_allclose(tiles.get_array().reshape(12, 2)[:, 0], mean, atol=1e-8)


def test_the_bar_of_colours_stands_beside_the_panels() -> None:
    figure = Figure()
    ax, view = figure.add_subplot(), picture("c", "d")
    view.draw(ax, 2.0, 28)
    view.annotate([ax], 2.0)
    bar = figure.axes[1]
    assert bar.get_ylim() == (-2.0, 2.0)
    assert bar.get_ylabel() == "effect on the response"
