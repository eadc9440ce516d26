"""Cholesky factorisation with adaptive, reported jitter."""

from __future__ import annotations

import torch
from torch import Tensor

_FIRST = 1e-10
_LAST = 1e-3


class NotPositiveDefiniteError(ValueError):
    """A kernel matrix stayed indefinite under the largest jitter."""


def cholesky(matrix: Tensor, what: str, jitter: float = 0.0) -> tuple[Tensor, float]:
    """Return the lower factor and the jitter that was added, relative to the mean diagonal.

    Jitter starts at ``jitter`` and grows tenfold until the factorisation goes through.

    Parameters
    ----------
    matrix
        Symmetric ``[n, n]``.
    what
        Name of the matrix for the error message.
    jitter
        First relative jitter to try.

    Raises
    ------
    NotPositiveDefiniteError
        When a relative jitter of 1e-3 is not enough, or the matrix has entries that are not finite.
    """
    scale = matrix.diagonal().mean().detach()
    if not bool(torch.isfinite(matrix.sum().detach())):
        raise NotPositiveDefiniteError(
            f"{what} has entries that are not finite: a lengthscale or variance ran off; "
            "check the inputs for extreme values or use flow='normal_score'"
        )
    while True:
        trial = matrix
        if jitter > 0:
            trial = matrix + (jitter * scale) * torch.eye(
                len(matrix), dtype=matrix.dtype, device=matrix.device
            )
        factor, info = torch.linalg.cholesky_ex(trial)
        if int(info) == 0:
            return factor, jitter
        jitter = max(10.0 * jitter, _FIRST)
        if jitter > _LAST:
            raise NotPositiveDefiniteError(
                f"{what} ({len(matrix)} rows) is not positive definite, even with a jitter of "
                f"{_LAST:g} of its mean diagonal (first bad pivot: row {int(info)}); raise the "
                "lower bound of the noise or remove near-duplicate rows"
            )
