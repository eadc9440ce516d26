"""Screening: what a term that the model lacks would add, from the residual alone.

For every candidate the working residual is regressed on a few leading columns of the term; the gain
is its log evidence over that of no term, at the best of a few variances. No candidate is fitted
together with the rest, so a thousand of them cost one pass with small matrices.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from oakgp.basis.functions import FeatureBasis
from oakgp.basis.layout import BasisLayout, TermColumns, singles

_BATCH_ENTRIES = 8_000_000
_VARIANCES = (3e-4, 3e-3, 3e-2, 3e-1)


def gains(
    bases: Sequence[FeatureBasis],
    blocks: Sequence[TermColumns],
    x: Tensor,
    residual: Tensor,
    weights: Tensor,
    noise: float,
    scale: float = 1.0,
) -> Tensor:
    """Return the gain in log evidence of each candidate term, ``[k]``, at least 0.

    Parameters
    ----------
    bases
        Functions of each feature.
    blocks
        A few leading columns of each candidate.
    x, residual, weights
        ``[d, n]`` rows, ``[n]`` what the model leaves of the working response, and row weights.
    noise
        Noise variance of a row of weight 1.
    scale
        Variance of the latent function: candidates' variances are in its units.
    """
    layout = BasisLayout(tuple(bases), ())
    values = singles(layout, x) * weights.clamp_min(0.0).sqrt()
    root = weights.clamp_min(0.0).sqrt()
    target = residual * root
    unit = torch.where(root > 0, 1.0 / root, torch.zeros_like(root))
    starts = [1]
    for basis in bases:
        starts.append(starts[-1] + basis.size)
    found = torch.zeros(len(blocks), dtype=torch.float64)
    groups: dict[tuple[int, int], list[int]] = {}
    for k, block in enumerate(blocks):
        if block.size:
            groups.setdefault((len(block.term), block.size), []).append(k)
    n = x.shape[1]
    for (order, size), members in groups.items():
        step = max(1, _BATCH_ENTRIES // (size * n))
        for first in range(0, len(members), step):
            batch = members[first : first + step]
            rows = torch.stack(
                [
                    torch.stack(
                        [starts[i] + blocks[k].index[:, j] for j, i in enumerate(blocks[k].term)],
                        dim=1,
                    )
                    for k in batch
                ]
            ).to(x.device)
            prior = torch.stack(
                [
                    torch.stack(
                        [
                            bases[i].eigenvalues[blocks[k].index[:, j].to(x.device)]
                            for j, i in enumerate(blocks[k].term)
                        ]
                    ).prod(dim=0)
                    for k in batch
                ]
            )
            phi = values[rows[:, :, 0]]
            for j in range(1, order):
                phi = phi * values[rows[:, :, j]] * unit
            gram = phi @ phi.transpose(1, 2)
            found[batch] = _best_gain(gram, phi @ target, scale * prior, noise).cpu()
    return found


def _best_gain(gram: Tensor, moment: Tensor, prior: Tensor, noise: float) -> Tensor:
    """Return the largest gain over some variances, for a batch of small regressions ``[b]``."""
    best = gram.new_zeros(len(gram))
    eye = torch.eye(gram.shape[1], dtype=gram.dtype, device=gram.device)
    for variance in _VARIANCES:
        root = (variance * prior).sqrt()
        inner = eye + root[:, :, None] * gram * root[:, None, :] / noise
        factor = torch.linalg.cholesky(inner)
        half = torch.linalg.solve_triangular(factor, (root * moment)[:, :, None], upper=False)
        fit = 0.5 * (half**2).sum(dim=(1, 2)) / noise**2
        gain = fit - factor.diagonal(dim1=1, dim2=2).log().sum(dim=1)
        best = torch.maximum(best, gain)
    return best
