"""Sums over the terms that contain a feature: z_i times the derivative of sum_r w_r e_r by z_i.

The polynomials before a feature are kept, and run through backwards with the adjoints of those
after it: products and sums only, so that no digits are lost (dividing a factor out again would
lose them). O(d R) for all features together.
"""

from __future__ import annotations

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor

from oakgp.ops.threads import run_chunks

Array = NDArray[np.float64]

_STRIP = 64  # entries whose polynomials are held at a time
_CHUNKS = 16
_SMALL = 4096  # entries below which threads cost more than they save
_FAST = {"contract", "nsz", "reassoc", "arcp"}


def leave_one_out(z: Tensor, weights: Tensor, mandatory: tuple[bool, ...]) -> Tensor:
    """Return ``sum_r w_r z_i e_(r-1)(all z but z_i)`` for every i.

    Parameters
    ----------
    z
        ``[d, ...]`` the factors, float64.
    weights
        ``[R + 1]`` weight of each order; the first counts nothing.
    mandatory
        Which factors every product contains.

    Returns
    -------
    Tensor
        ``[d, ...]``.
    """
    if z.is_cuda:
        return in_torch(z, weights, mandatory)
    flat = np.ascontiguousarray(z.detach().numpy()).reshape(len(z), -1)
    out = np.empty_like(flat)
    flags = np.array(mandatory, dtype=np.int64)
    w = np.ascontiguousarray(weights.detach().numpy(), dtype=np.float64)
    count = 1 if flat.size < _SMALL else _CHUNKS
    run_chunks(lambda chunk: _strips(chunk, count, flags, w, flat, out), count)
    return torch.from_numpy(out).reshape(z.shape)


def in_torch(z: Tensor, weights: Tensor, mandatory: tuple[bool, ...]) -> Tensor:
    """Return the same with plain tensor operations, on any device."""
    top = len(weights) - 1
    before = []
    e = [torch.ones_like(z[0]), *(torch.zeros_like(z[0]) for _ in range(top))]
    for factor, always in zip(z, mandatory, strict=True):
        before.append(e)
        shifted = [torch.zeros_like(e[0]), *(factor * lower for lower in e[:-1])]
        e = shifted if always else [same + more for same, more in zip(e, shifted, strict=True)]
    adjoint = [w.expand(z[0].shape) for w in weights]
    out = torch.empty_like(z)
    for i in range(len(z) - 1, -1, -1):
        out[i] = z[i] * sum(
            (adjoint[r] * before[i][r - 1] for r in range(1, top + 1)), torch.zeros_like(z[i])
        )
        shifted = [*(z[i] * upper for upper in adjoint[1:]), torch.zeros_like(z[i])]
        if mandatory[i]:
            adjoint = shifted
        else:
            adjoint = [same + more for same, more in zip(adjoint, shifted, strict=True)]
    return out


@njit(nogil=True, cache=True, fastmath=_FAST)
def _strips(
    chunk: int, n_chunks: int, mandatory: NDArray[np.int64], weights: Array, z: Array, out: Array
) -> None:
    """Fill the strips of one chunk."""
    d, total = z.shape
    top = weights.shape[0] - 1
    before = np.zeros((d + 1, top + 1, _STRIP))
    adjoint = np.zeros((top + 1, _STRIP))
    factors = np.zeros((d, _STRIP))
    sums = np.zeros(_STRIP)
    before[0, 0, :] = 1.0
    for start in range(chunk * _STRIP, total, n_chunks * _STRIP):
        width = min(_STRIP, total - start)
        for i in range(d):
            factor = factors[i]
            factor[:width] = z[i, start : start + width]
            reach = min(i + 1, top)
            if mandatory[i]:
                before[i + 1, 0, :] = 0.0
            else:
                before[i + 1, 0, :] = before[i, 0, :]
            for r in range(1, reach + 1):
                lower = before[i, r - 1]
                same = before[i, r]
                upper = before[i + 1, r]
                if mandatory[i]:
                    for k in range(_STRIP):
                        upper[k] = factor[k] * lower[k]
                else:
                    for k in range(_STRIP):
                        upper[k] = same[k] + factor[k] * lower[k]
        for r in range(top + 1):
            adjoint[r, :] = weights[r]
        for i in range(d - 1, -1, -1):
            factor = factors[i]
            sums[:] = 0.0
            for r in range(1, top + 1):
                lower = before[i, r - 1]
                bar = adjoint[r]
                below = adjoint[r - 1]
                for k in range(_STRIP):
                    sums[k] += bar[k] * lower[k]
                if mandatory[i]:
                    for k in range(_STRIP):
                        below[k] = factor[k] * bar[k]
                else:
                    for k in range(_STRIP):
                        below[k] += factor[k] * bar[k]
            if mandatory[i]:
                adjoint[top, :] = 0.0
            for k in range(width):
                out[i, start + k] = factor[k] * sums[k]
