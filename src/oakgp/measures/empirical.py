"""Empirical measure: weighted atoms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from oakgp.measures.base import Array, Measure


@dataclass(frozen=True)
class Empirical(Measure):
    """Weighted atoms: the distinct values of a column, or nodes at its quantiles.

    Parameters
    ----------
    nodes
        Locations; NaN stands for "missing".
    weights
        Probabilities, summing to 1.
    """

    nodes: tuple[float, ...]
    weights: tuple[float, ...]
    kind: ClassVar[str] = "empirical"

    @classmethod
    def fit(cls, x: Array, weights: Array | None = None, max_nodes: int = 256) -> Empirical:
        """Return the empirical measure of a column (NaN = missing), O(n log n).

        With more than ``max_nodes`` distinct values, the sorted rows are cut into ``max_nodes``
        groups of equal weight and each group is represented by its mean.
        """
        mass = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)
        absent = np.isnan(x) | (mass <= 0)
        share = float(mass[np.isnan(x)].sum() / mass.sum())
        present, mass = x[~absent], mass[~absent]
        if len(present) == 0:
            return cls((math.nan,), (1.0,))
        order = np.argsort(present, kind="stable")
        nodes, mass = present[order], mass[order]
        starts = np.flatnonzero(np.r_[True, np.diff(nodes) > 0])
        if len(starts) > max_nodes:
            position = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
            starts = np.flatnonzero(np.r_[True, np.diff((position * max_nodes).astype(int)) > 0])
        totals = np.add.reduceat(mass, starts)
        # Divide first: a sum of values near the largest float would overflow.
        centre = np.repeat(totals, np.diff(np.r_[starts, len(mass)]))
        nodes = np.add.reduceat(nodes * (mass / centre), starts)
        totals = totals / totals.sum() * (1.0 - share)
        if share > 0:
            nodes, totals = np.r_[nodes, math.nan], np.r_[totals, share]
        return cls(tuple(nodes.tolist()), tuple(totals.tolist()))

    @cached_property
    def atoms(self) -> tuple[Array, Array]:
        """Quadrature nodes and weights: the atoms themselves."""
        return np.array(self.nodes), np.array(self.weights)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe description."""
        nodes = [None if math.isnan(v) else v for v in self.nodes]
        return {"kind": self.kind, "nodes": nodes, "weights": list(self.weights)}
