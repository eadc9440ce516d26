"""Categorical kernel A = W W^T + diag(kappa), its constraint, and rows for odd levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from oakgp.ops.layout import Kind


@dataclass(frozen=True)
class CategoricalKernel:
    """Covariance of the levels of one feature (paper, appendix B).

    Parameters
    ----------
    n_levels
        Levels seen in training, "missing" not counted.
    rank
        Columns of W: how many latent directions the levels share. A binary feature is the case
        of two levels.
    has_missing
        Whether training had missing values: they are one more level, independent of the others.

    Notes
    -----
    The table has one more row, for levels never seen in training: uncorrelated with all others
    (prior mean 0), with the mean prior variance of a level.
    """

    n_levels: int
    rank: int = 2
    has_missing: bool = False
    kind: ClassVar[Kind] = Kind.TABLE
    name: ClassVar[str] = "categorical"

    @property
    def n_known(self) -> int:
        """Levels with a probability: those seen, and "missing" if it was."""
        return self.n_levels + int(self.has_missing)

    @property
    def table_size(self) -> int:
        """Rows of the table: known levels and one for the unseen."""
        return self.n_known + 1

    def codes(self, x: Tensor) -> Tensor:
        """Return table rows for encoded values (NaN = missing, negative = unseen)."""
        unseen = torch.full_like(x, self.n_known)
        missing = torch.full_like(x, self.n_levels) if self.has_missing else unseen
        known = torch.where((x >= 0) & (x < self.n_levels), x, unseen)
        return torch.where(torch.isnan(x), missing, known)

    def covariance(self, mixing: Tensor, diagonal: Tensor) -> Tensor:
        """Return A = W W^T + diag(kappa) with "missing" as an independent level, ``[K, K]``."""
        a: Tensor = mixing @ mixing.T + torch.diag(diagonal)
        if self.has_missing:
            a = torch.block_diag(a, a.new_ones((1, 1)))
        return a

    def table(self, a: Tensor, weights: Tensor | None) -> Tensor:
        """Return B = A - A w (A w)^T / (w^T A w) with the row for unseen levels added.

        ``weights=None`` leaves A unconstrained.
        """
        if weights is None:
            b = a
        else:
            aw = a @ weights
            b = a - torch.outer(aw, aw) / (weights @ aw)
        whole: Tensor = torch.block_diag(b, a.diagonal().mean().reshape(1, 1))
        return whole
