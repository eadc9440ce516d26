"""Components as tables: what the page draws and adds up.

The means are the tables of `oakgp.compiled`, with their measured error; deviations, which only
bands need, are coarser ones of the same kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oakgp.compiled.axes import Axis, NumericAxis, Scale
from oakgp.compiled.axes import LevelAxis as Levels
from oakgp.compiled.build import axis_coordinates, build
from oakgp.compiled.splines import coefficients
from oakgp.compiled.values import Values, values_of
from oakgp.explain.feature_axis import LevelAxis
from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.report.features import PageFeature
from oakgp.report.packing import pack
from oakgp.response import as_array

Array = NDArray[np.float64]

_SD = (48, 16)  # entries of deviations along a numeric axis: of a main effect, of a pair
_CELLS = 40_000  # of a table; larger ones (hundreds of levels twice) are left out
_SLICES = 5
_COARSE = 24  # points a side of a slice


@dataclass(frozen=True)
class PageTable:
    """Tables of one component of one or two features.

    Parameters
    ----------
    axes, mean
        Where the coefficients of the mean stand, and these, in units of the effect.
    sd_axes, sd
        The same of the deviation.
    """

    axes: tuple[Axis, ...]
    mean: Array
    sd_axes: tuple[Axis, ...]
    sd: Array

    def to_dict(self) -> dict[str, Any]:
        """Return what the page needs."""
        return {
            "counts": _counts(self.axes),
            "mean": pack(self.mean, "u2"),
            "sd_counts": _counts(self.sd_axes),
            "sd": pack(self.sd, "u2"),
        }

    def at(self, *encoded: Array) -> tuple[Array, Array]:
        """Return mean and deviation over the grid of encoded values of the features."""
        mean, sd = self.mean, self.sd
        for k, x in enumerate(encoded):
            mean = np.moveaxis(np.tensordot(self.axes[k].weights(x), mean, (1, k)), 0, k)
            sd = np.moveaxis(np.tensordot(self.sd_axes[k].weights(x), sd, (1, k)), 0, k)
        return mean, np.maximum(sd, 0.0)

    def along(self, *encoded: Array) -> tuple[Array, Array]:
        """Return mean and deviation at rows of encoded values of the features, each ``[n]``."""
        mean = _along(self.axes, self.mean, encoded)
        return mean, np.maximum(_along(self.sd_axes, self.sd, encoded), 0.0)


def _along(axes: Sequence[Axis], table: Array, encoded: Sequence[Array]) -> Array:
    found = axes[0].weights(encoded[0]) @ table
    return found if len(axes) == 1 else (found * axes[1].weights(encoded[1])).sum(axis=1)


@dataclass(frozen=True)
class PageTables:
    """Tables of a latent function.

    Parameters
    ----------
    tables
        Of each term.
    scales
        Of each feature that one of them depends on.
    bound
        Largest error of their sum, in units of the effect.
    """

    tables: dict[Term, PageTable]
    scales: dict[int, Scale | Levels]
    bound: float


def describe_scale(scale: Scale | Levels | None) -> dict[str, Any] | None:
    """Return a numeric feature's scale as the page needs it; None for levels."""
    if not isinstance(scale, Scale):
        return None
    d = scale.to_dict()
    return {
        "knots": pack(np.array(scale.knots), "f8"),
        "positions": pack(np.array(scale.positions), "f4"),
        **{name: d[name] for name in ("lower", "upper", "period")},
    }


def _counts(axes: Sequence[Axis]) -> list[int | None]:
    return [axis.count if isinstance(axis, NumericAxis) else None for axis in axes]


def page_tables(model: Model, terms: Sequence[Term], tolerance: float) -> PageTables:
    """Return tables of some terms of one or two features.

    Parameters
    ----------
    model
        The latent function.
    terms
        Which; those whose tables would be too large are left out.
    tolerance
        Largest error of the sum of all tables, in standard deviations of the response.
    """
    values = values_of(model)
    small = [u for u in terms if 0 < len(u) < 3 and _fits(model, u)]
    built = build(model, values, small, tolerance)
    found: dict[Term, PageTable] = {}
    tables = {table.term: table for table in built.sum.tables}
    for term in small:
        if term in tables:
            axes, mean = tables[term].axes, tables[term].coefficients
        else:  # below its share of the tolerance, but to be drawn nonetheless
            axes = tuple(_axis(built.scales[i], 12) for i in term)
            at = tuple(axis_coordinates(model, axis) for axis in axes)
            mean = model.scale * coefficients(axes, values.mean(term, at))
        found[term] = _with_deviation(model, values, term, axes, mean, built.scales)
    return PageTables(found, built.scales, model.scale * built.bound)


def _fits(model: Model, term: Term) -> bool:
    sizes = [len(model.columns[i].feature.measure.atoms[0]) + 2 for i in term]
    levels = [model.columns[i].flow is None for i in term]
    return len(term) < 2 or not all(levels) or sizes[0] * sizes[1] <= _CELLS


def _axis(scale: Scale | Levels, count: int) -> Axis:
    return scale if isinstance(scale, Levels) else NumericAxis(scale, count)


def _with_deviation(
    model: Model,
    values: Values,
    term: Term,
    axes: tuple[Axis, ...],
    mean: Array,
    scales: dict[int, Scale | Levels],
) -> PageTable:
    coarse = tuple(_axis(scales[i], _SD[len(term) - 1]) for i in term)
    at = {i: axis_coordinates(model, axis) for i, axis in zip(term, coarse, strict=True)}
    _, sd = evaluate(model, term, at)
    return PageTable(axes, mean, coarse, coefficients(coarse, sd))


def evaluate(model: Model, term: Term, coordinates: dict[int, Array]) -> tuple[Array, Array]:
    """Return mean and deviation of a component on the grid of its features' coordinates."""
    grids = np.meshgrid(*(coordinates[i] for i in term), indexing="ij")
    rows = np.empty((len(model.columns), grids[0].size))
    for i, column in enumerate(model.columns):
        rows[i] = column.feature.measure.atoms[0][0]
    for i, grid in zip(term, grids, strict=True):
        rows[i] = grid.ravel()
    mean, variance = model.posterior.mean_and_variance(
        model.posterior.mean_weights.new_tensor(rows), term
    )
    sd = model.scale * as_array(variance.sqrt())
    return model.scale * as_array(mean).reshape(grids[0].shape), sd.reshape(grids[0].shape)


def slices(model: Model, term: Term, features: Sequence[PageFeature]) -> dict[str, Any] | None:
    """Return surfaces of a component of three features, at some values of one of them.

    That one is the categorical one with the fewest levels, or else the last. None where the
    surfaces would be too large, or the component has more than three features.
    """
    if len(term) != 3:
        return None
    by_levels = [(len(features[i].grid), i) for i in term if _has_levels(features[i])]
    third = min(by_levels)[1] if by_levels else term[-1]
    pair = tuple(i for i in term if i != third)
    grids = [_few(features[i]) for i in pair]
    if len(grids[0]) * len(grids[1]) > _CELLS // _SLICES:
        return None
    at = {i: _coordinates(features[i], x) for i, x in zip(pair, grids, strict=True)}
    found = []
    for label, value in features[third].axis.slices(_SLICES):
        mean, sd = evaluate(model, term, {**at, third: np.array([value])})
        flat = [np.take(part, 0, axis=term.index(third)) for part in (mean, sd)]
        found.append({"label": label, "mean": pack(flat[0], "u2"), "sd": pack(flat[1], "u2")})
    return {
        "pair": list(pair),
        "third": third,
        "grids": [pack(x, "f8") for x in grids],
        "slices": found,
    }


def _has_levels(feature: PageFeature) -> bool:
    return isinstance(feature.axis, LevelAxis)


def _few(feature: PageFeature) -> Array:
    grid = feature.grid
    return grid if _has_levels(feature) else grid[:: max(1, len(grid) // _COARSE)]


def _coordinates(feature: PageFeature, x: Array) -> Array:
    return x if isinstance(feature.axis, LevelAxis) else feature.axis.coordinates(x)
