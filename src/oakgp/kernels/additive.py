"""The orthogonal additive kernel: sum_r sigma2_r e_r(k~_1, ..., k~_D), and its single terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from oakgp import ops
from oakgp.kernels import constrained
from oakgp.kernels.categorical import CategoricalKernel
from oakgp.kernels.constrained import Feature, SobolPoints
from oakgp.kernels.terms import Block, Term, TermSet
from oakgp.ops.layout import Layout, Points, Weights
from oakgp.ops.reference import esp


@dataclass(frozen=True)
class Parameters:
    """Hyperparameters of the model, all tensors, all differentiable.

    Parameters
    ----------
    lengthscales
        ``[d]``; 1 for categorical features, which have none.
    scales
        ``[d]`` variance per feature.
    order_variances
        ``[R + 1]`` variance per order, the constant first.
    noise
        Scalar noise variance.
    mixing, diagonal
        W and kappa of each categorical feature, in feature order.
    """

    lengthscales: Tensor
    scales: Tensor
    order_variances: Tensor
    noise: Tensor
    mixing: tuple[Tensor, ...] = ()
    diagonal: tuple[Tensor, ...] = ()

    def detach(self) -> Parameters:
        """Return the same values cut from the gradient tape."""
        return self._map(lambda t: t.detach())

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Parameters:
        """Return the same values on another device or with another dtype."""
        return self._map(lambda t: t.to(device=device, dtype=dtype))

    def _map(self, function: Callable[[Tensor], Tensor]) -> Parameters:
        return Parameters(
            function(self.lengthscales),
            function(self.scales),
            function(self.order_variances),
            function(self.noise),
            tuple(function(w) for w in self.mixing),
            tuple(function(kappa) for kappa in self.diagonal),
        )


@dataclass(frozen=True)
class AdditiveKernel:
    """Structure of the kernel; the hyperparameters come with each call.

    Parameters
    ----------
    features
        The model's columns.
    terms
        Which terms exist.
    orthogonal
        False leaves the base kernels unconstrained (Duvenaud 2011), for comparison.
    """

    features: tuple[Feature, ...]
    terms: TermSet
    orthogonal: bool = True

    @property
    def n_features(self) -> int:
        """Number of features D."""
        return len(self.features)

    @property
    def max_order(self) -> int:
        """Highest interaction order R."""
        return self.terms.max_order

    @cached_property
    def categorical(self) -> tuple[int, ...]:
        """Numbers of the categorical features."""
        return tuple(i for i, f in enumerate(self.features) if f.is_categorical)

    def layout(self, block: Block) -> Layout:
        """Return the fused operation's description of one block."""
        chosen = [self.features[i] for i in block.features]
        return Layout(
            kinds=tuple(f.kind for f in chosen),
            table_sizes=tuple(f.table_size for f in chosen),
            mandatory=tuple(k < len(block.mandatory) for k in range(len(chosen))),
            max_order=block.max_order,
        )

    @cached_property
    def _whole(self) -> Layout:
        return self.layout(Block((), tuple(range(self.n_features)), self.max_order))

    def tables(self, parameters: Parameters) -> list[Tensor]:
        """Return the constrained table of each feature (empty for numeric features)."""
        tables: list[Tensor] = []
        position = 0
        for feature in self.features:
            if not isinstance(feature.kernel, CategoricalKernel):
                tables.append(parameters.scales.new_zeros((0, 0)))
                continue
            a = feature.kernel.covariance(
                parameters.mixing[position], parameters.diagonal[position]
            )
            weights = feature.measure.node_tensors(a)[1] if self.orthogonal else None
            tables.append(feature.kernel.table(a, weights))
            position += 1
        return tables

    def weights(self, parameters: Parameters) -> Weights:
        """Return the parameters as the fused operation reads them."""
        tables = [t.reshape(-1) for t in self.tables(parameters) if t.numel()]
        flat = torch.cat(tables) if tables else parameters.scales.new_zeros(0)
        return Weights(parameters.order_variances, parameters.scales, parameters.lengthscales, flat)

    def points(self, parameters: Parameters, x: Tensor) -> Points:
        """Return encoded rows ``[d, n]`` ready for the fused operation, embeddings included."""
        if not self.features:
            return Points(x, x)
        coordinates = torch.stack(
            [f.coordinates(row) for f, row in zip(self.features, x, strict=True)]
        )
        if not self.orthogonal:
            return Points(coordinates, torch.zeros_like(coordinates))
        return Points(
            coordinates,
            constrained.embeddings(self.features, coordinates, parameters.lengthscales),
        )

    def matrix(self, weights: Weights, left: Points, right: Points | None = None) -> Tensor:
        """Return K between two sets of points, ``[n, m]`` (``right=None``: the same points)."""
        total: Tensor | None = None
        for block in self.terms.blocks:
            part = self._block_matrix(block, weights, left, right)
            total = part if total is None else total + part
        assert total is not None
        return total

    def _block_matrix(
        self, block: Block, weights: Weights, left: Points, right: Points | None
    ) -> Tensor:
        index = block.features
        if index == list(range(self.n_features)) and block.max_order == self.max_order:
            return ops.additive_kernel(self.layout(block), weights, left, right)
        chosen = weights.features(self._whole, index)
        chosen = replace(chosen, order_variances=weights.order_variances[: block.max_order + 1])
        other = None if right is None else right.features(index)
        return ops.additive_kernel(self.layout(block), chosen, left.features(index), other)

    def diagonal(self, weights: Weights, points: Points) -> Tensor:
        """Return K(x, x) for each point, ``[n]``."""
        z = self._pages_diagonal(weights, points)
        total = torch.zeros(points.n, dtype=z.dtype, device=z.device)
        for block in self.terms.blocks:
            layout = self.layout(block)
            orders = esp(z[block.features], block.max_order, layout.mandatory)
            for variance, e in zip(weights.order_variances, orders, strict=False):
                total = total + variance * e
        return total

    def _pages_diagonal(self, weights: Weights, points: Points) -> Tensor:
        """Return k~_i(x, x) of every feature and point, scaled, ``[d, n]``."""
        pages = []
        for i, feature in enumerate(self.features):
            if feature.is_categorical:
                size, start = self._whole.table_sizes[i], self._whole.table_offsets[i]
                table = weights.tables[start : start + size * size].reshape(size, size)
                page = table.diagonal()[points.x[i].long()]
            else:
                page = 1.0 - points.embed[i] ** 2
            pages.append(weights.scales[i] * page)
        return torch.stack(pages) if pages else points.x

    def term_matrix(
        self, weights: Weights, term: Term, left: Points, right: Points | None = None
    ) -> Tensor:
        """Return the prior covariance of one component, sigma2_r prod k~_i, ``[n, m]``."""
        if not term:
            m = left.n if right is None else right.n
            return weights.order_variances[0].expand(left.n, m)
        order = len(term)
        only = torch.zeros_like(weights.order_variances[: order + 1])
        only = torch.cat([only[:order], weights.order_variances[order : order + 1]])
        weights = replace(weights, order_variances=only)
        return self._block_matrix(Block(term, (), order), weights, left, right)

    def term_diagonal(self, weights: Weights, term: Term, points: Points) -> Tensor:
        """Return the prior variance of one component at each point, ``[n]``."""
        if not term:
            return weights.order_variances[0].expand(points.n)
        z = self._pages_diagonal(weights, points)
        product: Tensor = z[list(term)].prod(dim=0)
        return weights.order_variances[len(term)] * product

    def sobol_points(self, parameters: Parameters, x: Tensor) -> list[SobolPoints]:
        """Return the coordinates ``[d, n]`` ready for blocks of c_i^2 E[k~_i(X, a) k~_i(X, b)]."""
        tables = self.tables(parameters)
        return [
            SobolPoints(f, x[i], parameters.lengthscales[i], tables[i], parameters.scales[i])
            for i, f in enumerate(self.features)
        ]

    def mean_variances(self, parameters: Parameters) -> Tensor:
        """Return scale_i E[k~_i(X, X)] of every feature, ``[d]``."""
        if not self.features:
            return parameters.scales  # of length 0 too
        tables = self.tables(parameters)
        return torch.stack(
            [
                parameters.scales[i]
                * constrained.mean_variance(f, parameters.lengthscales[i], tables[i])
                for i, f in enumerate(self.features)
            ]
        )
