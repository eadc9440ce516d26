"""A pass over rows: the basis at blocks of rows that stay in the cache, and what is summed there.

On the CPU each block is made by compiled loops and goes at once into a symmetric rank-k update of
the augmented Gram matrix (Phi, z)^T W (Phi, z). Rows are shared out over a fixed number of sums,
whatever the number of threads, so that the same rows give the same bits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise

import numpy as np
import torch
from numba.extending import get_cython_function_address
from numpy.typing import NDArray
from torch import Tensor

from oakgp.basis import loops
from oakgp.basis.layout import BasisLayout, design, weighted_design
from oakgp.basis.statistics import Statistics
from oakgp.ops.threads import one_blas_thread, run_chunks

Array = NDArray[np.float64]

_ROWS = 512  # of a block
_DEVICE_ENTRIES = 200_000_000  # of a block on a GPU
_PANELS = 8  # of a Gram matrix on a GPU
_SUMS_BYTES = 400_000_000  # of all Gram matrices together


@cache
def _dsyrk() -> Callable[..., None]:
    """Return BLAS's symmetric rank-k update, called without the interpreter's lock."""
    address = get_cython_function_address("scipy.linalg.cython_blas", "dsyrk")
    function: Callable[..., None] = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 10)(address)
    return function


def _rank_update(block: Array, count: int, gram: Array) -> None:
    """Add A A^T to one triangle of a Gram matrix, for the first columns of A ``[F, rows]``."""
    n, k, stride, side = (ctypes.c_int(v) for v in (len(block), count, block.shape[1], len(gram)))
    one = ctypes.c_double(1.0)
    by = ctypes.byref
    _dsyrk()(
        ctypes.c_char_p(b"L"),
        ctypes.c_char_p(b"T"),
        by(n),
        by(k),
        by(one),
        block.ctypes.data,
        by(stride),
        by(one),
        gram.ctypes.data,
        by(side),
    )


@dataclass(frozen=True, eq=False)
class CompiledBasis:
    """A layout as the compiled loops read it."""

    layout: BasisLayout

    @cached_property
    def _bases(self) -> list[tuple[Array, Array, bool, bool]]:
        return [
            (
                b.knots.cpu().numpy(),
                np.ascontiguousarray(b.table.cpu().numpy().T),
                b.is_categorical,
                b.knows_missing,
            )
            for b in self.layout.bases
        ]

    @cached_property
    def tables(self) -> tuple[NDArray[np.generic], ...]:
        """Arrays of all features, one after the other."""
        knots = [b[0] for b in self._bases]
        tables = [b[1] for b in self._bases]
        sizes = np.array([len(k) for k in knots], dtype=np.int64)
        return (
            np.concatenate([*knots, np.zeros(0)]),
            np.r_[0, np.cumsum(sizes)].astype(np.int64),
            np.concatenate([*(t.reshape(-1) for t in tables), np.zeros(0)]),
            np.r_[0, np.cumsum([t.size for t in tables])].astype(np.int64),
            np.array([len(t) for t in tables], dtype=np.int64),
            np.array([b[2] for b in self._bases], dtype=np.int64),
            np.array(
                [q + (0 if b[3] else 1) for q, b in zip(sizes, self._bases, strict=True)],
                dtype=np.int64,
            ),
        )

    @cached_property
    def factors(self) -> NDArray[np.int64]:
        """Numbers of the functions in each column."""
        return np.ascontiguousarray(self.layout.factors.numpy())

    @cached_property
    def n_singles(self) -> int:
        """Rows of the array of single functions."""
        return 1 + sum(basis.size for basis in self.layout.bases)

    def workspace(self, extra: int = 0) -> Workspace:
        """Return room for one thread's blocks, with so many rows beyond the columns."""
        return Workspace(self, extra)


class Workspace:
    """Room for one block of rows: single functions and columns."""

    def __init__(self, compiled: CompiledBasis, extra: int) -> None:
        self._compiled = compiled
        self._row = np.empty(_ROWS, dtype=np.int64)
        self._share = np.empty(_ROWS)
        self._singles = np.empty((compiled.n_singles, _ROWS))
        self.block = np.empty((compiled.layout.size + extra, _ROWS))

    def fill(self, x: Array, begin: int, count: int, root: Array) -> None:
        """Compute the columns at some rows, each times a number."""
        loops.fill_singles(
            x, begin, count, *self._compiled.tables, self._row, self._share, self._singles
        )
        loops.fill_products(self._singles, self._compiled.factors, root, count, self.block)


class GramSum:
    """Running sums of a weighted regression on a basis, over any number of chunks of rows.

    Parameters
    ----------
    layout
        The basis, on the device where the sums shall be made.
    """

    def __init__(self, layout: BasisLayout) -> None:
        self.layout = layout
        size = layout.size + 1
        device = layout.bases[0].table.device if layout.bases else torch.device("cpu")
        self._cuda = device.type == "cuda"
        self._weight, self._rows = 0.0, 0
        if self._cuda:
            self._gram = torch.zeros((size, size), dtype=torch.float64, device=device)
            return
        count = max(2, min(8, _SUMS_BYTES // (8 * size * size)))
        self._sums = [np.zeros((size, size)) for _ in range(count)]
        self._compiled = CompiledBasis(layout)
        self._spaces = [self._compiled.workspace(extra=1) for _ in range(count)]

    def add(self, x: Tensor, z: Tensor, w: Tensor) -> None:
        """Add rows: encoded ``[d, n]``, responses and weights ``[n]`` (weight 0 is no row)."""
        used = w > 0
        self._weight += float(w.sum())
        self._rows += int(used.sum())
        if self._cuda:
            self._add_on_device(x, z, w)
            return
        rows, responses, root = (
            np.ascontiguousarray(t.numpy()) for t in (x, z, w.clamp_min(0.0).sqrt())
        )
        n = x.shape[1]
        bounds = np.linspace(0, n, len(self._sums) + 1).astype(int)

        def task(part: int) -> None:
            space, gram = self._spaces[part], self._sums[part]
            for begin in range(bounds[part], bounds[part + 1], _ROWS):
                count = min(_ROWS, bounds[part + 1] - begin)
                weight = root[begin : begin + count]
                space.fill(rows, begin, count, weight)
                space.block[-1, :count] = weight * responses[begin : begin + count]
                _rank_update(space.block, count, gram)

        with one_blas_thread():
            run_chunks(task, len(self._sums))

    def _add_on_device(self, x: Tensor, z: Tensor, w: Tensor) -> None:
        size = max(1024, _DEVICE_ENTRIES // (self.layout.size + 1))
        root = w.clamp_min(0.0).sqrt()
        edges = torch.linspace(0, self.layout.size + 1, _PANELS + 1).long().tolist()
        for first in range(0, x.shape[1], size):
            part = slice(first, first + size)
            block = weighted_design(self.layout, x[:, part], z[part], root[part])
            # Only one triangle, panel by panel: the other is its mirror image.
            for low, high in pairwise(edges):
                self._gram[low:, low:high].addmm_(block[low:], block[low:high].T)

    def statistics(self) -> Statistics:
        """Return the sums so far."""
        if self._cuda:
            gram = torch.tril(self._gram) + torch.tril(self._gram, -1).T
        else:
            whole = self._sums[0].copy()
            for part in self._sums[1:]:
                whole += part
            # BLAS's lower triangle is the upper one of a row-major array.
            gram = torch.from_numpy(np.triu(whole) + np.triu(whole, 1).T)

        def number(value: float) -> Tensor:
            return torch.tensor(value, dtype=torch.float64, device=gram.device)

        return Statistics(
            gram[:-1, :-1].contiguous(),
            gram[:-1, -1].contiguous(),
            gram[-1, -1].clone(),
            number(self._weight),
            self._rows,
        )


def gather(layout: BasisLayout, x: Tensor, z: Tensor, w: Tensor) -> Statistics:
    """Return the statistics of rows that are in memory."""
    gram = GramSum(layout)
    gram.add(x, z, w)
    return gram.statistics()


def moments(
    layout: BasisLayout, x: Tensor, mean: Tensor, root: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Return M Phi and, for R ``[k, F]``, the squared lengths |R phi|^2 at rows ``[d, n]``.

    Parameters
    ----------
    layout, x
        Basis and encoded rows.
    mean
        M ``[L, F]``.
    root
        R; None where the lengths are not wanted.

    Returns
    -------
    tensors
        ``[L, n]`` and ``[n]`` (or None).
    """
    n, count = x.shape[1], len(mean)
    if x.is_cuda:
        size = max(1024, _DEVICE_ENTRIES // (layout.size + 1))
        firsts = [x.new_zeros((count, 0))]
        seconds = [x.new_zeros(0)]
        for rows in torch.arange(n, device=x.device).split(size):
            phi = design(layout, x[:, rows])
            firsts.append(mean @ phi)
            if root is not None:
                seconds.append(((root @ phi) ** 2).sum(dim=0))
        return torch.cat(firsts, dim=1), None if root is None else torch.cat(seconds)
    compiled = CompiledBasis(layout)
    rows_in = np.ascontiguousarray(x.numpy())
    weights = mean.numpy()
    out = np.empty((count, n))
    lengths = None if root is None else np.empty(n)
    factor = None if root is None else root.numpy()
    ones = np.ones(_ROWS)
    blocks = -(-n // _ROWS)
    parts = max(1, min(16, blocks))

    def task(part: int) -> None:
        space = compiled.workspace()
        for block in range(part * blocks // parts, (part + 1) * blocks // parts):
            begin = block * _ROWS
            size = min(_ROWS, n - begin)
            space.fill(rows_in, begin, size, ones)
            columns = space.block[:, :size]
            out[:, begin : begin + size] = weights @ columns
            if factor is not None and lengths is not None:
                white = factor @ columns
                lengths[begin : begin + size] = np.einsum("kn,kn->n", white, white)

    with one_blas_thread():
        run_chunks(task, parts)
    return torch.from_numpy(out), None if lengths is None else torch.from_numpy(lengths)
