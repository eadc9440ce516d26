"""The constrained kernels of single features between rows and anchors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from oakgp.kernels.additive import AdditiveKernel, Parameters
from oakgp.kernels.constrained import embeddings
from oakgp.kernels.terms import term_set
from oakgp.ops.layout import Points, Weights
from oakgp.posterior import KernelPosterior


def unit_weights(posterior: KernelPosterior) -> Weights:
    """Return the weights with order variances of 1: a main effect is then k~_i itself."""
    weights = posterior.features.weights
    return replace(weights, order_variances=torch.ones_like(weights.order_variances))


@dataclass(frozen=True, eq=False)
class OneKernel:
    """c_i k~_i by itself: a kernel of one column, which takes no time for the others.

    Parameters
    ----------
    kernel, parameters
        Of a model with this feature only.
    """

    kernel: AdditiveKernel
    parameters: Parameters

    @cached_property
    def _weights(self) -> Weights:
        return self.kernel.weights(self.parameters)

    def points(self, values: Tensor) -> Points:
        """Return encoded values ``[n]`` with their embeddings."""
        return self.kernel.points(self.parameters, values[None])

    def matrix(self, left: Points, right: Points | None = None) -> Tensor:
        """Return c k~ between two sets of points, ``[n, m]``."""
        return self.kernel.term_matrix(self._weights, (0,), left, right)

    def diagonal(self, points: Points) -> Tensor:
        """Return c k~(x, x), ``[n]``."""
        return self.kernel.term_diagonal(self._weights, (0,), points)


def one_kernel(posterior: KernelPosterior, i: int) -> OneKernel:
    """Return the kernel of feature i."""
    whole, given = posterior.kernel, posterior.parameters
    chosen = [whole.categorical.index(i)] if i in whole.categorical else []
    return OneKernel(
        AdditiveKernel((whole.features[i],), term_set(1, 1), whole.orthogonal),
        Parameters(
            given.lengthscales[i : i + 1],
            given.scales[i : i + 1],
            torch.ones_like(given.order_variances[:1]).expand(2),
            given.noise,
            tuple(given.mixing[k] for k in chosen),
            tuple(given.diagonal[k] for k in chosen),
        ),
    )


def points_of(posterior: KernelPosterior, coordinates: Mapping[int, Tensor]) -> Points:
    """Return points of some features, by their coordinates ``[n]``.

    What they hold of the others is not to be used, and takes no time.
    """
    kernel, lengthscales = posterior.kernel, posterior.parameters.lengthscales
    like = next(iter(coordinates.values()))
    x = like.new_zeros((kernel.n_features, len(like)))
    embed = torch.zeros_like(x)
    index = list(coordinates)
    x[index] = torch.stack(list(coordinates.values()))
    if kernel.orthogonal:
        chosen = [kernel.features[i] for i in index]
        embed[index] = embeddings(chosen, x[index], lengthscales[index])
    return Points(x, embed)


def pages(
    posterior: KernelPosterior, left: Points, right: Points, features: Iterable[int]
) -> Tensor:
    """Return c_i k~_i between two sets of points, ``[features, n, m]``."""
    unit = unit_weights(posterior)
    found = [posterior.kernel.term_matrix(unit, (i,), left, right) for i in features]
    return torch.stack(found) if found else left.x.new_zeros((0, left.n, right.n))


def diagonals(posterior: KernelPosterior, points: Points, features: Iterable[int]) -> Tensor:
    """Return c_i k~_i(x, x), ``[features, n]``."""
    unit = unit_weights(posterior)
    found = [posterior.kernel.term_diagonal(unit, (i,), points) for i in features]
    return torch.stack(found) if found else points.x.new_zeros((0, points.n))
