"""Shapley effects: the variance shared out among features, a term's equally among its members.

For independent features the Shapley effect of feature i is the sum over the terms that contain it
of V_u / |u|: between its first-order and its total index, and all of them sum to the variance
(Owen 2014). All orders cost as much as the totals do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from oakgp.kernels.additive import AdditiveKernel
from oakgp.ops.leave_one_out import leave_one_out
from oakgp.posterior import Posterior
from oakgp.sensitivity.quadratic import PairBlocks
from oakgp.sensitivity.sobol import require_orthogonal


def shapley_effects(posterior: Posterior, blocks: PairBlocks | None = None) -> Tensor:
    """Return sum over u that contain i of V_u / |u|, of the posterior mean, ``[d]``."""
    require_orthogonal(posterior)
    squares = posterior.features.weights.order_variances**2
    return _sums(
        posterior.kernel,
        ((squares, p.weights, p.matrices) for p in blocks or PairBlocks(posterior)),
    )


def expected_effects(posterior: Posterior, blocks: PairBlocks | None = None) -> Tensor:
    """Return the posterior expectations of what `shapley_effects` gives for the posterior mean.

    ``blocks`` carry the entries of W^T W.
    """
    require_orthogonal(posterior)
    variances = posterior.features.weights.order_variances
    prior = posterior.kernel.mean_variances(posterior.parameters)[:, None]

    def parts() -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        yield variances, prior.new_ones(1), prior
        for pairs in blocks or PairBlocks(posterior, with_precision=True):
            assert pairs.precision is not None
            yield variances**2, pairs.weights - pairs.precision, pairs.matrices

    return _sums(posterior.kernel, parts())


def _sums(kernel: AdditiveKernel, parts: Iterable[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """Add up <w, sum over u that contain i of c_r / r prod_{j in u} L_j> over parts (c, w, L)."""
    total = torch.zeros(kernel.n_features, dtype=torch.float64)
    if kernel.terms.count() == 0:
        return total
    for coefficients, weights, matrices in parts:
        orders = torch.arange(len(coefficients), device=coefficients.device)
        shared = coefficients / orders.clamp_min(1)
        for block in kernel.terms.blocks:
            index = block.features
            if not index:
                continue
            flags = kernel.layout(block).mandatory
            products = leave_one_out(matrices[index], shared[: block.max_order + 1], flags)
            total[index] += (products @ weights).to(total)
    return total.clamp_min(0.0)
