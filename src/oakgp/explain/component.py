"""One component of a model as a function of the features it depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.response import as_array

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Component:
    """Mean and deviation of f_u, in units of the response.

    Parameters
    ----------
    model
        The model.
    term
        The features u.
    at
        Coordinates (as the kernel sees them) of the features that are held fixed.
    """

    model: Model
    term: Term
    at: Mapping[int, float]

    def __call__(self, coordinates: Mapping[int, Array]) -> tuple[Array, Array]:
        """Return mean and standard deviation at rows of kernel coordinates, each ``[n]``.

        A component depends on its own features only, so the others stand at any valid value: the
        first node of their measures.
        """
        n = len(next(iter(coordinates.values())))
        rows = np.empty((len(self.model.columns), n))
        for i, column in enumerate(self.model.columns):
            if i in coordinates:
                rows[i] = coordinates[i]
            elif i in self.at:
                rows[i] = self.at[i]
            else:
                rows[i] = column.feature.measure.atoms[0][0]
        like = self.model.posterior.mean_weights
        x = torch.tensor(rows, dtype=like.dtype, device=like.device)
        mean, variance = self.model.posterior.mean_and_variance(x, self.term)
        return self.model.scale * as_array(mean), self.model.scale * as_array(variance.sqrt())

    def grid(self, i: int, a: Array, j: int, b: Array) -> tuple[Array, Array]:
        """Return mean and deviation over a grid of two features, each ``[len(b), len(a)]``."""
        first, second = np.meshgrid(a, b)
        mean, sd = self({i: first.ravel(), j: second.ravel()})
        return mean.reshape(first.shape), sd.reshape(first.shape)
