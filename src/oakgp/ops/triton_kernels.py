"""The fused operation on CUDA: Triton kernels, one tile of the matrix at a time.

Every intermediate of a tile (polynomials, one-dimensional kernels, adjoints) lives in registers;
only the matrix itself is written. Neither direction subtracts: with the functional
``L(p) = sum_r sigma2_r p_r`` on polynomials in an indeterminate t, absorbing a factor 1 + z t
into L is ``L_r <- L_r + z L_(r+1)`` (the transpose of the recursion in `reference.esp`), and

- the value is L_0 once all factors are absorbed,
- the derivative by z_d is L_1 once all factors but the d-th are absorbed. A binary tree over the
  features shares that work: O(d log d) absorptions in place of O(d^2), with no digit lost.

Sums are deterministic: a program adds up its own strip and writes it to its own slot.
"""

from __future__ import annotations

import math
from typing import Any

import triton
import triton.language as tl

from oakgp.ops import layout as shared
from oakgp.ops.layout import Kind

_FAR = tl.constexpr(shared.FAR)
_SQRT3 = tl.constexpr(math.sqrt(3.0))
_SQRT5 = tl.constexpr(math.sqrt(5.0))
_SQUARED_EXPONENTIAL = tl.constexpr(int(Kind.SQUARED_EXPONENTIAL))
_MATERN12 = tl.constexpr(int(Kind.MATERN12))
_MATERN32 = tl.constexpr(int(Kind.MATERN32))
_MATERN52 = tl.constexpr(int(Kind.MATERN52))
_PERIODIC = tl.constexpr(int(Kind.PERIODIC))
_TABLE = tl.constexpr(int(Kind.TABLE))


@triton.jit
def _sin_pi(x: tl.tensor) -> Any:
    """Give sin(pi x), |x| <= 1/2: the library's version spends registers on any argument."""
    s = x * x
    p = 5.392664662608125e-10 * s - 2.2948428997269856e-08  # Taylor series to x^21
    p = p * s + 7.952054001475508e-07
    p = p * s - 2.1915353447830204e-05
    p = p * s + 0.00046630280576761234
    p = p * s - 0.007370430945714348
    p = p * s + 0.08214588661112819
    p = p * s - 0.5992645293207919
    p = p * s + 2.550164039877345
    p = p * s - 5.16771278004997
    p = p * s + 3.141592653589793
    return x * p


@triton.jit
def _decay(power: tl.tensor) -> Any:
    """Give exp(-power), power >= 0; in float64 without branches, so that features interleave."""
    if power.dtype == tl.float64:
        x = tl.maximum(-power, -745.0)
        shifted = x * 1.4426950408889634 + 6755399441055744.0  # 1.5 * 2^52: rounds to the unit
        n = shifted - 6755399441055744.0
        r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10  # ln 2 in two parts
        p = 2.08767569878681e-09 * r + 2.505210838544172e-08  # Taylor series to r^12
        p = p * r + 2.755731922398589e-07
        p = p * r + 2.7557319223985893e-06
        p = p * r + 2.48015873015873e-05
        p = p * r + 0.0001984126984126984
        p = p * r + 0.001388888888888889
        p = p * r + 0.008333333333333333
        p = p * r + 0.041666666666666664
        p = p * r + 0.16666666666666666
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        exponent = shifted.to(tl.int64, bitcast=True).to(tl.int32) + 1023
        exponent = tl.maximum(exponent, 0).to(tl.int64) << 52  # exactly 0 below 2^-1022
        result = p * exponent.to(tl.float64, bitcast=True)
    else:
        result = tl.exp(-power)
    return result


@triton.jit
def _read(side: tl.tensor, line: tl.tensor, i: tl.tensor, n: tl.tensor) -> Any:
    """Read entries i of one of the 2 d lines of a set of points: x of 2 d, embedding of 2 d + 1."""
    return tl.load(side + line * n + i, mask=i < n, other=0.0)


@triton.jit
def _power(kind: tl.tensor, a: tl.tensor, b: tl.tensor, parameters: tl.tensor, d: tl.tensor) -> Any:
    """Give what the base kernel of feature d decays with; 0 for tables."""
    gap = a - b
    if kind == _SQUARED_EXPONENTIAL:
        power = 0.5 * gap * gap
    elif kind == _PERIODIC:
        chord = _sin_pi(gap - tl.floor(gap + 0.5)) * tl.load(parameters + 2 * d + 1)
        chord = tl.where(tl.abs(gap) > 0.5 * _FAR, _FAR, chord)
        power = 0.5 * chord * chord
    elif kind == _MATERN12:
        power = tl.abs(gap)
    elif kind == _MATERN32:
        power = _SQRT3 * tl.abs(gap)
    elif kind == _MATERN52:
        power = _SQRT5 * tl.abs(gap)
    else:
        power = gap * 0.0
    return power


@triton.jit
def _base(kind: tl.tensor, power: tl.tensor, decay: tl.tensor) -> Any:
    """Give the base kernel and its derivative by the log lengthscale."""
    if (kind == _SQUARED_EXPONENTIAL) | (kind == _PERIODIC):
        phi = decay
        slope = 2.0 * power * decay
    elif kind == _MATERN12:
        phi = decay
        slope = power * decay
    elif kind == _MATERN32:
        phi = (1.0 + power) * decay
        slope = power * power * decay
    elif kind == _MATERN52:
        third = power * power * (1.0 / 3.0)
        phi = (1.0 + power + third) * decay
        slope = third * (1.0 + power) * decay
    else:
        phi = decay
        slope = power
    return phi, slope


@triton.jit
def _table(meta: tl.tensor, tables: tl.tensor, a: tl.tensor, b: tl.tensor, d: tl.tensor) -> Any:
    """Look up the pairs of codes a, b in the table of feature d."""
    line = tl.load(meta + 5 * d + 3) + a.to(tl.int32) * tl.load(meta + 5 * d + 2)
    return tl.load(tables + line + b.to(tl.int32))


@triton.jit
def _factors(
    meta: tl.tensor,
    parameters: tl.tensor,
    tables: tl.tensor,
    u: tl.tensor,
    v: tl.tensor,
    i: tl.tensor,
    j: tl.tensor,
    n: tl.tensor,
    m: tl.tensor,
    features: tl.tuple,
    TABLES: tl.constexpr,
) -> Any:
    """Give the scaled constrained kernels of some features on a tile."""
    powers = ()
    for f in tl.static_range(len(features)):
        d = features[f]
        a = _read(u, 2 * d, i, n)
        b = _read(v, 2 * d, j, m)
        powers = powers + (_power(tl.load(meta + 5 * d), a, b, parameters, d),)
    decays = ()
    for f in tl.static_range(len(features)):
        decays = decays + (_decay(powers[f]),)
    z = ()
    for f in tl.static_range(len(features)):
        d = features[f]
        kind = tl.load(meta + 5 * d)
        phi, _ = _base(kind, powers[f], decays[f])
        if TABLES and kind == _TABLE:
            phi = _table(meta, tables, _read(u, 2 * d, i, n), _read(v, 2 * d, j, m), d)
        # k~(x, x') = k(x, x') - s(x) s(x') / v   (paper, eq. 7); a table's embedding is 0 here
        raw = phi - _read(u, 2 * d + 1, i, n) * _read(v, 2 * d + 1, j, m)
        z = z + (tl.load(parameters + 2 * d) * raw,)
    return z


@triton.jit
def _absorb(
    functional: tl.tuple, z: tl.tensor, mandatory: tl.tensor, MANDATORY: tl.constexpr
) -> Any:
    """Apply L_r <- L_r + z L_(r+1), or L_r <- z L_(r+1) if the factor is mandatory."""
    TOP: tl.constexpr = len(functional) - 1
    new = ()
    if MANDATORY:
        keep = 1 - mandatory
        for r in tl.static_range(TOP):
            new = new + (functional[r] * keep + z * functional[r + 1],)
        new = new + (functional[TOP] * keep,)
    else:
        for r in tl.static_range(TOP):
            new = new + (functional[r] + z * functional[r + 1],)
        new = new + (functional[TOP],)
    return new


@triton.jit
def _multiply(e: tl.tuple, z: tl.tensor, mandatory: tl.tensor, MANDATORY: tl.constexpr) -> Any:
    """Apply e_r <- e_r + z e_(r-1), or e_r <- z e_(r-1): the transpose (`reference.esp`)."""
    if MANDATORY:
        keep = 1 - mandatory
        new = (e[0] * keep,)
        for r in tl.static_range(1, len(e)):
            new = new + (e[r] * keep + z * e[r - 1],)
    else:
        new = (e[0],)
        for r in tl.static_range(1, len(e)):
            new = new + (e[r] + z * e[r - 1],)
    return new


@triton.jit
def _others(
    functional: tl.tuple,
    z: tl.tuple,
    mandatory: tl.tuple,
    LOW: tl.constexpr,
    HIGH: tl.constexpr,
    MANDATORY: tl.constexpr,
) -> Any:
    """Differentiate by z[LOW:HIGH]: absorb one half's factors, go on with the other half."""
    if HIGH - LOW == 1:
        result = (functional[0],)
    else:
        MIDDLE: tl.constexpr = (LOW + HIGH) // 2
        left = functional
        for f in tl.static_range(MIDDLE, HIGH):
            left = _absorb(left, z[f], mandatory[f], MANDATORY)
        right = functional
        for f in tl.static_range(LOW, MIDDLE):
            right = _absorb(right, z[f], mandatory[f], MANDATORY)
        result = _others(left, z, mandatory, LOW, MIDDLE, MANDATORY) + _others(
            right, z, mandatory, MIDDLE, HIGH, MANDATORY
        )
    return result


@triton.jit
def _functional(orders: tl.tensor, FIRST: tl.constexpr, R: tl.constexpr, zero: tl.tensor) -> Any:
    """Give sigma2_FIRST .. sigma2_R as arrays of a tile's shape."""
    new = ()
    for r in tl.static_range(FIRST, R + 1):
        new = new + (zero + tl.load(orders + r),)
    return new


@triton.jit
def _add_products(sums: tl.tuple, a: tl.tuple, b: tl.tuple) -> Any:
    """Give sums[k] + a[k] * b[k] for all k."""
    new = ()
    for k in tl.static_range(len(sums)):
        new = new + (sums[k] + a[k] * b[k],)
    return new


@triton.jit
def _add_total(place: tl.tensor, values: tl.tensor) -> None:
    """Add the sum of a tile to one number, which no other program touches."""
    tl.store(place, tl.load(place) + tl.sum(tl.sum(values, axis=1), axis=0))


@triton.jit(do_not_specialize=["n", "m", "n_features"])
def value_kernel(
    meta: tl.tensor,
    orders: tl.tensor,
    parameters: tl.tensor,
    tables: tl.tensor,
    u: tl.tensor,
    v: tl.tensor,
    out: tl.tensor,
    n: tl.int64,
    m: tl.int64,
    n_features: tl.tensor,
    R: tl.constexpr,
    SYMMETRIC: tl.constexpr,
    MANDATORY: tl.constexpr,
    TABLES: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    """Fill one tile of the matrix; in the symmetric case also its mirror image."""
    wide = tl.cdiv(m, TILE).to(tl.int32)
    if SYMMETRIC:  # rows p and wide - 1 - p of the triangle of tiles make one row of wide + 1
        p = tl.program_id(0) // (wide + 1)
        k = tl.program_id(0) % (wide + 1)
        tile_row = tl.where(k <= p, p, wide - 1 - p)
        tile_column = tl.where(k <= p, k, k - p - 1)
    else:
        tile_row = tl.program_id(0) // wide
        tile_column = tl.program_id(0) % wide
    i = tile_row * TILE + tl.arange(0, TILE)[:, None]
    j = tile_column * TILE + tl.arange(0, TILE)[None, :]
    zero = tl.zeros((TILE, TILE), dtype=out.dtype.element_ty)
    functional = _functional(orders, 0, R, zero)
    for d in range(n_features):
        z = _factors(meta, parameters, tables, u, v, i, j, n, m, (d,), TABLES)
        functional = _absorb(functional, z[0], tl.load(meta + 5 * d + 1), MANDATORY)
    inside = (i < n) & (j < m)
    if SYMMETRIC:
        tl.store(out + i * m + j, functional[0], mask=inside & (j <= i))
        tl.store(out + j * m + i, functional[0], mask=inside & (j < i))
    else:
        tl.store(out + i * m + j, functional[0], mask=inside)


@triton.jit(do_not_specialize=["row_start", "row_stop", "n", "m", "n_features", "first"])
def gradient_kernel(
    meta: tl.tensor,
    orders: tl.tensor,
    parameters: tl.tensor,
    tables: tl.tensor,
    u: tl.tensor,
    v: tl.tensor,
    cotangent: tl.tensor,
    stride_row: tl.tensor,
    stride_column: tl.tensor,
    sum_orders: tl.tensor,
    sum_scales: tl.tensor,
    sum_slopes: tl.tensor,
    sum_left: tl.tensor,
    sum_right: tl.tensor,
    looked_up: tl.tensor,
    row_start: tl.tensor,
    row_stop: tl.tensor,
    n: tl.int64,
    m: tl.int64,
    n_features: tl.tensor,
    first: tl.tensor,
    R: tl.constexpr,
    SYMMETRIC: tl.constexpr,
    MANDATORY: tl.constexpr,
    TABLES: tl.constexpr,
    KINDS: tl.constexpr,
    FORCED: tl.constexpr,
    ORDERS: tl.constexpr,
    OTHERS: tl.constexpr,
    GROUP: tl.constexpr,
    SPAN: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Add up w_d = dL/dz_d times what it multiplies, over a strip of rows x a strip of columns.

    The features are first, first + 1, ... with KINDS and FORCED (mandatory) known beforehand, so
    that no branch parts their arithmetic; the others' kinds are read from ``meta``.
    """
    FEATURES: tl.constexpr = len(KINDS)
    strip_row = tl.program_id(0)
    strip_column = tl.program_id(1)
    slot = strip_row * tl.num_programs(1) + strip_column
    zero = tl.zeros((ROWS, COLUMNS), dtype=u.dtype.element_ty)
    by_order = (zero,) * (R + 1)
    by_scale = (zero,) * FEATURES
    by_slope = (zero,) * FEATURES
    width = m.to(tl.int32)
    strips = tl.num_programs(0)
    tiles = tl.cdiv(row_stop - row_start, strips * GROUP) * (GROUP // ROWS)
    for block in range(strip_column * SPAN, width, tl.num_programs(1) * SPAN):
        begin = 0
        if SYMMETRIC:  # the lower half stands for both: the rows above the block have no part
            begin = tl.maximum((block - row_start) // GROUP - strip_row, 0) // strips
        for tile in range(begin * (GROUP // ROWS), tiles):
            group = tile * ROWS // GROUP * strips + strip_row
            row = row_start + group * GROUP + tile * ROWS % GROUP
            i = row + tl.arange(0, ROWS)[:, None]
            by_row = (zero,) * FEATURES
            stop = tl.where(row < row_stop, tl.minimum(width, block + SPAN), 0)
            if SYMMETRIC:
                stop = tl.minimum(stop, row + ROWS)
            for column in range(block, stop, COLUMNS):
                # Always `first`, which the compiler cannot know: else it computes the addresses of
                # all features before the loop and runs out of registers.
                origin = tl.minimum(first, first + column)
                j = column + tl.arange(0, COLUMNS)[None, :]
                inside = (i < row_stop) & (j < m)
                place = i.to(tl.int64) * stride_row + j.to(tl.int64) * stride_column
                if SYMMETRIC:
                    g = tl.load(cotangent + place, mask=inside & (j <= i), other=0.0)
                    place = j.to(tl.int64) * stride_row + i.to(tl.int64) * stride_column
                    g += tl.load(cotangent + place, mask=inside & (j < i), other=0.0)
                else:
                    g = tl.load(cotangent + place, mask=inside, other=0.0)

                functional = _functional(orders, 1, R, zero)
                e = (zero + 1.0,) + (zero,) * R
                for start in range(0, n_features - FEATURES, OTHERS):
                    features = ()
                    for f in tl.static_range(OTHERS):
                        d = start + f + tl.where(start + f < first, 0, FEATURES)
                        features = features + (tl.minimum(d, n_features - 1),)
                    z = _factors(meta, parameters, tables, u, v, i, j, n, m, features, TABLES)
                    for f in tl.static_range(OTHERS):
                        real = start + f < n_features - FEATURES
                        other = tl.where(real, z[f], 0.0)
                        forced = tl.load(meta + 5 * features[f] + 1, mask=real, other=0)
                        functional = _absorb(functional, other, forced, MANDATORY)
                        if ORDERS:
                            e = _multiply(e, other, forced, MANDATORY)

                powers = ()
                for f in tl.static_range(FEATURES):
                    a = _read(u, 2 * (origin + f), i, n)
                    b = _read(v, 2 * (origin + f), j, m)
                    powers = powers + (_power(KINDS[f], a, b, parameters, origin + f),)
                decays = ()
                for f in tl.static_range(FEATURES):
                    decays = decays + (_decay(powers[f]),)
                z = ()
                raw = ()
                slope = ()
                for f in tl.static_range(FEATURES):
                    d = origin + f
                    phi, change = _base(KINDS[f], powers[f], decays[f])
                    if KINDS[f] == _TABLE:
                        phi = _table(meta, tables, _read(u, 2 * d, i, n), _read(v, 2 * d, j, m), d)
                    raw = raw + (phi - _read(u, 2 * d + 1, i, n) * _read(v, 2 * d + 1, j, m),)
                    slope = slope + (change,)
                    z = z + (raw[f] * tl.load(parameters + 2 * d),)
                    if ORDERS:
                        e = _multiply(e, z[f], FORCED[f], MANDATORY)
                if ORDERS:
                    by_order = _add_products(by_order, e, (g,) * (R + 1))

                others = _others(functional, z, FORCED, 0, FEATURES, MANDATORY)
                w = ()
                along = ()
                for f in tl.static_range(FEATURES):
                    d = origin + f
                    w = w + (g * others[f],)
                    along = along + (_read(v, 2 * d + 1, j, m),)
                    entry = sum_right + (strip_row * n_features + d) * m + j
                    before = tl.load(entry, mask=j < m, other=0.0)
                    total = tl.sum(w[f] * _read(u, 2 * d + 1, i, n), axis=0, keep_dims=True)
                    tl.store(entry, before + total, mask=j < m)
                    if KINDS[f] == _TABLE:
                        page = tl.load(meta + 5 * d + 4)
                        entry = looked_up + (page * (row_stop - row_start) + i - row_start) * m + j
                        tl.store(entry, w[f], mask=inside)
                by_scale = _add_products(by_scale, w, raw)
                by_slope = _add_products(by_slope, w, slope)
                by_row = _add_products(by_row, w, along)

            for f in tl.static_range(FEATURES):
                entry = sum_left + (strip_column * n_features + first + f) * n + i
                before = tl.load(entry, mask=i < row_stop, other=0.0)
                total = tl.sum(by_row[f], axis=1, keep_dims=True)
                tl.store(entry, before + total, mask=i < row_stop)
            tl.debug_barrier()  # the next tile reads sums that other threads stored

    if ORDERS:
        for r in tl.static_range(R + 1):
            _add_total(sum_orders + slot * (R + 1) + r, by_order[r])
    for f in tl.static_range(FEATURES):
        _add_total(sum_scales + slot * n_features + first + f, by_scale[f])
        _add_total(sum_slopes + slot * n_features + first + f, by_slope[f])
