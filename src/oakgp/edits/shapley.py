"""Covariance of Shapley values of f + sum_u d_u(x) f_u, which depends on the engine.

The Shapley value of feature i is the sum over terms u with i of f_u / |u|, so a weight on f_u
enters its features and its prior as it does those of f.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from oakgp.basis.layout import design
from oakgp.basis.posterior import BasisPosterior
from oakgp.kernels.terms import Term
from oakgp.posterior import KernelPosterior, Posterior
from oakgp.sensitivity.pages import diagonals
from oakgp.sensitivity.shapley import feature_maps, prior_covariance

Weights = Mapping[Term, Tensor]


def shapley_covariance(posterior: Posterior, x: Tensor, weights: Weights) -> Tensor:
    """Return the posterior covariance of the features' Shapley values, ``[n, d, d]``."""
    if isinstance(posterior, KernelPosterior):
        return _of_kernel(posterior, x, weights)
    assert isinstance(posterior, BasisPosterior)
    return _of_basis(posterior, x, weights)


def _of_kernel(posterior: KernelPosterior, x: Tensor, weights: Weights) -> Tensor:
    parts, first = [x.new_zeros((0, len(x), len(x)))], 0
    for psi, points in feature_maps(posterior, x):
        d, n, m = psi.shape
        prior = prior_covariance(posterior, diagonals(posterior, points, range(d)))
        for u, all_rows in weights.items():
            w = all_rows[first : first + n]
            own = w[:, None] / len(u) * posterior.features.features(points, (u,))
            psi[list(u)] += own
            extra = (2.0 * w + w**2) / len(u) ** 2 * posterior.features.prior(points, (u,))
            prior += extra[:, None, None] * _both(u, x)
        white = (psi.reshape(d * n, m) @ posterior.whitener.T).reshape(d, n, -1).transpose(0, 1)
        parts.append(prior - white @ white.transpose(1, 2))
        first += n
    return torch.cat(parts)


def _of_basis(posterior: BasisPosterior, x: Tensor, weights: Weights) -> Tensor:
    layout, _, root = posterior.part(None)
    columns = design(layout, x)
    shares = columns.new_zeros((len(x), len(columns)))
    for u, span in layout.slices.items():
        if u in weights:
            columns[span] = (1.0 + weights[u]) * columns[span]
        for i in u:
            shares[i, span] = 1.0 / len(u)
    white = torch.stack([root @ (share[:, None] * columns) for share in shares])  # [d, k, n]
    total = torch.einsum("ikn,jkn->nij", white, white)
    for u, unknown in posterior.unknown_variances(layout, x):
        factor = 1.0 + weights[u] if u in weights else torch.ones_like(unknown)
        total = total + (factor**2 * unknown / len(u) ** 2)[:, None, None] * _both(u, x)
    return total


def _both(u: Term, x: Tensor) -> Tensor:
    """Return the matrix of ones where both features are in a term, ``[d, d]``."""
    inside = x.new_zeros(len(x))
    inside[list(u)] = 1.0
    return torch.outer(inside, inside)
