"""The fused operation on CUDA: operands, launches and sums around the Triton kernels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
import triton
from torch import Tensor

from oakgp.ops import reference
from oakgp.ops.layout import Kind, Layout, Points, Weights, scaled_coordinates
from oakgp.ops.triton_kernels import gradient_kernel, value_kernel

MAX_ORDER = 16  # orders that fit in the registers; above it: `reference`, block by block
_FEATURES = 9  # features whose derivatives one launch of the gradient takes
_VALUE_TILE = 16  # square: the triangle of the symmetric case is folded into a rectangle
_VALUE_WARPS = 2
_TILE_ROWS, _TILE_COLUMNS, _GRADIENT_WARPS = 1, 32, 1  # one warp: no barrier between features
_PROGRAMS = 8448  # strips of rows x strips of columns: 64 for each of an H200's 132 processors
_GROUP = 8  # rows that a strip takes together: they share lines of the transposed cotangent
_SPAN = 128  # columns of a strip's block: what all its rows read again stays in the first cache
_OTHERS = 4  # features of other launches that are evaluated side by side
_TABLE_ENTRIES = 1 << 25  # entries of the buffer of derivatives by looked-up entries
_BLOCK_ENTRIES = 1 << 26  # entries that the plain torch path keeps for its reverse mode


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
    parameters = torch.stack([weights.scales, 2.0 / weights.lengthscales], dim=1)
    tensors = [orders, parameters, weights.tables]
    for points in (left, left if right is None else right):
        embed = points.embed.detach().clone()
        embed[_looked_up(layout, range(layout.n_features))] = 0.0
        x = scaled_coordinates(layout, weights.detach(), points.x)
        tensors.append(torch.stack([x, embed], dim=1))
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
            value_kernel[(programs,)](
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
    """Give the strips of rows and of columns: about `_PROGRAMS` pairs, the least memory."""
    high, wide = max(1, triton.cdiv(n, _GROUP)), max(1, triton.cdiv(m, _SPAN))
    columns = min(wide, max(1, round(math.sqrt(_PROGRAMS * m / max(1, n)))))
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
    rows = max(1, _TABLE_ENTRIES // max(1, pages * m * _GROUP)) * _GROUP
    rows = min(rows, n) if pages else n
    buffer = zeros(pages * rows * m)
    for start in range(0, n, max(1, rows)):
        stop = min(start + rows, n)
        for features in launches:
            if right is None:
                buffer.zero_()  # the upper half is not visited
            with torch.cuda.device_of(left.x):
                gradient_kernel[strips](
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
                    KINDS=tuple(int(layout.kinds[i]) for i in features),
                    FORCED=tuple(int(layout.mandatory[i]) for i in features),
                    ORDERS=features.start == 0,
                    OTHERS=_OTHERS,
                    GROUP=_GROUP,
                    SPAN=_SPAN,
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
    """Sum over the strips and put in the constants that the kernel left out."""
    by_order, by_scale, by_slope, by_left, by_right = (part.sum(dim=0) for part in sums)
    by_order = by_order[: layout.max_order + 1]
    by_order = torch.nn.functional.pad(by_order, (0, layout.max_order + 1 - len(by_order)))
    scales = weights.scales.detach().to(by_scale.dtype)
    by_length = scales / weights.lengthscales.detach().to(by_scale.dtype) * by_slope
    for i in _looked_up(layout, range(layout.n_features)):
        by_length[i] = 0.0
        start, stop = layout.table_offsets[i], layout.table_offsets[i] + layout.table_sizes[i] ** 2
        d_tables[start:stop] *= scales[i]
        by_left[i] = 0.0
        by_right[i] = 0.0
    if symmetric:  # j <= i was visited only
        _share_out(layout, d_tables)
        by_left, by_right = by_left + by_right, by_right[:, :0]
    along = -scales[:, None]
    return by_order, by_scale, by_length, d_tables, along * by_left, along * by_right


def _share_out(layout: Layout, d_tables: Tensor) -> None:
    """Share the gradient by a symmetric table out over both halves, as the CPU backend does."""
    for start, size in zip(layout.table_offsets, layout.table_sizes, strict=True):
        block = d_tables[start : start + size * size].view(size, size)
        block.copy_(0.5 * (block + block.T))


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
        grads = torch.autograd.grad(block, (*parameters, embed), cotangent[rows], allow_unused=True)
        for total, part in zip((*sums, d_left[:, rows]), grads, strict=True):
            if part is not None:
                total += part
    if right is None:
        _share_out(layout, sums[3])
        d_left, sums[4] = d_left + sums[4], sums[4][:, :0]
    return (*(total.to(left.x.dtype) for total in (*sums[:4], d_left, sums[4])),)
