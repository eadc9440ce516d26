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
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import nnls
from torch import Tensor

from oakgp.compiled.axes import Axis, LevelAxis, NumericAxis, Scale
from oakgp.compiled.build import axis_coordinates, level_axis, slices
from oakgp.compiled.scales import coordinates, values_at
from oakgp.compiled.splines import coefficients
from oakgp.compiled.tables import ComponentTable, Layout, TableSum, in_tasks, layout, padded
from oakgp.compiled.values import Values, Vectors
from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.posterior import Posterior
from oakgp.progress import step
from oakgp.response import as_array

Array = NDArray[np.float64]
Floats = NDArray[np.float32]

_ROWS = 2400  # to choose from, and as many to check at
_LARGEST_RANK = 384
_REST = 0.01  # of a row's variance that may stay unexplained
_ACCURACY = 0.05  # of the typical standard deviation, that tables may err by
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
    factor, rest
        The variance is ``factor`` times the squared length of the sum of vectors, plus ``rest``:
        what the dropped directions hold on average.
    scale
        Units of the response (or its link) per unit of the model.
    error
        Largest difference to the model's standard deviation over rows drawn from the measures, in
        units of the model.
    error_outside
        The same over rows with values far out, missing or unseen.
    extra
        Variance on top where training had nothing like a value, in units of the model.
    """

    constant: Floats
    axes: tuple[tuple[Axis, ...], ...]
    coefficients: tuple[Floats, ...]
    factor: float
    rest: float
    scale: float
    error: float
    error_outside: float
    extra: TableSum

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
        known = self.factor * out + self.rest
        return known + np.maximum(self.extra(rows), 0.0) if self.extra.tables else known


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
    with step("compiling bands", len(terms), "terms") as progress:
        rows, outside = candidate_rows(model, scales, 0)
        chosen, factor = _landmarks(values.covariance(rows, kept))
        turn, sd = _principal(chosen, factor)
        index = torch.from_numpy(chosen).to(rows.device)
        vectors = values.vectors(rows[:, index], kept, turn)
        if vectors is None:
            return None
        tolerance = _ACCURACY * sd / len(kept) ** 0.5
        tables, extra = [], []
        for term in terms:
            axes, spline = _table(model, term, scales, vectors, tolerance)
            tables.append((axes, spline))
            unknown = values.unknown(term, tuple(axis_coordinates(model, a) for a in axes))
            if unknown is not None:
                entries = coefficients(axes, unknown)
                extra.append(ComponentTable(model.label(term), axes, entries, 0.0))
            progress.advance(1, model.label(term))
    bands = Bands(
        vectors((), ()).astype(np.float32),
        tuple(axes for axes, _ in tables),
        tuple(spline.astype(np.float32) for _, spline in tables),
        1.0,
        0.0,
        model.scale,
        0.0,
        0.0,
        TableSum(0.0, tuple(extra)),
    )
    more, rest = _correction(bands, posterior, model, rows[:, ~outside])
    bands = replace(bands, factor=more, rest=rest)
    rows, outside = candidate_rows(model, scales, 1)
    exact = as_array(posterior.mean_and_variance(rows)[1])
    errors = np.abs(np.sqrt(bands.variance(encoded_rows(model, rows))) - np.sqrt(exact))
    return replace(
        bands,
        error=float(errors[~outside].max()),
        error_outside=float(errors[outside].max(initial=0.0)),
    )


def _correction(
    bands: Bands, posterior: Posterior, model: Model, rows: Tensor
) -> tuple[float, float]:
    """Return factor and rest of the line from the tables' variances to the model's."""
    exact = as_array(posterior.mean_and_variance(rows)[1])
    found = bands.variance(encoded_rows(model, rows))
    weight = 1.0 / np.maximum(exact, 1e-3 * exact.mean())  # relative errors count
    design = np.stack([found, np.ones_like(found)], axis=1)
    (factor, rest), _ = nnls(design * weight[:, None], exact * weight)
    return float(factor), float(rest)


def _principal(chosen: NDArray[np.intp], factor: Array) -> tuple[Array, float]:
    """Return what turns covariances with the landmarks to principal axes, and a typical sd.

    The rows of ``factor`` are the vectors of the candidates. Each counts by its own variance, so
    that rows of small deviations keep theirs.
    """
    variance = (factor**2).sum(axis=1)
    variance = np.maximum(variance, 1e-6 * variance.mean())
    _, sizes, turn = np.linalg.svd(factor / np.sqrt(variance)[:, None], full_matrices=False)
    tail = np.cumsum((sizes**2)[::-1])[::-1] / len(factor)
    rank = max(1, int(np.searchsorted(-tail, -_REST)))
    triangle = factor[chosen]  # of the pivots, in their order: lower triangular
    turned = solve_triangular(triangle.T, turn[:rank].T, lower=False)
    return turned, float(np.median(np.sqrt(variance)))


def candidate_rows(
    model: Model, scales: dict[int, Scale | LevelAxis], seed: int
) -> tuple[Tensor, NDArray[np.bool_]]:
    """Return rows drawn from the measures, ``[d, n]``, and which have values that lie outside.

    They are in the kernel's coordinates. A value outside is far out, missing or unseen: each row of
    the second half has one or two.
    """
    random = np.random.default_rng(seed)
    rows = np.empty((len(model.columns), _ROWS))
    for i, column in enumerate(model.columns):
        nodes, weights = column.feature.measure.atoms
        rows[i] = random.choice(nodes, _ROWS, p=weights / weights.sum())
        levels = level_axis(model, i)
        if levels is not None:  # the atoms call "missing" the level after the last
            rows[i] = np.where(rows[i] >= len(levels.levels), np.nan, rows[i])
    outside = (np.arange(_ROWS) >= _ROWS // 2) & bool(scales)
    for k in np.flatnonzero(outside):
        for i in random.choice(list(scales), min(1 + int(k) % 2, len(scales)), replace=False):
            rows[i, k] = _outside(model, i, scales[i], random)
    like = model.posterior.mean_weights
    return torch.tensor(rows, dtype=like.dtype, device=like.device), outside


def _outside(model: Model, i: int, scale: Scale | LevelAxis, random: np.random.Generator) -> float:
    """Return the coordinate of a value that is missing, unseen, or far out."""
    if random.random() < 0.25:
        return float("nan")
    if isinstance(scale, LevelAxis):
        return -1.0
    return float(coordinates(model.columns[i], scale.inverse(random.random(1)))[0])


def encoded_rows(model: Model, rows: Tensor) -> Array:
    """Return rows in the kernel's coordinates as encoded values, ``[n, d]``."""
    out = as_array(rows).T.copy()
    for i, column in enumerate(model.columns):
        if level_axis(model, i) is None:
            out[:, i] = values_at(column, out[:, i])
    return out


def _landmarks(covariance: Array) -> tuple[NDArray[np.intp], Array]:
    """Return rows that explain all others, and the factor ``[n, rank]``."""
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
    return np.array(chosen), factor[:, : len(chosen)]


def _table(
    model: Model,
    term: Term,
    scales: dict[int, Scale | LevelAxis],
    vectors: Vectors,
    tolerance: float,
) -> tuple[tuple[Axis, ...], Array]:
    axes: list[Axis] = []
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
    return np.append(scale.inverse((np.arange(97, dtype=np.float64) + 0.5) / 97.0), np.nan)
