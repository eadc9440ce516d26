"""Probability measures of single features: all the orthogonality constraint needs to know.

A measure p enters the model only through expectations of the base kernel,

- ``mean_embedding``: s(x) = E_p[k(X, x)],
- ``mean_mean``: v = E_p E_p[k(X, X')],

and the Sobol indices need three more,

- ``cross_moment``: E_p[k(X, a) k(X, b)],
- ``embedding_moment``: E_p[s(X) k(X, a)],
- ``embedding_square``: E_p[s(X)^2].

Every measure has quadrature nodes, on which all five are finite sums for any kernel; a subclass
overrides what it knows in closed form. Missing values are NaN, here as everywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp import ops
from oakgp.kernels.base import RadialKernel

Array = NDArray[np.float64]


def split_missing(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return a column with 0 for the missing values, and where these are.

    NaN must not enter a formula whose result is masked afterwards: the mask's gradient is 0, and
    0 times the NaN derivative of the formula would poison the gradient of every other row.
    """
    missing = torch.isnan(x)
    return torch.where(missing, torch.zeros_like(x), x), missing


def distinct_values(x: Array, mass: Array) -> tuple[Array, Array]:
    """Return the distinct values of a column, in increasing order, and the mass of each."""
    order = np.argsort(x, kind="stable")
    values, mass = x[order], mass[order]
    starts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]])
    return values[starts], np.add.reduceat(mass, starts)


class Measure(ABC):
    """Measure of one feature, in the coordinates the kernel sees (after the flow)."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def atoms(self) -> tuple[Array, Array]:
        """Quadrature nodes and their weights (which sum to 1)."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe description that `measure_from_dict` reads back exactly."""

    def node_tensors(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return nodes and weights with the dtype and device of ``like``."""
        nodes, weights = self.atoms
        return like.new_tensor(nodes), like.new_tensor(weights)

    def sums_over_nodes(self, kernel: RadialKernel) -> bool:
        """Whether s is the sum over the atoms, for want of a closed form with this kernel."""
        return True

    def mean_embedding(self, kernel: RadialKernel, x: Tensor, lengthscale: Tensor) -> Tensor:
        """Return s(x) = E[k(X, x)], ``[n]``, differentiable in the lengthscale."""
        nodes, weights = self.node_tensors(x)
        return ops.mean_embedding(kernel.kind, x, nodes, weights, lengthscale)

    def mean_mean(self, kernel: RadialKernel, lengthscale: Tensor) -> Tensor:
        """Return v = E E[k(X, X')], a scalar."""
        nodes, weights = self.node_tensors(lengthscale)
        return weights @ self.mean_embedding(kernel, nodes, lengthscale)

    def cross_moment(
        self, kernel: RadialKernel, a: Tensor, b: Tensor, lengthscale: Tensor
    ) -> Tensor:
        """Return E[k(X, a_i) k(X, b_j)], ``[n, m]``."""
        nodes, weights = self.node_tensors(a)
        left = kernel(a, nodes, lengthscale) * weights
        return left @ kernel(b, nodes, lengthscale).T

    def embedding_moment(self, kernel: RadialKernel, a: Tensor, lengthscale: Tensor) -> Tensor:
        """Return E[s(X) k(X, a_i)], ``[n]``."""
        nodes, weights = self.node_tensors(a)
        s = self.mean_embedding(kernel, nodes, lengthscale)
        return kernel(a, nodes, lengthscale) @ (weights * s)

    def embedding_square(self, kernel: RadialKernel, lengthscale: Tensor) -> Tensor:
        """Return E[s(X)^2], a scalar."""
        nodes, weights = self.node_tensors(lengthscale)
        return weights @ self.mean_embedding(kernel, nodes, lengthscale) ** 2
