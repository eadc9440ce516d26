"""Plots of shares: what they draw is what the tables hold."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from tests.explain.models import fitted, frame, response, texts

from oakgp import OAKRegressor
from oakgp.explain import (
    plot_cumulative,
    plot_order_variances,
    plot_orders,
    plot_shapley_effects,
    plot_sobol,
    plot_truncation,
)
from oakgp.explain.style import percent
from oakgp.table import Table

TABLE = frame()


@pytest.mark.parametrize("max_terms", [3, 50])
def test_sobol_indices_and_their_intervals(max_terms: int) -> None:
    table = fitted().components_
    count = min(max_terms, len(table))
    (ax,) = plot_sobol(fitted(), max_terms=max_terms).axes
    share = 100.0 * table["share"][:count]
    (dots,) = [line for line in ax.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(dots.get_xdata(), share)
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], share)
    (spans,) = [each for each in ax.collections if isinstance(each, LineCollection)]
    ends = np.array([segment[:, 0] for segment in spans.get_segments()])
    np.testing.assert_allclose(ends[:, 0], 100.0 * table["low"][:count])
    np.testing.assert_allclose(ends[:, 1], 100.0 * table["high"][:count])
    assert texts(ax.get_yticklabels()) == list(table["term"][:count])
    low, high = ax.get_ylim()
    assert low > high  # the largest on top
    assert ax.get_xlim()[0] == 0.0


def test_orders() -> None:
    table = fitted().sobol_.orders
    (ax,) = plot_orders(fitted()).axes
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], 100.0 * table["share"])
    assert texts(ax.texts) == [percent(share) for share in table["share"]]
    assert texts(ax.get_xticklabels()) == ["1", "2", "3"]


def test_a_model_that_learned_nothing() -> None:
    model = OAKRegressor(max_iter=1, max_order=1).fit(TABLE, np.ones(len(TABLE)))
    figure = plot_sobol(model)
    assert texts(figure.axes[0].texts) == ["no term has a share"]
    assert figure.axes[0].get_xlim() == (0.0, 100.0)
    assert plot_orders(model).axes[0].get_ylim() == (0.0, 100.0)


def test_what_terms_add() -> None:
    curve = fitted().truncation_curve(TABLE, response(TABLE), n_terms=5)
    figure = plot_truncation(curve, label="error in $")
    above, below = figure.axes
    np.testing.assert_array_equal(above.lines[0].get_xdata(), curve["n_terms"])
    np.testing.assert_array_equal(above.lines[0].get_ydata(), curve["metric"])
    np.testing.assert_allclose(below.lines[0].get_ydata(), 100.0 * curve["cumulative_share"])
    assert texts(below.get_xticklabels()) == list(curve["term"])
    assert above.get_ylabel() == r"error in \$"
    assert below.get_ylim() == (0.0, 103.0)


def test_many_terms_are_counted_not_named() -> None:
    count = np.arange(40)
    curve = Table(
        {
            "n_terms": count,
            "term": [f"t{k}" for k in count],
            "cumulative_share": count / 39,
            "metric": 1.0 / (1.0 + count),
        }
    )
    figure = plot_truncation(curve)
    assert figure.axes[1].get_xlabel() == "number of terms"
    assert not any(text.startswith("t") for text in texts(figure.axes[1].get_xticklabels()))


def test_a_number_of_terms_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="max_terms=0: give a whole number of at least 1"):
        plot_sobol(fitted(), max_terms=0)


def test_a_model_that_is_not_orthogonal_has_no_shares() -> None:
    with pytest.raises(ValueError, match="orthogonal=True"):
        plot_sobol(fitted(orthogonal=False, max_order=1))


def test_shapley_effects_lie_between_main_effects_and_totals() -> None:
    table = fitted().sobol_.features
    (ax,) = plot_shapley_effects(fitted(), max_features=3).axes
    order = np.argsort(-table["shapley"])[:3]
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths[:3], 100.0 * table["shapley"][order])
    np.testing.assert_allclose(widths[3:], 100.0 * table["first_order"][order])
    (marks,) = [line for line in ax.lines if line.get_marker() == "|"]
    np.testing.assert_allclose(marks.get_xdata(), 100.0 * table["total"][order])
    (spans,) = [each for each in ax.collections if isinstance(each, LineCollection)]
    ends = np.array([segment[:, 0] for segment in spans.get_segments()])
    np.testing.assert_allclose(ends[:, 0], 100.0 * table["shapley_low"][order])
    assert texts(ax.get_yticklabels()) == list(table["feature"][order])


def test_the_cumulative_share() -> None:
    share = fitted().components_["share"]
    (ax,) = plot_cumulative(fitted(), max_terms=6).axes
    count, cumulative = ax.lines[0].get_data()
    np.testing.assert_array_equal(count, np.arange(7))
    np.testing.assert_allclose(cumulative, 100.0 * np.r_[0.0, np.cumsum(share[:6])])
    (text,) = [t for t in texts(ax.texts) if t.startswith("90%")]
    assert text == f"90%: {int(np.argmax(np.cumsum(share) >= 0.9)) + 1}"


def test_order_variances_are_those_that_were_learned() -> None:
    model = fitted().model_
    (ax,) = plot_order_variances(fitted()).axes
    expected = model.scale**2 * model.posterior.parameters.order_variances.numpy()[1:]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), expected)
    assert ax.get_ylim()[0] < expected.min()
    assert ax.get_yscale() == "log"
