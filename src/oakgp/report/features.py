"""Each feature as the page needs it: where to draw, and the distribution of training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oakgp.explain.feature_axis import LevelAxis, NumericAxis, feature_axis
from oakgp.model import Model
from oakgp.report.packing import pack

Array = NDArray[np.float64]

_BINS = 32
_FEW = 12  # distinct values that are marked one by one
_GRID = 160  # points of a curve


@dataclass(frozen=True)
class PageFeature:
    """One feature of the page.

    Parameters
    ----------
    axis
        Its axis, with the distribution of training.
    """

    axis: NumericAxis | LevelAxis

    @property
    def grid(self) -> Array:
        """Where it is drawn: values, or codes of levels; without "missing"."""
        if isinstance(self.axis, NumericAxis):
            return self.axis.grid(_GRID)
        return self.axis.codes[~np.isnan(self.axis.codes)]

    def to_dict(self) -> dict[str, Any]:
        """Return what the page needs."""
        axis = self.axis
        if isinstance(axis, LevelAxis):
            return {
                "name": axis.name,
                "kind": "levels",
                "labels": [label for label, code in self._known()],
                "shares": axis.shares.tolist(),
                "missing": bool(np.isnan(axis.codes).any()),
            }
        distinct = np.unique(axis.sample)
        few = len(distinct) <= _FEW
        if few:  # a bar for each value
            half = 0.2 * float(np.diff(distinct).min(initial=1.0))
            edges = np.column_stack([distinct - half, distinct + half])
            masses = np.array([axis.weights[axis.sample == v].sum() for v in distinct])
        else:
            inside = np.clip(axis.sample, axis.low, axis.high)
            masses, ends = np.histogram(
                inside, bins=_BINS, range=(axis.low, axis.high), weights=axis.weights
            )
            edges = np.column_stack([ends[:-1], ends[1:]])
        return {
            "name": axis.name,
            "kind": "number",
            "low": axis.low,
            "high": axis.high,
            "whole": bool((axis.sample == np.round(axis.sample)).all()),
            "missing": axis.has_missing,
            "values": distinct.tolist() if few else None,
            "edges": edges.tolist(),
            "masses": (masses / max(masses.sum(), np.finfo(np.float64).tiny)).tolist(),
            "grid": pack(self.grid, "f8"),
        }

    def _known(self) -> list[tuple[str, float]]:
        assert isinstance(self.axis, LevelAxis)
        pairs = zip(self.axis.labels, self.axis.codes.tolist(), strict=True)
        return [(label, code) for label, code in pairs if not np.isnan(code)]


def page_features(model: Model) -> list[PageFeature]:
    """Return the features of a model."""
    return [PageFeature(feature_axis(model, i, None)) for i in range(len(model.columns))]
