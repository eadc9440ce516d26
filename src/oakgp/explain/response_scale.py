"""Parts of the expected response, where it is no linear function of the components.

With a link the expected response is g(x) = E[h(f(x))], averaged over the posterior of f(x). It is
no sum of the components' own effects, and there is more than one honest way to split it:

- by terms, one after another: each part is what g gains as a term is added to the latent mean,
  the uncertainty of f(x) being held at that of the row. The parts depend on the order of the
  terms, which is the same for all rows.
- by features, as Shapley values of g: the average gain of setting a feature to its value, over
  all orders of the features, the others being independent draws from their measures. They are
  estimated from random orders, with a standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp.kernels import CategoricalKernel
from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.response import Response, as_array

Array = NDArray[np.float64]

_BATCH = 8192  # rows whose response is computed at a time


def expected_response(model: Model, output: Model, mean: Tensor, variance: Tensor) -> Array:
    """Return the expected response, or the probability of a class, ``[n]``.

    Parameters
    ----------
    model, output
        All latent functions, and the one whose class is meant.
    mean, variance
        ``[L, n]`` moments of the latent functions, levels included.
    """
    response = _response(model)
    found = response.mean(mean, variance)
    if not model.pooled:
        return found
    return np.asarray(found[[each.name for each in model.outputs].index(output.name)])


def _response(model: Model) -> Response:
    assert model.response is not None
    return model.response


def sequential(
    model: Model, output: Model, x: Tensor, terms: Sequence[Term]
) -> tuple[Array, Array]:
    """Return what the expected response gains with each term, ``[n, k + 1]``, and its base ``[n]``.

    The last column is that of all other terms together.
    """
    mean, variance = _response(model).latent(model.posteriors, x, None)
    moving = range(len(model.outputs)) if model.pooled else range(1)
    steps = torch.zeros((len(terms) + 1, *mean.shape), dtype=mean.dtype, device=mean.device)
    for latent in moving:
        posterior = model.posteriors[latent]
        parts, _ = posterior.component_moments(x, terms)
        rest = posterior.mean(x) - posterior.mean(x, ()) - parts.sum(dim=0)
        steps[:, latent] = torch.cat([parts, rest[None]])
    at = mean - steps.sum(dim=0)
    values = [expected_response(model, output, at, variance)]
    for step in steps:
        at = at + step
        values.append(expected_response(model, output, at, variance))
    path = np.column_stack(values)
    return np.diff(path, axis=1), path[:, 0]


def sampled_shapley(
    model: Model, output: Model, x: Tensor, n_samples: int, seed: int
) -> tuple[Array, Array, float]:
    """Return Shapley values of the expected response, their standard errors and the base.

    Parameters
    ----------
    model, output
        All latent functions, and the one whose class is meant.
    x
        ``[d, n]`` encoded rows.
    n_samples
        Draws of the other features' values; each is used with a random order of the features and
        with its reverse.
    seed
        Of the draws, which are the same for all rows.

    Returns
    -------
    values, errors
        ``[n, d]``; each row of values sums to the row's expected response less the base.
    base
        Mean expected response of the draws.
    """
    rng = np.random.default_rng(seed)
    d, n = x.shape

    def respond(rows: Array) -> Array:
        parts = []
        for first in range(0, rows.shape[1], _BATCH):
            some = torch.from_numpy(rows[:, first : first + _BATCH]).to(x)
            moments = _response(model).latent(model.posteriors, some, None)
            parts.append(expected_response(model, output, *moments))
        return np.concatenate(parts)

    others = _draws(model, n_samples, rng)
    orders = np.array([rng.permutation(d) for _ in range(n_samples)]).reshape(n_samples, d)
    at_others = respond(others)
    rows = as_array(x)
    values, errors = np.empty((n, d)), np.empty((n, d))
    for k in range(n):
        gains = _gains(respond, rows[:, k], others, at_others, orders)
        values[k] = gains.mean(axis=0)
        errors[k] = gains.std(axis=0, ddof=1) / np.sqrt(n_samples)
    return values, errors, float(at_others.mean())


def _gains(
    respond: Callable[[Array], Array],
    row: Array,
    others: Array,
    at_others: Array,
    orders: NDArray[np.int64],
) -> Array:
    """Return the gain of every feature, averaged over each order and its reverse, ``[s, d]``."""
    s, d = orders.shape
    rank = np.argsort(orders, axis=1)  # [s, d] the place of each feature
    steps = np.arange(1, d)
    forward = rank[:, None, :] < steps[None, :, None]  # [s, d - 1, d]
    backward = rank[:, None, :] >= d - steps[None, :, None]
    chosen = np.concatenate([forward, backward], axis=1)  # [s, 2 (d - 1), d]
    mixed = np.where(chosen, row, others.T[:, None, :]).reshape(-1, d).T
    inner = respond(np.column_stack([mixed, row]))
    whole = np.full((s, 1), inner[-1])
    inner = inner[:-1].reshape(s, 2, d - 1)
    gains = np.zeros((s, d))
    numbers = np.arange(s)[:, None]
    for half, places in ((0, orders), (1, orders[:, ::-1])):
        path = np.concatenate([at_others[:, None], inner[:, half], whole], axis=1)
        gains[numbers, places] += 0.5 * np.diff(path, axis=1)
    return gains


def _draws(model: Model, count: int, rng: np.random.Generator) -> Array:
    """Return independent draws of every feature from its measure, encoded, ``[d, count]``."""
    rows = np.empty((len(model.columns), count))
    for i, column in enumerate(model.columns):
        nodes, weights = column.feature.measure.atoms
        # Strata: one draw from each of count slices of equal probability, then shuffled.
        levels = (np.arange(count) + rng.random(count)) / count
        places = np.searchsorted(np.cumsum(weights) / weights.sum(), levels)
        values = nodes[np.minimum(places, len(nodes) - 1)]
        kernel = column.feature.kernel
        if isinstance(kernel, CategoricalKernel) and kernel.has_missing:
            values = np.where(values == kernel.n_levels, np.nan, values)
        rows[i] = rng.permutation(values)
    return rows
