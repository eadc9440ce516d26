"""Plots of shares of the variance: by term, by order, and as terms are added."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from oakgp.basis.posterior import BasisPosterior
from oakgp.checks import check_count
from oakgp.edits.posterior import EditedPosterior
from oakgp.explain.plots import fitted_model
from oakgp.explain.style import INK, PALE, RULE, STYLE, Numbers, literal, percent, term_text
from oakgp.model import Label
from oakgp.posterior import KernelPosterior, Posterior
from oakgp.response import as_array
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


def plot_shapley_effects(
    estimator: Any,
    *,
    max_features: int = 20,
    output: Label | None = None,
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """Draw the Shapley effects of the features: first-order shares plus their part of interactions.

    Parameters
    ----------
    estimator : fitted estimator
        An `oakgp.OAKRegressor` or `oakgp.OAKClassifier`.
    max_features : int, default=20
        How many features.
    output : label, optional
        Of which latent function; of all classes together, or the first one, when not given.
    figure : matplotlib figure or subfigure, optional
        Where to draw; a new figure when not given.

    Notes
    -----
    The dark part of a bar is the main effect alone, the whole bar the Shapley effect, the line its
    credible interval, and the small mark the total share, which counts interactions in full.
    """
    fitted_model(estimator)
    check_count("max_features", max_features, 1)
    table = (estimator.sobol_ if output is None else estimator.sobol_of(output)).features
    order = np.argsort(-table["shapley"], kind="stable")[:max_features]
    first, whole, total, low, high = (
        100.0 * table[key][order]
        for key in ("first_order", "shapley", "total", "shapley_low", "shapley_high")
    )
    at = np.arange(len(order))
    with plt.rc_context(STYLE):
        if figure is None:
            size = (5.2, 0.85 + 0.21 * max(len(order), 3))
            figure = plt.figure(figsize=size, layout="constrained")
        ax = figure.add_subplot()
        ax.barh(at, whole, 0.72, color=PALE)
        ax.barh(at, first, 0.72, color=INK, alpha=0.55)
        ax.hlines(at, low, high, color="#222222", linewidth=1.1)
        ax.plot(total, at, "|", color="#222222", markersize=7)
        ax.set_yticks(at, labels=[literal(name, 44) for name in table["feature"][order]])
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(len(order) - 0.4, -0.6)
        ax.set_xlim(0.0, max(ax.get_xlim()[1], 1e-9))
        ax.xaxis.set_major_formatter(PercentFormatter(decimals=0))
        ax.set_xlabel("share of the explained variance\n(Shapley effect)")
    return figure


def plot_cumulative(
    estimator: Any, *, max_terms: int = 50, figure: Figure | SubFigure | None = None
) -> Figure | SubFigure:
    """Draw the cumulative share of the variance against the number of terms, largest first.

    Parameters
    ----------
    estimator : fitted estimator
        An `oakgp.OAKRegressor` or `oakgp.OAKClassifier`.
    max_terms : int, default=50
        How many terms.
    figure : matplotlib figure or subfigure, optional
        Where to draw; a new figure when not given.
    """
    fitted_model(estimator)
    check_count("max_terms", max_terms, 1)
    share = 100.0 * np.r_[0.0, np.cumsum(estimator.sobol_.terms["share"][:max_terms])]
    count = np.arange(len(share))
    with plt.rc_context(STYLE):
        if figure is None:
            figure = plt.figure(figsize=(3.6, 2.5), layout="constrained")
        ax = figure.add_subplot()
        draw_cumulative(ax, count, share)
        for level in (90.0, 99.0):
            reached = np.flatnonzero(share >= level)
            if len(reached):
                k = int(reached[0])
                ax.plot([k, k], [0, share[k]], color=RULE, linewidth=0.7, linestyle=(0, (3, 2)))
                ax.annotate(
                    f"{level:.0f}%: {k}", (k, 0), (3, 4), textcoords="offset points", size=6.5
                )
        ax.set_xlabel("number of terms")
    return figure


def draw_cumulative(ax: Axes, count: NDArray[Any], share: NDArray[np.float64]) -> None:
    """Draw cumulative percentages over numbers of terms."""
    marker = "o" if len(count) <= 25 else ""
    ax.plot(count, share, marker=marker, color=INK, markersize=3.5, linewidth=1.3)
    ax.fill_between(count, share, color=PALE, linewidth=0, zorder=0)
    ax.set_ylim(0.0, 103.0)
    ax.yaxis.set_major_formatter(PercentFormatter(decimals=0))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_ylabel("cumulative share")


def plot_order_variances(
    estimator: Any, *, output: Label | None = None, figure: Figure | SubFigure | None = None
) -> Figure | SubFigure:
    """Draw the prior variance that was learned for each interaction order.

    Parameters
    ----------
    estimator : fitted estimator
        An `oakgp.OAKRegressor` or `oakgp.OAKClassifier`.
    output : label, optional
        Of which latent function; the first one when not given, except of classes.
    figure : matplotlib figure or subfigure, optional
        Where to draw; a new figure when not given.

    Notes
    -----
    It is that of one term of the order, in units of the response squared (of the link, where there
    is one); of an engine with a variance for each term, their mean. High orders have many terms,
    so a small variance may still be much in all: `plot_orders` draws what came of it.
    """
    fitted_model(estimator)
    model = estimator.output_model(output)
    values = model.scale**2 * order_variances(model.posterior)
    orders = np.arange(1, len(values))
    with plt.rc_context(STYLE):
        if figure is None:
            figure = plt.figure(figsize=(1.6 + 0.55 * len(orders), 2.5), layout="constrained")
        ax = figure.add_subplot()
        most = max(float(values[1:].max(initial=0.0)), 1e-300)
        shown = np.maximum(values[1:], 1e-6 * most)
        floor = 10.0 ** np.floor(np.log10(float(shown.min(initial=most))) - 0.5)
        ax.vlines(orders, floor, shown, color=PALE, linewidth=7)
        ax.plot(orders, shown, "o", color=INK, markersize=4.5)
        ax.set_yscale("log")
        ax.set_ylim(floor, None)
        ax.set_xlim(0.4, len(values) - 0.4)
        ax.set_xticks(orders)
        ax.set_xlabel("interaction order")
        ax.set_ylabel("prior variance of a term")
    return figure


def order_variances(posterior: Posterior) -> NDArray[np.float64]:
    """Return the prior variance of a term of each order, the constant's first, ``[R + 1]``."""
    if isinstance(posterior, EditedPosterior):
        return order_variances(posterior.base)
    if isinstance(posterior, KernelPosterior):
        return as_array(posterior.features.weights.order_variances)
    if isinstance(posterior, BasisPosterior):
        variances = as_array(posterior.parameters.variances)
        orders = np.array([len(term) for term in posterior.layout.terms])
        top = int(orders.max(initial=0))
        return np.array([np.mean(variances[orders == r]) for r in range(top + 1)])
    raise TypeError(f"{type(posterior).__name__} has no order variances")


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
        draw_cumulative(below, count, share)
        if few:
            names = [term_text(name, 26) for name in table["term"]]
            below.set_xticks(count, labels=names, rotation=45, ha="right", rotation_mode="anchor")
            below.set_xlabel("term added")
        else:
            below.set_xlabel("number of terms")
    return figure
