"""Which components are drawn, where, and under which title."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError
from tests.explain.models import axes_of, fitted, frame, response

from oakgp import OAKRegressor
from oakgp.explain import plot_components, plot_sobol
from oakgp.explain.style import percent
from oakgp.kernels import Periodic

TABLE = frame()


def panels(figure: Any) -> list[Axes]:
    return [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]


def titles(figure: Any) -> list[str]:
    found = [ax.get_title().partition("\n")[0] for ax in panels(figure)]
    return [title for title in found if title]


def test_the_largest_components_come_first_with_their_shares() -> None:
    table = fitted().components_
    figure = plot_components(fitted(), max_terms=4)
    assert titles(figure) == [
        f"{term}  ({percent(share)})"
        for term, share in zip(table["term"][:4], table["share"][:4], strict=True)
    ]


def test_terms_are_drawn_as_they_are_asked_for() -> None:
    share = dict(zip(fitted().components_["term"], fitted().components_["share"], strict=True))
    figure = plot_components(fitted(), terms=["d", ("c", "a"), 1, "d"])
    assert titles(figure) == [f"{n}  ({percent(share[n])})" for n in ("d", "a × c", "b")]
    assert titles(plot_components(fitted(), terms="a × b"))[0].startswith("a × b")
    assert titles(plot_components(fitted(), terms=2))[0].startswith("c ")


def test_a_shorter_model_shows_what_it_kept() -> None:
    short = fitted().truncate(n_terms=2)
    kept = list(short.get_feature_names_out())
    assert [title.partition("  ")[0] for title in titles(plot_components(short))] == kept
    # What was dropped can still be looked at.
    assert len(titles(plot_components(short, terms=["a", "b", "c"]))) == 3


def test_a_model_that_is_not_orthogonal_has_main_effects_without_shares() -> None:
    model = fitted(orthogonal=False, max_order=1)
    figure = plot_components(model, max_terms=3)
    assert titles(figure) == ["a", "b", "c"]
    x, y = max(panels(figure)[0].lines, key=lambda each: len(each.get_xdata())).get_data()
    mean, _ = model.component(pd.DataFrame({"a": x, "b": 1.0, "c": "red", "d": "no"}), "a")
    np.testing.assert_allclose(y, mean, atol=1e-8)


def test_the_product_kernel() -> None:
    model = fitted(variant="product", max_order=None)
    figure = plot_components(model, max_terms=3)
    table = model.components_
    assert titles(figure)[0] == f"{table['term'][0]}  ({percent(table['share'][0])})"
    assert len(titles(plot_components(model, terms=[("a", "b", "c", "d")]))) == 1


def test_a_model_that_learned_nothing_shows_flat_effects() -> None:
    model = OAKRegressor(max_iter=1, max_order=1).fit(TABLE, np.ones(len(TABLE)))
    figure = plot_components(model)
    assert titles(figure) == [f"{name}  (0.0%)" for name in "abcd"]
    line = max(panels(figure)[0].lines, key=lambda each: len(each.get_xdata()))
    np.testing.assert_array_equal(line.get_ydata(), 0.0)
    figure.canvas.draw()


def test_rows_are_drawn_over_surfaces_in_their_units() -> None:
    figure = plot_components(fitted(), TABLE[:20], terms=[("a", "b")])
    (cloud,) = [line for line in panels(figure)[0].lines if line.get_marker() == "o"]
    np.testing.assert_array_equal(cloud.get_xdata(), TABLE["a"][:20])
    np.testing.assert_array_equal(cloud.get_ydata(), TABLE["b"][:20])


def test_rows_of_a_periodic_feature_are_drawn_in_one_cycle() -> None:
    rng = np.random.default_rng(0)
    x = np.c_[rng.uniform(-24.0, 96.0, 40), rng.standard_normal(40)]
    model = OAKRegressor(
        max_iter=1, max_order=2, flow="none", kernel={"x0": Periodic(period=24.0)}
    ).fit(x, x[:, 1] * np.sin(x[:, 0]))
    ax = panels(plot_components(model, x, terms=[(0, 1)]))[0]
    (cloud,) = [line for line in ax.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(cloud.get_xdata(), x[:, 0] % 24.0)
    assert ax.get_xlim() == axes_of(model)[0].limits


def test_names_with_dollars_and_without_end_are_drawn_as_text() -> None:
    name = "price in $ per m$^2$ of the floor, as it was asked for in the first advertisement"
    table = pd.DataFrame({name: TABLE["a"], "kind_$": TABLE["c"].replace("red", "$_{}$")})
    model = OAKRegressor(max_iter=1, max_order=2, flow="none").fit(table, response(TABLE))
    figure = plot_components(model, terms=[0, 1, (0, 1)])
    figure.canvas.draw()  # a formula with an error would fail here
    first, second, both = titles(figure)
    assert first.startswith(r"price in \$ per")
    assert len(first) <= 40
    assert second.startswith(r"kind_\$")
    assert both.partition(" × ")[2].startswith(r"kind_\$")
    drawn = [label for ax in panels(figure) for label in ax.get_xticklabels()]
    assert r"\$_{}\$" in [label.get_text() for label in drawn]
    labels = [ax.title for ax in panels(figure)] + [ax.xaxis.label for ax in panels(figure)]
    assert not any(each._preprocess_math(each.get_text())[1] for each in labels + drawn)


def test_a_figure_that_is_given_is_drawn_into() -> None:
    figure = plt.figure(layout="constrained")
    left, right = figure.subfigures(1, 2)
    assert plot_components(fitted(), terms=["a", "c"], figure=left) is left
    assert plot_sobol(fitted(), figure=right) is right
    assert len(left.axes) == 2
    assert len(right.axes) == 1
    assert plt.get_fignums() == [figure.number]
    own = Figure()
    assert plot_components(fitted(), terms="a", figure=own) is own


def test_panels_stand_side_by_side_and_share_the_name_of_their_axis() -> None:
    figure = plot_components(fitted(), terms=["a", "b", "c", "d"], columns=2)
    figure.canvas.draw()
    places = [ax.get_position() for ax in panels(figure)]
    assert [ax.get_ylabel() for ax in panels(figure)] == ["effect on the response", ""] * 2
    assert places[0].y0 == pytest.approx(places[1].y0, abs=0.02)
    assert places[2].y1 < places[0].y0
    assert places[1].x0 > places[0].x1
    wide, tall = figure.get_size_inches()
    assert (wide, tall) == (2 * 3.2, 2 * 2.45)


def test_nothing_that_is_written_overlaps() -> None:
    """Ticks, names and titles of a figure of all kinds keep clear of each other."""
    terms = ["a", "b", "c", ("a", "b"), ("b", "d"), ("c", "d"), ("a", "b", "c")]
    figure = plot_components(fitted(), terms=terms)
    figure.canvas.draw()
    page = figure.bbox
    for ax in panels(figure):
        ticks = [each for each in ax.get_xticklabels() if each.get_text() and each.get_visible()]
        boxes = sorted((each.get_window_extent() for each in ticks), key=lambda box: box.x0)
        for left, right in pairwise(boxes):
            assert left.x1 <= right.x0 + 1
        for text in (ax.title, ax.xaxis.label, ax.yaxis.label):
            box = text.get_window_extent()
            assert box.x0 >= page.x0 - 1
            assert box.x1 <= page.x1 + 1


def test_plots_by_the_estimators_method() -> None:
    assert titles(fitted().plot_components(terms="a")) == titles(
        plot_components(fitted(), terms="a")
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"terms": ()}, "name at least one term, and not the constant"),
        ({"terms": [()]}, "name at least one term, and not the constant"),
        ({"terms": ["a", "z"]}, "no feature 'z'; it has 'a', 'b', 'c', 'd'"),
        ({"terms": [("a", "b", "c", "d")]}, "no term 'a × b × c × d': its highest order is 3"),
        ({"max_terms": 0}, "max_terms=0: give a whole number of at least 1"),
        ({"n_grid": 1}, "n_grid=1: give a whole number of at least 2"),
        ({"columns": 0}, "columns=0: give a whole number of at least 1"),
        ({"bands": -1.0}, "bands=-1.0: give a number of standard deviations, 0 or more"),
        ({"bands": float("nan")}, "bands=nan: give a number of standard deviations"),
        ({"bands": "wide"}, "bands='wide': give a number of standard deviations"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plot_components(fitted(), **options)
    assert plt.get_fignums() == []


def test_the_coarsest_plot() -> None:
    figure = plot_components(fitted(), terms=["a", ("a", "b"), ("b", "c")], n_grid=2, bands=0)
    figure.canvas.draw()
    zero, curve = panels(figure)[0].lines
    np.testing.assert_array_equal(zero.get_ydata(), 0.0)
    np.testing.assert_array_equal(curve.get_xdata(), [TABLE["a"].min(), TABLE["a"].max()])


def test_models_without_features_or_without_a_fit_are_refused() -> None:
    with pytest.raises(NotFittedError):
        plot_components(OAKRegressor())
    constant = OAKRegressor(max_iter=1).fit([[1.0], [1.0]], [1.0, 2.0])
    with pytest.raises(ValueError, match="has no features, only a constant.*see verdict_"):
        plot_components(constant)
