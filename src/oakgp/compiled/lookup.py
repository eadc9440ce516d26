"""Compiled loops: from encoded rows to cells of the axes, and from cells to sums of tables.

Rows go through in blocks that stay in the first cache level. Within a block each axis is searched
once for all rows: the searches of different rows do not wait for each other, nor do they branch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

BLOCK = 256

# What is called inherits these flags: none that takes NaN for impossible.
_SUMS = {"reassoc", "contract"}


@njit(nogil=True, cache=True)
def _draw_in(column: Any, tails: Any) -> None:
    """Undo cycles, and draw in the tails; most values are in neither."""
    period, low, low_width, high, high_width = tails
    for b in range(column.shape[0]):
        v = column[b]
        if period > 0.0:
            column[b] = v - period * np.floor(v / period)
        elif v > high:
            column[b] = high + high_width * np.log1p((v - high) / high_width)
        elif v < low:
            column[b] = low - low_width * np.log1p((low - v) / low_width)


@njit(nogil=True, cache=True)
def _place(column: Any, knots: Any, positions: Any, slopes: Any) -> None:
    """Replace values by their positions between 0 and 1; NaN stays."""
    n_knots = knots.shape[0]
    first, last = knots[0], knots[n_knots - 1]
    for b in range(column.shape[0]):
        v = column[b]
        w = min(max(v, first), last)
        low, count = 0, n_knots - 1
        while count > 1:
            half = count >> 1
            low += half if knots[low + half] <= w else 0
            count -= half
        column[b] = positions[low] + (w - knots[low]) * slopes[low] if v == v else v


@njit(nogil=True, cache=True)
def _cell(column: Any, count: int, degree: int, cells: Any, weights: Any) -> None:
    """First coefficient of each position, and the weights of four: cubic B-splines, or lines."""
    for b in range(column.shape[0]):
        v = column[b]
        place = v * (count - 1) if v == v else 0.0
        cell = min(int(place), count - 2)
        t = place - cell
        s = 1.0 - t
        cells[b] = cell
        if degree == 1:
            weights[0, b], weights[1, b] = s, t
            weights[2, b] = weights[3, b] = 0.0
        else:
            weights[0, b] = s * s * s * (1.0 / 6.0)
            weights[1, b] = (4.0 - 3.0 * t * t * (1.0 + s)) * (1.0 / 6.0)
            weights[2, b] = (4.0 - 3.0 * s * s * (1.0 + t)) * (1.0 / 6.0)
            weights[3, b] = t * t * t * (1.0 / 6.0)
        if v != v:
            cells[b] = count + degree - 1
            weights[0, b] = 1.0
            weights[1, b] = weights[2, b] = weights[3, b] = 0.0


@njit(nogil=True, cache=True)
def _level(column: Any, n_levels: int, cells: Any, weights: Any) -> None:
    for b in range(column.shape[0]):
        v = column[b]
        cell = n_levels + 1
        if v != v:
            cell = n_levels
        elif 0.0 <= v < n_levels:
            cell = int(v)
        cells[b] = cell
        weights[0, b] = 1.0
        weights[1, b] = weights[2, b] = weights[3, b] = 0.0


@njit(nogil=True, cache=True)
def locate(
    x: Any,
    scales: Any,
    tails: Any,
    knots: Any,
    positions: Any,
    slopes: Any,
    axes: Any,
    cells: Any,
    weights: Any,
) -> None:
    """Locate a block of rows ``[d, b]`` on all axes; ``x`` is overwritten by positions.

    Parameters
    ----------
    x
        Encoded values.
    scales, tails
        Feature, first knot and end of its knots; period (0: none), lower end and width, upper end
        and width.
    knots, positions, slopes
        Of all scales.
    axes
        Feature, number of entries without "missing" (and "unseen"), whether these are levels, and
        the degree.
    cells, weights
        ``[axes, b]`` and ``[axes, 4, b]``: where to put the first coefficient, and the weights of
        this and the next three.
    """
    for k in range(scales.shape[0]):
        i, start, stop = scales[k, 0], scales[k, 1], scales[k, 2]
        _draw_in(x[i], tails[k])
        _place(x[i], knots[start:stop], positions[start:stop], slopes[start:stop])
    for a in range(axes.shape[0]):
        if axes[a, 2]:
            _level(x[axes[a, 0]], axes[a, 1], cells[a], weights[a])
        else:
            _cell(x[axes[a, 0]], axes[a, 1], axes[a, 3], cells[a], weights[a])


@njit(nogil=True, cache=True)
def _add_main(values: Any, cells: Any, w: Any, out: Any) -> None:
    for b in range(out.shape[0]):
        c = cells[b]
        out[b] += (
            w[0, b] * values[c]
            + w[1, b] * values[c + 1]
            + w[2, b] * values[c + 2]
            + w[3, b] * values[c + 3]
        )


@njit(nogil=True, cache=True)
def _add_level(values: Any, cells: Any, out: Any) -> None:
    for b in range(out.shape[0]):
        out[b] += values[cells[b]]


@njit(nogil=True, cache=True)
def _add_pair(values: Any, stride: int, cells: Any, w: Any, others: Any, v: Any, out: Any) -> None:
    for b in range(out.shape[0]):
        at = cells[b] * stride + others[b]
        v0, v1, v2, v3 = v[0, b], v[1, b], v[2, b], v[3, b]
        total = 0.0
        for k in range(4):
            total += w[k, b] * (
                v0 * values[at] + v1 * values[at + 1] + v2 * values[at + 2] + v3 * values[at + 3]
            )
            at += stride
        out[b] += total


@njit(nogil=True, cache=True)
def _add_column(
    values: Any, stride: int, cells: Any, w: Any, step: int, others: Any, out: Any
) -> None:
    """Add a table of a numeric feature and levels: steps along the numeric one, one level."""
    for b in range(out.shape[0]):
        at = cells[b] * step + others[b] * stride
        out[b] += (
            w[0, b] * values[at]
            + w[1, b] * values[at + step]
            + w[2, b] * values[at + 2 * step]
            + w[3, b] * values[at + 3 * step]
        )


@njit(nogil=True, cache=True)
def _add_table(
    table: Any, axes: Any, coefficients: Any, cells: Any, weights: Any, out: Any
) -> None:
    i, j, start, stride = table
    values = coefficients[start:]
    if j < 0:
        if axes[i, 2]:
            _add_level(values, cells[i], out)
        else:
            _add_main(values, cells[i], weights[i], out)
    elif axes[i, 2]:
        if axes[j, 2]:
            for b in range(out.shape[0]):
                out[b] += values[cells[i, b] * stride + cells[j, b]]
        else:
            _add_column(values, stride, cells[j], weights[j], 1, cells[i], out)
    elif axes[j, 2]:
        _add_column(values, 1, cells[i], weights[i], stride, cells[j], out)
    else:
        _add_pair(values, stride, cells[i], weights[i], cells[j], weights[j], out)


@njit(nogil=True, cache=True)
def sums(rows: Any, constant: float, where: Any, tables: Any, coefficients: Any, out: Any) -> None:
    """Constant plus all tables at encoded rows ``[n, d]``.

    ``where`` is what `locate` reads of scales and axes. ``tables`` has one row per table: first
    axis, second axis (-1 for none), first coefficient, stride of the first axis.
    """
    scales, tails, knots, positions, slopes, axes = where
    n, d = rows.shape
    block = np.empty((d, BLOCK))
    cells = np.empty((axes.shape[0], BLOCK), dtype=np.int64)
    weights = np.empty((axes.shape[0], 4, BLOCK))
    for begin in range(0, n, BLOCK):
        size = min(BLOCK, n - begin)
        for b in range(size):
            for i in range(d):
                block[i, b] = rows[begin + b, i]
        x, c, w = block[:, :size], cells[:, :size], weights[:, :, :size]
        locate(x, scales, tails, knots, positions, slopes, axes, c, w)
        total = out[begin : begin + size]
        total[:] = constant
        for k in range(tables.shape[0]):
            _add_table(tables[k], axes, coefficients, c, w, total)


@njit(nogil=True, cache=True, fastmath=_SUMS)
def squared_lengths(
    rows: Any, constant: Any, where: Any, tables: Any, coefficients: Any, out: Any
) -> None:
    """Squared length of a sum of vector-valued tables per row; ``coefficients [.., rank]``."""
    scales, tails, knots, positions, slopes, axes = where
    n, d = rows.shape
    rank = coefficients.shape[1]
    block = np.empty((d, BLOCK))
    cells = np.empty((axes.shape[0], BLOCK), dtype=np.int64)
    weights = np.empty((axes.shape[0], 4, BLOCK))
    g = np.empty(rank, dtype=np.float32)
    for begin in range(0, n, BLOCK):
        size = min(BLOCK, n - begin)
        for b in range(size):
            for i in range(d):
                block[i, b] = rows[begin + b, i]
        x, c, w = block[:, :size], cells[:, :size], weights[:, :, :size]
        locate(x, scales, tails, knots, positions, slopes, axes, c, w)
        for b in range(size):
            g[:] = constant
            for k in range(tables.shape[0]):
                i, j, start, stride = tables[k, 0], tables[k, 1], tables[k, 2], tables[k, 3]
                for p in range(4):
                    wp = weights[i, p, b]
                    if wp == 0.0:
                        continue
                    at = start + (cells[i, b] + p) * stride
                    if j < 0:
                        _add_scaled(np.float32(wp), coefficients[at], g)
                        continue
                    at += cells[j, b]
                    for q in range(4):
                        wq = wp * weights[j, q, b]
                        if wq != 0.0:
                            _add_scaled(np.float32(wq), coefficients[at + q], g)
            total = np.float32(0.0)
            for r in range(rank):
                total += g[r] * g[r]
            out[begin + b] = total


@njit(nogil=True, cache=True, fastmath=_SUMS)
def _add_scaled(factor: Any, vector: Any, g: Any) -> None:
    for r in range(g.shape[0]):
        g[r] += factor * vector[r]
