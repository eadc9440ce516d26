"""Edited components as tables: a mean and a factor of the deviations, by linear interpolation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from oakgp.kernels import CategoricalKernel
from oakgp.kernels.constrained import Feature

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GridAxis:
    """Where the entries of a table stand along one feature.

    Parameters
    ----------
    nodes
        Increasing coordinates of the kernel, between which is interpolated and beyond which the
        table is flat; codes 0 .. L-1 of a categorical feature. One more entry stands for all else:
        "missing" of a numeric feature, levels never seen of a categorical one.
    levels
        Whether the nodes are codes.
    """

    nodes: tuple[float, ...]
    levels: bool = False

    @property
    def size(self) -> int:
        """Number of entries."""
        return len(self.nodes) + 1

    @cached_property
    def coordinates(self) -> Array:
        """The coordinate of each entry."""
        return np.array([*self.nodes, -1.0 if self.levels else math.nan])

    def weights(self, z: Array) -> Array:
        """Return the matrix from entries to values at coordinates, ``[n, entries]``."""
        found = np.zeros((len(z), self.size))
        if self.levels:
            n = len(self.nodes)
            codes = np.where(np.isnan(z), n - 1 if self.has_missing else n, z)
            codes = np.where((codes >= 0) & (codes < n), codes, n).astype(int)
            found[np.arange(len(z)), codes] = 1.0
            return found
        present = np.flatnonzero(~np.isnan(z))
        found[np.isnan(z), -1] = 1.0
        nodes = np.array(self.nodes)
        if len(nodes) == 1:
            found[present, 0] = 1.0
            return found
        at = np.clip(z[present], nodes[0], nodes[-1])
        cell = np.clip(np.searchsorted(nodes, at, side="right") - 1, 0, len(nodes) - 2)
        t = (at - nodes[cell]) / (nodes[cell + 1] - nodes[cell])
        found[present, cell] = 1.0 - t
        found[present, cell + 1] = t
        return found

    @property
    def has_missing(self) -> bool:
        """Whether the last code of a categorical feature stands for "missing"."""
        return self.levels and len(self.nodes) > 0 and math.isnan(self.nodes[-1])


def axis_of(feature: Feature, most: int) -> tuple[GridAxis, Array]:
    """Return an axis at the nodes of a feature's measure, and the probability of its entries.

    Of a numeric feature, at most so many nodes: neighbours are merged.
    """
    nodes, weights = feature.measure.atoms
    if isinstance(feature.kernel, CategoricalKernel):
        codes = np.arange(len(nodes), dtype=np.float64)
        if feature.kernel.has_missing:
            codes[-1] = np.nan
        return GridAxis(tuple(codes.tolist()), True), np.r_[weights, 0.0]
    lost = np.isnan(nodes)
    z, first = np.unique(nodes[~lost], return_inverse=True)
    mass = np.bincount(first, weights=weights[~lost], minlength=len(z))
    if len(z) > most:
        below = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
        group = np.minimum((below * most).astype(int), most - 1)
        group = np.unique(group, return_inverse=True)[1]
        totals = np.bincount(group, weights=mass)
        middle = np.bincount(group, weights=mass * z) / np.maximum(totals, 1e-300)
        z, mass = middle, totals
    return GridAxis(tuple(z.tolist())), np.r_[mass, weights[lost].sum()]


@dataclass(frozen=True, eq=False)
class ComponentGrid:
    """An edited component: mean(x) + factor(x) * (f_u(x) - its mean before).

    The deviations keep their correlations with each other and with all other components.

    Parameters
    ----------
    axes
        One for each feature of the term.
    mean, factor
        Entries of the tables, on the model's scale.
    probability
        Of the entries, under the measures.
    """

    axes: tuple[GridAxis, ...]
    mean: Array
    factor: Array
    probability: Array

    def at(self, z: Array) -> tuple[Array, Array]:
        """Return mean and factor at rows of coordinates ``[features, n]``."""
        mean, factor = self.mean, self.factor
        weights = [axis.weights(column) for axis, column in zip(self.axes, z, strict=True)]
        if len(weights) == 1:
            return weights[0] @ mean, weights[0] @ factor
        left, right = weights
        return ((left @ mean) * right).sum(axis=1), ((left @ factor) * right).sum(axis=1)

    @property
    def entries(self) -> Array:
        """Coordinates of all entries, ``[features, entries]``."""
        grids = np.meshgrid(*(axis.coordinates for axis in self.axes), indexing="ij")
        return np.stack([grid.ravel() for grid in grids])

    @property
    def variance(self) -> float:
        """Variance of the mean over the measures."""
        p, m = self.probability.ravel(), self.mean.ravel()
        return float(p @ m**2 - (p @ m) ** 2)

    def scaled(self, factor: float) -> ComponentGrid:
        """Return the component times a number."""
        return ComponentGrid(self.axes, factor * self.mean, factor * self.factor, self.probability)
