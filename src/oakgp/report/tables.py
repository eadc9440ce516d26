"""Components as tables over the slots of their features: what the page draws and adds up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from oakgp.explain.feature_axis import LevelAxis
from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.report.features import PageFeature, Slots
from oakgp.report.packing import pack
from oakgp.response import as_array

Array = NDArray[np.float64]

_CELLS = 24_000  # of a table; larger ones (hundreds of levels twice) are left out
_SLICES = 5


def evaluate(
    model: Model, term: Term, slots: dict[int, Array], with_sd: bool
) -> tuple[Array, Array]:
    """Return mean and deviation of a component on the grid of some coordinates.

    Parameters
    ----------
    model, term
        Which component.
    slots
        Coordinates of each of the term's features; the grid is their product.
    with_sd
        Whether to compute deviations, which take longer; else they are empty.
    """
    grids = np.meshgrid(*(slots[i] for i in term), indexing="ij")
    rows = np.empty((len(model.columns), grids[0].size))
    for i, column in enumerate(model.columns):
        rows[i] = column.feature.measure.atoms[0][0]
    for i, grid in zip(term, grids, strict=True):
        rows[i] = grid.ravel()
    like = model.posterior.mean_weights
    x = torch.tensor(rows, dtype=like.dtype, device=like.device)
    if not with_sd:
        mean = model.posterior.mean(x, term)
        return model.scale * as_array(mean).reshape(grids[0].shape), np.empty(0)
    mean, variance = model.posterior.mean_and_variance(x, term)
    sd = model.scale * as_array(variance.sqrt())
    return model.scale * as_array(mean).reshape(grids[0].shape), sd.reshape(grids[0].shape)


def component_table(
    model: Model, term: Term, features: Sequence[PageFeature]
) -> dict[str, Any] | None:
    """Return a component of one to three features as tables; None where they would be too large.

    Of three features, the tables are of two of them at some values of the third, to look at only.
    """
    if len(term) == 1:
        (i,) = term
        mean, sd = evaluate(model, term, {i: features[i].main.coordinates}, True)
        return {"mean": pack(mean), "sd": pack(sd)}
    if len(term) == 2:
        return _pair(
            model, term, [features[i].pair for i in term], [features[i].band for i in term]
        )
    if len(term) == 3:
        return _slices(model, term, features)
    return None


def _pair(
    model: Model, term: Term, pair: Sequence[Slots], band: Sequence[Slots]
) -> dict[str, Any] | None:
    if pair[0].size * pair[1].size > _CELLS:
        return None
    at = dict(zip(term, (s.coordinates for s in pair), strict=True))
    coarse = dict(zip(term, (s.coordinates for s in band), strict=True))
    mean, _ = evaluate(model, term, at, False)
    _, sd = evaluate(model, term, coarse, True)
    return {"mean": pack(mean, "u2"), "sd": pack(sd, "u2")}


def _slices(model: Model, term: Term, features: Sequence[PageFeature]) -> dict[str, Any] | None:
    """Return surfaces over two features at some values of the third.

    The third is the categorical one with the fewest levels, or else the last.
    """
    by_levels = [
        (features[i].band.size, i) for i in term if isinstance(features[i].axis, LevelAxis)
    ]
    third = min(by_levels)[1] if by_levels else term[-1]
    pair = tuple(i for i in term if i != third)
    slots = {i: features[i].band.coordinates for i in pair}
    if slots[pair[0]].size * slots[pair[1]].size > _CELLS // _SLICES:
        return None
    found = []
    for label, at in features[third].axis.slices(_SLICES):
        both = {**slots, third: np.array([at])}
        mean, sd = evaluate(model, term, both, True)
        index = term.index(third)
        found.append(
            {
                "label": label,
                "mean": pack(np.take(mean, 0, axis=index), "u2"),
                "sd": pack(np.take(sd, 0, axis=index), "u2"),
            }
        )
    return {"pair": list(pair), "third": third, "slices": found}
