"""Bands of a sum of tables: the posterior covariance of the components as a few directions.

Standard deviations of components do not add up. But given f at some rows L, what the posterior
still leaves open is nearly nothing once L is well chosen, so that

    cov(f_u(x), f(L)) R^-T =: g_u(x),      R R^T = cov(f(L), f(L)),
    var f(x) = |sum_u g_u(x_u)|^2 + rest,

and each g_u is a table whose entries are vectors. The rows are chosen greedily (pivoted Cholesky),
and the vectors turned to the principal axes, of which the small ones are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp.compiled.axes import Axis, LevelAxis, NumericAxis, Scale
from oakgp.compiled.build import axis_coordinates, level_axis, slices
from oakgp.compiled.scales import coordinates
from oakgp.compiled.splines import coefficients
from oakgp.compiled.tables import Layout, in_tasks, layout, padded
from oakgp.compiled.values import Values
from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.progress import step
from oakgp.response import as_array

Array = NDArray[np.float64]
Floats = NDArray[np.float32]

_ROWS = 1200  # drawn from the measures, to choose from
_SPECIAL = 6  # rows with each special value of each feature
_LARGEST_RANK = 384
_REST = 0.01  # of a row's variance that may stay unexplained
_ACCURACY = 0.02  # of the typical standard deviation, that tables may err by
_MOST = (400, 120)  # entries along an axis, of a main effect and of a pair
_ATTEMPTS = 6


@dataclass(frozen=True, eq=False)
class Bands:
    """Standard deviation of a latent function.

    Parameters
    ----------
    constant
        ``[rank]`` vector of the constant component.
    axes
        Those of each table.
    coefficients
        Of each table: its last axis are the directions.
    rest
        Variance besides.
    scale
        Units of the response (or its link) per unit of the model.
    error
        Largest difference to the model's standard deviation over the rows it was checked at, in
        units of the model.
    """

    constant: Floats
    axes: tuple[tuple[Axis, ...], ...]
    coefficients: tuple[Floats, ...]
    rest: float
    scale: float
    error: float

    @cached_property
    def _arrays(self) -> tuple[Layout, Floats]:
        counts = [len(axes) for axes in self.axes]
        return layout(self.axes), padded(self.coefficients, counts, (len(self.constant),))

    def variance(self, rows: Array) -> Array:
        """Return the variance at encoded rows ``[n, d]``, in units of the model, ``[n]``."""
        from oakgp.compiled import lookup

        how, flat = self._arrays
        out = np.empty(len(rows))

        def part(x: Array, y: Array) -> None:
            lookup.squared_lengths(x, self.constant, how.where, how.tables, flat, y)

        in_tasks(part, rows, out)
        return out + self.rest


def build_bands(
    model: Model,
    values: Values,
    terms: Sequence[Term],
    scales: dict[int, Scale | LevelAxis],
) -> Bands | None:
    """Return the bands of a latent function; None where its engine has no way to them.

    Parameters
    ----------
    model
        The latent function.
    values
        Its components on grids.
    terms
        Those of the sum, the constant not counted.
    scales
        Of the features.
    """
    kept = ((), *terms)
    posterior = model.posterior.keep(kept)
    rows, checks = candidate_rows(model, scales, 0), candidate_rows(model, scales, 1)
    with step("compiling bands", len(kept), "terms") as progress:
        chosen, factor, rest = _landmarks(as_array(posterior.covariance(rows)))
        landmarks = rows[:, torch.from_numpy(chosen).to(rows.device)]
        first = values.covariance((), (), landmarks, kept)
        if first is None:
            return None
        # Rows of ``factor`` are g at the candidates: their principal axes come first.
        _, sizes, turn = np.linalg.svd(factor, full_matrices=False)
        tail = np.cumsum((sizes**2)[::-1])[::-1] / len(factor)
        mean_variance = float((factor**2).sum(axis=1).mean()) + rest
        rank = max(1, int(np.searchsorted(-tail, -0.1 * _REST * mean_variance)))
        root = np.linalg.cholesky(factor[chosen] @ factor[chosen].T)
        turned = np.linalg.solve(root.T, np.linalg.solve(root, factor[chosen] @ turn[:rank].T))
        sd = float(np.median(np.sqrt((factor**2).sum(axis=1) + rest)))
        tolerance = _ACCURACY * sd / len(kept) ** 0.5

        def vectors(term: Term, at: tuple[Array, ...]) -> Array:
            found = values.covariance(term, at, landmarks, kept)
            assert found is not None
            return found @ turned

        tables = []
        for term in terms:
            tables.append(_table(model, term, scales, vectors, tolerance))
            progress.advance(1, model.label(term))
    bands = Bands(
        (first @ turned).astype(np.float32),
        tuple(axes for axes, _ in tables),
        tuple(spline.astype(np.float32) for _, spline in tables),
        rest + float(tail[rank] if rank < len(tail) else 0.0),
        model.scale,
        0.0,
    )
    exact = as_array(posterior.mean_and_variance(checks)[1])
    found = bands.variance(encoded_rows(model, checks))
    error = float(np.abs(np.sqrt(found) - np.sqrt(exact)).max())
    return Bands(bands.constant, bands.axes, bands.coefficients, bands.rest, bands.scale, error)


def candidate_rows(model: Model, scales: dict[int, Scale | LevelAxis], seed: int) -> Tensor:
    """Return rows drawn from the measures, some with values far out, missing or unseen ``[d, n]``.

    They are in the kernel's coordinates.
    """
    random = np.random.default_rng(seed)
    columns = []
    specials = [(i, value) for i in scales for value in _special(model, i, scales[i])]
    n = _ROWS + _SPECIAL * len(specials)
    for column in model.columns:
        nodes, weights = column.feature.measure.atoms
        columns.append(random.choice(nodes, n, p=weights / weights.sum()))
    rows = np.array(columns).reshape(len(model.columns), n)
    for k, (i, value) in enumerate(specials):
        rows[i, _ROWS + k * _SPECIAL : _ROWS + (k + 1) * _SPECIAL] = value
    for i, scale in scales.items():
        # Codes of categories: the atoms call "missing" the level after the last.
        if isinstance(scale, LevelAxis):
            rows[i] = np.where(rows[i] >= len(scale.levels), np.nan, rows[i])
    like = model.posterior.mean_weights
    return torch.tensor(rows, dtype=like.dtype, device=like.device)


def _special(model: Model, i: int, scale: Scale | LevelAxis) -> list[float]:
    if isinstance(scale, LevelAxis):
        return [np.nan, -1.0]
    if scale.period is not None:
        return [np.nan]
    ends = scale.inverse(np.array([0.0, 0.03, 0.1, 0.9, 0.97, 1.0]))
    return [*coordinates(model.columns[i], ends), np.nan]


def encoded_rows(model: Model, rows: Tensor) -> Array:
    """Return rows in the kernel's coordinates as encoded values, ``[n, d]``."""
    from oakgp.compiled.scales import values_at

    out = as_array(rows).T.copy()
    for i, column in enumerate(model.columns):
        if level_axis(model, i) is None:
            out[:, i] = values_at(column, out[:, i])
    return out


def _landmarks(covariance: Array) -> tuple[NDArray[np.intp], Array, float]:
    """Return rows that explain all others, the factor ``[n, rank]``, and the mean rest."""
    left = covariance.diagonal().copy()
    allowed = _REST * np.maximum(left, 1e-3 * left.mean())
    factor = np.zeros((len(left), min(_LARGEST_RANK, len(left))))
    chosen: list[int] = []
    for k in range(factor.shape[1]):
        ratio = left / allowed
        pivot = int(np.argmax(ratio))
        if ratio[pivot] <= 1.0 and chosen:
            break
        column = covariance[:, pivot] - factor[:, :k] @ factor[pivot, :k]
        factor[:, k] = column / np.sqrt(max(left[pivot], 1e-300))
        left = np.maximum(left - factor[:, k] ** 2, 0.0)
        left[pivot] = 0.0
        chosen.append(pivot)
    return np.array(chosen), factor[:, : len(chosen)], float(left[:_ROWS].mean())


def _table(
    model: Model,
    term: Term,
    scales: dict[int, Scale | LevelAxis],
    vectors: Any,
    tolerance: float,
) -> tuple[tuple[Axis, ...], Array]:
    axes = []
    for k, i in enumerate(term):
        scale = scales[i]
        if isinstance(scale, LevelAxis):
            axes.append(scale)
            continue
        axis = NumericAxis(scale, 8)
        places = _places(model, i, scale)
        z = coordinates(model.columns[i], places)
        others = [slices(model, j, 6) for j in term if j != i]

        def along(z: Array, k: int = k, others: list[Array] = others) -> Array:
            at = (z, *others) if k == 0 else (*others, z)
            return np.moveaxis(vectors(term, at), k, 0)

        truth = along(z)
        for _ in range(_ATTEMPTS):
            spline = coefficients([axis], along(axis_coordinates(model, axis)))
            misses = truth - np.tensordot(axis.weights(places), spline, 1)
            error = float(np.linalg.norm(misses, axis=-1).max())
            most = _MOST[len(term) - 1]
            if error <= tolerance or axis.count >= most:
                break
            growth = min(max(1.1 * (error / tolerance) ** 0.25, 1.2), 3.0)
            axis = NumericAxis(scale, min(int(axis.count * growth) + 1, most))
        axes.append(axis)
    at = tuple(axis_coordinates(model, axis) for axis in axes)
    return tuple(axes), coefficients(axes, vectors(term, at))


def _places(model: Model, i: int, scale: Scale) -> Array:
    return np.r_[scale.inverse((np.arange(97) + 0.5) / 97.0), np.nan]
