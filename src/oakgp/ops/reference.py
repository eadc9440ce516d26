"""The fused operation in plain torch: slow, obvious, differentiable by autograd: the truth."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from oakgp.ops.layout import FAR, Kind, Layout, Points, Weights, scaled_coordinates


def radial(kind: Kind, q: Tensor) -> Tensor:
    """Return the base kernel as a function of the squared scaled distance ``q``."""
    if kind in (Kind.SQUARED_EXPONENTIAL, Kind.PERIODIC):
        return torch.exp(-0.5 * q)
    # The square root has no derivative at 0, where all Matern kernels are flat or kinked at 1.
    r = torch.where(q > 0, q, torch.ones_like(q)).sqrt() * (q > 0)
    if kind == Kind.MATERN12:
        return torch.exp(-r)
    if kind == Kind.MATERN32:
        r = math.sqrt(3.0) * r
        return (1.0 + r) * torch.exp(-r)
    r = math.sqrt(5.0) * r
    return (1.0 + r + r * r / 3.0) * torch.exp(-r)


def squared_distance(kind: Kind, a: Tensor, b: Tensor, lengthscale: Tensor) -> Tensor:
    """Return the squared scaled distance of two broadcast arrays of scaled coordinates."""
    gap = a - b
    if kind != Kind.PERIODIC:
        return gap * gap
    chord = 2.0 * torch.sin(math.pi * gap) / lengthscale
    return torch.where(gap.abs() > FAR / 2, torch.full_like(gap, FAR * FAR), chord * chord)


def constrained_kernels(layout: Layout, weights: Weights, left: Points, right: Points) -> Tensor:
    """Return all one-dimensional constrained kernels, scaled, ``[d, n, m]`` (O(n m d) memory)."""
    a = scaled_coordinates(layout, weights, left.x)
    b = scaled_coordinates(layout, weights, right.x)
    pages = []
    for i, kind in enumerate(layout.kinds):
        if kind == Kind.TABLE:
            size, start = layout.table_sizes[i], layout.table_offsets[i]
            table = weights.tables[start : start + size * size].reshape(size, size)
            page = table[left.x[i].long()][:, right.x[i].long()]
        else:
            q = squared_distance(kind, a[i][:, None], b[i][None, :], weights.lengthscales[i])
            # k~(x, x') = k(x, x') - s(x) s(x') / v   (paper, eq. 7)
            page = radial(kind, q) - left.embed[i][:, None] * right.embed[i][None, :]
        pages.append(weights.scales[i] * page)
    return torch.stack(pages) if pages else left.x.new_zeros((0, left.n, right.n))


def esp(z: Tensor, max_order: int, mandatory: tuple[bool, ...] | None = None) -> list[Tensor]:
    """Return e_0 .. e_R of ``z[0], z[1], ...`` by the stable recursion (DESIGN, trap 1).

    ``[d, ...] -> R + 1 arrays [...]``. A mandatory factor is part of every product.
    """
    e = [torch.ones_like(z[0]) if len(z) else z.new_ones(z.shape[1:])]
    e += [torch.zeros_like(e[0]) for _ in range(max_order)]
    for i, factor in enumerate(z):
        if mandatory is not None and mandatory[i]:
            e = [torch.zeros_like(e[0])] + [factor * lower for lower in e[:-1]]
        else:
            e = e[:1] + [e[r] + factor * e[r - 1] for r in range(1, max_order + 1)]
    return e


def additive_kernel(layout: Layout, weights: Weights, left: Points, right: Points) -> Tensor:
    """Return sum_r sigma2_r e_r(k~_1, ..., k~_d), ``[n, m]``."""
    orders = esp(
        constrained_kernels(layout, weights, left, right), layout.max_order, layout.mandatory
    )
    total = weights.order_variances[0] * orders[0]
    for variance, e in zip(weights.order_variances[1:], orders[1:], strict=True):
        total = total + variance * e
    return total
