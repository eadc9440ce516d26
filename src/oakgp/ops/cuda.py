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
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from oakgp.ops import layout as shared
from oakgp.ops import reference
from oakgp.ops.layout import Kind, Layout, Points, Weights, scaled_coordinates

MAX_ORDER = 16  # orders that fit in the registers; above it: `reference`, block by block
_FEATURES = 8  # features whose derivatives one launch of the gradient takes
_VALUE_TILE = 32  # square: the triangle of the symmetric case is folded into a rectangle
_VALUE_WARPS = 8
_TILE_ROWS, _TILE_COLUMNS = 16, 16
_GRADIENT_WARPS = 8
_PROGRAMS = 2112  # strips of rows x strips of columns: 16 for each of an H200's 132 processors
_TABLE_ENTRIES = 1 << 25  # entries of the buffer of derivatives by looked-up entries
_BLOCK_ENTRIES = 1 << 26  # entries that the plain torch path keeps for its reverse mode

_FAR = tl.constexpr(shared.FAR)
_SQRT3 = tl.constexpr(math.sqrt(3.0))
_SQRT5 = tl.constexpr(math.sqrt(5.0))
_SQUARED_EXPONENTIAL = tl.constexpr(int(Kind.SQUARED_EXPONENTIAL))
_MATERN12 = tl.constexpr(int(Kind.MATERN12))
_MATERN32 = tl.constexpr(int(Kind.MATERN32))
_PERIODIC = tl.constexpr(int(Kind.PERIODIC))
_TABLE = tl.constexpr(int(Kind.TABLE))


@triton.jit
def _sin_pi(x: tl.tensor) -> Any:
    """sin(pi x) for |x| <= 1/2: the library's version spends registers on any argument."""
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
def _radial(kind: tl.tensor, gap: tl.tensor, steepness: tl.tensor) -> Any:
    """Base kernel at a scaled distance, and its derivative by the log lengthscale."""
    smooth = (kind == _SQUARED_EXPONENTIAL) | (kind == _PERIODIC)
    if kind == _PERIODIC:
        chord = _sin_pi(gap - tl.floor(gap + 0.5)) * steepness
        gap = tl.where(tl.abs(gap) > 0.5 * _FAR, _FAR, chord)
    if smooth:
        power = 0.5 * gap * gap
    elif kind == _MATERN12:
        power = tl.abs(gap)
    elif kind == _MATERN32:
        power = _SQRT3 * tl.abs(gap)
    else:
        power = _SQRT5 * tl.abs(gap)
    decay = tl.exp(-power)
    if smooth:
        phi = decay
        slope = 2.0 * power * decay
    elif kind == _MATERN12:
        phi = decay
        slope = power * decay
    elif kind == _MATERN32:
        phi = (1.0 + power) * decay
        slope = power * power * decay
    else:
        third = power * power * (1.0 / 3.0)
        phi = (1.0 + power + third) * decay
        slope = third * (1.0 + power) * decay
    return phi, slope


@triton.jit
def _constrained(
    meta: tl.tensor,
    steepnesses: tl.tensor,
    tables: tl.tensor,
    xu: tl.tensor,
    tu: tl.tensor,
    xv: tl.tensor,
    tv: tl.tensor,
    i: tl.tensor,
    j: tl.tensor,
    n: tl.tensor,
    m: tl.tensor,
    d: tl.tensor,
    TABLES: tl.constexpr,
) -> Any:
    """Unscaled constrained kernel of feature d on a tile, and its log-lengthscale derivative."""
    kind = tl.load(meta + 5 * d)
    a = tl.load(xu + d * n + i, mask=i < n, other=0.0)
    b = tl.load(xv + d * m + j, mask=j < m, other=0.0)
    s = tl.load(tu + d * n + i, mask=i < n, other=0.0)
    t = tl.load(tv + d * m + j, mask=j < m, other=0.0)
    steepness = tl.load(steepnesses + d)
    if TABLES:
        if kind == _TABLE:
            size = tl.load(meta + 5 * d + 2)
            start = tl.load(meta + 5 * d + 3)
            raw = tl.load(tables + start + a.to(tl.int32) * size + b.to(tl.int32))
            slope = tl.zeros_like(raw)
        else:
            phi, slope = _radial(kind, a - b, steepness)
            raw = phi - s * t
    else:
        phi, slope = _radial(kind, a - b, steepness)
        raw = phi - s * t  # k~(x, x') = k(x, x') - s(x) s(x') / v   (paper, eq. 7)
    return raw, slope


@triton.jit
def _absorb(functional: tl.tuple, z: tl.tensor, mandatory: tl.tensor, MANDATORY: tl.constexpr) -> Any:
    """Functional on what multiplies the factor: L_r <- L_r + z L_(r+1); no L_r if mandatory."""
    TOP: tl.constexpr = len(functional) - 1
    if MANDATORY:
        keep = 1 - mandatory
        last = functional[TOP] * keep
    else:
        keep = 1
        last = functional[TOP]
    if TOP == 0:
        new = (last,)
    else:
        if MANDATORY:
            new = (functional[0] * keep + z * functional[1],)
            for r in tl.static_range(1, TOP):
                new = new + (functional[r] * keep + z * functional[r + 1],)
        else:
            new = (functional[0] + z * functional[1],)
            for r in tl.static_range(1, TOP):
                new = new + (functional[r] + z * functional[r + 1],)
        new = new + (last,)
    return new


@triton.jit
def _multiply(e: tl.tuple, z: tl.tensor, mandatory: tl.tensor, MANDATORY: tl.constexpr) -> Any:
    """Polynomial times the factor: e_r <- e_r + z e_(r-1)   (`reference.esp`)."""
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
    """Derivatives by z[LOW:HIGH]: absorb each half's factors, go on with the other half."""
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
    """sigma2_FIRST .. sigma2_R as arrays of a tile's shape."""
    new = (zero + tl.load(orders + FIRST),)
    for r in tl.static_range(FIRST + 1, R + 1):
        new = new + (zero + tl.load(orders + r),)
    return new


@triton.jit
def _add_product(sums: tl.tuple, a: tl.tuple, b: tl.tuple) -> Any:
    """sums[k] + a[k] * b[k] for all k."""
    new = (sums[0] + a[0] * b[0],)
    for k in tl.static_range(1, len(sums)):
        new = new + (sums[k] + a[k] * b[k],)
    return new


@triton.jit
def _scaled(a: tl.tuple, factor: tl.tensor) -> Any:
    """a[k] * factor for all k."""
    new = (a[0] * factor,)
    for k in tl.static_range(1, len(a)):
        new = new + (a[k] * factor,)
    return new


@triton.jit(do_not_specialize=["n", "m", "n_features"])
def _value_kernel(
    meta: tl.tensor,
    orders: tl.tensor,
    scales: tl.tensor,
    steepnesses: tl.tensor,
    tables: tl.tensor,
    xu: tl.tensor,
    tu: tl.tensor,
    xv: tl.tensor,
    tv: tl.tensor,
    out: tl.tensor,
    n: tl.tensor,
    m: tl.tensor,
    n_features: tl.tensor,
    R: tl.constexpr,
    SYMMETRIC: tl.constexpr,
    MANDATORY: tl.constexpr,
    TABLES: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    """One tile of the matrix; in the symmetric case also its mirror image."""
    wide = tl.cdiv(m, TILE)
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
        raw, _ = _constrained(
            meta, steepnesses, tables, xu, tu, xv, tv, i, j, n, m, d, TABLES
        )
        z = tl.load(scales + d) * raw
        functional = _absorb(functional, z, tl.load(meta + 5 * d + 1), MANDATORY)
    inside = (i < n) & (j < m)
    entry = out + i.to(tl.int64) * m + j
    if SYMMETRIC:
        tl.store(entry, functional[0], mask=inside & (j <= i))
        tl.store(out + j.to(tl.int64) * m + i, functional[0], mask=inside & (j < i))
    else:
        tl.store(entry, functional[0], mask=inside)


@triton.jit(do_not_specialize=["row_start", "row_stop", "n", "m", "n_features", "first"])
def _gradient_kernel(
    meta: tl.tensor,
    orders: tl.tensor,
    scales: tl.tensor,
    steepnesses: tl.tensor,
    tables: tl.tensor,
    xu: tl.tensor,
    tu: tl.tensor,
    xv: tl.tensor,
    tv: tl.tensor,
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
    n: tl.tensor,
    m: tl.tensor,
    n_features: tl.tensor,
    first: tl.tensor,
    R: tl.constexpr,
    FEATURES: tl.constexpr,
    SYMMETRIC: tl.constexpr,
    MANDATORY: tl.constexpr,
    TABLES: tl.constexpr,
    ORDERS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Add up w_d = dL/dz_d times what it multiplies, over a strip of rows x a strip of columns.

    Features first .. first + FEATURES - 1; those past the end are computed as copies of the last
    one with scale 0 and not stored.
    """
    strip_row = tl.program_id(0)
    strip_column = tl.program_id(1)
    slot = strip_row * tl.num_programs(1) + strip_column
    zero = tl.zeros((ROWS, COLUMNS), dtype=xu.dtype.element_ty)
    by_order = (zero,) * (R + 1)
    by_scale = (zero,) * FEATURES
    by_slope = (zero,) * FEATURES
    inner = tl.minimum(n_features - first, FEATURES)
    for row in range(row_start + strip_row * ROWS, row_stop, tl.num_programs(0) * ROWS):
        i = row + tl.arange(0, ROWS)[:, None]
        by_row = (zero,) * FEATURES
        stop = tl.minimum(m, row + ROWS) if SYMMETRIC else m
        for column in tl.range(
            strip_column * COLUMNS, stop, tl.num_programs(1) * COLUMNS, disable_licm=True
        ):
            j = column + tl.arange(0, COLUMNS)[None, :]
            inside = (i < row_stop) & (j < m)
            place = i.to(tl.int64) * stride_row + j.to(tl.int64) * stride_column
            if SYMMETRIC:  # the lower half stands for both
                g = tl.load(cotangent + place, mask=inside & (j <= i), other=0.0)
                place = j.to(tl.int64) * stride_row + i.to(tl.int64) * stride_column
                g += tl.load(cotangent + place, mask=inside & (j < i), other=0.0)
            else:
                g = tl.load(cotangent + place, mask=inside, other=0.0)

            functional = _functional(orders, 1, R, zero)
            if ORDERS:
                e = (zero + 1.0,) + (zero,) * R
            for k in range(n_features - inner):
                d = tl.where(k < first, k, k + inner)
                raw, _ = _constrained(
                    meta, steepnesses, tables, xu, tu, xv, tv, i, j, n, m, d, TABLES
                )
                z = tl.load(scales + d) * raw
                forced = tl.load(meta + 5 * d + 1)
                functional = _absorb(functional, z, forced, MANDATORY)
                if ORDERS:
                    e = _multiply(e, z, forced, MANDATORY)

            zs = ()
            raws = ()
            slopes = ()
            forceds = ()
            for f in tl.static_range(FEATURES):
                d = tl.minimum(first + f, n_features - 1)
                raw, slope = _constrained(
                    meta, steepnesses, tables, xu, tu, xv, tv, i, j, n, m, d, TABLES
                )
                scale = tl.load(scales + d, mask=first + f < n_features, other=0.0)
                forced = tl.load(meta + 5 * d + 1, mask=first + f < n_features, other=0)
                raws = raws + (raw,)
                slopes = slopes + (slope,)
                zs = zs + (scale * raw,)
                forceds = forceds + (forced,)
                if ORDERS:
                    e = _multiply(e, scale * raw, forced, MANDATORY)
            if ORDERS:
                by_order = _add_product(by_order, e, (g,) * (R + 1))

            w = _scaled(_others(functional, zs, forceds, 0, FEATURES, MANDATORY), g)
            by_scale = _add_product(by_scale, w, raws)
            by_slope = _add_product(by_slope, w, slopes)
            along = ()
            for f in tl.static_range(FEATURES):
                real = first + f < n_features
                d = tl.minimum(first + f, n_features - 1)
                s = tl.load(tu + d * n + i, mask=i < n, other=0.0)
                t = tl.load(tv + d * m + j, mask=j < m, other=0.0)
                along = along + (t,)
                mine = sum_right + (strip_row * n_features + d).to(tl.int64) * m + j
                before = tl.load(mine, mask=(j < m) & real, other=0.0)
                total = tl.sum(w[f] * s, axis=0, keep_dims=True)
                tl.store(mine, before + total, mask=(j < m) & real)
                if TABLES:
                    page = tl.load(meta + 5 * d + 4)
                    height = row_stop - row_start
                    entry = looked_up + (page.to(tl.int64) * height + (i - row_start)) * m + j
                    tl.store(entry, w[f], mask=inside & (page >= 0) & real)
            by_row = _add_product(by_row, w, along)

        for f in tl.static_range(FEATURES):
            place = (strip_column * n_features + first + f).to(tl.int64) * n + i
            total = tl.sum(by_row[f], axis=1, keep_dims=True)
            tl.store(sum_left + place, total, mask=(i < row_stop) & (first + f < n_features))
        tl.debug_barrier()  # the next tile of rows reads what other threads stored in sum_right

    if ORDERS:
        for r in tl.static_range(R + 1):
            mine = sum_orders + slot * (R + 1) + r
            tl.store(mine, tl.load(mine) + tl.sum(tl.sum(by_order[r], axis=1), axis=0))
    for f in tl.static_range(FEATURES):
        real = first + f < n_features
        place = slot * n_features + first + f
        before = tl.load(sum_scales + place, mask=real, other=0.0)
        total = tl.sum(tl.sum(by_scale[f], axis=1), axis=0)
        tl.store(sum_scales + place, before + total, mask=real)
        before = tl.load(sum_slopes + place, mask=real, other=0.0)
        total = tl.sum(tl.sum(by_slope[f], axis=1), axis=0)
        tl.store(sum_slopes + place, before + total, mask=real)


def _order(layout: Layout) -> int:
    """Highest order that can differ from 0; at least 1, so that the kernels have a factor."""
    return max(1, min(layout.max_order, layout.n_features))


@lru_cache(maxsize=64)
def _launches(layout: Layout) -> tuple[range, ...]:
    """Features of each launch of the gradient: as few launches and as even shares as possible."""
    d = layout.n_features
    span = math.ceil(d / math.ceil(d / _FEATURES))
    return tuple(range(first, min(first + span, d)) for first in range(0, d, span))


def _looked_up(layout: Layout, features: range) -> list[int]:
    return [i for i in features if layout.kinds[i] == Kind.TABLE]


@lru_cache(maxsize=64)
def _meta(layout: Layout, device: torch.device) -> Tensor:
    """``[d, 5]``: kind, mandatory, table size, table offset, page of its launch's table buffer."""
    pages = [-1] * layout.n_features
    for features in _launches(layout):
        for page, i in enumerate(_looked_up(layout, features)):
            pages[i] = page
    columns = (layout.kinds, layout.mandatory, layout.table_sizes, layout.table_offsets, pages)
    rows = [[int(entry) for entry in row] for row in zip(*columns, strict=True)]
    return torch.tensor(rows, dtype=torch.int32).to(device)


@dataclass(frozen=True)
class _Operands:
    """What both kernels take first, and their compile-time constants."""

    tensors: tuple[Tensor, ...]
    constants: dict[str, int]


def _operands(layout: Layout, weights: Weights, left: Points, right: Points | None) -> _Operands:
    order = _order(layout)
    orders = weights.order_variances[: order + 1]
    orders = torch.nn.functional.pad(orders, (0, order + 1 - len(orders)))
    tensors = [orders, weights.scales, 2.0 / weights.lengthscales, weights.tables]
    for points in (left, left if right is None else right):
        embed = points.embed.detach().clone()
        embed[_looked_up(layout, range(layout.n_features))] = 0.0
        tensors += [scaled_coordinates(layout, weights.detach(), points.x), embed]
    plain = (tensor.detach().to(left.x.dtype).contiguous() for tensor in tensors)
    constants = {
        "R": order,
        "SYMMETRIC": right is None,
        "MANDATORY": any(layout.mandatory),
        "TABLES": Kind.TABLE in layout.kinds,
    }
    return _Operands((_meta(layout, left.x.device), *plain), constants)


def value(layout: Layout, weights: Weights, left: Points, right: Points | None) -> Tensor:
    """Return the kernel matrix ``[n, m]``; ``right=None`` means the same points, half the work."""
    if _order(layout) > MAX_ORDER:
        return _plain_value(layout, weights, left, left if right is None else right)
    n, m = left.n, left.n if right is None else right.n
    out = left.x.new_empty((n, m))
    high, wide = triton.cdiv(n, _VALUE_TILE), triton.cdiv(m, _VALUE_TILE)
    programs = high * wide if right is not None else (high + 1) // 2 * (high + 1)
    if out.numel():
        operands = _operands(layout, weights, left, right)
        with torch.cuda.device_of(out):
            _value_kernel[(programs,)](
                *operands.tensors,
                out,
                n,
                m,
                layout.n_features,
                **operands.constants,
                TILE=_VALUE_TILE,
                num_warps=_VALUE_WARPS,
            )
    return out


def _strips(n: int, m: int) -> tuple[int, int]:
    """Strips of rows and of columns: about `_PROGRAMS` pairs, with the least memory for sums."""
    high, wide = max(1, triton.cdiv(n, _TILE_ROWS)), max(1, triton.cdiv(m, _TILE_COLUMNS))
    columns = min(wide, max(1, round(math.sqrt(_PROGRAMS * wide / high))))
    return min(high, max(1, _PROGRAMS // columns)), columns


def gradient(
    layout: Layout, weights: Weights, left: Points, right: Points | None, cotangent: Tensor
) -> tuple[Tensor, ...]:
    """Return the gradient by order variances, scales, lengthscales, tables and both embeddings.

    The right-hand embedding's gradient is empty when ``right`` is None: it is in the left one.
    O(n m d (R + log d)) time, O(d sqrt(n m)) memory and a buffer of fixed size for the tables.
    """
    if _order(layout) > MAX_ORDER:
        return _plain_gradient(layout, weights, left, right, cotangent)
    n, m, d = left.n, left.n if right is None else right.n, layout.n_features
    operands = _operands(layout, weights, left, right)
    strips, zeros = _strips(n, m), left.x.new_zeros
    slots = strips[0] * strips[1]
    sums = (
        zeros((slots, operands.constants["R"] + 1)),
        zeros((slots, d)),
        zeros((slots, d)),
        zeros((strips[1], d, n)),
        zeros((strips[0], d, m)),
    )
    d_tables = zeros(weights.tables.shape)
    launches = _launches(layout)
    pages = max(len(_looked_up(layout, features)) for features in launches)
    rows = max(1, _TABLE_ENTRIES // max(1, pages * m * _TILE_ROWS)) * _TILE_ROWS
    rows = min(rows, n) if pages else n
    buffer = zeros(pages * rows * m)
    for start in range(0, n, max(1, rows)):
        stop = min(start + rows, n)
        for features in launches:
            if right is None:
                buffer.zero_()  # the upper half is not visited
            with torch.cuda.device_of(left.x):
                _gradient_kernel[strips](
                    *operands.tensors,
                    cotangent,
                    *cotangent.stride(),
                    *sums,
                    buffer,
                    start,
                    stop,
                    n,
                    m,
                    d,
                    features.start,
                    **operands.constants,
                    FEATURES=len(launches[0]),
                    ORDERS=features.start == 0,
                    ROWS=_TILE_ROWS,
                    COLUMNS=_TILE_COLUMNS,
                    num_warps=_GRADIENT_WARPS,
                )
            filled = buffer[: pages * (stop - start) * m].view(pages, stop - start, m)
            x_right = left.x if right is None else right.x
            _add_tables(layout, features, left.x[:, start:stop], x_right, filled, d_tables)
    return _scaled_up(layout, weights, sums, d_tables, symmetric=right is None)


def _add_tables(
    layout: Layout,
    features: range,
    x_left: Tensor,
    x_right: Tensor,
    pages: Tensor,
    d_tables: Tensor,
) -> None:
    """Add each page's sums over the pairs that looked up the same entry: two matrix products."""
    for i, page in zip(_looked_up(layout, features), pages, strict=False):
        size, start = layout.table_sizes[i], layout.table_offsets[i]
        levels = torch.arange(size, device=page.device)
        of_row = (levels[:, None] == x_left[i].long()).to(page.dtype)
        of_column = (x_right[i].long()[:, None] == levels).to(page.dtype)
        d_tables[start : start + size * size] += (of_row @ (page @ of_column)).flatten()


def _scaled_up(
    layout: Layout,
    weights: Weights,
    sums: tuple[Tensor, ...],
    d_tables: Tensor,
    symmetric: bool,
) -> tuple[Tensor, ...]:
    """Sums over the strips times the constants that the kernel left out."""
    by_order, by_scale, by_slope, by_left, by_right = (part.sum(dim=0) for part in sums)
    by_order = by_order[: layout.max_order + 1]
    by_order = torch.nn.functional.pad(by_order, (0, layout.max_order + 1 - len(by_order)))
    scales = weights.scales.detach().to(by_scale.dtype)
    by_length = scales / weights.lengthscales.detach().to(by_scale.dtype) * by_slope
    for i in _looked_up(layout, range(layout.n_features)):
        by_length[i] = 0.0
        size, start = layout.table_sizes[i], layout.table_offsets[i]
        block = d_tables[start : start + size * size].view(size, size)
        # In the symmetric case j <= i was visited only: share out over both halves.
        block.copy_(scales[i] * (0.5 * (block + block.T) if symmetric else block))
        by_left[i] = 0.0
        by_right[i] = 0.0
    if symmetric:
        by_left, by_right = by_left + by_right, by_right[:, :0]
    along = -scales[:, None]
    return by_order, by_scale, by_length, d_tables, along * by_left, along * by_right


def _row_blocks(layout: Layout, n: int, m: int) -> list[slice]:
    """Blocks of rows whose polynomials, one copy a feature, stay below `_BLOCK_ENTRIES`."""
    step = max(1, _BLOCK_ENTRIES // max(1, m * layout.n_features * (layout.max_order + 2)))
    return [slice(start, start + step) for start in range(0, n, step)]


def _plain_value(layout: Layout, weights: Weights, left: Points, right: Points) -> Tensor:
    out = left.x.new_empty((left.n, right.n))
    with torch.no_grad():
        for rows in _row_blocks(layout, left.n, right.n):
            block = Points(left.x[:, rows], left.embed[:, rows])
            out[rows] = reference.additive_kernel(layout, weights, block, right)
    return out


def _plain_gradient(
    layout: Layout, weights: Weights, left: Points, right: Points | None, cotangent: Tensor
) -> tuple[Tensor, ...]:
    parameters = [
        tensor.detach().requires_grad_()
        for tensor in (
            weights.order_variances,
            weights.scales,
            weights.lengthscales,
            weights.tables,
            left.embed if right is None else right.embed,
        )
    ]
    other = Points(left.x if right is None else right.x, parameters[-1])
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    d_left = torch.zeros_like(left.embed)
    for rows in _row_blocks(layout, left.n, other.n):
        embed = left.embed[:, rows].detach().requires_grad_()
        with torch.enable_grad():
            block = reference.additive_kernel(
                layout, Weights(*parameters[:4]), Points(left.x[:, rows], embed), other
            )
        grads = torch.autograd.grad(
            block, (*parameters, embed), cotangent[rows], allow_unused=True
        )
        for total, part in zip((*sums, d_left[:, rows]), grads, strict=True):
            if part is not None:
                total += part
    if right is None:
        d_left, sums[4] = d_left + sums[4], sums[4][:, :0]
    return *(total.to(left.x.dtype) for total in (*sums[:4], d_left, sums[4])),
