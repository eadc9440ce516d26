"""Plots of shares of the variance: by term, by order, and as terms are added."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from oakgp.checks import check_count
from oakgp.explain.plots import fitted_model
from oakgp.explain.style import INK, PALE, STYLE, Numbers, literal, percent, term_text
from oakgp.table import Table


def plot_sobol(
    estimator: Any, *, max_terms: int = 20, figure: Figure | SubFigure | None = None
) -> Figure | SubFigure:
    """Draw the Sobol indices of the largest terms, with their credible intervals.

    Parameters
    ----------
    estimator : fitted estimator
        An `oakgp.OAKRegressor`.
    max_terms : int, default=20
        How many terms.
    figure : matplotlib figure or subfigure, optional
        Where to draw; a new figure when not given.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Notes
    -----
    The bar and the dot are the share of the posterior mean, the line is the credible interval of
    the share under the posterior. A small component whose band is wide has an interval above its
    dot: the mean is smoother than the function may be.
    """
    fitted_model(estimator)
    check_count("max_terms", max_terms, 1)
    table = estimator.sobol_.terms
    count = min(max_terms, len(table))
    names = [term_text(name, 44) for name in table["term"][:count]]
    share, low, high = (100.0 * table[key][:count] for key in ("share", "low", "high"))
    at = np.arange(count)
    with plt.rc_context(STYLE):
        if figure is None:
            figure = plt.figure(figsize=(5.2, 0.85 + 0.21 * max(count, 3)), layout="constrained")
        ax = figure.add_subplot()
        ax.barh(at, share, 0.72, color=PALE)
        ax.hlines(at, low, high, color=INK, linewidth=1.3)
        ax.plot(share, at, "o", color=INK, markersize=4, markeredgecolor="white", mew=0.6)
        ax.set_yticks(at, labels=names)
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(max(count, 1) - 0.4, -0.6)
        ax.set_xlim(0.0, ax.get_xlim()[1] if count else 100.0)
        if count == 0:
            ax.text(0.5, 0.5, "no term has a share", ha="center", transform=ax.transAxes)
        ax.xaxis.set_major_formatter(PercentFormatter(decimals=0))
        ax.set_xlabel("share of the explained variance\n(Sobol index)")
    return figure


def plot_orders(estimator: Any, *, figure: Figure | SubFigure | None = None) -> Figure | SubFigure:
    """Draw the share of the variance by interaction order.

    Parameters
    ----------
    estimator : fitted estimator
        An `oakgp.OAKRegressor`.
    figure : matplotlib figure or subfigure, optional
        Where to draw; a new figure when not given.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    fitted_model(estimator)
    table = estimator.sobol_.orders
    orders, share = table["order"], table["share"]
    with plt.rc_context(STYLE):
        if figure is None:
            figure = plt.figure(figsize=(1.6 + 0.55 * len(orders), 2.5), layout="constrained")
        ax = figure.add_subplot()
        bars = ax.bar(orders, 100.0 * share, 0.62, color=INK)
        ax.bar_label(bars, labels=[percent(s) for s in share], padding=2, fontsize=7)
        ax.set_xticks(orders)
        ax.set_ylim(0.0, 112.0 * share.max(initial=0.0) or 100.0)
        ax.yaxis.set_major_formatter(PercentFormatter(decimals=0))
        ax.set_xlabel("interaction order")
        ax.set_ylabel("share of the variance")
    return figure


def plot_truncation(
    table: Table, *, label: str = "metric", figure: Figure | SubFigure | None = None
) -> Figure | SubFigure:
    """Draw a metric and the cumulative share of the variance as terms are added.

    Parameters
    ----------
    table : Table
        What ``estimator.truncation_curve(X, y)`` returns.
    label : str, default="metric"
        Name of the metric.
    figure : matplotlib figure or subfigure, optional
        Where to draw; a new figure when not given.

    Returns
    -------
    matplotlib.figure.Figure
        The figure: the metric above, the share below, the term that is added along the axis.
    """
    count, share = table["n_terms"], 100.0 * table["cumulative_share"]
    few = len(count) <= 25
    with plt.rc_context(STYLE):
        if figure is None:
            width = float(np.clip(1.6 + 0.3 * len(count), 3.6, 7.2))
            figure = plt.figure(figsize=(width, 4.0), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True)
        marker = "o" if few else ""
        above.plot(count, table["metric"], marker=marker, color=INK, markersize=3.5, linewidth=1.3)
        above.yaxis.set_major_formatter(Numbers())
        above.set_ylabel(literal(label, 32))
        below.plot(count, share, marker=marker, color=INK, markersize=3.5, linewidth=1.3)
        below.fill_between(count, share, color=PALE, linewidth=0, zorder=0)
        below.set_ylim(0.0, 103.0)
        below.yaxis.set_major_formatter(PercentFormatter(decimals=0))
        below.set_ylabel("cumulative share")
        if few:
            names = [term_text(name, 26) for name in table["term"]]
            below.set_xticks(count, labels=names, rotation=45, ha="right", rotation_mode="anchor")
            below.set_xlabel("term added")
        else:
            below.xaxis.set_major_locator(MaxNLocator(integer=True))
            below.set_xlabel("number of terms")
    return figure
