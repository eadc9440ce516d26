"""Each feature as the page needs it: values to tabulate at, range, distribution, levels.

Components are tabulated at the *slots* of their features: of a numeric one its knots, and one more
for "missing"; of a categorical one its levels, "missing" where there is any, and one more for
levels that training never saw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oakgp.explain.feature_axis import LevelAxis, NumericAxis, feature_axis, weighted_quantiles
from oakgp.kernels import Periodic
from oakgp.model import Model
from oakgp.report.packing import pack

Array = NDArray[np.float64]

#: Knots of a main effect, of a surface, and of the bands of a surface.
MAIN, PAIR, BAND = 256, 64, 24
_BINS = 32


@dataclass(frozen=True)
class Slots:
    """Where components are tabulated along one feature.

    Parameters
    ----------
    knots
        Increasing values in units of the column, for interpolation; None of a categorical feature.
    coordinates
        What the kernel sees at each slot.
    """

    knots: Array | None
    coordinates: Array

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.coordinates)


@dataclass(frozen=True)
class PageFeature:
    """One feature of the page.

    Parameters
    ----------
    axis
        Its axis, with the distribution of training.
    main, pair, band
        Slots of main effects, of surfaces, and of the bands of surfaces.
    period
        Length of a cycle; None unless the feature goes round.
    """

    axis: NumericAxis | LevelAxis
    main: Slots
    pair: Slots
    band: Slots
    period: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return what the page needs."""
        axis = self.axis
        if isinstance(axis, LevelAxis):
            return {
                "name": axis.name,
                "kind": "levels",
                "labels": list(axis.labels),
                "shares": axis.shares.tolist(),
                "missing": bool(np.isnan(axis.codes).any()),
            }
        inside = np.clip(axis.sample, axis.low, axis.high)
        masses, edges = np.histogram(
            inside, bins=_BINS, range=(axis.low, axis.high), weights=axis.weights
        )
        return {
            "name": axis.name,
            "kind": "number",
            "low": axis.low,
            "high": axis.high,
            "whole": bool((axis.sample == np.round(axis.sample)).all()),
            "missing": axis.has_missing,
            "period": self.period,
            "edges": edges.tolist(),
            "masses": (masses / max(masses.sum(), np.finfo(np.float64).tiny)).tolist(),
            "knots": {
                name: pack(slots.knots, "f8")
                for name, slots in (("main", self.main), ("pair", self.pair), ("band", self.band))
                if slots.knots is not None
            },
        }


def page_feature(model: Model, i: int) -> PageFeature:
    """Return one feature of a model."""
    axis = feature_axis(model, i, None)
    if isinstance(axis, LevelAxis):
        slots = Slots(None, np.r_[axis.codes, -1.0])
        return PageFeature(axis, slots, slots, slots, None)
    kernel = axis.column.feature.kernel
    period = kernel.period if isinstance(kernel, Periodic) else None
    main, pair, band = (_slots(axis, count) for count in (MAIN, PAIR, BAND))
    return PageFeature(axis, main, pair, band, period)


def _slots(axis: NumericAxis, count: int) -> Slots:
    """Return knots in even steps and where the data are, with the ends of training's range."""
    values, weights = axis.sample, axis.weights
    if len(np.unique(values)) > count // 2:
        values = weighted_quantiles(values, weights, (np.arange(count // 2) + 0.5) / (count // 2))
    ends = [axis.sample.min(), axis.sample.max(), axis.low, axis.high]
    knots = np.unique(np.r_[values, ends, np.linspace(axis.low, axis.high, count // 2)])
    return Slots(knots, np.r_[axis.coordinates(knots), np.nan])
