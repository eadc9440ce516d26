"""The look of all plots, and text that is drawn as it is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import Formatter, MaxNLocator
from numpy.typing import NDArray

from oakgp.explain.numbers import MISSING as MISSING
from oakgp.explain.numbers import number_texts as number_texts
from oakgp.explain.numbers import rounded as rounded
from oakgp.model import JOINER

Array = NDArray[np.float64]

DOTS = "#6b7075"  # where a band includes 0; rows drawn over them are black

#: Settings in force while a figure is made; fonts stay the user's. Any, because what matplotlib
#: declares for them differs between its releases.
STYLE: Any = {
    "font.size": 8.0,
    "axes.titlesize": 9.0,
    "axes.titleweight": "regular",
    "axes.labelsize": 8.0,
    "axes.linewidth": 0.6,
    "axes.edgecolor": "#444444",
    "axes.labelcolor": "#222222",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "axes.axisbelow": True,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "xtick.labelcolor": "#222222",
    "ytick.labelcolor": "#222222",
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "legend.fontsize": 7.0,
    "legend.frameon": False,
    "hatch.linewidth": 0.5,
    "hatch.color": DOTS,
}

INK = "#1b4f8a"  # means
PALE = "#dfe3e8"  # what lies in the background: histograms, bars
FAINT = "#70757c"  # numbers in the background
RULE = "#8a8f96"  # zero lines, separators
#: Lines of several levels: distinct for the colour-blind too (Okabe and Ito).
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9")
DIVERGING = "RdBu_r"

#: Mantissas of the distance between ticks.
STEPS = [1, 2, 2.5, 5, 10]


def literal(text: object, limit: int | None = None) -> str:
    r"""Return text that matplotlib draws as it stands: ``$`` escaped, one line, not too long.

    A long text loses its middle: names of columns and levels often differ at the end only.
    """
    line = "".join(c if c.isprintable() else " " for c in str(text))
    if limit is not None and len(line) > limit:
        tail = (limit - 1) // 3
        line = line[: limit - 1 - tail].rstrip() + "…" + line[len(line) - tail :].lstrip()
    return line.replace("$", r"\$")


def level_texts(labels: Sequence[str], limit: int) -> list[str]:
    """Return names of levels, not too long and, if that can be, told apart.

    Cutting may leave only what long names have in common: then that is what is cut.
    """
    texts = [literal(label, limit) for label in labels]
    if len(set(texts)) == len(texts):
        return texts
    long = [label for label in labels if len(label) > limit]
    start = _shared(long)
    end = _shared([label[start:][::-1] for label in long])
    inner = {label: label[start : len(label) - end] for label in long}
    spare = max(0, limit - 2 - max(map(len, inner.values())))
    before = long[0][max(0, start - spare) : start]
    if " " in before.strip():  # whole words only
        before = before.partition(" ")[2]
    opening = "…" * (len(before) < start) + literal(before.lstrip())
    found = {
        label: opening + literal(part, limit - 2) + "…" * (end > 0) for label, part in inner.items()
    }
    return [found.get(label, text) for label, text in zip(labels, texts, strict=True)]


def _shared(texts: Sequence[str]) -> int:
    """Return how many characters all texts have in common at their start."""
    columns = zip(*texts, strict=False)
    least = min(map(len, texts))
    return next((k for k, column in enumerate(columns) if len(set(column)) > 1), least)


def term_text(label: str, limit: int) -> str:
    """Return the name of a term with the longest of its features' names cut, so that all show."""
    names = label.split(JOINER)
    room = max(8 * len(names), limit - len(JOINER) * (len(names) - 1))
    longest = max(map(len, names))
    while sum(min(len(name), longest) for name in names) > room:
        longest -= 1
    return JOINER.join(literal(name, longest) for name in names)


class Numbers(Formatter):
    """Labels of ticks without an offset or a factor apart, which would lie over other labels."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return the label of one value."""
        return number_texts([x])[0]

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """Return the labels of all ticks of an axis."""
        return number_texts(values)


def percent(share: float) -> str:
    """Return a share for a title: ``3.2%``, ``<0.1%``."""
    if 0.0 < share < 0.0005:
        return "<0.1%"
    return f"{100.0 * share:.1f}%"


def ticks(low: float, high: float, count: int = 5) -> Array:
    """Return round numbers between two limits."""
    values = np.asarray(MaxNLocator(count, steps=STEPS).tick_values(low, high))
    slack = 1e-9 * (high - low)
    return values[(values >= low - slack) & (values <= high + slack)]


def zero_line(ax: Axes) -> None:
    """Draw the line of no effect."""
    ax.axhline(0.0, color=RULE, linewidth=0.6, zorder=1)
