"""What learning needs of an engine: an objective over a vector, and the posterior at its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp.posterior import KernelPosterior

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fitted:
    """The posterior at some hyperparameters.

    Parameters
    ----------
    posteriors
        Of each latent function, as the deviation from its level.
    likelihood_parameters
        ``[p]`` parameters of the likelihood; none for regression, whose noise is the posterior's.
    jitter
        Relative jitter of the factorisations.
    converged
        Whether the posterior itself was found, where that takes iterations.
    """

    posteriors: tuple[KernelPosterior, ...]
    likelihood_parameters: Tensor
    jitter: float
    converged: bool = True


class Objective(Protocol):
    """Minus the evidence (or its bound) minus the log priors, as a function of the vector."""

    def __call__(self, theta: Tensor) -> Tensor:
        """Return the value, differentiable."""
        ...


class Engine(Protocol):
    """Rows and a model: what `Learner` drives."""

    @property
    def x(self) -> Tensor:
        """``[d, n]`` encoded inputs."""
        ...

    @property
    def n(self) -> int:
        """Number of rows."""
        ...

    def take(self, rows: Tensor) -> Self:
        """Return the engine of some of the rows."""
        ...

    def limits(self) -> list[tuple[float, float]]:
        """Return the bounds of each entry of the vector."""
        ...

    def start(self, lengthscale: float, noise: float, seed: int) -> Array:
        """Return a starting vector."""
        ...

    def objective(
        self, inducing: Tensor | None = None, after: Objective | None = None
    ) -> Objective:
        """Return a new objective, going on from where an earlier one of the same rows ended."""
        ...

    def log_prior(self, theta: Array) -> float:
        """Return the log density of the priors."""
        ...

    def choose_inducing(self, theta: Array, count: int, seed: int) -> Tensor:
        """Return the numbers of the rows to be inducing points."""
        ...

    def before_sparse(self, theta: Array, inducing: Tensor) -> Array:
        """Return the vector to begin a sparse run from."""
        ...

    def finish(
        self, theta: Array, inducing: Tensor | None = None, after: Objective | None = None
    ) -> Fitted:
        """Return the posterior given these rows."""
        ...


def tensor_like(theta: Array, like: Tensor) -> Tensor:
    """Return a vector as a tensor of the type and on the device of another."""
    return torch.tensor(theta, dtype=like.dtype, device=like.device)
