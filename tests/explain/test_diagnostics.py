"""How predictions agree with what was observed: what is drawn is what was counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection
from scipy.stats import binom
from tests.explain.models import fitted, frame, response

from oakgp import OAKClassifier, OAKRegressor
from oakgp.explain import plot_all, plot_coverage, plot_pit, plot_reliability, plot_residuals

RNG = np.random.default_rng(0)


def dots(ax: Any) -> Any:
    (line,) = [each for each in ax.lines if each.get_marker() == "o"]
    return line


def test_reliability_is_the_frequency_in_groups() -> None:
    p = RNG.random(500)
    y = RNG.random(500) < p**2
    (ax,) = plot_reliability(y, p, bins=5, label="a $").axes
    order = np.argsort(p)
    groups = np.split(order, 5)
    x, seen = dots(ax).get_data()
    np.testing.assert_allclose(x, [p[g].mean() for g in groups])
    np.testing.assert_allclose(seen, [y[g].mean() for g in groups])
    (bars,) = [each for each in ax.collections if isinstance(each, LineCollection)]
    low, high = bars.get_segments()[2][:, 1]
    assert (low, high) == tuple(binom.ppf([0.05, 0.95], 100, x[2]) / 100)
    assert ax.get_xlabel() == r"probability of a \$"


def test_coverage_and_the_band_of_chance() -> None:
    (ax,) = plot_coverage([0.5, 0.9], [0.45, 0.85], n=100).axes
    np.testing.assert_array_equal(dots(ax).get_data(), [[0.5, 0.9], [0.45, 0.85]])
    (fill,) = ax.collections
    at_half = [y for x, y in fill.get_paths()[0].vertices if x == 0.5]
    assert (min(at_half), max(at_half)) == tuple(binom.ppf([0.05, 0.95], 100, 0.5) / 100)
    assert not plot_coverage([0.5], [0.5]).axes[0].collections


def test_the_histogram_of_places() -> None:
    pit = RNG.random(1000) ** 2
    (ax,) = plot_pit(pit, bins=10).axes
    (steps,) = [each for each in ax.patches if hasattr(each, "get_data")]
    counts, edges = np.histogram(pit, 10, (0, 1))
    np.testing.assert_allclose(steps.get_data().values, counts / 100)
    np.testing.assert_allclose(steps.get_data().edges, edges)


def test_residuals_and_their_quantiles() -> None:
    mean, sd = RNG.standard_normal(200), RNG.uniform(0.5, 2.0, 200)
    y = mean + sd * RNG.standard_normal(200)
    left, right = plot_residuals(mean, y, sd).axes
    np.testing.assert_allclose(dots(left).get_data(), [mean, (y - mean) / sd])
    np.testing.assert_allclose(dots(right).get_ydata(), np.sort((y - mean) / sd))
    assert np.corrcoef(*dots(right).get_data())[0, 1] > 0.98
    (only,) = plot_residuals(mean, y).axes
    np.testing.assert_allclose(dots(only).get_ydata(), y - mean)


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: plot_reliability([0, 1], [0.5, 1.5]), "numbers from 0 to 1"),
        (lambda: plot_reliability([0, 2], [0.5, 0.5]), "y must hold 0 and 1"),
        (lambda: plot_reliability([0, 1], [0.5]), "of equal length"),
        (lambda: plot_reliability([], []), "at least one entry"),
        (lambda: plot_coverage([0.1], [np.nan]), "must be finite"),
        (lambda: plot_pit([-0.1]), "numbers from 0 to 1"),
        (lambda: plot_residuals([1.0], [1.0], [1.0, 2.0]), "of equal length"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw()


def test_all_plots_of_a_regression(tmp_path: Path) -> None:
    table = frame(300)[70:]
    y = response(table) + RNG.standard_normal(len(table))
    figures = plot_all(fitted(), table, y, directory=tmp_path / "new", dpi=40)
    expected = {"components", "sobol", "shapley", "orders", "order_variances", "cumulative"}
    expected |= {"truncation", "residuals", "coverage", "pit"}
    assert set(figures) == expected
    assert {path.stem for path in (tmp_path / "new").iterdir()} == expected
    nominal, held = dots(figures["coverage"].axes[0]).get_data()
    for level, share in list(zip(nominal, held, strict=True))[::6]:
        low, high = fitted().predict_interval(table, float(level)).T
        assert share == pytest.approx(np.mean((low < y) & (y <= high)), abs=1e-9)
    steps = next(each for each in figures["pit"].axes[0].patches if hasattr(each, "get_data"))
    assert steps.get_data().values.sum() == pytest.approx(20)
    plt.close("all")
    assert set(plot_all(fitted())) == expected - {"truncation", "residuals", "coverage", "pit"}
    with pytest.raises(ValueError, match="without X="):
        plot_all(fitted(), y=y)


def test_all_plots_of_other_models() -> None:
    table = frame(80)
    labels = pd.qcut(response(table), 3, labels=list("uvw")).astype(str)
    classes = OAKClassifier(max_order=1, max_iter=3, flow="none").fit(table, labels)
    figures = plot_all(classes, table, labels)
    assert {f"reliability_{k}" for k in range(3)} <= set(figures)
    plt.close("all")
    counts = RNG.poisson(np.exp(0.2 * response(table)))
    model = OAKRegressor(likelihood="poisson", max_order=1, max_iter=3, flow="none")
    assert "pit" in plot_all(model.fit(table, counts), table, counts)
    plt.close("all")
    plain = plot_all(fitted(orthogonal=False, max_order=1))
    assert set(plain) == {"components", "order_variances"}
