"""A feature made monotone together with its pairs: whatever the other features, the sum rises.

The main effect is shared out among the feature's pairs, h_j = w_j f_i + f_ij, and each h_j is made
monotone along i for every value of j; so is their sum. The parts come back as f_i = sum_j E_j h_j
and f_ij = h_j - E_j h_j. Projection along i keeps averages over i, so all parts stay centred.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from oakgp.edits.posterior import EditedPosterior, TermEdit, entry_rows
from oakgp.edits.projection import project
from oakgp.edits.tables import ComponentGrid, GridAxis, axis_of
from oakgp.edits.variances import gaussian_draws
from oakgp.edits.weighted import weighted_covariance
from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.posterior import Posterior
from oakgp.response import as_array

Array = NDArray[np.float64]

_NODES = (48, 20)  # along the feature, and along the others
_DRAWS = 200


def monotone_edits(
    model: Model, posterior: Posterior, i: int, pairs: Sequence[Term], shape: str, seed: int
) -> list[TermEdit]:
    """Return the edits that make a feature's main effect and pairs monotone together.

    Parameters
    ----------
    model
        Whose columns these are.
    posterior
        Of the latent function, edited or not.
    i
        The feature.
    pairs
        Its pairs; at least one.
    shape
        ``"increasing"`` or ``"decreasing"``.
    seed
        Of the draws.
    """
    base = posterior.base if isinstance(posterior, EditedPosterior) else posterior
    along, p = axis_of(model.columns[i].feature, _NODES[0])
    sizes = np.sqrt(np.maximum(as_array(posterior.variances().of(list(pairs))), 1e-300))
    mean, sd = np.zeros(along.size), np.zeros(along.size)
    edits = []
    for pair, weight in zip(pairs, sizes / sizes.sum(), strict=True):
        part = _pair(model, posterior, base, along, p, i, pair, float(weight), shape, seed)
        edits.append(part[0])
        mean, sd = mean + part[1], sd + part[2]
    rows = entry_rows(base, (i,), along.coordinates[None], _valid(model))
    factor = _factor(sd, base, rows, (i,))
    # Where the value is missing there is no direction: that entry stays.
    mean[-1] = float(posterior.mean(rows[:, -1:], (i,))[0])
    factor[-1] = _kept_factor(posterior, (i,), along.coordinates[-1:][None])[0]
    return [TermEdit((i,), grid=ComponentGrid((along,), mean, factor, p)), *edits]


def _pair(
    model: Model,
    posterior: Posterior,
    base: Posterior,
    along: GridAxis,
    p: Array,
    i: int,
    pair: Term,
    weight: float,
    shape: str,
    seed: int,
) -> tuple[TermEdit, Array, Array]:
    """Return the edit of one pair, and mean and deviation of its part of the main effect."""
    (j,) = (k for k in pair if k != i)
    across, q = axis_of(model.columns[j].feature, _NODES[1])
    axes = (along, across) if pair[0] == i else (across, along)
    probability = np.outer(p, q) if pair[0] == i else np.outer(q, p)
    empty = ComponentGrid(axes, np.zeros_like(probability), np.ones_like(probability), probability)
    rows = entry_rows(base, pair, empty.entries, _valid(model))
    # h_j over [along, across], for the entries of both that are values of the training data.
    n, m = len(along.nodes), int((q > 0).sum())
    seen = np.flatnonzero(q > 0)
    order = np.arange(rows.shape[1]).reshape(probability.shape)
    order = order if pair[0] == i else order.T
    inner = order[:n][:, seen].ravel()
    x = rows[:, torch.from_numpy(inner).to(rows.device)]
    mean = as_array(posterior.mean(x, pair) + weight * posterior.mean(x, (i,)))
    covariance = _covariance(posterior, x, i, pair, weight)
    draws = gaussian_draws(mean, covariance, _DRAWS, seed).reshape(_DRAWS, n, m)
    columns = [project(draws[:, :, k], np.array(along.nodes), p[:n], shape) for k in range(m)]
    found = np.stack(columns, axis=2)
    inside = np.ix_(np.arange(n), seen)
    share = q[seen] / q[seen].sum()
    main = found @ share  # [draws, n]
    rest = found - main[:, :, None]
    new_mean = as_array(posterior.mean(rows, pair))[order]
    factor = _kept_factor(posterior, pair, empty.entries)[order]
    new_mean[inside] = rest.mean(axis=0)
    wanted = np.sqrt(as_array(base.mean_and_variance(rows, pair)[1]))[order] * factor
    wanted[inside] = rest.std(axis=0)
    new_factor = _factor(wanted.ravel(), base, rows[:, order.ravel()], pair).reshape(order.shape)
    if pair[0] != i:
        new_mean, new_factor = new_mean.T, new_factor.T
    grid = ComponentGrid(axes, new_mean, new_factor, probability)
    whole_mean, whole_sd = np.zeros(along.size), np.zeros(along.size)
    whole_mean[:n], whole_sd[:n] = main.mean(axis=0), main.std(axis=0)
    return TermEdit(pair, grid=grid), whole_mean, whole_sd


def _covariance(posterior: Posterior, x: torch.Tensor, i: int, pair: Term, weight: float) -> Array:
    """Return the covariance of weight f_i + f_ij between rows."""
    base, factors = posterior, {}
    if isinstance(posterior, EditedPosterior):
        base = posterior.base
        factors = {u: posterior.factor_at(x, u) for u in ((i,), pair)}
    one = torch.ones_like(x[0])
    d = {
        (): -one,
        (i,): weight * factors.get((i,), one) - 1.0,
        pair: factors.get(pair, one) - 1.0,
    }
    return as_array(weighted_covariance(base.keep([(i,), pair]), x, x, d, d))


def _factor(sd: Array, base: Posterior, rows: torch.Tensor, term: Term) -> Array:
    reference = np.sqrt(as_array(base.mean_and_variance(rows, term)[1]))
    return np.divide(sd, reference, out=np.ones_like(sd), where=reference > 0)


def _kept_factor(posterior: Posterior, term: Term, entries: Array) -> Array:
    """Return the factor that a component has already at some entries."""
    if not isinstance(posterior, EditedPosterior):
        return np.ones(entries.shape[1])
    x = entry_rows(posterior, term, entries, np.zeros(posterior.n_features))
    return as_array(posterior.factor_at(x, term))


def _valid(model: Model) -> Array:
    return np.array([column.feature.measure.atoms[0][0] for column in model.columns])
