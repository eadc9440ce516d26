"""Columns that hold the same values in every row, found chunk by chunk."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from oakgp.stream.hashing import Hashes


@dataclass
class Twins:
    """Classes of columns that nothing has told apart yet.

    Parameters
    ----------
    classes
        Number of the class of each column. Each chunk can only divide classes, so neither the
        order of the chunks nor their bounds matter.
    """

    classes: list[int]

    @classmethod
    def of(cls, n_columns: int) -> Twins:
        """Begin with all columns in one class."""
        return cls([0] * n_columns)

    def update(self, hashes: list[Hashes]) -> None:
        """Take in the hashes of the values of all columns."""
        sizes = Counter(self.classes)
        keys: list[Any] = [
            (number, _digest(hashes[i]) if sizes[number] > 1 else b"")
            for i, number in enumerate(self.classes)
        ]
        self._renumber(keys)

    def merge(self, other: Twins) -> None:
        """Take in what another has told apart."""
        self._renumber(list(zip(self.classes, other.classes, strict=True)))

    def _renumber(self, keys: list[Any]) -> None:
        numbers: defaultdict[Any, int] = defaultdict(lambda: len(numbers))
        self.classes = [numbers[key] for key in keys]


def _digest(hashes: Hashes) -> bytes:
    return hashlib.blake2b(hashes.tobytes(), digest_size=16).digest()
