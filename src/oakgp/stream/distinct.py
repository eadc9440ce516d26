"""How many distinct values a column has: exactly while they are few, else estimated."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from oakgp.stream.hashing import Hashes

_KEPT = 4096
_RANGE = 2.0**64


@dataclass
class DistinctCount:
    """The smallest hashes of the values seen (Bar-Yossef et al. 2002: k minimum values).

    The state is a function of the set of values alone: order and chunks cannot matter. The count
    is exact up to 4096 distinct values, beyond that its standard error is 1.6%.
    """

    smallest: Hashes = field(default_factory=lambda: np.empty(0, dtype=np.uint64))

    def update(self, hashes: Hashes) -> None:
        """Take in the hashes of some values."""
        if len(self.smallest) == _KEPT:
            hashes = hashes[hashes < self.smallest[-1]]
            if not len(hashes):
                return
        both = np.sort(np.concatenate([self.smallest, hashes]))
        new = np.ones(len(both), dtype=bool)
        np.not_equal(both[1:], both[:-1], out=new[1:])
        self.smallest = both[new][:_KEPT]

    def merge(self, other: DistinctCount) -> None:
        """Take in what another has seen."""
        self.update(other.smallest)

    def count(self) -> int:
        """Return the number of distinct values."""
        if len(self.smallest) < _KEPT:
            return len(self.smallest)
        return round((_KEPT - 1) / ((float(self.smallest[-1]) + 1.0) / _RANGE))
