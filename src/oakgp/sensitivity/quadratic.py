"""Quadratic forms a^T (L_i o L_j o ...) a over the anchors, block by block.

The variance of a component's posterior mean is sigma_r^4 a^T (o_{i in u} L_i) a (paper, eq. 11).
With p, q running over pairs of anchors it is one inner product of vectors of length m^2, so sums
over terms are elementary symmetric polynomials of such vectors, and many terms at once are one
matrix product. The pairs are visited in blocks: nothing of size d m^2 need be held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from oakgp.posterior import KernelPosterior

# By device: entries of all blocks that are kept between passes, and pairs of anchors in a block.
# On the CPU a block stays in the cache; on a GPU it has to fill the chip.
_CACHE_ENTRIES = {"cpu": 40_000_000, "cuda": 1_000_000_000}
_BLOCK_ENTRIES = {"cpu": 16_384, "cuda": 2_000_000}


@dataclass(frozen=True)
class PairBlock:
    """Some pairs of anchors.

    Parameters
    ----------
    weights
        ``[t]`` a_p a_q, doubled off the diagonal blocks (each pair stands for itself and its
        mirror image).
    precision
        ``[t]`` the entries of W^T W, doubled likewise; None unless asked for.
    matrices
        ``[d, t]`` entries of every feature's matrix L_i.
    """

    weights: Tensor
    precision: Tensor | None
    matrices: Tensor


class PairBlocks:
    """The blocks of a posterior, made on the fly and kept when they fit.

    Parameters
    ----------
    posterior
        Whose weights and anchors.
    with_precision
        Whether the blocks carry the entries of W^T W.
    others
        Posteriors with the same kernel, hyperparameters and anchors (the classes of a softmax):
        ``weights`` and ``precision`` are then averages, and so is every variance made of them.
    """

    def __init__(
        self,
        posterior: KernelPosterior,
        with_precision: bool = False,
        others: Sequence[KernelPosterior] = (),
    ) -> None:
        self._posterior = posterior
        self._others = tuple(others)
        self._with_precision = with_precision
        self._kept: list[PairBlock] | None = None
        m = posterior.features.size
        self._device = "cuda" if posterior.mean_weights.is_cuda else "cpu"
        self._fits = posterior.kernel.n_features * m * m // 2 <= _CACHE_ENTRIES[self._device]

    def __iter__(self) -> Iterator[PairBlock]:
        """Yield all blocks."""
        if self._kept is not None:
            yield from self._kept
            return
        kept = []
        for block in self._make():
            if self._fits:
                kept.append(block)
            yield block
        if self._fits:
            self._kept = kept

    def _make(self) -> Iterator[PairBlock]:
        posterior = self._posterior
        kernel, parameters = posterior.kernel, posterior.parameters
        x = posterior.features.anchors.x
        all_of_them = (posterior, *self._others)
        m = posterior.features.size
        step = max(1, _BLOCK_ENTRIES[self._device] // m)
        points = kernel.sobol_points(parameters, x)
        for first in range(0, m, step):
            rows, columns = slice(first, min(first + step, m)), slice(first, m)
            count = rows.stop - first
            double = torch.full((count, m - first), 2.0, dtype=x.dtype, device=x.device)
            double[:, :count] = 1.0
            # A model without features has anchors all the same.
            empty = x.new_zeros((0, count, m - first))
            matrices = torch.stack([p.matrix(rows, columns) for p in points]) if points else empty
            precision = None
            if self._with_precision:
                products = [p.whitener[:, rows].T @ p.whitener[:, columns] for p in all_of_them]
                precision = (double * _average(products)).reshape(-1)
            outer = [
                torch.outer(p.mean_weights[rows], p.mean_weights[columns]) for p in all_of_them
            ]
            weights = double * _average(outer)
            yield PairBlock(weights.reshape(-1), precision, matrices.flatten(start_dim=1))


def _average(matrices: Sequence[Tensor]) -> Tensor:
    return matrices[0] if len(matrices) == 1 else torch.stack(list(matrices)).mean(dim=0)
