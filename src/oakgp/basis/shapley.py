"""Shapley values of the basis engine: the columns of a term shared out among its features.

With f_u = phi_u^T a_u, phi_i = sum over u that contain i of f_u / |u| has the weights a with each
term's divided by its order, and so has its covariance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from oakgp.basis.layout import BasisLayout, design
from oakgp.basis.passes import moments

if TYPE_CHECKING:
    from oakgp.basis.posterior import BasisPosterior

_BATCH_ENTRIES = 8_000_000  # entries of the columns made at a time


def _shares(layout: BasisLayout) -> Tensor:
    """Return 1 / |u| for the columns of the terms that contain each feature, ``[d, F]``."""
    shares = torch.zeros((layout.n_features, layout.size), dtype=torch.float64)
    for block in layout.blocks:
        shares[list(block.term), layout.slices[block.term]] = 1.0 / len(block.term)
    return shares


def shapley_moments(posterior: BasisPosterior, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and variance of the Shapley value of every feature, each ``[d, n]``."""
    layout, weights, root = posterior.part(None)
    shares = _shares(layout).to(weights)
    mean, _ = moments(layout, x, shares * weights, None)
    variance = torch.zeros_like(mean)
    for i in range(layout.n_features):
        own = [u for u in layout.terms if i in u]
        if own:
            columns = layout.columns_of([(), *own]).to(weights.device)
            part = (root * shares[i])[:, columns]
            nothing = torch.zeros((1, len(columns))).to(weights)
            found = moments(layout.only(own), x, nothing, part)[1]
            assert found is not None
            variance[i] = found
    for term, prior in posterior.unknown_variances(layout, x):
        variance[list(term)] += prior / len(term) ** 2
    return mean, variance


def shapley_covariance(posterior: BasisPosterior, x: Tensor) -> Tensor:
    """Return the posterior covariance of the features' Shapley values, ``[n, d, d]``."""
    layout, weights, root = posterior.part(None)
    shares = _shares(layout).to(weights)
    d = layout.n_features
    parts = [x.new_zeros((0, d, d))]
    size = max(1, _BATCH_ENTRIES // (layout.size * max(1, d)))
    for first in range(0, x.shape[1], size):
        phi = design(layout, x[:, first : first + size])
        white = torch.stack([(root * share) @ phi for share in shares])  # [d, k, n]
        parts.append(torch.einsum("ikn,jkn->nij", white, white))
    total = torch.cat(parts)
    for term, prior in posterior.unknown_variances(layout, x):
        rows, columns = torch.meshgrid(torch.tensor(term), torch.tensor(term), indexing="ij")
        total[:, rows, columns] += (prior / len(term) ** 2)[:, None, None]
    return total
