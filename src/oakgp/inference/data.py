"""Training rows as every engine reads them: merged, weighted, on a unit scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TrainingData:
    """Distinct input rows with their mean response.

    A row of weight w counts as w equal rows: its noise variance is sigma2 / w, and the spread of
    the responses that were merged into it (``within``) informs the noise. So repeating a row and
    weighting it are the same thing, to the last digit, and duplicated rows cannot make the kernel
    matrix singular.

    Parameters
    ----------
    x
        ``[d, n]`` encoded inputs (NaN = missing).
    y
        ``[n]`` mean response of each distinct row, centred and scaled.
    weight
        ``[n]`` positive.
    within
        Weighted sum of squares of the merged responses around their means.
    """

    x: Tensor
    y: Tensor
    weight: Tensor
    within: float

    @property
    def n(self) -> int:
        """Number of distinct rows."""
        return int(self.y.shape[0])

    @property
    def total_weight(self) -> float:
        """Number of rows the data stand for."""
        return float(self.weight.sum())

    def take(self, rows: Tensor) -> TrainingData:
        """Return some of the rows, with their share of the within-row sum of squares."""
        weight = self.weight[rows]
        # Replicates are what the spread comes from: share it out by the weight above one.
        spare = (self.weight - 1.0).clamp_min(0.0)
        total = float(spare.sum())
        share = float(spare[rows].sum()) / total if total > 0 else 0.0
        return TrainingData(self.x[:, rows], self.y[rows], weight, self.within * share)

    def to(self, device: torch.device | str, dtype: torch.dtype) -> TrainingData:
        """Return the same data on another device or with another dtype."""
        x, y, weight = (t.to(device=device, dtype=dtype) for t in (self.x, self.y, self.weight))
        return TrainingData(x, y, weight, self.within)

    def replicate_term(self, noise: Tensor) -> Tensor:
        """Return what the rows' merging leaves out of the log density of the means.

        sum_i log prod_j N(y_ij; f, s2) - log N(mean_i; f, s2 / w_i), which depends on s2 alone.
        """
        extra = self.total_weight - self.n
        constant = -0.5 * float(torch.log(self.weight).sum())
        return (
            constant - 0.5 * extra * torch.log(2.0 * torch.pi * noise) - 0.5 * (self.within / noise)
        )


def collapse(x: Array, y: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Return the distinct pairs of input row and response, sorted, with their total weights.

    ``x [n, d], y [n] or [n, k]`` (responses with what belongs to them, such as an offset).

    Everything a fit learns from is computed from these, so neither the order of the rows nor the
    choice between repeating and weighting them can change a digit. O(n d log n).
    """
    keep = weight > 0
    x, y, weight = x[keep], y[keep], weight[keep]
    key = np.column_stack([np.where(np.isnan(x), np.inf, x), y]) + 0.0  # -0.0 and 0.0 are one
    order = np.lexsort((weight, *key.T[::-1]))
    key, weight = key[order], weight[order]
    starts = np.flatnonzero(np.r_[True, (key[1:] != key[:-1]).any(axis=1)])
    first = order[starts]
    return x[first], y[first], np.add.reduceat(weight, starts)


def merge_rows(x: Array, y: Array, weight: Array) -> tuple[Array, Array, Array, float]:
    """Merge equal input rows; drop rows of weight 0; sort.

    ``x [n, d], y [n], weight [n]`` -> distinct rows, their weighted mean response, their weights,
    and the weighted sum of squares within. The order of the input rows has no influence, so
    neither has it on anything that follows. O(n d log n).
    """
    keep = weight > 0
    x, y, weight = x[keep], y[keep], weight[keep]
    key = np.where(np.isnan(x), np.inf, x) + 0.0  # -0.0 and 0.0 are one value
    order = np.lexsort((weight, y, *key.T[::-1]))
    key, x, y, weight = key[order], x[order], y[order], weight[order]
    new = np.r_[True, (key[1:] != key[:-1]).any(axis=1)]
    starts = np.flatnonzero(new)
    totals = np.add.reduceat(weight, starts)
    means = np.add.reduceat(weight * y, starts) / totals
    residual = y - np.repeat(means, np.diff(np.r_[starts, len(y)]))
    return x[starts], means, totals, float(weight @ residual**2)
