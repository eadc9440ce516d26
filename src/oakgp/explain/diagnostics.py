"""Plots of how well predictions and their uncertainties agree with what was observed.

All take plain arrays, of any model.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom, norm

from oakgp.checks import check_count
from oakgp.explain.style import INK, PALE, RULE, STYLE, Numbers, literal

Array = NDArray[np.float64]

_BAND = 0.9  # of what chance alone does
_MOST = 4000  # points drawn


def plot_reliability(
    y: ArrayLike,
    probability: ArrayLike,
    *,
    bins: int = 10,
    label: str = "the event",
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """Draw how often an event happened against the probability that it was given.

    Parameters
    ----------
    y : array of shape (n,)
        Whether it happened: 0 and 1, or booleans.
    probability : array of shape (n,)
        The probabilities.
    bins : int, default=10
        Groups of about equal size.
    label : str
        Name of the event, for the axes.
    figure : matplotlib figure or subfigure, optional
        Where to draw; a new figure when not given.

    Notes
    -----
    Bars reach as far as 90% of the frequencies would if the probabilities were right, so a point
    off the diagonal by more than its bar is more than chance. The probabilities themselves are
    along the floor.
    """
    happened, p = _pair(y, probability, "y", "probability")
    check_count("bins", bins, 1)
    if not np.isin(happened, (0.0, 1.0)).all() or p.min() < 0 or p.max() > 1:
        raise ValueError("y must hold 0 and 1 (or booleans), and probability numbers from 0 to 1")
    groups = [g for g in np.array_split(np.argsort(p, kind="stable"), bins) if len(g)]
    at = np.array([p[g].mean() for g in groups])
    seen = np.array([happened[g].mean() for g in groups])
    sizes = np.array([len(g) for g in groups])
    tail = 0.5 - _BAND / 2
    low, high = (binom.ppf(level, sizes, at) / sizes for level in (tail, 1.0 - tail))
    figure, ax = _square(figure)
    with plt.rc_context(STYLE):
        ax.plot([0, 1], [0, 1], color=RULE, linewidth=0.8, zorder=1)
        heights, edges = np.histogram(p, 25, (0.0, 1.0))
        width = edges[1] - edges[0]
        share = 0.13 * heights / heights.max()
        ax.bar(edges[:-1] + width / 2, share, width, bottom=-0.03, color=PALE, zorder=0)
        ax.vlines(at, low, high, color=INK, linewidth=1.1, alpha=0.6, zorder=2)
        ax.plot(at, seen, "o-", color=INK, markersize=3.8, linewidth=1.0, zorder=3)
        ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
        ax.set_xlabel(f"probability of {literal(label, 30)}")
        ax.set_ylabel("how often it happened")
    return figure


def plot_coverage(
    levels: ArrayLike,
    coverage: ArrayLike,
    *,
    n: int | None = None,
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """Draw the share of responses within central intervals against what these promise.

    Parameters
    ----------
    levels : array of shape (k,)
        Nominal coverages, between 0 and 1.
    coverage : array of shape (k,)
        Shares of the responses that the intervals hold.
    n : int, optional
        Number of responses: then the band that 90% of the shares would stay in by chance is drawn.
    figure : matplotlib figure or subfigure, optional
        Where to draw; a new figure when not given.
    """
    nominal, observed = _pair(levels, coverage, "levels", "coverage")
    figure, ax = _square(figure)
    with plt.rc_context(STYLE):
        ax.plot([0, 1], [0, 1], color=RULE, linewidth=0.8, zorder=1)
        if n is not None:
            check_count("n", n, 1)
            grid = np.linspace(0.0, 1.0, 101)
            tail = 0.5 - _BAND / 2
            low, high = (binom.ppf(level, n, grid) / n for level in (tail, 1.0 - tail))
            ax.fill_between(grid, low, high, color=PALE, linewidth=0, zorder=0)
        ax.plot(nominal, observed, "o-", color=INK, markersize=3.8, linewidth=1.0, zorder=3)
        ax.set(xlim=(0, 1), ylim=(0, 1))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        ax.set_xlabel("nominal coverage of intervals")
        ax.set_ylabel("responses within them")
    return figure


def plot_pit(
    pit: ArrayLike, *, bins: int = 20, figure: Figure | SubFigure | None = None
) -> Figure | SubFigure:
    """Draw the histogram of where responses fell in their predictive distributions.

    Parameters
    ----------
    pit : array of shape (n,)
        Predictive probabilities of a value up to the response (probability integral transform).
    bins : int, default=20
        Bars.
    figure : matplotlib figure or subfigure, optional
        Where to draw; a new figure when not given.

    Notes
    -----
    Level within the band: calibrated. A hump: intervals too wide. A valley: too narrow. A slope:
    predictions too low or too high.
    """
    values = np.asarray(pit, dtype=np.float64)
    check_count("bins", bins, 1)
    if values.ndim != 1 or not len(values) or values.min() < 0 or values.max() > 1:
        raise ValueError("pit must be a sequence of numbers from 0 to 1")
    n = len(values)
    counts, edges = np.histogram(values, bins, (0.0, 1.0))
    tail = 0.5 - _BAND / 2
    low, high = (binom.ppf(level, n, 1.0 / bins) * bins / n for level in (tail, 1.0 - tail))
    with plt.rc_context(STYLE):
        if figure is None:
            figure = plt.figure(figsize=(3.4, 2.5), layout="constrained")
        ax = figure.add_subplot()
        ax.axhspan(low, high, color=PALE, linewidth=0, zorder=0)
        ax.axhline(1.0, color=RULE, linewidth=0.8, zorder=1)
        ax.stairs(counts * bins / n, edges, color=INK, linewidth=1.3, zorder=2)
        ax.set(xlim=(0, 1), ylim=(0, None))
        ax.set_xlabel("place of the response in its predictive distribution")
        ax.set_ylabel("density")
    return figure


def plot_residuals(
    prediction: ArrayLike,
    y: ArrayLike,
    sd: ArrayLike | None = None,
    *,
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """Draw residuals against predictions and, given deviations, how normal they are.

    Parameters
    ----------
    prediction, y : array of shape (n,)
        Predicted and observed responses.
    sd : array of shape (n,), optional
        Predictive standard deviations, noise included.
    figure : matplotlib figure or subfigure, optional
        Where to draw; a new figure when not given.

    Notes
    -----
    Two thirds of the standardised residuals should lie within the shaded band from -1 to 1. In the
    right panel they are sorted, against normal quantiles.
    """
    mean, observed = _pair(prediction, y, "prediction", "y")
    residual = observed - mean
    if sd is not None:
        _, deviation = _pair(prediction, sd, "prediction", "sd")
        residual = residual / np.maximum(deviation, np.finfo(np.float64).tiny)
    step = -(-len(mean) // _MOST)
    with plt.rc_context(STYLE):
        if figure is None:
            width = 3.4 if sd is None else 6.4
            figure = plt.figure(figsize=(width, 2.7), layout="constrained")
        panels = figure.subplots(1, 1 if sd is None else 2, squeeze=False)[0]
        _against_prediction(panels[0], mean[::step], residual[::step], sd is not None)
        if sd is not None:
            _against_normal(panels[1], residual)
    return figure


def _against_prediction(ax: Axes, mean: Array, residual: Array, standardised: bool) -> None:
    if standardised:
        ax.axhspan(-1.0, 1.0, color=PALE, alpha=0.6, linewidth=0, zorder=0)
    ax.axhline(0.0, color=RULE, linewidth=0.8, zorder=1)
    ax.plot(mean, residual, "o", color=INK, markersize=2.2, alpha=0.45, mew=0, zorder=2)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(Numbers())
    ax.set_xlabel("prediction")
    ax.set_ylabel("standardised residual" if standardised else "residual")


def _against_normal(ax: Axes, residual: Array) -> None:
    n = len(residual)
    normal = norm.ppf((np.arange(n) + 0.5) / n)
    reach = float(np.abs(normal).max()) * 1.08
    ax.plot([-reach, reach], [-reach, reach], color=RULE, linewidth=0.8, zorder=1)
    ax.plot(normal, np.sort(residual), "o", color=INK, markersize=2.2, mew=0, zorder=2)
    ax.set_xlabel("normal quantile")
    ax.set_ylabel("standardised residual")


def _pair(one: Any, other: Any, first: str, second: str) -> tuple[Array, Array]:
    a, b = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if a.ndim != 1 or a.shape != b.shape or not len(a):
        raise ValueError(
            f"{first} and {second} must be sequences of equal length, with at least one entry; "
            f"they have the shapes {a.shape} and {b.shape}"
        )
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError(f"{first} and {second} must be finite")
    return a, b


def _square(figure: Figure | SubFigure | None) -> tuple[Figure | SubFigure, Axes]:
    with plt.rc_context(STYLE):
        if figure is None:
            figure = plt.figure(figsize=(3.1, 3.0), layout="constrained")
        ax = figure.add_subplot()
        ax.set_aspect("equal")
    return figure, ax
