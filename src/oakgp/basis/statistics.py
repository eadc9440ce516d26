"""What the data say to a basis: sums over rows, which add up over chunks, files and machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sufficient statistics of a weighted regression of z on the columns of a basis.

    Parameters
    ----------
    gram
        ``[F, F]`` Phi^T W Phi.
    moment
        ``[F]`` Phi^T W z.
    square
        Scalar z^T W z.
    weight
        Scalar sum of w.
    rows
        How many rows of positive weight.
    """

    gram: Tensor
    moment: Tensor
    square: Tensor
    weight: Tensor
    rows: int

    def __add__(self, other: Statistics) -> Statistics:
        """Return the statistics of the rows of both."""
        return self._combine(other, 1)

    def __sub__(self, other: Statistics) -> Statistics:
        """Return the statistics without some of the rows."""
        return self._combine(other, -1)

    def _combine(self, other: Statistics, sign: int) -> Statistics:
        return Statistics(
            self.gram + sign * other.gram,
            self.moment + sign * other.moment,
            self.square + sign * other.square,
            self.weight + sign * other.weight,
            self.rows + sign * other.rows,
        )

    def of(self, columns: Tensor) -> Statistics:
        """Return the statistics of some columns only."""
        index = columns.to(self.gram.device)
        return replace(
            self, gram=self.gram[index][:, index].contiguous(), moment=self.moment[index]
        )

    def to(self, device: torch.device | str) -> Statistics:
        """Return the same sums on another device."""
        return Statistics(
            self.gram.to(device),
            self.moment.to(device),
            self.square.to(device),
            self.weight.to(device),
            self.rows,
        )


def statistics(phi: Tensor, z: Tensor, w: Tensor) -> Statistics:
    """Return the statistics of some rows, the plain way: Phi^T ``[F, n]``, z and w ``[n]``."""
    weighted = phi * w
    used = w > 0
    return Statistics(
        weighted @ phi.T,
        weighted @ z,
        (w * z) @ z,
        w.sum(),
        int(used.sum()),
    )


def total(parts: Sequence[Statistics]) -> Statistics:
    """Return the sum of some statistics, in their order."""
    first, *rest = parts
    for part in rest:
        first = first + part
    return first
