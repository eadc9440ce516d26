"""Cutting the rows into batches."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor


def partition(n: int, size: int, seed: int) -> tuple[Tensor, ...]:
    """Return random batches of nearly equal size, at most ``size``, that hold each row once.

    A batch's rows are sorted, which memory likes; their order changes nothing.
    """
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(n, generator=generator)
    count = -(-n // size)
    return tuple(rows.sort().values for rows in torch.tensor_split(order, count))


def endless(n: int, size: int, seed: int) -> Iterator[Tensor]:
    """Yield batches for ever, of a new partition each time that all rows were seen."""
    epoch = 0
    while True:
        yield from partition(n, size, seed + 7919 * epoch)
        epoch += 1
