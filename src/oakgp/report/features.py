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
_BEYOND = np.array([0.03, 0.1, 0.3])  # of the range of training, at either end
_FEW = 12  # distinct values that are marked one by one


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
        distinct = np.unique(axis.sample)
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
            "values": distinct.tolist() if len(distinct) <= _FEW else None,
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
    """Return knots for linear interpolation, dense where a component may turn.

    A third is in even steps of the column, a third in even steps of the kernel's coordinate (where
    the flow is steep), a third where the data are; and some lie beyond the range of training.
    """
    third = count // 3
    low, high = float(axis.sample.min()), float(axis.sample.max())
    values = np.unique(axis.sample)
    if len(values) > third:
        levels = (np.arange(third) + 0.5) / third
        values = weighted_quantiles(axis.sample, axis.weights, levels)
    ends = np.array([low, high, axis.low, axis.high])
    flow = axis.column.flow
    if flow is not None:
        z = flow.forward(ends[:2])
        values = np.r_[values, np.clip(flow.inverse(np.linspace(z[0], z[1], third)), low, high)]
        # Rows beyond the range of training are met, but not far.
        beyond = _BEYOND * (high - low)
        ends = np.r_[ends, low - beyond, high + beyond]
    knots = np.unique(np.r_[values, ends, np.linspace(axis.low, axis.high, third)])
    return Slots(knots, np.r_[axis.coordinates(knots), np.nan])
