"""A small fitted model with features of every kind, and how to read what was drawn of it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from oakgp import OAKRegressor
from oakgp.explain.component import Component
from oakgp.explain.feature_axis import FeatureAxis, feature_axis
from oakgp.explain.mains import Settings

HOW = Settings(n_grid=30, bands=2.0)


def frame(n: int = 70) -> pd.DataFrame:
    """Two numeric columns (one with holes) and two categorical ones (one with holes)."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "a": rng.uniform(-1.0, 1.0, n),
            "b": rng.lognormal(0.0, 0.7, n),
            "c": rng.choice(["red", "green", "blue"], n, p=[0.5, 0.3, 0.2]),
            "d": rng.choice(["yes", "no"], n),
        }
    )
    table.loc[::7, "b"] = np.nan
    table.loc[::9, "d"] = None
    return table


def response(table: pd.DataFrame) -> np.ndarray:
    a, b = table["a"].to_numpy(), np.log(table["b"].fillna(1.0).to_numpy())
    red, yes = (table["c"] == "red").to_numpy(float), (table["d"] == "yes").to_numpy(float)
    return 5.0 + 2.0 * a + b + 3.0 * a * b + 2.0 * a * red + yes * red + 3.0 * a * b * yes


@cache
def fitted(**options: Any) -> OAKRegressor:
    """A model of `frame()`; callers must not change it."""
    table = frame()
    model = OAKRegressor(**{"max_iter": 5, "flow": "normal_score", "max_order": 3, **options})
    return model.fit(table, response(table))


def component(*names: str, **options: Any) -> Component:
    model = fitted(**options).model_
    return Component(model, model.term(names), {})


def axes_of(model: OAKRegressor, table: Any = None) -> dict[int, FeatureAxis]:
    """The axis of every feature."""
    encoded = None if table is None else model.model_.schema.encode(table)
    return {
        i: feature_axis(model.model_, i, None if encoded is None else encoded[:, i])
        for i in range(len(model.model_.columns))
    }


def rows(**values: Any) -> pd.DataFrame:
    """A table with some columns as given, and the others at any value."""
    n = max(np.size(value) for value in values.values())
    return pd.DataFrame({"a": 0.0, "b": 1.0, "c": "red", "d": "no", **values}, index=range(n))


def panel() -> Axes:
    return Figure().add_subplot()


def band(ax: Axes, k: int = 0) -> dict[float, tuple[float, float]]:
    """Lower and upper end of a band at each place along the axis."""
    found: dict[float, tuple[float, float]] = {}
    fills = [each for each in ax.collections if isinstance(each, PolyCollection)]
    for x, y in fills[k].get_paths()[0].vertices:
        low, high = found.get(x, (np.inf, -np.inf))
        found[x] = min(low, y), max(high, y)
    return found


def points(ax: Axes) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Place, mean and half-width of all error bars."""
    found = []
    for bars in ax.containers:
        if isinstance(bars, ErrorbarContainer):
            line, _, (spans,) = bars.lines
            ends = np.array([segment[:, 1] for segment in spans.get_segments()])
            found.append((line.get_xdata(), line.get_ydata(), 0.5 * np.diff(ends, axis=1)[:, 0]))
    return found


def texts(labels: Any) -> list[str]:
    return [label.get_text() for label in labels]
