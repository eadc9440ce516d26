"""The kernel of one feature as a product of few functions: k~(x, z) = F(x) F(z)^T.

A smooth kernel of one number has a small numerical rank, whatever the number of rows: F comes from
a Cholesky factorisation that takes, in turn, the value that the ones before explain least. What is
left, k~(x, x) - |F(x)|^2, is known at every point, so the error is bounded, not guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from oakgp.ops.layout import Points
from oakgp.posterior import KernelPosterior
from oakgp.sensitivity.pages import OneKernel, one_kernel

_CANDIDATES = 256  # values looked at first: evenly spaced among the distinct ones
_MOST = 72  # columns; a kernel that needs more is too rough for this
_EXACT = 1e-14  # share of the largest variance at which nothing is left but rounding
_ACCEPTED = 1e-12  # the same where it need not have been looked at


@dataclass(frozen=True)
class Factor:
    """F of one feature, its functions by decreasing size over the rows.

    Parameters
    ----------
    at_rows, at_anchors
        ``[q, n]`` and ``[q, m]``.
    diagonal
        ``[n]`` k~(x, x) at the rows, which is the sum of squares of F but for rounding.
    """

    at_rows: Tensor
    at_anchors: Tensor
    diagonal: Tensor

    @cached_property
    def sizes(self) -> Tensor:
        """Square of each function that 95% of the rows stay below, ``[q]``."""
        step = -(-self.at_rows.shape[1] // 512)
        return (self.at_rows[:, ::step] ** 2).quantile(0.95, dim=1)


def factor(posterior: KernelPosterior, values: Tensor, i: int) -> Factor | None:
    """Return F of feature i at encoded values ``[n]`` and at the anchors; None if its rank is high.

    Equal values are looked at once, so grids cost little.
    """
    kernel = one_kernel(posterior, i)
    column = torch.cat([values, posterior.features.x[i]])
    found, inverse = np.unique(column.cpu().numpy(), return_inverse=True)
    where = torch.from_numpy(inverse).to(values.device)
    distinct = kernel.points(torch.from_numpy(found).to(values))
    diagonal = kernel.diagonal(distinct)
    columns = _columns(kernel, distinct, diagonal)
    if columns is None:
        return None
    _, turn = torch.linalg.eigh(columns.T @ columns)
    whole = (turn.flip(1).T @ columns.T)[:, where]
    n = len(values)
    return Factor(whole[:, :n], whole[:, n:], diagonal[where[:n]])


def _columns(kernel: OneKernel, points: Points, diagonal: Tensor) -> Tensor | None:
    """Return F at distinct values of a feature, ``[n, q]``."""
    scale = float(diagonal.max())
    n = points.n
    start = torch.linspace(0, n - 1, min(n, _CANDIDATES), dtype=torch.float64).round().long()
    start = start.to(diagonal.device)
    chosen = _pivots(kernel.matrix(points.take(start)), _EXACT * scale)
    columns = _projected(kernel, points, points.take(start[chosen]))
    left = diagonal - (columns**2).sum(dim=1)
    while float(left.max()) > _ACCEPTED * scale:
        # Some value lies away from all that were looked at, or the kernel is rough.
        if columns.shape[1] >= _MOST:
            return None
        at = left.argmax().reshape(1)
        cross = kernel.matrix(points, points.take(at))[:, 0]
        column = (cross - columns @ columns[at[0]]) / left[at[0]].sqrt()
        columns = torch.cat([columns, column[:, None]], dim=1)
        left = left - column**2
    return columns


def _pivots(gram: Tensor, enough: float) -> Tensor:
    """Return the numbers of the points that explain the others, the most telling first."""
    matrix = gram.cpu().numpy()
    left = matrix.diagonal().copy()
    columns = np.zeros((len(left), min(_MOST, len(left))))
    chosen: list[int] = []
    for k in range(columns.shape[1]):
        at = int(left.argmax())
        if left[at] <= enough:
            break
        columns[:, k] = (matrix[:, at] - columns[:, :k] @ columns[at, :k]) / np.sqrt(left[at])
        left -= columns[:, k] ** 2
        chosen.append(at)
    return torch.tensor(chosen, dtype=torch.long, device=gram.device)


def _projected(kernel: OneKernel, points: Points, pivots: Points) -> Tensor:
    """Return k~(x, pivots) C^-T with C C^T = k~(pivots, pivots), ``[n, q]``."""
    if pivots.n == 0:
        return points.x.new_zeros((points.n, 0))
    gram = kernel.matrix(pivots)
    root, info = torch.linalg.cholesky_ex(gram)
    while int(info) > 0:  # the last pivots explain no more than rounding does
        pivots = pivots.take(torch.arange(int(info) - 1, device=gram.device))
        gram = gram[: pivots.n, : pivots.n]
        root, info = torch.linalg.cholesky_ex(gram)
    cross = kernel.matrix(points, pivots)
    projected: Tensor = torch.linalg.solve_triangular(root, cross.T, upper=False).T
    return projected
