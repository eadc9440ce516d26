"""Level frequencies of a categorical feature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from oakgp.measures.base import Array, Measure


@dataclass(frozen=True)
class Categorical(Measure):
    """Level frequencies of a categorical feature; the atoms are the level codes 0 .. L-1."""

    weights: tuple[float, ...]
    kind: ClassVar[str] = "categorical"

    @cached_property
    def atoms(self) -> tuple[Array, Array]:
        """Level codes and frequencies."""
        return np.arange(len(self.weights), dtype=np.float64), np.array(self.weights)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe description."""
        return {"kind": self.kind, "weights": list(self.weights)}
