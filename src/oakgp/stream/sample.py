"""A sample of the rows that depends on the rows alone, not on their order or their chunks.

Rows are hashed, and those with the smallest hashes are kept. Equal rows have equal hashes: they are
one entry with a multiplicity, as they are everywhere else in a fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oakgp.stream.hashing import Hashes

_RANGE = 2.0**64
_LAST = np.uint64(2**64 - 1)


@dataclass
class SmallestRows:
    """The groups of rows with the smallest hashes, at most ``size`` distinct rows together.

    A group is never divided: which groups are kept follows from the rows seen, all together.

    Parameters
    ----------
    size
        Distinct rows kept.
    """

    size: int
    group: Hashes = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    row: Hashes = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    count: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    columns: list[NDArray[Any]] = field(default_factory=list)
    below: np.uint64 = _LAST  # groups of this hash or a larger one are not kept
    _pending: list[tuple[Hashes, Hashes, NDArray[np.int64], list[NDArray[Any]]]] = field(
        default_factory=list
    )
    _waiting: int = 0

    def wanted(self, group: Hashes) -> NDArray[np.intp]:
        """Return the rows of a chunk that may be kept."""
        return np.flatnonzero(group < self.below)

    def update(
        self, group: Hashes, row: Hashes, columns: list[NDArray[Any]], count: Any = None
    ) -> None:
        """Take in wanted rows: hashes of their groups and of themselves, and their columns."""
        if not len(group):
            return
        count = np.ones(len(group), dtype=np.int64) if count is None else count
        self._pending.append((group, row, count, columns))
        self._waiting += len(group)
        if self._waiting > max(self.size, 1024):
            self.settle()

    def merge(self, other: SmallestRows) -> None:
        """Take in what another has kept."""
        self.settle()
        other.settle()
        self.below = min(self.below, other.below)
        self.update(other.group, other.row, other.columns, other.count)
        self._pending.append((self.group[:0], self.row[:0], self.count[:0], []))
        self.settle()

    def settle(self) -> None:
        """Sort what is pending into the sample."""
        if not self._pending:
            return
        batches = [(self.group, self.row, self.count, self.columns), *self._pending]
        self._pending, self._waiting = [], 0
        batches = [batch for batch in batches if len(batch[0])]
        if not batches:
            return
        group, row, count = (np.concatenate([batch[i] for batch in batches]) for i in range(3))
        order = np.lexsort((row, group))
        order = order[group[order] < self.below]
        group, row, count = group[order], row[order], count[order]
        if len(group):
            new = np.r_[True, (group[1:] != group[:-1]) | (row[1:] != row[:-1])]
            starts = np.flatnonzero(new)
            count, order = np.add.reduceat(count, starts), order[starts]
            group, row = group[starts], row[starts]
        kept = len(group)
        if kept > self.size:
            self.below = group[self.size]
            kept = int(np.searchsorted(group, self.below))
        self.group, self.row, self.count = group[:kept], row[:kept], count[:kept]
        columns = [_joined(parts) for parts in zip(*(b[3] for b in batches), strict=True)]
        self.columns = [column[order[:kept]] for column in columns]

    @property
    def n_groups(self) -> int:
        """Number of groups kept."""
        self.settle()
        return len(np.unique(self.group))

    @property
    def share(self) -> float:
        """Share of all groups that are kept, about; 1 when nothing was left out."""
        self.settle()
        return 1.0 if self.below == _LAST else float(self.below) / _RANGE


@dataclass
class RowSample:
    """A sample of about ``size`` distinct rows.

    All rows with the same features stay together, so that the responses at a place are seen in
    their true proportions: where responses are few (classes, counts), these are the groups. Where
    one place has many responses, rows are sampled one by one instead.

    Parameters
    ----------
    size
        Distinct rows kept, at most.
    """

    size: int
    by_features: SmallestRows = field(init=False)
    by_row: SmallestRows = field(init=False)

    def __post_init__(self) -> None:
        """Begin with nothing."""
        self.by_features, self.by_row = SmallestRows(self.size), SmallestRows(self.size)

    def merge(self, other: RowSample) -> None:
        """Take in what another has kept."""
        self.by_features.merge(other.by_features)
        self.by_row.merge(other.by_row)

    @property
    def best(self) -> SmallestRows:
        """The sample of the two that stands for the rows better."""
        n_groups = self.by_features.n_groups
        crowded = len(self.by_features.group) > 4 * n_groups
        whole = self.by_features.share == 1.0
        return self.by_features if n_groups and (whole or not crowded) else self.by_row


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate pieces of one column; numbers next to labels become labels."""
    if any(part.dtype == object for part in parts):
        parts = [_as_labels(part) for part in parts]
    return np.concatenate(parts)


def _as_labels(part: NDArray[Any]) -> NDArray[Any]:
    if part.dtype == object:
        return part
    labels = part.astype(object)
    labels[np.isnan(part)] = None
    return labels
