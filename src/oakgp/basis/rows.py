"""Rows as the basis engine reads them, and where they come from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows.

    Parameters
    ----------
    x
        ``[d, n]`` encoded values.
    y, w, offset
        ``[n]`` responses on the likelihood's scale, weights, and what is added to the (first)
        latent function.
    """

    x: Tensor
    y: Tensor
    w: Tensor
    offset: Tensor

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.x.shape[1])

    def take(self, index: Tensor) -> Rows:
        """Return some of the rows."""
        return Rows(self.x[:, index], self.y[index], self.w[index], self.offset[index])

    def to(self, device: torch.device | str) -> Rows:
        """Return the rows on another device."""
        return Rows(*(t.to(device) for t in (self.x, self.y, self.w, self.offset)))


class RowSource(ABC):
    """Rows that can be gone through any number of times, always in the same order."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def __iter__(self) -> Iterator[Rows]:
        """Go through all rows, some at a time."""

    @abstractmethod
    def sample(self, count: int, seed: int) -> Rows:
        """Return so many random rows, or all if there are no more."""


class InMemory(RowSource):
    """Rows that are in memory, all of them.

    Parameters
    ----------
    rows
        The rows.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self._rows.n

    def __iter__(self) -> Iterator[Rows]:
        """Go through all rows at once."""
        yield self._rows

    def sample(self, count: int, seed: int) -> Rows:
        """Return so many random rows, or all if there are no more."""
        if self._rows.n <= count:
            return self._rows
        generator = torch.Generator().manual_seed(seed)
        index = torch.randperm(self._rows.n, generator=generator)[:count].sort().values
        return self._rows.take(index.to(self._rows.x.device))


Sums: TypeAlias = dict[str, NDArray[np.float64]]


class SummedRows(RowSource):
    """Rows that are summed up where they lie: in files, on a cluster.

    What is summed is a function from rows to arrays by name, of which nothing but the sums over
    all rows is wanted. It must be picklable for a cluster.
    """

    @abstractmethod
    def sums(
        self,
        statistic: Callable[[Iterable[Rows]], Sums],
        key: bytes,
        advance: Callable[[float], None],
    ) -> Sums:
        """Return the sums of a statistic over all rows.

        Parameters
        ----------
        statistic
            From some rows (chunks, one after the other) to arrays by name.
        key
            What the statistic depends on besides the rows: equal for equal statistics.
        advance
            Called with numbers of rows as they are done.
        """
