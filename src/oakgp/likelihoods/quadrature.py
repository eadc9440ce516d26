r"""Expectations under a Gaussian: fixed nodes, and nodes that go where the integrand is.

For L independent latent values f_l = m_l + s_l z_l a rule is S points z with weights that sum to 1:

- L = 1: Gauss-Hermite with 64 nodes, of which the 43 with a weight that a float can feel remain.
  Its error on a function that varies on the scale of 1 (a sigmoid) is 1e-12 at s = 1 and about
  one percent at s = 10;
- L = 2: the product grid of two rules of 24;
- L > 2: 256 points, Sobol points through the inverse normal with their mirror images, scaled so
  that all moments up to the third are exact. The seed is fixed: same model, same numbers.

A narrow integrand, such as the density of a large count, falls between fixed nodes: `log_mean_exp`
therefore moves and scales its nodes to the peak (adaptive Gauss-Hermite, Liu and Pierce 1994).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor

Array = NDArray[np.float64]

N_NODES = 64
N_NODES_2 = 24
N_POINTS = 256
MAX_ELEMENTS = 2**18  # of one tensor over latent functions, nodes and rows: 2 MB stay in the cache

_NEWTON_STEPS = 12
_LEAST_WEIGHT = 1e-17


@lru_cache(maxsize=64)
def rule(n_latents: int) -> tuple[Array, Array]:
    """Return nodes ``[L, S]`` and weights ``[S]`` for a standard Gaussian in L dimensions."""
    if n_latents == 1:
        nodes, weights = _gauss_hermite(N_NODES)
        return nodes[None], weights
    if n_latents == 2:
        nodes, weights = _gauss_hermite(N_NODES_2)
        grid = np.stack(np.meshgrid(nodes, nodes, indexing="ij")).reshape(2, -1)
        return grid, np.outer(weights, weights).ravel()
    return _sobol(n_latents, N_POINTS), np.full(N_POINTS, 1.0 / N_POINTS)


def _gauss_hermite(count: int) -> tuple[Array, Array]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    weights = weights / weights.sum()
    keep = weights > _LEAST_WEIGHT
    return nodes[keep], weights[keep] / weights[keep].sum()


def gaussian_points(n_latents: int, count: int) -> Array:
    """Return standard Gaussian points of equal weight, ``[L, count]``, the same at each call."""
    return _sobol(n_latents, count)


def _sobol(dimension: int, count: int) -> Array:
    """Return quasi-random Gaussian points whose moments up to the third are exact, ``[L, S]``."""
    engine = torch.quasirandom.SobolEngine(dimension, scramble=True, seed=0)
    half = engine.draw(count // 2, dtype=torch.float64).numpy().T
    points = ndtri(np.clip(half, 2.0**-31, 1.0 - 2.0**-31))
    z = np.concatenate([points, -points], axis=1)
    if dimension <= count // 2:
        return np.asarray(np.linalg.solve(np.linalg.cholesky(z @ z.T / count), z))
    # Too few points for all covariances: the variances at least.
    return np.asarray(z / np.sqrt((z**2).mean(axis=1, keepdims=True)))


def row_chunks(n: int, width: int) -> Iterator[slice]:
    """Cut n rows, each of ``width`` elements, into pieces that fit ``MAX_ELEMENTS``."""
    size = max(1, MAX_ELEMENTS // width)
    for start in range(0, max(n, 1), size):
        yield slice(start, start + size)


def average(function: Callable[[Tensor, slice], Tensor], mean: Tensor, variance: Tensor) -> Tensor:
    """Return E[function(f)] for f_l ~ N(mean_l, variance_l), chunked over rows.

    Parameters
    ----------
    function
        Of latent values ``[L, S, r]`` and the rows (a slice) they belong to; gives ``[..., S, r]``.
    mean, variance : tensor of shape (L, n)
        Moments of the latent values.

    Returns
    -------
    tensor of shape (..., n)
    """
    parts = [
        torch.einsum("s,...sn->...n", weights, function(f, rows))
        for rows, f, weights in latent_values(mean, variance)
    ]
    return torch.cat(parts, dim=-1)


def latent_values(mean: Tensor, variance: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Yield chunks of rows, their latent values ``[L, S, r]`` and the rule's weights ``[S]``."""
    n_latents, n = mean.shape
    nodes, weights = (mean.new_tensor(a) for a in rule(n_latents))
    deviation = variance.sqrt()
    for rows in row_chunks(n, n_latents * len(weights)):
        yield rows, mean[:, None, rows] + deviation[:, None, rows] * nodes[:, :, None], weights


def log_mean_exp(
    function: Callable[[Tensor], Tensor],
    slopes: Callable[[Tensor], tuple[Tensor, Tensor]],
    mean: Tensor,
    variance: Tensor,
) -> Tensor:
    """Return log E[exp(h(f))], f ~ N(mean, variance), with nodes around the integrand's peak.

    Parameters
    ----------
    function
        h, of latent values ``[S, n]``.
    slopes
        Its first and second derivative at ``[n]``.
    mean, variance : tensor of shape (n,)
        Moments of f.

    Returns
    -------
    tensor of shape (n,)
    """
    deviation = variance.sqrt()
    peak = _peak(function, slopes, mean, deviation)
    curvature = 1.0 - variance * slopes(mean + deviation * peak)[1]
    width = curvature.clamp(min=1.0).rsqrt()  # not wider than q, where h is convex
    nodes, weights = (mean.new_tensor(a)[:, None] for a in (rule(1)[0][0], rule(1)[1]))
    z = peak + width * nodes
    # Change of variables z = peak + width x: phi(z) dz = width phi(z) / phi(x) phi(x) dx.
    exponent = function(mean + deviation * z) - 0.5 * z**2 + 0.5 * nodes**2 + weights.log()
    return torch.logsumexp(exponent, dim=0) + width.log()


def _peak(
    function: Callable[[Tensor], Tensor],
    slopes: Callable[[Tensor], tuple[Tensor, Tensor]],
    mean: Tensor,
    deviation: Tensor,
) -> Tensor:
    """Return z with the largest h(mean + deviation z) - z^2 / 2: a grid, then Newton within it."""
    grid = torch.sinh(torch.linspace(-5.0, 5.0, 41, dtype=mean.dtype, device=mean.device))
    height = function(mean + deviation * grid[:, None]) - 0.5 * grid[:, None] ** 2
    best = height.argmax(dim=0)
    low, high = grid[(best - 1).clamp(min=0)], grid[(best + 1).clamp(max=len(grid) - 1)]
    z = grid[best]
    for _ in range(_NEWTON_STEPS):
        first, second = slopes(mean + deviation * z)
        slope = deviation * first - z
        low, high = torch.where(slope > 0, z, low), torch.where(slope > 0, high, z)
        step = z + slope / (1.0 - deviation**2 * second).clamp(min=1.0)
        z = torch.where((step >= low) & (step <= high), step, 0.5 * (low + high))
    return z
