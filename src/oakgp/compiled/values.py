"""Components of a posterior on grids: what is engine-specific about the compilation of tables.

`ComponentValues` asks the posterior for its means and so serves every engine. The kernel engine's
components are sums over anchors of products of pages k~_i(x_i, anchor), so a grid of two features
is one matrix product: `PageValues`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp.basis.layout import design
from oakgp.basis.posterior import BasisPosterior
from oakgp.kernels import constrained
from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.ops.layout import Points
from oakgp.posterior import KernelPosterior
from oakgp.response import as_array

Array = NDArray[np.float64]

_ENTRIES = 4_000_000  # of a matrix made at a time
_KEPT = 64  # pages


Coordinates: TypeAlias = tuple[Array, ...]
Vectors: TypeAlias = Callable[[Term, Coordinates], Array]


class Values(ABC):
    """Means of components, and their covariances with the function at some rows.

    Coordinates are those of the kernel (after the flow), codes for categories; values are on the
    model's scale.
    """

    @abstractmethod
    def mean(self, term: Term, coordinates: Coordinates) -> Array:
        """Return the mean of a component over the grid of one or two features' coordinates."""

    def vectors(self, rows: Tensor, terms: tuple[Term, ...], turn: Array) -> Vectors | None:
        """Return a function that gives cov(f_u(x), f(rows)) @ turn over the grid of coordinates.

        Parameters
        ----------
        rows
            ``[d, n]``.
        terms
            Those that f sums over.
        turn
            ``[n, rank]``.

        Returns
        -------
        callable or None
            Its results have shape ``[*grid, rank]``. None where the engine has no way to them.
        """
        return None

    @abstractmethod
    def covariance(self, rows: Tensor, terms: tuple[Term, ...]) -> Array:
        """Return the covariance of f at rows that `vectors` adds up to, ``[n, n]``."""

    def knots(self, i: int) -> Array | None:
        """Return coordinates between which all components of a feature are straight lines."""
        return None

    def unknown(self, term: Term, coordinates: Coordinates) -> Array | None:
        """Return the variance on top where training had nothing like a value; None for nowhere."""
        return None


class ComponentValues(Values):
    """Of any posterior, by its own `mean`."""

    def __init__(self, model: Model) -> None:
        self.model = model
        nodes = [column.feature.measure.atoms[0] for column in model.columns]
        self.valid = np.array(
            [n[np.isfinite(n)][0] if np.isfinite(n).any() else 0.0 for n in nodes]
        )

    def rows(self, term: Term, coordinates: Coordinates) -> Tensor:
        """Return the rows of a grid: the other features stand at any valid value."""
        grids = np.meshgrid(*coordinates, indexing="ij") if term else []
        n = grids[0].size if grids else 1
        rows = np.repeat(self.valid[:, None], n, axis=1)
        for i, grid in zip(term, grids, strict=True):
            rows[i] = grid.ravel()
        like = self.model.posterior.mean_weights
        return torch.tensor(rows, dtype=like.dtype, device=like.device)

    def mean(self, term: Term, coordinates: Coordinates) -> Array:
        """Return the mean over a grid; see `Values.mean`."""
        x = self.rows(term, coordinates)
        step = max(1, _ENTRIES // max(1, len(x)))
        parts = [self.model.posterior.mean(part, term) for part in x.split(step, dim=1)]
        return as_array(torch.cat(parts)).reshape([len(c) for c in coordinates])

    def covariance(self, rows: Tensor, terms: tuple[Term, ...]) -> Array:
        """Return the posterior covariance; see `Values.covariance`."""
        return as_array(self.model.posterior.keep(terms).covariance(rows))


class BasisValues(ComponentValues):
    """Of the basis engine, whose weights have a joint covariance R^T R."""

    def __init__(self, model: Model, posterior: BasisPosterior) -> None:
        super().__init__(model)
        self.posterior = posterior

    def knots(self, i: int) -> Array | None:
        """Return the knots of the feature's functions; see `Values.knots`."""
        basis = self.posterior.layout.bases[i]
        return None if basis.is_categorical or len(basis.knots) < 2 else as_array(basis.knots)

    def _factor(self, rows: Tensor, terms: tuple[Term, ...]) -> Tensor:
        """Return R phi(x) of a sum of terms, ``[F, n]``."""
        chosen = [u for u in self.posterior.layout.terms if u in set(terms) and u]
        columns = self.posterior.layout.columns_of([(), *chosen])
        root = self.posterior.root[:, columns.to(self.posterior.root.device)]
        if () not in terms:
            root[:, 0] = 0.0
        found: Tensor = root @ design(self.posterior.layout.only(chosen), rows)
        return found

    def covariance(self, rows: Tensor, terms: tuple[Term, ...]) -> Array:
        """Return the covariance of what the weights say, values never seen left out."""
        factor = self._factor(rows, terms)
        return as_array(factor.T @ factor)

    def vectors(self, rows: Tensor, terms: tuple[Term, ...], turn: Array) -> Vectors:
        """Return products of the factors of a component and of f; see `Values.vectors`."""
        factor = self._factor(rows, terms)
        turned = factor @ torch.from_numpy(turn).to(factor)

        def vectors(term: Term, coordinates: Coordinates) -> Array:
            shape = [*(len(c) for c in coordinates), turn.shape[1]]
            x = self.rows(term, coordinates)
            parts = [self._factor(part, (term,)).T @ turned for part in x.split(65_536, dim=1)]
            found = as_array(torch.cat(parts))
            return found.reshape(shape) if term else found[0]

        return vectors

    def unknown(self, term: Term, coordinates: Coordinates) -> Array | None:
        """Return the prior variance of values that training never had; see `Values.unknown`."""
        layout = self.posterior.layout.only([term])
        x = self.rows(term, coordinates)
        total = sum((v for _, v in self.posterior.unknown_variances(layout, x)), torch.zeros(1))
        if not bool((total > 0).any()):
            return None
        return as_array(total).reshape([len(c) for c in coordinates])


class PageValues(ComponentValues):
    """Of the kernel engine, by the pages of single features."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        posterior: Any = model.posterior
        self.features, self.a = posterior.features, posterior.mean_weights
        self.whitener = posterior.whitener
        weights = self.features.weights
        self.variances = weights.order_variances
        self.unit = replace(weights, order_variances=torch.ones_like(self.variances))
        self._kept: dict[tuple[int, bytes], Tensor] = {}

    def points(self, i: int, coordinates: Array) -> Points:
        """Return the points of one feature; the others' entries are never read."""
        kernel, like = self.features.kernel, self.features.x
        feature = kernel.features[i]
        x = like.new_zeros((len(kernel.features), len(coordinates)))
        embed = torch.zeros_like(x)
        x[i] = feature.coordinates(torch.from_numpy(coordinates).to(like))
        if kernel.orthogonal:
            lengthscale = self.features.parameters.lengthscales[i : i + 1]
            embed[i] = constrained.embeddings((feature,), x[i : i + 1], lengthscale)[0]
        return Points(x, embed)

    def page(self, i: int, coordinates: Array, others: Points | None = None) -> Tensor:
        """Return c_i k~_i between coordinates and the anchors (or other points), ``[n, m]``."""
        key = i, coordinates.tobytes()
        if others is None and key in self._kept:
            return self._kept[key]
        right = self.features.anchors if others is None else others
        left = self.points(i, coordinates)
        page: Tensor = self.features.kernel.term_matrix(self.unit, (i,), left, right)
        if others is None:
            if len(self._kept) > _KEPT:
                self._kept.clear()
            self._kept[key] = page
        return page

    def mean(self, term: Term, coordinates: Coordinates) -> Array:
        """Return the mean over a grid; see `Values.mean`."""
        if not term:
            return super().mean(term, coordinates)
        variance = self.variances[len(term)]
        if len(term) == 1:
            return as_array(variance * (self.page(term[0], coordinates[0]) @ self.a))
        left, right = (self.page(i, c) for i, c in zip(term, coordinates, strict=True))
        return as_array(variance * ((left * self.a) @ right.T))

    def vectors(self, rows: Tensor, terms: tuple[Term, ...], turn: Array) -> Vectors:
        """Return prior covariance less what the data explain; see `Values.vectors`.

        Both are sums over points (the anchors, and the rows) of products of pages.
        """
        points = self.features.points(rows)
        psi = self.features.features(points, terms)
        turned = torch.from_numpy(turn).to(psi)
        explained = self.whitener.T @ (self.whitener @ (psi.T @ turned))
        matrix = torch.cat([turned, -explained])
        anchors = self.features.anchors
        both = Points(
            torch.cat([points.x, anchors.x], dim=1), torch.cat([points.embed, anchors.embed], dim=1)
        )

        def vectors(term: Term, coordinates: Coordinates) -> Array:
            variance = self.variances[len(term)]
            if not term:
                return as_array(variance * matrix.sum(dim=0))
            pages = [self.page(i, c, both) for i, c in zip(term, coordinates, strict=True)]
            if len(term) == 1:
                return as_array(variance * (pages[0] @ matrix))
            step = max(1, _ENTRIES // (len(matrix) * len(pages[1])))
            parts = [
                (left[:, None, :] * pages[1]).reshape(-1, len(matrix)) @ matrix
                for left in pages[0].split(step)
            ]
            shape = (len(pages[0]), len(pages[1]), turn.shape[1])
            return as_array(variance * torch.cat(parts)).reshape(shape)

        return vectors


def values_of(model: Model) -> Values:
    """Return the quickest way to a model's components."""
    if isinstance(model.posterior, KernelPosterior):
        return PageValues(model)
    if isinstance(model.posterior, BasisPosterior):
        return BasisValues(model, model.posterior)
    return ComponentValues(model)
