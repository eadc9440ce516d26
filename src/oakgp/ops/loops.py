"""Compiled loops of the fused operation: one row of the matrix at a time, in strips of columns.

The working set of a strip (all orders, all features) stays in the first cache level; the inner
loops run over the columns of the strip and vectorise. Memory beyond inputs and output is
O(threads * d * strip), never O(n m d).

A loop that adds up writes nothing else: with a store in it the compiler guards the vectorised form
by a test of addresses, and where arrays happen to lie would decide the order of the sum, so the
last bit.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from oakgp.ops.fastmath import exp_negative, sin_pi

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

STRIP = 64  # columns of a strip
ROWS = 8  # rows handed out together: one cache line of the mirrored half
_FAST = {"contract", "nsz", "reassoc", "arcp"}
_FAR = 5e8  # half of layout.FAR
_SQRT3 = 1.7320508075688772
_SQRT5 = 2.23606797749979


@njit(nogil=True, cache=True, fastmath=_FAST)
def radial_strip(kind: int, a: float, b: Array, lengthscale: float, phi: Array) -> None:
    """Write the base kernel between coordinate ``a`` and the coordinates ``b``."""
    n = b.shape[0]
    if kind == 0:
        for k in range(n):
            gap = a - b[k]
            phi[k] = exp_negative(-0.5 * gap * gap)
    elif kind == 1:
        for k in range(n):
            phi[k] = exp_negative(-abs(a - b[k]))
    elif kind == 2:
        for k in range(n):
            r = _SQRT3 * abs(a - b[k])
            phi[k] = (1.0 + r) * exp_negative(-r)
    elif kind == 3:
        for k in range(n):
            r = _SQRT5 * abs(a - b[k])
            phi[k] = (1.0 + r + r * r / 3.0) * exp_negative(-r)
    else:
        scale = 2.0 / lengthscale
        for k in range(n):
            gap = a - b[k]
            chord = scale * sin_pi(gap)
            q = 1e18 if abs(gap) > _FAR else chord * chord
            phi[k] = exp_negative(-0.5 * q)


@njit(nogil=True, cache=True, fastmath=_FAST)
def radial_slope_strip(
    kind: int, a: float, b: Array, lengthscale: float, phi: Array, slope: Array
) -> None:
    """Write the base kernel and its derivative with respect to the log lengthscale."""
    n = b.shape[0]
    if kind == 0:
        for k in range(n):
            gap = a - b[k]
            q = gap * gap
            value = exp_negative(-0.5 * q)
            phi[k] = value
            slope[k] = q * value
    elif kind == 1:
        for k in range(n):
            r = abs(a - b[k])
            value = exp_negative(-r)
            phi[k] = value
            slope[k] = r * value
    elif kind == 2:
        for k in range(n):
            r = _SQRT3 * abs(a - b[k])
            value = exp_negative(-r)
            phi[k] = (1.0 + r) * value
            slope[k] = r * r * value
    elif kind == 3:
        for k in range(n):
            r = _SQRT5 * abs(a - b[k])
            value = exp_negative(-r)
            phi[k] = (1.0 + r + r * r / 3.0) * value
            slope[k] = r * r * (1.0 + r) / 3.0 * value
    else:
        scale = 2.0 / lengthscale
        for k in range(n):
            gap = a - b[k]
            chord = scale * sin_pi(gap)
            q = 1e18 if abs(gap) > _FAR else chord * chord
            value = exp_negative(-0.5 * q)
            phi[k] = value
            slope[k] = q * value


@njit(nogil=True, cache=True, fastmath=_FAST)
def value_rows(
    chunk: int,
    n_chunks: int,
    symmetric: bool,
    kinds: Codes,
    mandatory: Codes,
    sizes: Codes,
    offsets: Codes,
    order_variances: Array,
    scales: Array,
    lengthscales: Array,
    tables: Array,
    xu: Array,
    tu: Array,
    cu: Codes,
    xv: Array,
    tv: Array,
    cv: Codes,
    out: Array,
) -> None:
    """Fill the rows of one chunk; in the symmetric case both halves."""
    n, m = out.shape
    d_all = kinds.shape[0]
    top_order = order_variances.shape[0] - 1
    e = np.zeros((top_order + 1, STRIP))
    z = np.zeros(STRIP)
    for first in range(chunk * ROWS, n, n_chunks * ROWS):
        last = min(first + ROWS, n)
        for i in range(first, last):
            stop = i + 1 if symmetric else m
            for j0 in range(0, stop, STRIP):
                width = min(STRIP, stop - j0)
                e[0, :] = 1.0
                e[1:, :] = 0.0
                for d in range(d_all):
                    scale = scales[d]
                    if sizes[d] > 0:
                        row = offsets[d] + cu[d, i] * sizes[d]
                        for k in range(width):
                            z[k] = scale * tables[row + cv[d, j0 + k]]
                    else:
                        radial_strip(kinds[d], xu[d, i], xv[d, j0 : j0 + width], lengthscales[d], z)
                        shift = scale * tu[d, i]
                        t = tv[d, j0 : j0 + width]
                        for k in range(width):
                            z[k] = scale * z[k] - shift * t[k]
                    for r in range(min(d + 1, top_order), 0, -1):
                        upper = e[r]
                        lower = e[r - 1]
                        if mandatory[d]:
                            for k in range(STRIP):
                                upper[k] = z[k] * lower[k]
                        else:
                            for k in range(STRIP):
                                upper[k] += z[k] * lower[k]
                    if mandatory[d]:
                        e[0, :] = 0.0
                target = out[i, j0 : j0 + width]
                target[:] = order_variances[0] * e[0, :width]
                for r in range(1, top_order + 1):
                    variance = order_variances[r]
                    upper = e[r]
                    for k in range(width):
                        target[k] += variance * upper[k]
        if symmetric:
            for j in range(last):
                for i in range(max(first, j + 1), last):
                    out[j, i] = out[i, j]


@njit(nogil=True, cache=True, fastmath=_FAST)
def gradient_rows(
    chunk: int,
    n_chunks: int,
    symmetric: bool,
    kinds: Codes,
    mandatory: Codes,
    sizes: Codes,
    offsets: Codes,
    order_variances: Array,
    scales: Array,
    lengthscales: Array,
    tables: Array,
    xu: Array,
    tu: Array,
    cu: Codes,
    xv: Array,
    tv: Array,
    cv: Codes,
    cotangent: Array,
    d_orders: Array,
    d_scales: Array,
    d_lengthscales: Array,
    d_tables: Array,
    d_tu: Array,
    d_tv: Array,
) -> None:
    """Add the gradient of ``sum(cotangent * K)`` over the rows of one chunk.

    The prefix polynomials of a strip are kept and run through backwards (reverse mode through
    the recursion): only sums of products, so no digits are lost at any order. In the symmetric
    case only j <= i is visited; ``cotangent`` then holds G + G^T off the diagonal, G on it, and
    both embedding gradients may share one array.
    """
    n, m = cotangent.shape
    d_all = kinds.shape[0]
    top_order = order_variances.shape[0] - 1
    e = np.zeros((d_all + 1, top_order + 1, STRIP))
    adjoint = np.zeros((top_order + 1, STRIP))
    raw = np.zeros((d_all, STRIP))
    slope = np.zeros((d_all, STRIP))
    w = np.zeros(STRIP)
    for first in range(chunk * ROWS, n, n_chunks * ROWS):
        for i in range(first, min(first + ROWS, n)):
            stop = i + 1 if symmetric else m
            for j0 in range(0, stop, STRIP):
                width = min(STRIP, stop - j0)
                e[0, 0, :] = 1.0
                for d in range(d_all):
                    scale = scales[d]
                    zr = raw[d]
                    if sizes[d] > 0:
                        row = offsets[d] + cu[d, i] * sizes[d]
                        for k in range(width):
                            zr[k] = tables[row + cv[d, j0 + k]]
                    else:
                        radial_slope_strip(
                            kinds[d],
                            xu[d, i],
                            xv[d, j0 : j0 + width],
                            lengthscales[d],
                            zr,
                            slope[d],
                        )
                        shift = tu[d, i]
                        t = tv[d, j0 : j0 + width]
                        for k in range(width):
                            zr[k] -= shift * t[k]
                    reach = min(d + 1, top_order)
                    before = e[d]
                    after = e[d + 1]
                    if mandatory[d]:
                        after[0, :] = 0.0
                        for r in range(1, reach + 1):
                            lower = before[r - 1]
                            upper = after[r]
                            for k in range(STRIP):
                                upper[k] = scale * zr[k] * lower[k]
                    else:
                        after[0, :] = before[0, :]
                        for r in range(1, reach + 1):
                            lower = before[r - 1]
                            same = before[r]
                            upper = after[r]
                            for k in range(STRIP):
                                upper[k] = same[k] + scale * zr[k] * lower[k]
                g = cotangent[i, j0 : j0 + width]
                adjoint[:, :] = 0.0
                for r in range(top_order + 1):
                    variance = order_variances[r]
                    total = 0.0
                    full = e[d_all, r]
                    bar = adjoint[r]
                    for k in range(width):
                        total += g[k] * full[k]
                    for k in range(width):
                        bar[k] = variance * g[k]
                    d_orders[r] += total
                for d in range(d_all - 1, -1, -1):
                    scale = scales[d]
                    zr = raw[d]
                    reach = min(d + 1, top_order)
                    before = e[d]
                    w[:] = 0.0
                    for r in range(1, reach + 1):
                        lower = before[r - 1]
                        bar = adjoint[r]
                        below = adjoint[r - 1]
                        if mandatory[d]:
                            for k in range(STRIP):
                                w[k] += bar[k] * lower[k]
                                below[k] = scale * zr[k] * bar[k]
                        else:
                            for k in range(STRIP):
                                w[k] += bar[k] * lower[k]
                                below[k] += scale * zr[k] * bar[k]
                    if mandatory[d]:
                        adjoint[reach:, :] = 0.0
                    total = 0.0
                    for k in range(width):
                        total += w[k] * zr[k]
                    d_scales[d] += total
                    if sizes[d] > 0:
                        row = offsets[d] + cu[d, i] * sizes[d]
                        for k in range(width):
                            d_tables[row + cv[d, j0 + k]] += scale * w[k]
                    else:
                        s = slope[d]
                        t = tv[d, j0 : j0 + width]
                        dt = d_tv[d, j0 : j0 + width]
                        shift = scale * tu[d, i]
                        total = 0.0
                        along = 0.0
                        for k in range(width):
                            total += w[k] * s[k]
                            along += w[k] * t[k]
                        for k in range(width):
                            dt[k] -= shift * w[k]
                        d_lengthscales[d] += scale * total / lengthscales[d]
                        d_tu[d, i] -= scale * along


@njit(nogil=True, cache=True, fastmath=_FAST)
def embedding_rows(
    chunk: int,
    n_chunks: int,
    kinds: Codes,
    lengthscales: Array,
    x: Array,
    x_starts: Codes,
    nodes: Array,
    weights: Array,
    node_starts: Codes,
    value: Array,
    slope: Array,
) -> None:
    """Write sum_q w_q k(x_i, node_q) and its derivative by the lengthscale for one chunk.

    Several features lie one after another: feature f has the coordinates ``x_starts[f]`` to
    ``x_starts[f + 1]`` and the nodes ``node_starts[f]`` to ``node_starts[f + 1]``.
    """
    phi = np.zeros(STRIP)
    rate = np.zeros(STRIP)
    for f in range(kinds.shape[0]):
        for i in range(x_starts[f] + chunk, x_starts[f + 1], n_chunks):
            total = 0.0
            change = 0.0
            for q0 in range(node_starts[f], node_starts[f + 1], STRIP):
                width = min(STRIP, node_starts[f + 1] - q0)
                radial_slope_strip(
                    kinds[f], x[i], nodes[q0 : q0 + width], lengthscales[f], phi, rate
                )
                for k in range(width):
                    total += weights[q0 + k] * phi[k]
                    change += weights[q0 + k] * rate[k]
            value[i] = total
            slope[i] = change / lengthscales[f]
