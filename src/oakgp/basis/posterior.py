"""The basis engine's posterior: Gaussian weights of orthonormal columns, term by term.

A component has mean phi_u(x)^T a_u and variance |R_u phi_u(x)|^2, R^T R being the posterior
covariance of the weights. Where a row has something that training never had (an unseen level, a
missing value), the prior variance of the components concerned comes on top, and their mean is 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from oakgp.basis.layout import BasisLayout, design
from oakgp.basis.passes import moments
from oakgp.basis.prior import BasisParameters
from oakgp.kernels.terms import Term, TermSet
from oakgp.posterior.base import Posterior, with_constant

if TYPE_CHECKING:
    from oakgp.sensitivity.variances import Variances


@dataclass(frozen=True, eq=False)
class BasisPosterior(Posterior):
    """Posterior of the basis engine.

    Parameters
    ----------
    layout
        The basis.
    parameters
        Hyperparameters.
    mean_weights
        ``[F]`` posterior mean of the weights.
    root
        ``[F, F]`` the matrix R.
    noise
        Noise variance of a row of weight 1.
    kept
        Terms that predictions sum over; None means all of the model's (no truncation).
    """

    layout: BasisLayout
    parameters: BasisParameters
    mean_weights: Tensor
    root: Tensor
    noise: float
    kept: tuple[Term, ...] | None = None

    @property
    def terms(self) -> TermSet:
        """The terms of the model, kept or not."""
        return self.layout.term_set

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.layout.n_features

    @property
    def orthogonal(self) -> bool:
        """Whether components are orthogonal under the measures: always."""
        return True

    def keep(self, terms: Sequence[Term] | None) -> BasisPosterior:
        """Return the posterior of the sum of some terms only (the constant always stays)."""
        return replace(self, kept=None if terms is None else with_constant(terms))

    def part(self, term: Term | None) -> tuple[BasisLayout, Tensor, Tensor]:
        """Return the layout, mean weights and R's columns of a term, or of all kept terms.

        The constant's column comes first, with weight 0 where it is no part of the sum.
        """
        if term is None and self.kept is None:
            return self.layout, self.mean_weights, self.root
        chosen = self.kept if term is None else (term,)
        assert chosen is not None
        ordered = [u for u in self.layout.terms if u in set(chosen) and u]
        columns = self.layout.columns_of([(), *ordered]).to(self.mean_weights.device)
        mean, root = self.mean_weights[columns], self.root[:, columns]
        if () not in chosen:
            mean[0], root[:, 0] = 0.0, 0.0
        return self.layout.only(ordered), mean, _compressed(root)

    def mean(self, x: Tensor, term: Term | None = None) -> Tensor:
        """Return the posterior mean of f, or of one component, ``[d, n] -> [n]``."""
        layout, mean, _ = self.part(term)
        return moments(layout, x, mean[None], None)[0][0]

    def mean_and_variance(self, x: Tensor, term: Term | None = None) -> tuple[Tensor, Tensor]:
        """Return posterior mean and variance of f, or of one component, each ``[n]``."""
        layout, weights, root = self.part(term)
        mean, variance = moments(layout, x, weights[None], root)
        assert variance is not None
        return mean[0], variance + self._unknown_variance(layout, x)

    def covariance(
        self, x: Tensor, other: Tensor | None = None, term: Term | None = None
    ) -> Tensor:
        """Return the posterior covariance of f, or of one component, between points ``[n, m]``."""
        layout, _, root = self.part(term)
        left = root @ design(layout, x)
        if other is not None:
            return left.T @ (root @ design(layout, other))
        return left.T @ left + torch.diag(self._unknown_variance(layout, x))

    def variances(self, others: Sequence[Posterior] = ()) -> Variances:
        """Return the variances of the components over the inputs."""
        from oakgp.basis.variances import BasisVariances

        return BasisVariances([self, *(p for p in others if isinstance(p, BasisPosterior))])

    def shapley(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance of the Shapley value of every feature, each ``[d, n]``."""
        from oakgp.basis.shapley import shapley_moments

        return shapley_moments(self, x)

    def shapley_covariance(self, x: Tensor) -> Tensor:
        """Return the posterior covariance of the features' Shapley values, ``[n, d, d]``."""
        from oakgp.basis.shapley import shapley_covariance

        return shapley_covariance(self, x)

    def rest_variance(self, x: Tensor, terms: Sequence[Term]) -> Tensor:
        """Return the variance of f less the constant and less some components, ``[n]``."""
        summed = self.layout.terms if self.kept is None else self.kept
        rest = set(summed) - {(), *terms}
        ordered = [u for u in self.layout.terms if u in rest]
        root = self.root[:, self.layout.columns_of([(), *ordered]).to(self.root.device)]
        root[:, 0] = 0.0
        layout = self.layout.only(ordered)
        _, variance = moments(layout, x, torch.zeros_like(root[:1]), _compressed(root))
        assert variance is not None
        return variance + self._unknown_variance(layout, x)

    def _unknown_variance(self, layout: BasisLayout, x: Tensor) -> Tensor:
        """Return the prior variance of the components of values that training never had."""
        total = x.new_zeros(x.shape[1])
        for _, prior in self.unknown_variances(layout, x):
            total = total + prior
        return total

    def unknown_variances(self, layout: BasisLayout, x: Tensor) -> Iterator[tuple[Term, Tensor]]:
        """Yield the terms with values that training never had, and their prior variances there."""
        unknown = {i: basis.unknown(x[i]) for i, basis in enumerate(layout.bases)}
        touched = {i for i, rows in unknown.items() if bool(rows.any())}
        if not touched:
            return
        values = {
            i: _prior_diagonal(layout, self.parameters, i, x[i], unknown[i])
            for i in {i for u in layout.terms for i in u}
        }
        for k, u in enumerate(self.layout.terms):
            if u not in layout.slices or not touched.intersection(u):
                continue
            concerned = torch.stack([unknown[i] for i in u]).any(dim=0)
            product = torch.stack([values[i] for i in u]).prod(dim=0)
            prior = self.parameters.variances[k] * product
            if len(u) == 1:
                prior = prior + self.parameters.rough[u[0]]
            yield u, torch.where(concerned, prior, torch.zeros_like(product))


def _prior_diagonal(
    layout: BasisLayout, parameters: BasisParameters, i: int, x: Tensor, unknown: Tensor
) -> Tensor:
    """Return k~_i(x, x) as the basis has it; 1 for what training never had."""
    basis = layout.bases[i]
    values = basis.values(x)[: basis.n_smooth]
    prior = basis.prior(parameters.lengthscales[i].to(x.device))
    own = torch.einsum("an,ab,bn->n", values, prior, values)
    return torch.where(unknown, torch.ones_like(own), own)


def _compressed(root: Tensor) -> Tensor:
    """Return a square matrix with the same R^T R as one with more rows than columns."""
    if root.shape[0] <= root.shape[1]:
        return root
    compressed: Tensor = torch.linalg.qr(root, mode="r").R
    return compressed
