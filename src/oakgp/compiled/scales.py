"""The scale of a numeric feature: its flow, from where its components begin to where they end."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from oakgp.compiled.axes import Scale, Tail
from oakgp.flows.normal_score import NormalScore
from oakgp.flows.standardize import Standardize
from oakgp.kernels import Periodic
from oakgp.model_columns import ModelColumn

Array = NDArray[np.float64]
Curves = Callable[[Array], Array]

_FARTHEST = 1e6  # no component changes any more so far from the data: 10^4 longest lengthscales
_GROWTH = 1.2  # of the steps beyond the range
_LARGEST = 1e300  # values beyond have no differences
_FLAT = 0.05  # of the error that a table may have
_SMOOTH_KNOTS = 1024  # of a flow that is not piecewise linear


def coordinates(column: ModelColumn, x: Array) -> Array:
    """Return the kernel's coordinates of values; the end of a cycle stays its end."""
    kernel = column.feature.kernel
    return x / kernel.period if isinstance(kernel, Periodic) else column.forward(x)


def values_at(column: ModelColumn, z: Array) -> Array:
    """Return the values of a column at coordinates of the kernel."""
    kernel = column.feature.kernel
    if isinstance(kernel, Periodic):
        return z * kernel.period
    return z if column.flow is None else column.flow.inverse(z)


def fit_scale(feature: int, column: ModelColumn, curves: Curves) -> Scale:
    """Return the scale of a numeric feature.

    Parameters
    ----------
    feature
        Number of the feature.
    column
        Its transform and measure.
    curves
        Gives the components along the feature at the kernel's coordinates, ``[n, curves]``, each in
        units of the error that its table may have.
    """
    name, kernel, flow = column.feature.name, column.feature.kernel, column.flow
    if isinstance(kernel, Periodic):
        return Scale(feature, name, (0.0, kernel.period), (0.0, 1.0), period=kernel.period)
    low, high = _reach(column, curves)
    lower = upper = None
    if isinstance(flow, NormalScore):
        lower = Tail(flow.knots[0], flow.lower_width)
        upper = Tail(flow.knots[-1], flow.upper_width)
        x = np.r_[np.array(flow.knots), flow.inverse(np.array([low, high]))]
    elif flow is None or isinstance(flow, Standardize):
        x = values_at(column, np.array([low, high]))
    else:
        x = flow.inverse(np.linspace(low, high, _SMOOTH_KNOTS))
    x = np.unique(x[np.abs(x) < _LARGEST])
    z = coordinates(column, x)
    near = 1e-9 * (high - low)  # the ends themselves, as the flow returns them
    inside = (z >= low - near) & (z <= high + near)
    draft = Scale(feature, name, (0.0, 1.0), (0.0, 1.0), lower, upper)
    knots, positions = _rising(draft.drawn_in(x[inside]), z[inside])
    return Scale(feature, name, knots, positions, lower, upper)


def straight_scale(feature: int, column: ModelColumn, z: Array) -> Scale:
    """Return the scale on which knots of components that are straight between them are even.

    Parameters
    ----------
    feature, column
        The feature.
    z
        The knots, increasing, in the kernel's coordinates.
    """
    name, kernel, flow = column.feature.name, column.feature.kernel, column.flow
    x = values_at(column, z)
    if isinstance(flow, NormalScore):  # between the knots too the flow has kinks
        x = np.r_[x, np.array(flow.knots)]
    elif flow is not None and not isinstance(flow, Standardize):
        x = np.r_[x, flow.inverse(np.linspace(z[0], z[-1], _SMOOTH_KNOTS))]
    x = np.unique(x[np.abs(x) < _LARGEST])
    own, near = coordinates(column, x), 1e-12 * (z[-1] - z[0])
    x = x[(own >= z[0] - near) & (own <= z[-1] + near)]  # beyond, all is flat
    at = np.interp(coordinates(column, x), z, np.linspace(0.0, 1.0, len(z)))
    period = kernel.period if isinstance(kernel, Periodic) else None
    return Scale(feature, name, *_rising(x, at), period=period)


def _reach(column: ModelColumn, curves: Curves) -> tuple[float, float]:
    """Return the coordinates beyond which no component changes any more."""
    nodes, _ = column.feature.measure.atoms
    nodes = nodes[np.isfinite(nodes)]
    low, high = (nodes.min(), nodes.max()) if len(nodes) else (0.0, 0.0)
    steps = 0.05 * _GROWTH ** np.arange(np.ceil(np.log(_FARTHEST / 0.05) / np.log(_GROWTH)))
    z = np.r_[(low - steps)[::-1], low, high, high + steps]
    if column.flow is not None:
        ends = column.flow.forward(np.array([-_LARGEST, _LARGEST]))
        z = z[(z > ends[0]) & (z < ends[1])]
    y = curves(z)
    moved_low = np.abs(y - y[0]).max(axis=1, initial=0.0) > _FLAT
    moved_high = np.abs(y - y[-1]).max(axis=1, initial=0.0) > _FLAT
    first = max(int(np.argmax(moved_low)) - 1, 0)
    last = min(len(z) - int(np.argmax(moved_high[::-1])), len(z) - 1)
    first = min(first, int(np.searchsorted(z, low)))
    last = max(last, int(np.searchsorted(z, high)))
    return (float(z[first]), float(z[last])) if z[last] > z[first] else (low - 0.5, high + 0.5)


def _rising(x: Array, position: Array) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the points that rise in both, positions from 0 to 1."""
    x, index = np.unique(x, return_index=True)
    position = np.maximum.accumulate(position[index])
    span = position[-1] - position[0]
    with np.errstate(over="ignore"):
        keep = np.r_[True, (np.diff(position) > 1e-13 * span) & np.isfinite(1.0 / np.diff(x))]
    x, position = x[keep], position[keep]
    if len(x) < 2:
        x, position = np.array([x[0], x[0] + max(1.0, abs(x[0]))]), np.array([0.0, 1.0])
    position = (position - position[0]) / (position[-1] - position[0])
    return tuple(x.tolist()), tuple(position.tolist())
