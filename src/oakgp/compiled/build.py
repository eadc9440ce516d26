"""From a model's components to tables: as many entries as the error allows, and that error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from oakgp.compiled.axes import Axis, LevelAxis, NumericAxis, Scale
from oakgp.compiled.scales import coordinates, fit_scale, straight_scale, values_at
from oakgp.compiled.splines import coefficients
from oakgp.compiled.tables import ComponentTable, TableSum
from oakgp.compiled.values import Values
from oakgp.kernels import CategoricalKernel, Periodic
from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.progress import step
from oakgp.schema import CategoricalColumn

Array = NDArray[np.float64]

_SLICES = 14  # of the other feature, along which a pair's entries are chosen
_CHECKS = (2003, 223)  # places per feature at which tables are checked: of main effects, of pairs
_PAIRS_SHARE = 0.7  # of the tolerance, where there are pairs: their tables are the large ones
_MOST = (20_000, 1_500)  # entries along an axis: of a main effect, of a pair
_LEAST = 6
_ATTEMPTS = 8


@dataclass(frozen=True)
class Built:
    """The tables of a latent function.

    Parameters
    ----------
    sum
        The tables.
    bound
        Largest error of the sum, in units of the response's scale: the sum of the tables' largest
        errors, and of what was left out.
    left_out
        Terms that are smaller than their share of the tolerance everywhere, with their largest
        absolute value.
    scales
        Scale or levels of each feature.
    """

    sum: TableSum
    bound: float
    left_out: tuple[tuple[str, float], ...]
    scales: dict[int, Scale | LevelAxis]


def build(
    model: Model,
    values: Values,
    terms: Sequence[Term],
    tolerance: float,
    straight: bool = False,
) -> Built:
    """Return the tables of a latent function.

    Parameters
    ----------
    model
        The latent function.
    values
        Its components on grids.
    terms
        Those to tabulate: of order 1 and 2.
    tolerance
        Of the sum, in units of the response's scale.
    straight
        Whether tables may be of degree 1, which is exact where components are straight between
        knots.
    """
    lines = {i: values.knots(i) for i in range(len(model.columns))} if straight else {}
    mains, pairs = ([u for u in terms if len(u) == order] for order in (1, 2))
    share = _PAIRS_SHARE if mains and pairs else float(bool(pairs))
    budgets = {u: (1.0 - share) * tolerance / len(mains) for u in mains}
    budgets |= {u: share * tolerance / len(pairs) for u in pairs}
    tables, left_out, bound = [], [], 0.0
    with step("compiling tables", len(terms), "terms") as progress:
        used = sorted({i for u in terms for i in u})
        scales = {i: scale_of(model, values, i, budgets, lines.get(i)) for i in used}
        counts = {i: len(z) for i, z in lines.items() if z is not None}
        axes = _pair_axes(model, values, scales, {u: budgets[u] for u in pairs}, counts)
        for term in terms:
            if len(term) == 1:
                table = _main(model, values, term, scales, budgets[term], counts)
            else:
                table = _pair(model, values, term, axes, budgets[term], counts)
            largest = float(np.abs(table.coefficients).max(initial=0.0)) + table.error
            if largest <= budgets[term]:
                left_out.append((model.label(term), model.scale * largest))
                bound += largest
            else:
                spline, error = model.scale * table.coefficients, model.scale * table.error
                tables.append(replace(table, coefficients=spline, error=error))
                bound += table.error
            progress.advance(1, model.label(term))
    constant = model.center + model.scale * float(values.mean((), ()).item())
    return Built(TableSum(constant, tuple(tables)), bound, tuple(left_out), scales)


def level_axis(model: Model, i: int) -> LevelAxis | None:
    """Return the axis of a categorical feature; None for a numeric one."""
    column = model.schema.columns[model.schema.active[i]]
    if not isinstance(column, CategoricalColumn):
        return None
    return LevelAxis(i, column.name, column.levels)


def axis_coordinates(model: Model, axis: Axis, encoded: Array | None = None) -> Array:
    """Return the kernel's coordinate of each entry of an axis, or of other encoded values."""
    x = axis.encoded if encoded is None else encoded
    return x if isinstance(axis, LevelAxis) else coordinates(model.columns[axis.feature], x)


def slices(model: Model, i: int, count: int = _SLICES) -> Array:
    """Return coordinates of a feature that stand for its range: entries, or spread values."""
    feature = model.columns[i].feature
    if isinstance(feature.kernel, CategoricalKernel):
        axis = level_axis(model, i)
        assert axis is not None
        shares = np.r_[feature.measure.atoms[1], np.ones(2)][: axis.n_coefficients]
        return axis.encoded[np.sort(np.argsort(-shares, kind="stable")[: 2 * count])]
    if isinstance(feature.kernel, Periodic):
        return np.append(np.linspace(0.0, 1.0, count, endpoint=False), np.nan)
    nodes = np.sort(feature.measure.atoms[0])
    nodes = nodes[np.isfinite(nodes)]
    if not len(nodes):
        return np.array([0.0, np.nan])
    spread = np.linspace(nodes[0], nodes[-1], count // 2)
    dense = nodes[np.linspace(0, len(nodes) - 1, count // 2).astype(int)]
    width = max(1.0, float(np.ptp(spread)))
    far = [spread[0] - 0.3 * width, spread[-1] + 0.3 * width, np.nan]
    found: Array = np.r_[np.unique(np.r_[spread, dense]), far]
    return found


def scale_of(
    model: Model,
    values: Values,
    i: int,
    budgets: dict[Term, float],
    lines: Array | None = None,
) -> Scale | LevelAxis:
    """Return a feature's scale for the tables of these terms; its levels if it has any."""
    levels = level_axis(model, i)
    if levels is not None:
        return levels
    if lines is not None:
        return straight_scale(i, model.columns[i], lines)
    mine = [u for u in budgets if i in u]
    others: dict[Term, Array] = {
        u: slices(model, u[1] if u[0] == i else u[0]) for u in mine if len(u) == 2
    }

    def curves(z: Array) -> Array:
        parts = [_along(values, u, i, z, others.get(u)) / budgets[u] for u in mine]
        return np.concatenate(parts, axis=1)

    return fit_scale(i, model.columns[i], curves)


def _along(values: Values, term: Term, i: int, z: Array, other: Array | None) -> Array:
    """Return a component along feature i, ``[len(z), n_slices]``."""
    if len(term) == 1:
        return values.mean(term, (z,))[:, None]
    assert other is not None
    if term[0] == i:
        return values.mean(term, (z, other))
    return values.mean(term, (other, z)).T


def _checks(model: Model, axis: Axis, count: int) -> Array:
    """Return encoded values to check a table at: between its entries, and beyond its ends."""
    if isinstance(axis, LevelAxis):
        return axis.encoded
    column, scale = model.columns[axis.feature], axis.scale
    ends = scale.inverse(np.array([0.0, 1.0]))
    low, high = coordinates(column, ends)
    z = np.linspace(low, high, count)
    nodes = column.feature.measure.atoms[0]
    nodes = np.sort(nodes[np.isfinite(nodes)])  # rough components have kinks at the data
    few = nodes[np.linspace(0, len(nodes) - 1, min(len(nodes), count // 2)).astype(int)]
    x = values_at(column, np.r_[z, few])
    x = x[(x >= ends[0]) & (x <= ends[1])]
    if scale.period is None:
        x = np.r_[x, ends + np.array([-3.0, 3.0]) * (1.0 + np.abs(ends))]
    return np.append(x, np.nan)


def _finer(axis: NumericAxis, error: float, budget: float, most: int) -> NumericAxis:
    """Return the axis with more entries: of smooth curves the error goes with the fourth power."""
    order = axis.degree + 1
    growth = min(max(1.15 * (error / budget) ** (1.0 / order), 1.25), 4.0)
    return replace(axis, count=min(1 + int(np.ceil((axis.count - 1) * growth)), most))


def _axis(
    model: Model,
    scale: Scale | LevelAxis,
    along: Callable[[Array], Array],
    budget: float,
    most: int,
    checks: int,
    lines: int | None = None,
) -> tuple[Axis, float]:
    """Return an axis fine enough for curves along a feature, and the error that it leaves."""
    if isinstance(scale, LevelAxis):
        return scale, 0.0
    axis = NumericAxis(scale, _LEAST)
    if lines is not None:
        axis, most = NumericAxis(scale, min(lines, 17), 1), lines
    places = _checks(model, axis, checks)
    truth = along(coordinates(model.columns[scale.feature], places))
    for _ in range(_ATTEMPTS):
        spline = coefficients([axis], along(axis_coordinates(model, axis)))
        error = float(np.abs(truth - axis.weights(places) @ spline).max())
        if error <= budget or axis.count >= most:
            break
        axis = _finer(axis, error, budget, most)
    return axis, error


def _main(
    model: Model,
    values: Values,
    term: Term,
    scales: dict[int, Scale | LevelAxis],
    budget: float,
    counts: dict[int, int],
) -> ComponentTable:
    def along(z: Array) -> Array:
        return values.mean(term, (z,))

    axis, error = _axis(
        model, scales[term[0]], along, budget, _MOST[0], _CHECKS[0], counts.get(term[0])
    )
    spline = coefficients([axis], along(axis_coordinates(model, axis)))
    return ComponentTable(model.label(term), (axis,), spline, error)


def _pair_axes(
    model: Model,
    values: Values,
    scales: dict[int, Scale | LevelAxis],
    budgets: dict[Term, float],
    counts: dict[int, int],
) -> dict[int, Axis]:
    """Return an axis for each feature, fine enough for all its pairs: cells are found once."""
    finest: dict[int, Axis] = {}
    for term, budget in budgets.items():
        for i, j in (term, term[::-1]):
            other = slices(model, j)

            def along(z: Array, term: Term = term, i: int = i, other: Array = other) -> Array:
                return _along(values, term, i, z, other)

            axis, _ = _axis(
                model, scales[i], along, 0.45 * budget, _MOST[1], 5 * _CHECKS[1], counts.get(i)
            )
            if i not in finest or axis.n_coefficients > finest[i].n_coefficients:
                finest[i] = axis
    return finest


def _pair(
    model: Model,
    values: Values,
    term: Term,
    finest: dict[int, Axis],
    budget: float,
    counts: dict[int, int],
) -> ComponentTable:
    axes = [finest[i] for i in term]
    places = [_checks(model, axis, _CHECKS[1]) for axis in axes]
    z = [axis_coordinates(model, axis, p) for axis, p in zip(axes, places, strict=True)]
    truth = values.mean(term, (z[0], z[1]))
    for _ in range(_ATTEMPTS):
        at = [axis_coordinates(model, axis) for axis in axes]
        spline = coefficients(axes, values.mean(term, (at[0], at[1])))
        left, right = (a.weights(p) for a, p in zip(axes, places, strict=True))
        error = float(np.abs(truth - left @ spline @ right.T).max())
        most = [counts.get(i, _MOST[1]) for i in term]
        full = all(
            isinstance(a, LevelAxis) or a.count >= m for a, m in zip(axes, most, strict=True)
        )
        if error <= budget or full:
            break
        axes = [
            a if isinstance(a, LevelAxis) else _finer(a, error, budget, m)
            for a, m in zip(axes, most, strict=True)
        ]
    return ComponentTable(model.label(term), tuple(axes), spline, error)
