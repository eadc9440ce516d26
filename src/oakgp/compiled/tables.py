"""Tables of components, and the fast evaluation of their sum."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from oakgp.compiled.axes import Axis, NumericAxis, Scale
from oakgp.kernels.terms import Term

Array = NDArray[np.float64]

_ROWS_PER_TASK = 65_536
_PAD = 3  # four coefficients are read wherever the first is


@dataclass(frozen=True, eq=False)
class ComponentTable:
    """A component of one or two features as a table.

    Parameters
    ----------
    label
        Name of the term.
    axes
        One or two.
    coefficients
        Of the splines, in units of the response (or of its link); entries along levels.
    error
        Largest difference to the model's component that was measured, in the same units.
    """

    label: str
    axes: tuple[Axis, ...]
    coefficients: Array
    error: float

    @cached_property
    def values(self) -> Array:
        """The component at each entry of the axes ("missing" and "unseen" last)."""
        left = self.axes[0].weights(self.axes[0].encoded) @ self.coefficients
        if len(self.axes) == 1:
            return left
        return left @ self.axes[1].weights(self.axes[1].encoded).T

    @property
    def term(self) -> Term:
        """Numbers of the features."""
        return tuple(axis.feature for axis in self.axes)


@dataclass(frozen=True, eq=False)
class Layout:
    """Scales, axes and tables as the compiled loops read them.

    Parameters
    ----------
    where
        What `oakgp.compiled.lookup.locate` reads, in its order.
    tables
        First axis, second axis (-1: none), start of the values, stride of the first axis.
    """

    where: tuple[Any, ...]
    tables: NDArray[np.int64]


def layout(tables: Sequence[tuple[Axis, ...]]) -> Layout:
    """Return the layout of tables with these axes, padded as `padded` does it."""
    found: dict[Axis, int] = {}
    scales: dict[Scale, None] = {}
    for axes in tables:
        for axis in axes:
            found.setdefault(axis, len(found))
            if isinstance(axis, NumericAxis):
                scales.setdefault(axis.scale)
    spans, tails, start = [], [], 0
    for scale in scales:
        spans.append((scale.feature, start, start + len(scale.knots)))
        start += len(scale.knots)
        lower = (scale.lower.end, scale.lower.width) if scale.lower else (-np.inf, 1.0)
        upper = (scale.upper.end, scale.upper.width) if scale.upper else (np.inf, 1.0)
        tails.append((scale.period or 0.0, *lower, *upper))
    knots = np.array([x for scale in scales for x in scale.knots], dtype=np.float64)
    positions = np.array([p for scale in scales for p in scale.positions], dtype=np.float64)
    # Those across two scales are never read.
    rise, run = np.diff(positions, append=1.0), np.diff(knots, append=np.inf)
    slopes = np.divide(rise, run, out=np.zeros_like(rise), where=run != 0)
    places, start = [], 0
    for axes in tables:
        first, second = found[axes[0]], found[axes[1]] if len(axes) == 2 else -1
        stride = axes[1].n_coefficients + _PAD if len(axes) == 2 else 1
        places.append((first, second, start, stride))
        start += (axes[0].n_coefficients + _PAD) * stride
    kinds = [
        (a.feature, a.count, 0, a.degree)
        if isinstance(a, NumericAxis)
        else (a.feature, len(a.levels), 1, 0)
        for a in found
    ]
    where = (
        np.array(spans, dtype=np.int64).reshape(-1, 3),
        np.array(tails, dtype=np.float64).reshape(-1, 5),
        knots,
        positions,
        slopes,
        np.array(kinds, dtype=np.int64).reshape(-1, 4),
    )
    return Layout(where, np.array(places, dtype=np.int64).reshape(-1, 4))


def padded(values: Sequence[NDArray[Any]], n_axes: Sequence[int], shape: tuple[int, ...]) -> Any:
    """Return all coefficients in one array, after those of each axis three that weigh nothing."""
    parts = []
    for table, axes in zip(values, n_axes, strict=True):
        widths = [(0, _PAD)] * axes + [(0, 0)] * (table.ndim - axes)
        parts.append(np.pad(table, widths).reshape(-1, *shape))
    empty = np.zeros((0, *shape), dtype=values[0].dtype if values else np.float64)
    return np.ascontiguousarray(np.concatenate([empty, *parts]))


def in_tasks(function: Any, rows: Array, out: Array) -> None:
    """Run a compiled loop over rows, in threads when there are many of these."""
    begins = range(0, len(rows), _ROWS_PER_TASK)
    threads = min(torch.get_num_threads(), len(begins))
    parts = [(rows[b : b + _ROWS_PER_TASK], out[b : b + _ROWS_PER_TASK]) for b in begins]
    if threads < 2:
        for part in parts:
            function(*part)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda part: function(*part), parts))


@dataclass(frozen=True, eq=False)
class TableSum:
    """A constant and a sum of tables: the mean of a latent function.

    Parameters
    ----------
    constant
        In units of the response, or of its link.
    tables
        One for each component.
    """

    constant: float
    tables: tuple[ComponentTable, ...]

    @cached_property
    def _arrays(self) -> tuple[Layout, Array]:
        values = padded(
            [t.coefficients for t in self.tables], [len(t.axes) for t in self.tables], ()
        )
        return layout([t.axes for t in self.tables]), values

    def __call__(self, rows: Array) -> Array:
        """Return the sum at encoded rows ``[n, d]``, ``[n]``."""
        from oakgp.compiled import lookup

        how, values = self._arrays
        out = np.empty(len(rows))

        def part(x: Array, y: Array) -> None:
            lookup.sums(x, self.constant, how.where, how.tables, values, y)

        in_tasks(part, rows, out)
        return out

    def components(self, rows: Array) -> Array:
        """Return each component at encoded rows, ``[n, n_tables]``."""
        columns = [TableSum(0.0, (table,))(rows) for table in self.tables]
        return np.column_stack(columns) if columns else np.empty((len(rows), 0))
