"""The kernel engine's posterior: features are covariances with training rows or inducing points.

A component has mean psi_u(x)^T a and variance k_u(x, x) - |W psi_u(x)|^2; a sum of components has
the sum of their feature maps and prior variances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from oakgp.kernels.additive import AdditiveKernel, Parameters
from oakgp.kernels.terms import Term, TermSet
from oakgp.ops.layout import Points, Weights
from oakgp.posterior.base import Posterior, with_constant

if TYPE_CHECKING:
    from oakgp.sensitivity.variances import Variances

_BATCH_ENTRIES = 8_000_000  # entries of the feature matrix made at a time


@dataclass(frozen=True, eq=False)
class KernelMap:
    """Feature map of the kernel engine: psi_u(x) = k_u(x, anchors).

    Parameters
    ----------
    kernel, parameters
        The model.
    x
        ``[d, m]`` anchors: the training rows (exact) or the inducing points (sparse), encoded.
    """

    kernel: AdditiveKernel
    parameters: Parameters
    x: Tensor

    @cached_property
    def weights(self) -> Weights:
        """Parameters as the fused operation reads them."""
        return self.kernel.weights(self.parameters)

    @cached_property
    def anchors(self) -> Points:
        """The anchors with their embeddings."""
        return self.points(self.x)

    @property
    def size(self) -> int:
        """Number of anchors."""
        return int(self.x.shape[1])

    def points(self, x: Tensor) -> Points:
        """Return encoded rows with their embeddings."""
        return self.kernel.points(self.parameters, x)

    def features(self, points: Points, terms: Sequence[Term] | None) -> Tensor:
        """Return psi(x), ``[n, m]``: of the whole function, or of the sum of some terms."""
        if terms is None:
            return self.kernel.matrix(self.weights, points, self.anchors)
        return self._sum(points, self.anchors, terms)

    def prior(self, points: Points, terms: Sequence[Term] | None) -> Tensor:
        """Return the prior variance at each point, ``[n]``."""
        if terms is None:
            return self.kernel.diagonal(self.weights, points)
        total = torch.zeros(points.n, dtype=self.x.dtype, device=self.x.device)
        for term in terms:
            total = total + self.kernel.term_diagonal(self.weights, term, points)
        return total

    def prior_covariance(
        self, left: Points, right: Points | None, terms: Sequence[Term] | None
    ) -> Tensor:
        """Return the prior covariance between two sets of points, ``[n, m]``."""
        if terms is None:
            return self.kernel.matrix(self.weights, left, right)
        return self._sum(left, left if right is None else right, terms)

    def _sum(self, left: Points, right: Points, terms: Sequence[Term]) -> Tensor:
        total = torch.zeros((left.n, right.n), dtype=self.x.dtype, device=self.x.device)
        for term in terms:
            total = total + self.kernel.term_matrix(self.weights, term, left, right)
        return total


@dataclass(frozen=True, eq=False)
class KernelPosterior(Posterior):
    """Posterior of the exact and of the sparse engine.

    Parameters
    ----------
    features
        Feature map.
    mean_weights
        ``[m]``: the vector a.
    whitener
        ``[k, m]``: the matrix W.
    noise
        Noise variance of a row of weight 1.
    kept
        Terms that predictions sum over; None means all of the model's (no truncation).
    """

    features: KernelMap
    mean_weights: Tensor
    whitener: Tensor
    noise: float
    kept: tuple[Term, ...] | None = None

    @property
    def kernel(self) -> AdditiveKernel:
        """Structure of the model."""
        return self.features.kernel

    @property
    def parameters(self) -> Parameters:
        """Hyperparameters of the model."""
        return self.features.parameters

    @property
    def terms(self) -> TermSet:
        """The terms of the model, kept or not."""
        return self.kernel.terms

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.kernel.n_features

    @property
    def orthogonal(self) -> bool:
        """Whether components are orthogonal under the measures."""
        return self.kernel.orthogonal

    def keep(self, terms: Sequence[Term] | None) -> KernelPosterior:
        """Return the posterior of the sum of some terms only (the constant always stays)."""
        return replace(self, kept=None if terms is None else with_constant(terms))

    def variances(self, others: Sequence[Posterior] = ()) -> Variances:
        """Return the variances of the components over the inputs."""
        from oakgp.sensitivity.kernel_variances import KernelVariances

        return KernelVariances(self, [p for p in others if isinstance(p, KernelPosterior)])

    def shapley(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance of the Shapley value of every feature, each ``[d, n]``."""
        from oakgp.sensitivity.shapley import shapley_moments

        return shapley_moments(self, x)

    def shapley_covariance(self, x: Tensor) -> Tensor:
        """Return the posterior covariance of the features' Shapley values, ``[n, d, d]``."""
        from oakgp.sensitivity.shapley import shapley_covariance

        return shapley_covariance(self, x)

    def component_moments(self, x: Tensor, terms: Sequence[Term]) -> tuple[Tensor, Tensor]:
        """Return posterior mean and variance of each of some components, both ``[k, n]``."""
        from oakgp.sensitivity.contributions import component_moments

        return component_moments(self, x, terms)

    def rest_variance(self, x: Tensor, terms: Sequence[Term]) -> Tensor:
        """Return the variance of f less the constant and less some components, ``[n]``."""
        from oakgp.sensitivity.contributions import rest_variance

        return rest_variance(self, x, terms)

    def _selection(self, term: Term | None) -> Sequence[Term] | None:
        return self.kept if term is None else (term,)

    def _batches(self, x: Tensor) -> list[Tensor]:
        size = max(1, _BATCH_ENTRIES // max(1, self.features.size))
        return list(torch.arange(x.shape[1], device=x.device).split(size))

    def mean(self, x: Tensor, term: Term | None = None) -> Tensor:
        """Return the posterior mean of f, or of one component, ``[d, n] -> [n]``."""
        parts = [
            self.features.features(self.features.points(x[:, rows]), self._selection(term))
            @ self.mean_weights
            for rows in self._batches(x)
        ]
        return torch.cat(parts) if parts else x.new_zeros(0)

    def mean_and_variance(self, x: Tensor, term: Term | None = None) -> tuple[Tensor, Tensor]:
        """Return posterior mean and variance of f, or of one component, each ``[n]``."""
        chosen = self._selection(term)
        means, variances = [x.new_zeros(0)], [x.new_zeros(0)]
        for rows in self._batches(x):
            points = self.features.points(x[:, rows])
            psi = self.features.features(points, chosen)
            explained = ((psi @ self.whitener.T) ** 2).sum(dim=1)
            prior = self.features.prior(points, chosen)
            means.append(psi @ self.mean_weights)
            # Rounding may leave a hair below zero where the data pin the function down.
            variances.append((prior - explained).clamp_min(0.0))
        return torch.cat(means), torch.cat(variances)

    def covariance(
        self, x: Tensor, other: Tensor | None = None, term: Term | None = None
    ) -> Tensor:
        """Return the posterior covariance of f, or of one component, between points ``[n, m]``."""
        chosen = self._selection(term)
        left = self.features.points(x)
        right = left if other is None else self.features.points(other)
        prior = self.features.prior_covariance(left, None if other is None else right, chosen)
        a = self.features.features(left, chosen) @ self.whitener.T
        b = a if other is None else self.features.features(right, chosen) @ self.whitener.T
        return prior - a @ b.T
