"""What the first pass remembers of the response."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oakgp.columns import FloatArray
from oakgp.stream.hashing import Hashes, hash_levels, hash_numbers
from oakgp.stream.moments import Moments
from oakgp.stream.values import ValueSketch

_MAX_VALUES = 1 << 15
_MAX_CLASSES = 1 << 16


@dataclass
class ResponseSketch:
    """Moments and distribution of a response of numbers, or rows and mass of each class.

    Parameters
    ----------
    moments
        Of y.
    shifted
        Of y less the offset: what is left to explain of a real response.
    values
        Distribution of y.
    classes
        Rows and mass of each label.
    """

    moments: Moments = field(default_factory=Moments)
    shifted: Moments = field(default_factory=Moments)
    offsets: Moments = field(default_factory=Moments)
    values: ValueSketch = field(default_factory=lambda: ValueSketch(_MAX_VALUES))
    classes: dict[Any, tuple[int, float]] = field(default_factory=dict)

    def update(
        self, y: NDArray[Any], mass: FloatArray | None, offset: FloatArray | None, *, labels: bool
    ) -> Hashes:
        """Take in a chunk; return the hash of each response."""
        if offset is not None:
            self.offsets.update(offset, mass)
        if not labels:
            self.moments.update(y, mass)
            self.shifted.update(y if offset is None else y - offset, mass)
            self.values.update(y, mass)
            return hash_numbers(y)
        names, index = np.unique(y, return_inverse=True)
        rows = np.bincount(index, minlength=len(names)).tolist()
        masses = rows
        if mass is not None:
            masses = np.bincount(index, weights=mass, minlength=len(names)).tolist()
        levels = names.tolist()
        self._add(dict(zip(levels, zip(rows, map(float, masses), strict=True), strict=True)))
        return hash_levels(levels)[index]

    def merge(self, other: ResponseSketch) -> None:
        """Take in what another has seen."""
        self.moments.merge(other.moments)
        self.shifted.merge(other.shifted)
        self.offsets.merge(other.offsets)
        self.values.merge(other.values)
        self._add(other.classes)

    def _add(self, classes: dict[Any, tuple[int, float]]) -> None:
        for label, (rows, mass) in classes.items():
            before = self.classes.get(label, (0, 0.0))
            self.classes[label] = (before[0] + rows, before[1] + mass)
        if len({isinstance(label, str) for label in self.classes}) > 1:
            raise ValueError(
                "y mixes texts and numbers, which have no order together; convert all labels to "
                "text"
            )
        if len(self.classes) > _MAX_CLASSES:
            raise ValueError(
                f"y has more than {_MAX_CLASSES} distinct labels: these are no classes; a "
                "response of numbers needs target_type='number'"
            )
