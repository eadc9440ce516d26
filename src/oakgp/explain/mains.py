"""Panels of main effects."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from oakgp.explain.component import Component
from oakgp.explain.feature_axis import FeatureAxis, LevelAxis, NumericAxis
from oakgp.explain.style import (
    FAINT,
    INK,
    MISSING,
    PALE,
    RULE,
    STEPS,
    Numbers,
    level_texts,
    literal,
    number_texts,
    ticks,
    zero_line,
)

Array = NDArray[np.float64]

_FLOOR = 0.16  # of a panel's height belongs to the histogram below the curve
_COUNTS = 0.05  # more of it belongs to the numbers of rows of levels
_MAX_LEVELS = 20
_LABEL = 22  # characters beside a panel's height
_TURNED = 18  # characters of a level's name below a panel, turned upright
_UPRIGHT = 8  # numbers of rows that stand side by side; more are turned
_OUTER: Any = {"color": INK, "alpha": 0.35, "linewidth": 0.8, "zorder": 2.5}


@dataclass(frozen=True)
class Settings:
    """What all panels of a figure share.

    Parameters
    ----------
    n_grid
        Points of a curve.
    bands
        Half-width of bands and error bars, in standard deviations.
    simultaneous
        Whether main effects have a second band, which holds the whole curve with the probability
        with which the first one holds a single value.
    """

    n_grid: int
    bands: float
    simultaneous: bool = False

    @property
    def coverage(self) -> float:
        """Probability with which a band holds a value."""
        return 2.0 * NormalDist().cdf(self.bands) - 1.0


def draw_main(ax: Axes, component: Component, i: int, axis: FeatureAxis, how: Settings) -> None:
    """Draw a main effect with its band, over the distribution of the feature."""
    if isinstance(axis, NumericAxis):
        _draw_curve(ax, component, i, axis, how)
    else:
        _draw_levels(ax, component, i, axis, how)
    make_room(ax, _FLOOR if isinstance(axis, NumericAxis) else _FLOOR + _COUNTS)


def _draw_curve(ax: Axes, component: Component, i: int, axis: NumericAxis, how: Settings) -> None:
    draw_histogram(ax, axis)
    zero_line(ax)
    draw_line(ax, component, i, axis, how, INK)
    if how.simultaneous:
        _draw_outer_band(ax, component, i, axis, how)
    finish_numeric(ax, axis)


def _draw_outer_band(
    ax: Axes, component: Component, i: int, axis: NumericAxis, how: Settings
) -> None:
    """Draw the band that holds the whole curve, and "missing", at once."""
    grid = axis.grid(how.n_grid)
    at = np.r_[axis.coordinates(grid), [np.nan] * axis.has_missing]
    _, low, high = component.band({i: at}, component.simultaneous_factor({i: at}, how.coverage))
    n = len(grid)
    ax.fill_between(grid, low[:n], high[:n], color=INK, alpha=0.1, linewidth=0, zorder=1.5)
    if axis.has_missing:
        ax.vlines(axis.missing_at, low[n:], high[n:], **_OUTER)


def draw_line(
    ax: Axes,
    component: Component,
    i: int,
    axis: NumericAxis,
    how: Settings,
    color: str,
    label: str | None = None,
    shift: float = 0.0,
) -> None:
    """Draw mean and band along a numeric feature, and "missing" as a point with its bar.

    ``shift`` moves that point sideways (in widths of a marker), so that several do not overlap.
    """
    grid = axis.grid(how.n_grid)
    mean, low, high = component.band({i: axis.coordinates(grid)}, how.bands)
    ax.fill_between(grid, low, high, color=color, alpha=0.2, linewidth=0, zorder=2)
    ax.plot(grid, mean, color=color, linewidth=1.4, label=label, zorder=3)
    if axis.has_missing:
        mean, low, high = component.band({i: np.array([np.nan])}, how.bands)
        at = axis.missing_at + 0.015 * shift * (axis.high - axis.low)
        draw_points(ax, np.array([at]), mean, (low, high), color)


def draw_points(ax: Axes, at: Array, mean: Array, ends: tuple[Array, Array], color: str) -> None:
    """Draw means with error bars from the lower to the upper ends."""
    # The mean of a skewed distribution may lie outside a narrow central interval.
    reach = np.maximum([mean - ends[0], ends[1] - mean], 0.0)
    ax.errorbar(
        at, mean, reach, fmt="o", color=color, markersize=3.2, elinewidth=1.1, capsize=2.0, zorder=3
    )


def draw_histogram(ax: Axes, axis: NumericAxis) -> None:
    """Draw the distribution of a numeric feature along the floor of the panel."""
    inside = (axis.sample >= axis.low) & (axis.sample <= axis.high)
    sample, weights = axis.sample[inside], axis.weights[inside]
    distinct = np.unique(sample)
    if len(distinct) <= 25:
        heights = np.array([weights[sample == value].sum() for value in distinct])
        centres = distinct
        width = 0.014 * (axis.high - axis.low)
    else:
        heights, edges = np.histogram(sample, 28, (axis.low, axis.high), weights=weights)
        centres, width = 0.5 * (edges[1:] + edges[:-1]), float(edges[1] - edges[0])
    draw_floor(ax, centres, heights, width)


def draw_floor(ax: Axes, at: Array, shares: Array, width: float) -> None:
    """Draw bars along the floor of the panel, the largest a fixed part of its height."""
    heights = 0.9 * _FLOOR * shares / max(float(shares.max()), 1e-300)
    ax.bar(at, heights, width, color=PALE, transform=ax.get_xaxis_transform(), zorder=0)


def make_room(ax: Axes, floor: float = _FLOOR) -> None:
    """Leave the floor of the panel, this part of its height, to the histogram."""
    ax.yaxis.set_major_formatter(Numbers())
    low, high = ax.get_ylim()
    ax.set_ylim(low - (high - low) * floor / (1.0 - floor), high)


def finish_numeric(ax: Axes, axis: NumericAxis, *, vertical: bool = False, room: int = 40) -> None:
    """Set limits, ticks and name of a numeric feature along one of a panel's axes.

    ``room`` is the width of the panel in characters: a narrow one has fewer ticks.
    """
    count = 5 if vertical or room >= 30 else 3
    draw_at = ax.yaxis if vertical else ax.xaxis
    rule = ax.axhline if vertical else ax.axvline
    (ax.set_ylim if vertical else ax.set_xlim)(*axis.limits)
    draw_at.set_label_text(literal(axis.name, _LABEL if vertical else min(40, room + 10)))
    draw_at.set_major_locator(MaxNLocator(count, steps=STEPS))
    draw_at.set_major_formatter(Numbers())
    if axis.has_missing:
        span = axis.high - axis.low
        rule(axis.high + 0.06 * span, color=RULE, linewidth=0.6, linestyle=(0, (2, 2)), zorder=1)
        numbers = ticks(axis.low, axis.high, count - 1)
        labels = number_texts(numbers)
        # A number beside the word needs half of its own width and half of the word's.
        near = [len(t) + len(MISSING) + 2 if not vertical else 2 for t in labels]
        wide = (axis.limits[1] - axis.limits[0]) / room
        clear = [k for k, v in enumerate(numbers) if axis.missing_at - v > 0.5 * near[k] * wide]
        at = [*numbers[clear], axis.missing_at]
        draw_at.set_ticks(at, labels=[*(labels[k] for k in clear), MISSING])


def _draw_levels(ax: Axes, component: Component, i: int, axis: LevelAxis, how: Settings) -> None:
    mean, *ends = component.band({i: axis.codes}, how.bands)
    factor = component.simultaneous_factor({i: axis.codes}, how.coverage)
    ends += component.band({i: axis.codes}, factor)[1:]
    name, suffix = axis.name, ""
    if len(axis.codes) > _MAX_LEVELS:
        chosen = np.sort(np.argsort(-np.abs(mean) * axis.shares, kind="stable")[:_MAX_LEVELS])
        suffix = f" ({_MAX_LEVELS} of {len(axis.codes)} levels)"
        axis, mean, ends = axis.take(chosen), mean[chosen], [end[chosen] for end in ends]
    if not axis.ordered:
        missing = np.isnan(axis.codes)
        order = np.lexsort((mean, missing))  # by effect, "missing" last
        axis, mean, ends = axis.take(order), mean[order], [end[order] for end in ends]
    at = np.arange(len(mean), dtype=np.float64)
    draw_floor(ax, at, axis.shares, 0.7)
    _write_counts(ax, at, axis)
    zero_line(ax)
    draw_points(ax, at, mean, (ends[0], ends[1]), INK)
    if how.simultaneous:
        ax.vlines(at, ends[2], ends[3], **_OUTER)
    finish_levels(ax, axis)
    ax.set_xlabel(literal(name, 40 - len(suffix)) + suffix)


def _write_counts(ax: Axes, at: Array, axis: LevelAxis) -> None:
    """Write how many rows a level has above its bar on the floor of the panel."""
    tops = 0.9 * _FLOOR * axis.shares / max(float(axis.shares.max()), 1e-300)
    turned = len(at) > _UPRIGHT
    for place, top, count in zip(at, tops, axis.counts, strict=True):
        ax.text(
            place,
            top + 0.008,
            f"{count:,.0f}",
            transform=ax.get_xaxis_transform(),
            ha="center",
            va="bottom",
            size=5.0 if turned else 5.8,
            rotation=90 if turned else 0,
            color=FAINT,
            zorder=1,
        )


def finish_levels(ax: Axes, axis: LevelAxis, *, vertical: bool = False, room: int = 40) -> None:
    """Set limits, ticks and name of a categorical feature along one of a panel's axes.

    ``room`` is the width of the panel in characters: labels that need more are turned.
    """
    at = np.arange(len(axis.labels))
    turned = len(axis.labels) > 10 and not vertical
    labels = level_texts(axis.labels, _TURNED if turned else 14)
    along = ax.yaxis if vertical else ax.xaxis
    (ax.set_ylim if vertical else ax.set_xlim)(-0.6, len(at) - 0.4)
    along.set_label_text(literal(axis.name, _LABEL if vertical else min(40, room + 10)))
    along.set_tick_params(length=0)
    if vertical:
        along.set_ticks(at, labels=labels)
    elif (max(map(len, labels)) + 1) * len(labels) <= room:
        along.set_ticks(at, labels=labels, va="baseline")  # words of all heights on one line
        along.set_tick_params(pad=10)
    elif turned:
        along.set_ticks(at, labels=labels, rotation=90)
    else:
        along.set_ticks(at, labels=labels, rotation=35, ha="right", rotation_mode="anchor")
