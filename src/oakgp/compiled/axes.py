"""The axes of component tables: where the entries of a feature stand.

A numeric feature has a *scale*: an increasing map of its values to [0, 1], piecewise linear, which
is its flow up to shift and scale, so that components are smooth along it. A table has entries at
even steps of the scale and the cubic spline through them between; beyond the ends it is flat. The
spline is kept as coefficients of the uniform cubic B-splines, two more than entries, so that four
of them, found by arithmetic, give the value at any place. One more coefficient stands for
"missing". A categorical feature has its levels, "missing" and "unseen".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from oakgp.columns import Level, as_text

Array = NDArray[np.float64]

MISSING = "(missing)"
UNSEEN = "(unseen)"

_FAR = 700.0  # widths of a tail, drawn in by the logarithm, that still are a finite distance


@dataclass(frozen=True)
class Tail:
    """Where values are drawn in by a logarithm: x stands for end + width log(1 + (x-end) / width).

    Parameters
    ----------
    end
        Where it begins.
    width
        Positive; how far the values go before the logarithm tells.
    """

    end: float
    width: float


@dataclass(frozen=True)
class Scale:
    """An increasing map of a column's values to [0, 1].

    Parameters
    ----------
    feature
        Position among the columns that the model uses.
    name
        Of the column.
    knots
        Increasing values, two or more, in units of the column, those in the tails drawn in.
    positions
        Where they stand: increasing from 0 to 1.
    lower, upper
        Tails, if there are any.
    period
        Length of a cycle: values count modulo this, and the knots go from 0 to it; None for none.
    """

    feature: int
    name: str
    knots: tuple[float, ...]
    positions: tuple[float, ...]
    lower: Tail | None = None
    upper: Tail | None = None
    period: float | None = None

    def drawn_in(self, x: Array) -> Array:
        """Return values with the tails drawn in and cycles undone."""
        if self.period is not None:
            return np.asarray(x - self.period * np.floor(x / self.period))
        if self.upper is not None:
            end, width = self.upper.end, self.upper.width
            x = np.where(x > end, end + width * np.log1p(np.maximum(x - end, 0.0) / width), x)
        if self.lower is not None:
            end, width = self.lower.end, self.lower.width
            x = np.where(x < end, end - width * np.log1p(np.maximum(end - x, 0.0) / width), x)
        return x

    def drawn_out(self, x: Array) -> Array:
        """Undo `drawn_in`; the end of a cycle stays its end."""
        if self.upper is not None:
            end, width = self.upper.end, self.upper.width
            far = np.clip((x - end) / width, 0.0, _FAR)
            x = np.where(x > end, end + width * np.expm1(far), x)
        if self.lower is not None:
            end, width = self.lower.end, self.lower.width
            far = np.clip((end - x) / width, 0.0, _FAR)
            x = np.where(x < end, end - width * np.expm1(far), x)
        return x

    def __call__(self, x: Array) -> Array:
        """Return the positions of values in units of the column; NaN stays."""
        position: Array = np.interp(self.drawn_in(x), self.knots, self.positions)
        return position

    def inverse(self, positions: Array) -> Array:
        """Return the values at positions between 0 and 1."""
        return self.drawn_out(np.interp(positions, self.positions, self.knots))

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe description."""
        return {
            "kind": "numeric",
            "feature": self.feature,
            "name": self.name,
            "knots": list(self.knots),
            "positions": list(self.positions),
            "lower": None if self.lower is None else [self.lower.end, self.lower.width],
            "upper": None if self.upper is None else [self.upper.end, self.upper.width],
            "period": self.period,
        }


@dataclass(frozen=True)
class NumericAxis:
    """Entries at even steps along the scale of a numeric feature.

    Parameters
    ----------
    scale
        Of the feature.
    count
        Number of entries, "missing" not counted; five or more.
    degree
        3: cubic splines. 1: straight lines between entries, for components that have kinks.
    """

    scale: Scale
    count: int
    degree: int = 3

    @property
    def feature(self) -> int:
        """Position of the feature among the columns that the model uses."""
        return self.scale.feature

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.scale.name

    @property
    def n_coefficients(self) -> int:
        """Number of coefficients: of cubic splines two more than entries; and "missing"."""
        return self.count + self.degree

    @cached_property
    def encoded(self) -> Array:
        """The column's value at each entry, NaN (for "missing") last."""
        return np.append(self.scale.inverse(np.linspace(0.0, 1.0, self.count)), math.nan)

    @property
    def labels(self) -> list[str]:
        """What each entry is called."""
        return [*map(repr, self.encoded[:-1].tolist()), MISSING]

    def weights(self, encoded: Array) -> Array:
        """Return the matrix from coefficients to values at encoded places, ``[n, coefficients]``.

        On the cell between entries c and c + 1, at a part t of it, the coefficients c to c + 3
        count (1 - t)^3 / 6, (3 t^3 - 6 t^2 + 4) / 6, (-3 t^3 + 3 t^2 + 3 t + 1) / 6 and t^3 / 6.
        Of degree 1 the coefficients are the entries: c and c + 1 count 1 - t and t.
        """
        matrix = np.zeros((len(encoded), self.n_coefficients))
        present = np.flatnonzero(~np.isnan(encoded))
        place = self.scale(encoded[present]) * (self.count - 1)
        cell = np.minimum(place.astype(int), self.count - 2)
        t = place - cell
        s = 1.0 - t
        matrix[np.isnan(encoded), -1] = 1.0
        if self.degree == 1:
            matrix[present, cell] = s
            matrix[present, cell + 1] += t
            return matrix
        matrix[present, cell] = s**3 / 6.0
        matrix[present, cell + 1] = (4.0 - 3.0 * t**2 * (1.0 + s)) / 6.0
        matrix[present, cell + 2] = (4.0 - 3.0 * s**2 * (1.0 + t)) / 6.0
        matrix[present, cell + 3] = t**3 / 6.0
        return matrix


@dataclass(frozen=True)
class LevelAxis:
    """Entries of a categorical feature.

    Parameters
    ----------
    feature
        Position among the columns that the model uses.
    name
        Of the column.
    levels
        Levels in the order of their codes.
    """

    feature: int
    name: str
    levels: tuple[Level, ...]

    @property
    def n_coefficients(self) -> int:
        """Number of entries: levels, "missing" and "unseen"."""
        return len(self.levels) + 2

    @property
    def labels(self) -> list[str]:
        """What each entry is called."""
        return [*map(as_text, self.levels), MISSING, UNSEEN]

    @property
    def encoded(self) -> Array:
        """The encoded value of each entry."""
        return np.append(np.arange(len(self.levels), dtype=np.float64), [math.nan, -1.0])

    def weights(self, encoded: Array) -> Array:
        """Return the matrix from entries to values at encoded places, ``[n, coefficients]``."""
        n = len(self.levels)
        codes = np.where((encoded >= 0) & (encoded < n), encoded, float(n + 1))
        codes = np.where(np.isnan(encoded), float(n), codes).astype(int)
        return np.eye(n + 2)[codes]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe description."""
        return {
            "kind": "levels",
            "feature": self.feature,
            "name": self.name,
            "levels": list(self.levels),
        }


Axis: TypeAlias = NumericAxis | LevelAxis


def feature_from_dict(d: dict[str, Any]) -> Scale | LevelAxis:
    """Read back a scale or levels; raise ValueError for what these cannot be."""
    feature, name = d["feature"], d["name"]
    if type(feature) is not int or feature < 0 or not isinstance(name, str):
        raise ValueError(f"a feature has the number {feature!r:.40} and the name {name!r:.40}")
    if d["kind"] == "levels":
        return LevelAxis(feature, name, tuple(d["levels"]))
    if d["kind"] != "numeric":
        raise ValueError(f"feature {name!r} has the unknown kind {d['kind']!r:.40}")
    knots, positions = (np.array(d[key], dtype=np.float64) for key in ("knots", "positions"))
    for values in (knots, positions):
        if values.ndim != 1 or len(values) < 2 or len(values) != len(knots):
            raise ValueError(f"the scale of {name!r} has not two or more knots with positions")
        if not (np.isfinite(values).all() and (np.diff(values) > 0).all()):
            raise ValueError(f"the scale of {name!r} does not increase")
    period = None if d["period"] is None else float(d["period"])
    lower, upper = (
        None if d[key] is None else Tail(float(d[key][0]), float(d[key][1]))
        for key in ("lower", "upper")
    )
    widths = [tail.width for tail in (lower, upper) if tail is not None]
    widths += [] if period is None else [period]
    if not all(0 < width < math.inf for width in widths):
        raise ValueError(f"the scale of {name!r} has a width or period that is not positive")
    k, p = tuple(knots.tolist()), tuple(positions.tolist())
    return Scale(feature, name, k, p, lower, upper, period)
