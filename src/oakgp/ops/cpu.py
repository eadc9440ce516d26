"""The fused operation on the CPU: compiled loops behind ``torch.autograd.Function``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp.ops import loops
from oakgp.ops.layout import FAR, Kind, Layout, Points, Weights, scaled_coordinates
from oakgp.ops.threads import run_chunks

N_CHUNKS = 16  # fixed, so that sums over chunks do not depend on the number of threads
_SMALL = 4096  # entries below which threads cost more than they save


@dataclass(frozen=True)
class _Side:
    x: NDArray[np.float64]
    embed: NDArray[np.float64]
    codes: NDArray[np.int64]


def _double(tensor: Tensor) -> NDArray[np.float64]:
    return np.ascontiguousarray(tensor.detach().to(torch.float64).numpy())


def _side(layout: Layout, weights: Weights, points: Points) -> _Side:
    x = _double(scaled_coordinates(layout, weights.detach(), points.x))
    codes = np.zeros(x.shape if any(layout.table_sizes) else (x.shape[0], 1), dtype=np.int64)
    for i, size in enumerate(layout.table_sizes):
        if size:
            codes[i] = x[i]
    return _Side(x, _double(points.embed), codes)


def _static(layout: Layout, weights: Weights) -> tuple[Any, ...]:
    return (
        np.asarray(layout.kinds, dtype=np.int64),
        np.asarray(layout.mandatory, dtype=np.int64),
        np.asarray(layout.table_sizes, dtype=np.int64),
        np.asarray(layout.table_offsets, dtype=np.int64),
        _double(weights.order_variances),
        _double(weights.scales),
        _double(weights.lengthscales),
        _double(weights.tables),
    )


def value(layout: Layout, weights: Weights, left: Points, right: Points | None) -> Tensor:
    """Return the kernel matrix ``[n, m]``; ``right=None`` means the same points, half the work."""
    symmetric = right is None
    static = _static(layout, weights)
    u = _side(layout, weights, left)
    v = u if right is None else _side(layout, weights, right)
    # torch's memory is aligned, numpy's is not, and LAPACK rounds by the alignment: the same
    # fit would not give the same bits twice.
    matrix = torch.empty((left.n, left.n if right is None else right.n), dtype=torch.float64)
    out = matrix.numpy()
    chunks = N_CHUNKS if out.size > _SMALL else 1

    def fill(chunk: int) -> None:
        loops.value_rows(
            chunk, chunks, symmetric, *static, u.x, u.embed, u.codes, v.x, v.embed, v.codes, out
        )

    run_chunks(fill, chunks)
    return matrix.to(left.x.dtype)


def gradient(
    layout: Layout, weights: Weights, left: Points, right: Points | None, cotangent: Tensor
) -> tuple[Tensor, ...]:
    """Return the gradient by order variances, scales, lengthscales, tables and both embeddings.

    The right-hand embedding's gradient is empty when ``right`` is None: it is in the left one.
    """
    symmetric = right is None
    static = _static(layout, weights)
    u = _side(layout, weights, left)
    v = u if right is None else _side(layout, weights, right)
    if symmetric:
        cotangent = cotangent + cotangent.T
        cotangent.diagonal().mul_(0.5)
    g = _double(cotangent)
    chunks = N_CHUNKS if g.size > _SMALL else 1
    shapes = [
        (chunks, layout.max_order + 1),
        (chunks, layout.n_features),
        (chunks, layout.n_features),
        (chunks, weights.tables.shape[0]),
        (chunks, *u.embed.shape),
    ]
    sums = [np.zeros(shape) for shape in shapes]
    other = sums[4] if symmetric else np.zeros((chunks, *v.embed.shape))

    def add(chunk: int) -> None:
        loops.gradient_rows(
            chunk,
            chunks,
            symmetric,
            *static,
            u.x,
            u.embed,
            u.codes,
            v.x,
            v.embed,
            v.codes,
            g,
            *(part[chunk] for part in sums),
            other[chunk],
        )

    run_chunks(add, chunks)
    parts = [part.sum(axis=0) for part in sums]
    if symmetric:  # j <= i was visited only: share the table's gradient out over both halves
        for start, size in zip(layout.table_offsets, layout.table_sizes, strict=True):
            block = parts[3][start : start + size * size].reshape(size, size)
            block[:] = 0.5 * (block + block.T)
    parts.append(np.zeros((layout.n_features, 0)) if symmetric else other.sum(axis=0))
    return tuple(torch.tensor(part, dtype=left.x.dtype) for part in parts)


def node_sums(
    kinds: Sequence[Kind],
    x: Sequence[Tensor],
    nodes: Sequence[Tensor],
    weights: Sequence[Tensor],
    lengthscales: Tensor,
) -> list[tuple[Tensor, Tensor]]:
    """Return, a feature each, s(x) = sum_q w_q k(x, node_q) and its slope by the lengthscale."""
    lengths = _double(lengthscales)
    divisors = np.where(np.asarray(kinds) == Kind.PERIODIC, 1.0, lengths)
    a, a_starts = _ragged(x, divisors)
    b, b_starts = _ragged(nodes, divisors)
    w = np.concatenate([_double(part) for part in weights])
    s, ds = np.empty(len(a)), np.empty(len(a))
    codes = np.asarray(kinds, dtype=np.int64)
    work = int(np.diff(a_starts) @ np.diff(b_starts))
    chunks = N_CHUNKS if work > _SMALL else 1

    def fill(chunk: int) -> None:
        loops.embedding_rows(chunk, chunks, codes, lengths, a, a_starts, b, w, b_starts, s, ds)

    run_chunks(fill, chunks)
    values, slopes = torch.tensor(s, dtype=x[0].dtype), torch.tensor(ds, dtype=x[0].dtype)
    sizes = [len(part) for part in x]
    return list(zip(values.split(sizes), slopes.split(sizes), strict=True))


def _ragged(
    parts: Sequence[Tensor], divisors: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return scaled coordinates of several features one after another, and where each starts."""
    scaled = [_double(part) / divisor for part, divisor in zip(parts, divisors, strict=True)]
    flat = np.nan_to_num(np.concatenate(scaled), nan=FAR, posinf=FAR, neginf=-FAR)
    starts = np.cumsum([0, *map(len, scaled)])
    return flat, starts.astype(np.int64)
