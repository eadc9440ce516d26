"""What of an edit depends on the engine: moments of f + sum_u d_u(x) f_u, the d_u given numbers.

The weights of components enter both engines linearly: the features of a component are multiplied
by d_u(x), and so is its prior deviation.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from oakgp.basis.layout import design
from oakgp.basis.posterior import BasisPosterior
from oakgp.kernels.terms import Term
from oakgp.posterior import KernelPosterior, Posterior

Weights = Mapping[Term, Tensor]

_ROWS = 4096


def weighted_variance(posterior: Posterior, x: Tensor, weights: Weights) -> Tensor:
    """Return the posterior variance of f + sum_u d_u f_u at rows ``[d, n]``, ``[n]``.

    Parameters
    ----------
    posterior
        Of any engine; f is the sum over its kept terms.
    x
        Encoded rows.
    weights
        d_u at each row, of terms that f sums over.
    """
    parts = [x.new_zeros(0)]
    for rows in torch.arange(x.shape[1], device=x.device).split(_ROWS):
        some = {u: d[rows] for u, d in weights.items()}
        if isinstance(posterior, KernelPosterior):
            parts.append(_kernel_variance(posterior, x[:, rows], some))
        else:
            parts.append(_basis_features(posterior, x[:, rows], some).square().sum(dim=0))
            parts[-1] = parts[-1] + _unknown(posterior, x[:, rows], some)
    return torch.cat(parts).clamp_min(0.0)


def weighted_covariance(
    posterior: Posterior, x: Tensor, other: Tensor, left: Weights, right: Weights
) -> Tensor:
    """Return the posterior covariance of f + sum_u d_u f_u between rows, ``[n, m]``.

    ``left`` and ``right`` are d_u at ``x`` and at ``other``. What a basis never saw in training
    (an unseen level) counts where ``other`` is ``x`` itself.
    """
    if isinstance(posterior, KernelPosterior):
        return _kernel_covariance(posterior, x, other, left, right)
    a = _basis_features(posterior, x, left)
    if other is x:
        return a.T @ a + torch.diag(_unknown(posterior, x, left))
    return a.T @ _basis_features(posterior, other, right)


def _kernel_variance(posterior: KernelPosterior, x: Tensor, weights: Weights) -> Tensor:
    maps, chosen = posterior.features, posterior.kept
    points = maps.points(x)
    psi, prior = maps.features(points, chosen), maps.prior(points, chosen)
    for term, d in weights.items():
        psi = psi + d[:, None] * maps.features(points, (term,))
        prior = prior + (2.0 * d + d**2) * maps.prior(points, (term,))
    explained: Tensor = ((psi @ posterior.whitener.T) ** 2).sum(dim=1)
    return prior - explained


def _kernel_covariance(
    posterior: KernelPosterior, x: Tensor, other: Tensor, left: Weights, right: Weights
) -> Tensor:
    maps, chosen = posterior.features, posterior.kept
    a, b = maps.points(x), maps.points(other)
    prior = maps.prior_covariance(a, b, chosen)
    psi, phi = maps.features(a, chosen), maps.features(b, chosen)
    for term in left:
        d, e = left[term][:, None], right[term]
        prior = prior + (d + e + d * e) * maps.prior_covariance(a, b, (term,))
        psi = psi + d * maps.features(a, (term,))
        phi = phi + e[:, None] * maps.features(b, (term,))
    return prior - (psi @ posterior.whitener.T) @ (phi @ posterior.whitener.T).T


def _basis_features(posterior: Posterior, x: Tensor, weights: Weights) -> Tensor:
    """Return R times the columns of the basis, those of a term times 1 + d_u, ``[k, n]``."""
    if not isinstance(posterior, BasisPosterior):
        raise TypeError(f"a posterior of type {type(posterior).__name__} cannot be edited")
    layout, _, root = posterior.part(None)
    columns = design(layout, x)
    for term, d in weights.items():
        columns[layout.slices[term]] = (1.0 + d) * columns[layout.slices[term]]
    return root @ columns


def _unknown(posterior: Posterior, x: Tensor, weights: Weights) -> Tensor:
    """Return the prior variance of values that training never had, the terms' weights counted."""
    assert isinstance(posterior, BasisPosterior)
    layout, _, _ = posterior.part(None)
    total = x.new_zeros(x.shape[1])
    for u, prior in posterior.unknown_variances(layout, x):
        total = total + ((1.0 + weights[u]) ** 2 * prior if u in weights else prior)
    return total
