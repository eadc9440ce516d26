"""Exact Shapley values of the features of a row, of all orders, with their uncertainty.

For independent features the Shapley value of feature i at x is phi_i = sum over the terms u that
contain i of f_u(x) / |u|. It is linear in f, so its posterior is Gaussian:

- feature map   psi_i(x) = sum_r sigma2_r / r  k~_i e_(r-1)(the other k~),
- prior         E[phi_i phi_j] = sum over u with i and j of sigma2_r / r^2 prod k~(x, x),

and its covariance is that prior less <W psi_i, W psi_j>. No term is enumerated: all features
together cost O(d R) per entry of the kernel matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from oakgp.kernels.terms import Block
from oakgp.ops.layout import Points
from oakgp.ops.leave_one_out import leave_one_out
from oakgp.ops.threads import threads_for
from oakgp.posterior import KernelPosterior
from oakgp.sensitivity.pages import diagonals, pages
from oakgp.sensitivity.sobol import require_orthogonal

_BATCH_ENTRIES = 8_000_000  # entries of all features' maps made at a time


def shapley_moments(posterior: KernelPosterior, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and variance of the Shapley value of every feature, each ``[d, n]``.

    Of a posterior that keeps some terms only, these are the Shapley values of their sum.

    Parameters
    ----------
    posterior
        Fitted model.
    x
        ``[d, n]`` encoded rows.
    """
    require_orthogonal(posterior)
    means, variances = [x.new_zeros((len(x), 0))], [x.new_zeros((len(x), 0))]
    with threads_for(posterior.features.size):
        for psi, points in feature_maps(posterior, x):
            d, n, m = psi.shape
            mean = (psi.reshape(d * n, m) @ posterior.mean_weights).reshape(d, n)
            white = psi.reshape(d * n, m) @ posterior.whitener.T
            prior = _sums(posterior, diagonals(posterior, points, range(d)), 2)
            means.append(mean)
            variances.append((prior - (white**2).sum(dim=1).reshape(d, n)).clamp_min(0.0))
    return torch.cat(means, dim=1), torch.cat(variances, dim=1)


def shapley_covariance(posterior: KernelPosterior, x: Tensor) -> Tensor:
    """Return the posterior covariance of the features' Shapley values at each row, ``[n, d, d]``.

    Its sum over both features is the variance of f less the constant.
    """
    require_orthogonal(posterior)
    parts = [x.new_zeros((0, len(x), len(x)))]
    with threads_for(posterior.features.size):
        for psi, points in feature_maps(posterior, x):
            d, n, m = psi.shape
            white = (psi.reshape(d * n, m) @ posterior.whitener.T).reshape(d, n, -1).transpose(0, 1)
            prior = prior_covariance(posterior, diagonals(posterior, points, range(d)))
            parts.append(prior - white @ white.transpose(1, 2))
    return torch.cat(parts)


def _blocks(posterior: KernelPosterior) -> Sequence[Block]:
    """Return the terms that are summed over, as disjoint blocks."""
    if posterior.kept is None:
        return posterior.kernel.terms.blocks
    return [Block(term, (), len(term)) for term in posterior.kept if term]


def feature_maps(posterior: KernelPosterior, x: Tensor) -> Iterator[tuple[Tensor, Points]]:
    """Yield psi of every feature, ``[d, n, m]``, a batch of rows at a time."""
    size = max(1, _BATCH_ENTRIES // max(1, len(x) * posterior.features.size))
    for rows in torch.arange(x.shape[1], device=x.device).split(size) if x.shape[1] else ():
        points = posterior.features.points(x[:, rows])
        z = pages(posterior, points, posterior.features.anchors, range(len(x)))
        yield _sums(posterior, z, 1), points


def _sums(posterior: KernelPosterior, z: Tensor, power: int) -> Tensor:
    """Return sum over u that contain i of sigma2_r / r^power prod_{j in u} z_j, for every i."""
    variances = posterior.features.weights.order_variances
    orders = torch.arange(len(variances), dtype=z.dtype, device=z.device)
    weights = variances / orders.clamp_min(1.0) ** power
    total = torch.zeros_like(z)
    for block in _blocks(posterior):
        if block.features:
            flags = tuple(k < len(block.mandatory) for k in range(len(block.features)))
            part = leave_one_out(z[block.features], weights[: block.max_order + 1], flags)
            total[block.features] += part
    return total


def prior_covariance(posterior: KernelPosterior, z: Tensor) -> Tensor:
    """Return sum over u that contain i and j of sigma2_r / r^2 prod z, ``[d, n] -> [n, d, d]``.

    With j made mandatory, a block holds just its terms that contain j.
    """
    variances = posterior.features.weights.order_variances
    orders = torch.arange(len(variances), dtype=z.dtype, device=z.device)
    weights = variances / orders.clamp_min(1.0) ** 2
    d, n = z.shape
    total = z.new_zeros((n, d, d))
    for block in _blocks(posterior):
        index = block.features
        for position, j in enumerate(index):
            flags = tuple(k < len(block.mandatory) or k == position for k in range(len(index)))
            part = leave_one_out(z[index], weights[: block.max_order + 1], flags)
            total[:, index, j] += part.T
    return total
