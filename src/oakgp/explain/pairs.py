"""Panels of two features: a surface, lines with bands, or tiles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from oakgp.explain.component import Component
from oakgp.explain.feature_axis import FeatureAxis, LevelAxis, NumericAxis
from oakgp.explain.mains import (
    Settings,
    draw_histogram,
    draw_line,
    finish_levels,
    finish_numeric,
    make_room,
)
from oakgp.explain.style import (
    DIVERGING,
    DOTS,
    LINES,
    Numbers,
    level_texts,
    literal,
    zero_line,
)

Array = NDArray[np.float64]

_MAX_TILES = 12  # levels of a feature
_MAX_POINTS = 600  # rows drawn over a surface
_BANDS = 20  # colours from the lowest to the highest value


class Pair(ABC):
    """A component over two features, evaluated and ready to be drawn.

    Attributes
    ----------
    limit : float
        Largest absolute mean: the scale of the colours.
    """

    limit: float

    @abstractmethod
    def draw(self, ax: Axes, limit: float, room: int) -> None:
        """Draw into a panel, with colours from ``-limit`` to ``limit``.

        ``room`` is the width of the panel in characters.
        """

    @abstractmethod
    def annotate(self, panels: list[Axes], limit: float) -> None:
        """Add what panels side by side share: a bar of colours, or a legend."""


def pair(
    component: Component,
    i: int,
    j: int,
    axes: dict[int, FeatureAxis],
    how: Settings,
    points: tuple[Array, Array] | None = None,
) -> Pair:
    """Return the picture of a component over features i and j, by their kinds.

    ``points`` are rows of the two features to draw over a surface, in units of the columns.
    """
    a, b = axes[i], axes[j]
    if isinstance(a, LevelAxis) and isinstance(b, LevelAxis):
        # Names of levels are easier to read down the side: the longer list goes there.
        if len(a.labels) > len(b.labels):
            return Tiles(component, j, b, i, a, how)
        return Tiles(component, i, a, j, b, how)
    if isinstance(a, NumericAxis) and isinstance(b, NumericAxis):
        return Surface(component, i, a, j, b, how, points)
    if isinstance(a, NumericAxis) and isinstance(b, LevelAxis):
        return Lines(component, i, a, j, b, how)
    assert isinstance(a, LevelAxis)
    assert isinstance(b, NumericAxis)
    return Lines(component, j, b, i, a, how)


def _colour_bar(panels: list[Axes], limit: float, effect: str) -> None:
    """Add the scale of colours, white at 0, beside the last panel."""
    scale = ScalarMappable(Normalize(-limit, limit), DIVERGING)
    bar = panels[0].figure.colorbar(scale, ax=panels, aspect=24, pad=0.03, format=Numbers())
    bar.outline.set_visible(False)
    bar.set_label(effect)


class Surface(Pair):
    """Two numeric features: filled contours, dotted where the band includes 0.

    "Missing" of either feature is a strip beside the surface.
    """

    def __init__(
        self,
        component: Component,
        i: int,
        a: NumericAxis,
        j: int,
        b: NumericAxis,
        how: Settings,
        points: tuple[Array, Array] | None,
    ) -> None:
        self.a, self.b, self.points = a, b, points
        self.effect = component.effect
        count = max(20, how.n_grid // 3)
        self.x, self.y = a.grid(count), b.grid(count)
        along = np.r_[a.coordinates(self.x), [np.nan] * a.has_missing]
        up = np.r_[b.coordinates(self.y), [np.nan] * b.has_missing]
        self.mean, sd = component.grid(i, along, j, up)
        self.doubt = np.abs(self.mean) - how.bands * sd
        self.limit = float(np.abs(self.mean).max())

    def draw(self, ax: Axes, limit: float, room: int) -> None:
        """Draw contours, strips for missing values, and the rows."""
        x, y = self.x, self.y
        levels = np.linspace(-limit, limit, _BANDS + 1)
        inner = self.mean[: len(y), : len(x)]
        ax.contourf(x, y, inner, levels=levels, cmap=DIVERGING, zorder=0)
        doubt = self.doubt[: len(y), : len(x)]
        if doubt.min() < 0.0:
            ax.contourf(
                x, y, doubt, levels=[doubt.min() - 1.0, 0.0], colors="none", hatches=["...."]
            )
        self._draw_missing(ax, limit)
        if self.points is not None:
            step = -(-len(self.points[0]) // _MAX_POINTS)
            across, upward = (values[::step] for values in self.points)
            ax.plot(across, upward, "o", markersize=1.3, color="black", alpha=0.3, mew=0)
        finish_numeric(ax, self.a, room=room)
        finish_numeric(ax, self.b, vertical=True)

    def annotate(self, panels: list[Axes], limit: float) -> None:
        """Add the bar of colours."""
        _colour_bar(panels, limit, self.effect)

    def _draw_missing(self, ax: Axes, limit: float) -> None:
        x, y = _edges(self.x), _edges(self.y)
        beside, above = _strip(self.a), _strip(self.b)
        inner = slice(0, len(self.y)), slice(0, len(self.x))
        last = slice(-1, None)
        parts = []
        if self.a.has_missing:
            parts.append((beside, y, (inner[0], last)))
        if self.b.has_missing:
            parts.append((x, above, (last, inner[1])))
        if self.a.has_missing and self.b.has_missing:
            parts.append((beside, above, (last, last)))
        for across, upward, where in parts:
            mean = self.mean[where]
            ax.pcolormesh(across, upward, mean, cmap=DIVERGING, vmin=-limit, vmax=limit, zorder=0)
            _dot(ax, across, upward, self.doubt[where])


def _dot(ax: Axes, across: Array, upward: Array, doubt: Array) -> None:
    """Dot the tiles whose band includes 0, that is, where ``doubt`` is negative."""
    for row, column in np.argwhere(doubt < 0.0):
        corner = across[column], upward[row]
        size = across[column + 1] - corner[0], upward[row + 1] - corner[1]
        dots = Rectangle(corner, *size, fill=False, hatch="....", edgecolor=DOTS, linewidth=0)
        ax.add_patch(dots)


def _edges(grid: Array) -> Array:
    middles: Array = 0.5 * (grid[1:] + grid[:-1])
    return np.concatenate([grid[:1], middles, grid[-1:]])


def _strip(axis: NumericAxis) -> Array:
    return axis.missing_at + np.array([-0.04, 0.04]) * (axis.high - axis.low)


class Lines(Pair):
    """A numeric and a categorical feature: a line with its band for each frequent level."""

    def __init__(
        self,
        component: Component,
        i: int,
        a: NumericAxis,
        j: int,
        b: LevelAxis,
        how: Settings,
    ) -> None:
        self.component, self.i, self.a, self.j, self.how = component, i, a, j, how
        frequent = np.sort(np.argsort(-b.shares, kind="stable")[: len(LINES)])
        self.b, self.n_levels = b.take(frequent), len(b.labels)
        self.limit = 0.0

    def draw(self, ax: Axes, limit: float, room: int) -> None:
        """Draw the lines; ``limit`` is for colours only."""
        draw_histogram(ax, self.a)
        zero_line(ax)
        middle = 0.5 * (len(self.b.labels) - 1)
        labels = level_texts(self.b.labels, 12)
        for k, (label, code) in enumerate(zip(labels, self.b.codes, strict=True)):
            at = {**self.component.at, self.j: float(code)}
            line = replace(self.component, at=at)
            draw_line(ax, line, self.i, self.a, self.how, LINES[k], label, k - middle)
        finish_numeric(ax, self.a, room=room)

    def annotate(self, panels: list[Axes], limit: float) -> None:
        """Add the legend beside the last panel, where it hides nothing."""
        title = literal(self.b.name, 14)
        if self.n_levels > len(self.b.labels):
            title += f"\n({len(self.b.labels)} of {self.n_levels})"
        panels[-1].legend(
            title=title,
            title_fontsize=7,
            loc="upper left",
            bbox_to_anchor=(1.0, 1.02),
            borderaxespad=0.3,
            handlelength=1.0,
            handletextpad=0.5,
            labelspacing=0.35,
            alignment="left",
        )
        make_room(panels[0])


class Tiles(Pair):
    """Two categorical features: a tile with mean and deviation for each pair of levels.

    Tiles whose band includes 0 are dotted.
    """

    def __init__(
        self, component: Component, i: int, a: LevelAxis, j: int, b: LevelAxis, how: Settings
    ) -> None:
        self.all_a, self.all_b, self.bands = a, b, how.bands
        self.effect = component.effect
        self.all_mean, self.all_sd = component.grid(i, a.codes, j, b.codes)
        self.limit = float(np.abs(self.all_mean).max())
        self.weight: Array = np.abs(self.all_mean) * b.shares[:, None] * a.shares
        self.select(self.weight)

    def select(self, weight: Array) -> None:
        """Show the levels of the largest weights only."""
        across, upward = _largest(weight.sum(axis=0)), _largest(weight.sum(axis=1))
        shown = np.ix_(upward, across)
        self.mean, self.sd = self.all_mean[shown], self.all_sd[shown]
        self.a, self.b = self.all_a.take(across), self.all_b.take(upward)

    @property
    def _doubt(self) -> Array:
        """Negative where the band includes 0."""
        return np.asarray(np.abs(self.mean) - self.bands * self.sd)

    def draw(self, ax: Axes, limit: float, room: int) -> None:
        """Draw the tiles, with numbers as long as they fit."""
        x, y = (np.linspace(-0.5, n - 0.5, n + 1) for n in self.mean.shape[::-1])
        ax.pcolormesh(
            x, y, self.mean, cmap=DIVERGING, vmin=-limit, vmax=limit, edgecolor="white", lw=0.8
        )
        _dot(ax, x, y, self._doubt)
        self._write(ax, limit, room)
        finish_levels(ax, self.a, room=room)
        finish_levels(ax, self.b, vertical=True)
        ax.set_xlim(-0.5, len(self.a.labels) - 0.5)
        ax.set_ylim(-0.5, len(self.b.labels) - 0.5)
        for side in ("left", "bottom"):
            ax.spines[side].set_visible(False)
        if self.mean.size < self.all_mean.size:
            suffix = f" ({self.mean.size} of {self.all_mean.size} tiles)"
            ax.set_xlabel(literal(self.a.name, max(12, room + 10 - len(suffix))) + suffix)

    def _write(self, ax: Axes, limit: float, room: int) -> None:
        """Write the numbers into the tiles, if they fit."""
        scale = colormaps[DIVERGING]
        width = len(_number(-limit, limit)) * len(self.a.labels)
        if width > room:
            return
        for row, column in np.ndindex(self.mean.shape):
            value = float(self.mean[row, column])
            text = _number(value, limit)
            if len(self.b.labels) <= 5:
                text += f"\n±{_number(float(self.sd[row, column]), limit)[1:]}"
            color = "white" if abs(value) > 0.6 * limit else "#222222"
            clear = None  # of dots
            if self._doubt[row, column] < 0.0:
                clear = {"facecolor": scale(0.5 + 0.5 * value / limit), "linewidth": 0, "pad": 0.6}
            ax.text(column, row, text, ha="center", va="center", size=6.5, color=color, bbox=clear)

    def annotate(self, panels: list[Axes], limit: float) -> None:
        """Add the bar of colours."""
        _colour_bar(panels, limit, self.effect)


def align(pairs: Sequence[Pair]) -> None:
    """Let pictures side by side show the same levels, since they share the names beside them."""
    tiles = [each for each in pairs if isinstance(each, Tiles)]
    for each in tiles:
        each.select(np.sum([other.weight for other in tiles], axis=0))


def _largest(weights: Array) -> NDArray[np.intp]:
    return np.sort(np.argsort(-weights, kind="stable")[:_MAX_TILES])


def _number(value: float, limit: float) -> str:
    """Return a value with its sign and two digits of the scale of colours."""
    size = int(np.floor(np.log10(limit)))
    if -4 <= size <= 4:
        return f"{value:+.{max(0, 1 - size)}f}".replace("-", "\N{MINUS SIGN}")
    mantissa, _, exponent = f"{value:+.1e}".partition("e")
    return f"{mantissa}e{int(exponent)}".replace("-", "\N{MINUS SIGN}")
