"""What a picture shows, in a sentence: for those who cannot see it, and for those in a hurry."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oakgp.explain.feature_axis import LevelAxis
from oakgp.report.features import PageFeature
from oakgp.report.tables import PageTable

Array = NDArray[np.float64]

_BAND = 2.0  # deviations
_FLAT = 0.02  # of the range of a curve: smaller steps against its direction are none


def number(value: float, digits: int = 3) -> str:
    """Return a number with so many digits, without an exponent where that can be."""
    if not np.isfinite(value):
        return str(value)
    if value != 0 and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.{digits - 1}e}".replace("-", "\N{MINUS SIGN}")
    places = digits - 1 - int(np.floor(np.log10(abs(value)))) if value else 0
    rounded = round(value, places)
    text = f"{rounded:.{max(0, places)}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return ("0" if float(text) == 0 else text).replace("-", "\N{MINUS SIGN}")


def signed(value: float) -> str:
    """Return a number with its sign."""
    text = number(value)
    return text if text.startswith("\N{MINUS SIGN}") or text == "0" else f"+{text}"


def percent(share: float) -> str:
    """Return a share: ``3.2%``, ``<0.1%``."""
    return "<0.1%" if 0.0 < share < 0.0005 else f"{100.0 * share:.1f}%"


def describe_main(feature: PageFeature, table: PageTable) -> str:
    """Return a sentence on a main effect."""
    axis = feature.axis
    x = feature.grid
    y, sd = table.at(x)
    uncertain = _uncertain(np.abs(y) < _BAND * sd)
    missing = ""
    if isinstance(axis, LevelAxis):
        named = [f"“{label}”" for label in axis.labels]
        if np.isnan(axis.codes).any():
            y = np.r_[y, table.at(np.array([np.nan]))[0]]
        return _extremes(named, y) + uncertain
    if axis.has_missing:
        at = float(table.at(np.array([np.nan]))[0][0])
        missing = f" Where the value is missing: {signed(at)}."
    # Steps that are small beside the band are none to speak of.
    flat = float(np.ptp(y)) < 0.5 * float(np.median(sd))
    text = f"About flat, at {signed(float(np.median(y)))}." if flat else _shape(x, y)
    return text + missing + uncertain


def _shape(x: Array, y: Array) -> str:
    span = float(np.ptp(y))
    if span == 0:
        return "Flat."
    ends = f"from {signed(float(y[0]))} at {number(float(x[0]))} to {signed(float(y[-1]))} at "
    ends += number(float(x[-1]))
    steps = np.diff(y)
    back, forth = -steps[steps < 0].sum(), steps[steps > 0].sum()
    if back <= _FLAT * span:
        return f"Rises {ends}."
    if forth <= _FLAT * span:
        return f"Falls {ends}."
    top, bottom = int(np.argmax(y)), int(np.argmin(y))
    return (
        f"Highest ({signed(float(y[top]))}) at {number(float(x[top]))}, lowest "
        f"({signed(float(y[bottom]))}) at {number(float(x[bottom]))}."
    )


def _extremes(names: Sequence[str], values: Array) -> str:
    top, bottom = int(np.argmax(values)), int(np.argmin(values))
    return (
        f"Highest for {names[top]} ({signed(float(values[top]))}), lowest for {names[bottom]} "
        f"({signed(float(values[bottom]))})."
    )


def _uncertain(doubt: NDArray[np.bool_]) -> str:
    if doubt.all():
        return " The band includes 0 everywhere: the effect may be nothing."
    return ""


def describe_pair(a: PageFeature, b: PageFeature, table: PageTable) -> str:
    """Return a sentence on a component of two features."""
    left, right = a.grid, b.grid
    mean, _ = table.at(left, right)
    top = np.unravel_index(int(np.argmax(mean)), mean.shape)
    bottom = np.unravel_index(int(np.argmin(mean)), mean.shape)

    def place(at: tuple[np.intp, ...]) -> str:
        return f"{_at(a, float(left[at[0]]))} and {_at(b, float(right[at[1]]))}"

    return (
        f"Highest ({signed(float(mean[top]))}) where {place(top)}; lowest "
        f"({signed(float(mean[bottom]))}) where {place(bottom)}."
    )


def _at(feature: PageFeature, value: float) -> str:
    axis = feature.axis
    if isinstance(axis, LevelAxis):
        return f"{axis.name} is “{axis.labels[int(value)]}”"
    return f"{axis.name} is {number(value)}"
