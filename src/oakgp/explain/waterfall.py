"""The way from the base to the prediction of one row, a bar for each part."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from oakgp.checks import check_count
from oakgp.explain.attribution import Attribution
from oakgp.explain.explanation import Explanation
from oakgp.explain.style import RULE, STEPS, STYLE, Numbers, literal, number_texts

Array = NDArray[np.float64]

UP, DOWN = "#b2182b", "#2166ac"  # the ends of the scale of colours of surfaces
_LABEL = 44  # characters of a part's name and values


def plot_waterfall(
    explanation: Explanation,
    row: int = 0,
    kind: str = "terms",
    *,
    max_bars: int = 10,
    bands: float = 2.0,
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """Draw the way from the base to the prediction of one row, largest parts first.

    Parameters
    ----------
    explanation : Explanation
        What ``estimator.explain(X)`` returns.
    row : int, default=0
        Number of the row.
    kind : {"terms", "features"}, default="terms"
        Whether the prediction is split by terms, or by features (Shapley values).
    max_bars : int, default=10
        Parts shown; the smaller ones are one bar together.
    bands : float, default=2.0
        Half-width of error bars, in standard deviations.
    figure : matplotlib figure or subfigure, optional
        Where to draw; a new figure when not given.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.

    Notes
    -----
    Error bars are the posterior deviation of the part by itself (or, of Shapley values on the
    response scale, its standard error). Parts of the expected response by terms have none: they
    are drawn in the order in which they were added, since they depend on it.
    """
    check_count("max_bars", max_bars, 2)
    part = explanation.of_row(row, kind)
    labels = explanation.labels(row, kind)
    bars, names = _shortened(part, labels, max_bars)
    with plt.rc_context(STYLE):
        if figure is None:
            size = (6.4, 1.0 + 0.27 * max(3, len(names)))
            figure = plt.figure(figsize=size, layout="constrained")
        ax = figure.add_subplot()
        _draw(ax, bars, names, bands)
        ax.set_xlabel(literal(explanation.unit, 60))
    return figure


def _shortened(part: Attribution, labels: list[str], most: int) -> tuple[Attribution, list[str]]:
    """Return the largest parts of a row, the others as one, and their names."""
    values = part.values[0]
    spread = part.sd if part.sd is not None else part.error
    sized = np.argsort(-np.abs(values), kind="stable")
    shown = sized if len(values) <= most else sized[: most - 1]
    if spread is None:  # added one after another: the order is part of the meaning
        shown = np.sort(shown)
    others = np.setdiff1d(np.arange(len(values)), shown)
    names = [labels[k] for k in shown]
    amounts = values[shown]
    known = np.full(len(shown), np.nan) if spread is None else spread[0, shown]
    if len(others):
        names.append(f"{len(others)} smaller ones")
        amounts = np.r_[amounts, values[others].sum()]
        known = np.r_[known, np.nan]
    return Attribution(tuple(names), amounts[None], known[None], None, part.base), names


def _draw(ax: Axes, part: Attribution, names: list[str], bands: float) -> None:
    assert part.sd is not None
    base, amounts, sd = float(part.base[0]), part.values[0], part.sd[0]
    ends = base + np.cumsum(amounts)
    starts = np.r_[base, ends[:-1]]
    at = np.arange(len(amounts), dtype=np.float64)
    colors = [UP if amount > 0 else DOWN for amount in amounts]
    ax.use_sticky_edges = False
    ax.barh(at, amounts, 0.66, left=starts, color=colors, alpha=0.85, zorder=2)
    for k in range(len(amounts) - 1):
        ax.plot([ends[k]] * 2, [at[k] - 0.33, at[k] + 1.33], color=RULE, linewidth=0.6, zorder=1)
    known = np.isfinite(sd)
    ax.errorbar(
        ends[known], at[known], xerr=bands * sd[known], fmt="none", ecolor="#222222",
        elinewidth=0.9, capsize=2.2, zorder=3,
    )  # fmt: skip
    ax.axvline(base, color=RULE, linewidth=0.8, linestyle=(0, (3, 2)), zorder=1)
    ax.axvline(ends[-1] if len(ends) else base, color="#222222", linewidth=0.8, zorder=1)
    ax.set_yticks(at, labels=[literal(name, _LABEL) for name in names])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(max(len(at), 1) - 0.4, -0.6)
    ax.xaxis.set_major_locator(MaxNLocator(6, steps=STEPS))
    ax.xaxis.set_major_formatter(Numbers())
    _write_amounts(ax, at, amounts, starts, ends, np.where(known, bands * sd, 0.0))
    final = float(ends[-1]) if len(ends) else base
    text = [number_texts([float(f"{v:.4g}")])[0] for v in (base, final)]
    ax.set_title(f"base {text[0]}, prediction {text[1]}")


def _write_amounts(
    ax: Axes, at: Array, amounts: Array, starts: Array, ends: Array, half: Array
) -> None:
    """Write each amount beside its bar, clear of bar and error bar."""
    for k, amount in enumerate(amounts):
        right = max(starts[k], ends[k], ends[k] + half[k])
        text = f"{amount:+.3g}".replace("-", "\N{MINUS SIGN}")
        ax.annotate(text, (right, at[k]), (4, 0), textcoords="offset points", va="center", size=6.5)
    low, high = ax.get_xlim()
    ax.set_xlim(low, high + 0.09 * (high - low))
