"""Components of a posterior on grids: what is engine-specific about the compilation of tables.

`ComponentValues` asks the posterior for its means and so serves every engine. The kernel engine's
components are sums over anchors of products of pages k~_i(x_i, anchor), so a grid of two features
is one matrix product: `PageValues`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.posterior import KernelMap
from oakgp.response import as_array

Array = NDArray[np.float64]

_ENTRIES = 4_000_000  # of a grid's rows evaluated at a time


class Values(ABC):
    """Means of components, and their covariances with the function at some rows.

    Coordinates are those of the kernel (after the flow), codes for categories; values are on the
    model's scale.
    """

    @abstractmethod
    def mean(self, term: Term, coordinates: tuple[Array, ...]) -> Array:
        """Return the mean of a component over the grid of one or two features' coordinates."""

    def covariance(
        self, term: Term, coordinates: tuple[Array, ...], rows: Tensor, terms: tuple[Term, ...]
    ) -> Array | None:
        """Return the posterior covariance of a component, over a grid, with sum f at rows.

        Shape ``[*grid, n_rows]``; ``terms`` are those that f sums over. None where the engine has
        no way to it.
        """
        return None


class ComponentValues(Values):
    """Of any posterior, by its own `mean`."""

    def __init__(self, model: Model) -> None:
        self.model = model
        nodes = [column.feature.measure.atoms[0] for column in model.columns]
        self.valid = np.array(
            [n[np.isfinite(n)][0] if np.isfinite(n).any() else 0.0 for n in nodes]
        )

    def rows(self, term: Term, coordinates: tuple[Array, ...]) -> Tensor:
        """Return the rows of a grid: the other features stand at any valid value."""
        grids = np.meshgrid(*coordinates, indexing="ij") if term else []
        n = grids[0].size if grids else 1
        rows = np.repeat(self.valid[:, None], n, axis=1)
        for i, grid in zip(term, grids, strict=True):
            rows[i] = grid.ravel()
        like = self.model.posterior.mean_weights
        return torch.tensor(rows, dtype=like.dtype, device=like.device)

    def mean(self, term: Term, coordinates: tuple[Array, ...]) -> Array:
        """Return the mean over a grid; see `Values.mean`."""
        x = self.rows(term, coordinates)
        step = max(1, _ENTRIES // max(1, len(x)))
        parts = [self.model.posterior.mean(part, term) for part in x.split(step, dim=1)]
        return as_array(torch.cat(parts)).reshape([len(c) for c in coordinates])


class PageValues(ComponentValues):
    """Of the kernel engine, by the pages of single features."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        posterior = model.posterior
        self.features, self.a = posterior.features, posterior.mean_weights
        self.whitener = posterior.whitener
        weights = self.features.weights
        self.variances = weights.order_variances
        self.unit = replace(weights, order_variances=torch.ones_like(self.variances))
        self._kept: dict[tuple[int, bytes], Tensor] = {}
        self._explained: tuple[Any, Tensor] | None = None

    def page(self, i: int, coordinates: Array, other: Tensor | None = None) -> Tensor:
        """Return c_i k~_i between coordinates and the anchors (or other rows), ``[n, m]``."""
        key = i, coordinates.tobytes()
        if other is None and key in self._kept:
            return self._kept[key]
        left = self.features.points(self.rows((i,), (coordinates,)))
        right = self.features.anchors if other is None else self.features.points(other)
        page = self.features.kernel.term_matrix(self.unit, (i,), left, right)
        if other is None:
            if len(self._kept) > 64:
                self._kept.clear()
            self._kept[key] = page
        return page

    def mean(self, term: Term, coordinates: tuple[Array, ...]) -> Array:
        """Return the mean over a grid; see `Values.mean`."""
        if not term:
            return super().mean(term, coordinates)
        variance = self.variances[len(term)]
        if len(term) == 1:
            return as_array(variance * (self.page(term[0], coordinates[0]) @ self.a))
        left, right = (self.page(i, c) for i, c in zip(term, coordinates, strict=True))
        return as_array(variance * ((left * self.a) @ right.T))

    def covariance(
        self, term: Term, coordinates: tuple[Array, ...], rows: Tensor, terms: tuple[Term, ...]
    ) -> Array | None:
        """Return prior covariance less what the data explain; see `Values.covariance`."""
        if self._explained is None or self._explained[0] is not rows:
            psi = self.features.features(self.features.points(rows), terms)
            self._explained = rows, self.whitener.T @ (self.whitener @ psi.T)
        shape = [len(c) for c in coordinates]
        if not term:
            n = rows.shape[1]
            psi_row = self.variances[0].expand(1, len(self.a))
            cov = self.variances[0] - psi_row @ self._explained[1]
            return as_array(cov).reshape(n)
        anchors = [self.page(i, c) for i, c in zip(term, coordinates, strict=True)]
        others = [self.page(i, c, rows) for i, c in zip(term, coordinates, strict=True)]
        variance = self.variances[len(term)]
        if len(term) == 1:
            return as_array(variance * (others[0] - anchors[0] @ self._explained[1]))
        out = np.empty((*shape, rows.shape[1]))
        for k in range(shape[0]):
            prior = others[0][k] * others[1]
            psi = anchors[0][k] * anchors[1]
            out[k] = as_array(variance * (prior - psi @ self._explained[1]))
        return out


def values_of(model: Model) -> Values:
    """Return the quickest way to a model's components."""
    features: Any = getattr(model.posterior, "features", None)
    return PageValues(model) if isinstance(features, KernelMap) else ComponentValues(model)
