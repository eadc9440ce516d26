"""Empirical measure: weighted atoms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from oakgp.measures.base import Array, Measure, distinct_values

_ON_CUT = 1e-9


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

        With more than ``max_nodes`` distinct values, these are cut into at most ``max_nodes``
        groups of about equal weight, and each group is represented by its mean. The measure
        depends on the distribution alone: repeated rows count as rows of larger weight.
        """
        mass = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)
        absent = np.isnan(x) | (mass <= 0)
        share = float(mass[np.isnan(x)].sum() / mass.sum())
        if absent.all():
            return cls((math.nan,), (1.0,))
        nodes, mass = distinct_values(x[~absent], mass[~absent])
        if len(nodes) > max_nodes:
            position = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
            # A middle that lies on a cut belongs above it, whatever the rounding of the sums.
            cell = (position * max_nodes + _ON_CUT).astype(int)
            starts = np.flatnonzero(np.r_[True, np.diff(cell) > 0])
            totals = np.add.reduceat(mass, starts)
            # Divide first: a sum of values near the largest float would overflow.
            within = mass / np.repeat(totals, np.diff(np.r_[starts, len(mass)]))
            nodes, mass = np.add.reduceat(nodes * within, starts), totals
        totals = mass / mass.sum() * (1.0 - share)
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
