r"""How rows of any likelihood become weighted regressions on the basis.

Around the latent values m of the present weights, log p(y | m) is replaced by its quadratic
expansion: a regression of z = m + g / h with weight h, where g is the slope and h the (positive)
curvature. Solved, it gives the next weights: Newton's method, whose end is the Laplace
approximation. Gaussian rows are such a regression from the outset, the same whatever m.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from oakgp.basis.rows import Rows
from oakgp.likelihoods.base import Likelihood

_LEAST = 1e-6  # curvature: with less, z is far off and its product with h is all that counts


@dataclass(frozen=True, eq=False)
class Regressions:
    """The working regression of each latent function at some rows.

    Parameters
    ----------
    z, w
        ``[L, n]`` responses and weights.
    log_density
        Sum of the rows' weighted log densities at the present latent values.
    """

    z: Tensor
    w: Tensor
    log_density: float


class Working(ABC):
    """Makes regressions of rows."""

    #: Number of latent functions.
    n_latents: int
    #: Whether all latent functions have the same hyperparameters.
    shared: bool
    #: Whether one pass says all that the rows can say.
    linear: bool

    @abstractmethod
    def regressions(self, rows: Rows, latents: Tensor) -> Regressions:
        """Return the regressions around latent values ``[L, n]`` (without level and offset)."""

    def at_the_end(self) -> Working:
        """Return what makes the regressions that the posterior's covariance is taken from."""
        return self

    @abstractmethod
    def stepped(self, weights: Tensor, target: Tensor) -> Tensor:
        """Return the weights ``[L, F]`` after a step towards the solution of the regressions."""


class GaussianWorking(Working):
    """Gaussian noise: the rows as they are."""

    n_latents, shared, linear = 1, True, True

    def regressions(self, rows: Rows, latents: Tensor) -> Regressions:
        """Return responses and weights."""
        return Regressions(rows.y[None], rows.w[None], 0.0)

    def stepped(self, weights: Tensor, target: Tensor) -> Tensor:
        """Return the solution."""
        return target


class LikelihoodWorking(Working):
    """Any likelihood.

    Parameters
    ----------
    likelihood
        The likelihood.
    levels
        ``[L]`` what the latent functions vary around.
    parameters
        ``[p]`` the likelihood's own.
    bounding
        Whether expansions of a density that is not log-concave shall be safe to climb, rather than
        close: see `_curvature`.
    """

    linear = False

    def __init__(
        self, likelihood: Likelihood, levels: Tensor, parameters: Tensor, bounding: bool = True
    ) -> None:
        self.likelihood, self.levels, self.parameters = likelihood, levels, parameters
        self.bounding = bounding and not likelihood.log_concave
        self.n_latents = likelihood.n_latents
        self.shared = likelihood.support == "classes"

    def values(self, rows: Rows, latents: Tensor) -> Tensor:
        """Return the latent values with level and offset, ``[L, n]``."""
        f = latents + self.levels.to(latents)[:, None]
        f[0] += rows.offset
        return f

    def regressions(self, rows: Rows, latents: Tensor) -> Regressions:
        """Return the quadratic expansions of the rows' log densities."""
        f = self.values(rows, latents)
        parameters = self.parameters.to(latents)
        slope, second = self.likelihood.derivatives(rows.y, f, parameters)
        density = self.likelihood.log_density(rows.y, f, parameters)
        curvature = self._curvature(rows.y - f, slope, second).clamp_min(_LEAST)
        return Regressions(
            latents + slope / curvature, curvature * rows.w, float((rows.w * density).sum())
        )

    def _curvature(self, gap: Tensor, slope: Tensor, second: Tensor) -> Tensor:
        """Return minus the second derivative, or what goes in its place where that may be negative.

        A row far from f has next to no curvature under heavy tails, or a negative one, and its
        expansion says nothing of where to go. The parabola with the slope at f and its peak at the
        response, z = y, lies below such a density: going to its peak never goes down.
        """
        if not self.bounding:
            return -second
        if self.likelihood.support != "real" or self.n_latents > 1:
            return second.abs()
        return torch.where(gap.abs() > 1e-9, slope / gap, -second)

    def at_the_end(self) -> LikelihoodWorking:
        """Return the same with true curvatures: bounds would claim to know too much."""
        return LikelihoodWorking(self.likelihood, self.levels, self.parameters, bounding=False)

    def stepped(self, weights: Tensor, target: Tensor) -> Tensor:
        """Return the solution, for one latent function; half the way to it, for several.

        Each latent function is solved by itself. The curvature across the classes of a softmax is
        at most that within (Gershgorin), so half the way never goes too far. What all classes have
        in common changes no probability, and the prior, which they share, takes it to 0: at once,
        since there is no curvature that way and steps would be endless.
        """
        if self.n_latents == 1:
            return target
        after = weights + 0.5 * (target - weights)
        return after - after.mean(dim=0) if self.shared else after

    def fitted_parameters(self, rows: Rows, mean: Tensor, variance: Tensor) -> Tensor:
        """Return the likelihood's parameters that suit latent moments ``[L, n]`` best."""
        from oakgp.inference.optimize import minimise

        if not len(self.parameters):
            return self.parameters
        f = self.values(rows, mean)

        def objective(theta: Tensor) -> Tensor:
            density = self.likelihood.expected_value(rows.y, f, variance, theta.exp())
            return -(rows.w * density).sum()

        limits = [(math.log(low), math.log(high)) for low, high in self.likelihood.parameter_bounds]
        start = self.parameters.detach().cpu().log().numpy()
        tolerance = 1e-3 * max(1.0, rows.n / 1000.0)
        optimum = minimise(
            objective, start, limits, max_iter=30, tolerance=tolerance, device=rows.x.device
        )
        return torch.from_numpy(optimum.theta).exp().to(self.parameters)
