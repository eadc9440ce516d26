"""What every flow promises, and the divergence by which flows are compared."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from oakgp.flows.columns import Array, checked


@dataclass(frozen=True)
class Flow(ABC):
    """A fitted increasing map of one feature; subclasses are final and hold plain numbers."""

    kind: ClassVar[str]

    @classmethod
    @abstractmethod
    def fit(cls, x: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Fit the map to one column.

        Parameters
        ----------
        x : array of shape (n,)
            Finite values, at least one.
        weights : array of shape (n,), optional
            Nonnegative row weights, not all zero. A row of weight zero counts as absent.

        Returns
        -------
        Flow
            The fitted map.
        """

    @abstractmethod
    def forward(self, x: ArrayLike) -> Array:
        """Map values of the feature to z = g(x), finite for every input that is not NaN."""

    @abstractmethod
    def inverse(self, z: ArrayLike) -> Array:
        """Map z back: ``inverse(forward(x)) == x`` within the range of training."""

    @abstractmethod
    def log_derivative(self, x: ArrayLike) -> Array:
        """Give log g'(x), the log of the slope (at a kink: of the slope on its right)."""

    def to_dict(self) -> dict[str, Any]:
        """Give the parameters as JSON-safe values; `flow_from_dict` restores them bit by bit."""
        values = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        return {"kind": self.kind, **values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Restore a flow from the values that `to_dict` gave."""
        expected = {"kind", *(field.name for field in fields(cls))}
        if set(values) != expected or values["kind"] != cls.kind:
            raise ValueError(
                f"Cannot restore {cls.__name__}: expected kind {cls.kind!r} with the fields "
                f"{sorted(expected)}, got kind {values.get('kind')!r} with {sorted(values)}. "
                "Pass what to_dict() gave, unchanged."
            )
        state = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        del state["kind"]
        return cls(**state)


def normal_kl(flow: Flow, x: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Mean of z^2 / 2 - log g'(x): the KL from the transformed column to N(0, 1), plus a constant.

    Parameters
    ----------
    flow : Flow
        A fitted flow.
    x : array of shape (n,)
        The column.
    weights : array of shape (n,), optional
        Row weights.

    Returns
    -------
    float
        The divergence; the constant depends on the column only, so flows can be compared.
    """
    column, mass = checked(x, weights)
    loss = 0.5 * flow.forward(column) ** 2 - flow.log_derivative(column)
    return float(np.average(loss, weights=mass))
