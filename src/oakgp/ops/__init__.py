"""The fused additive kernel: value and gradient, on CPU and CUDA, behind one function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from oakgp.ops import reference
from oakgp.ops.layout import FAR, Kind, Layout, Points, Weights

__all__ = [
    "FAR",
    "Kind",
    "Layout",
    "Points",
    "Weights",
    "additive_kernel",
    "embeddings",
    "mean_embedding",
]


def _backend(tensor: Tensor) -> Any:
    if tensor.device.type == "cuda":
        from oakgp.ops import cuda

        return cuda
    from oakgp.ops import cpu  # only now: machines with a GPU may lack its compiler

    return cpu


class _AdditiveKernel(torch.autograd.Function):
    """Value by the compiled kernel, gradient by its hand-written reverse mode."""

    @staticmethod
    def forward(
        ctx: Any,
        layout: Layout,
        orders: Tensor,
        scales: Tensor,
        lengthscales: Tensor,
        tables: Tensor,
        x_left: Tensor,
        t_left: Tensor,
        x_right: Tensor | None,
        t_right: Tensor | None,
    ) -> Tensor:
        weights = Weights(orders, scales, lengthscales, tables)
        left = Points(x_left, t_left)
        right = None if x_right is None or t_right is None else Points(x_right, t_right)
        ctx.call = (layout, weights.detach(), left.detach(), right and right.detach())
        matrix: Tensor = _backend(x_left).value(*ctx.call)
        return matrix

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        layout, weights, left, right = ctx.call
        grads = _backend(left.x).gradient(layout, weights, left, right, cotangents[0])
        orders, scales, lengthscales, tables, t_left, t_right = grads
        return (
            None,
            orders,
            scales,
            lengthscales,
            tables,
            None,
            t_left,
            None,
            None if right is None else t_right,
        )


def additive_kernel(
    layout: Layout, weights: Weights, left: Points, right: Points | None = None
) -> Tensor:
    """Return ``K[i, j] = sum_r sigma2_r e_r(k~_1, ..., k~_d)`` between two sets of rows.

    Parameters
    ----------
    layout, weights
        Features and parameters.
    left, right
        Rows ``[d, n]`` and ``[d, m]``; ``right=None`` means ``left`` and costs half.

    Returns
    -------
    Tensor
        ``[n, m]``, differentiable in ``weights`` and both embeddings (not in the coordinates).
        O(n m d R) time, O(n m) memory.
    """
    if layout.n_features == 0:
        m = left.n if right is None else right.n
        return weights.order_variances[0].expand(left.n, m).clone()
    matrix: Tensor = _AdditiveKernel.apply(
        layout,
        weights.order_variances,
        weights.scales,
        weights.lengthscales,
        weights.tables,
        left.x,
        left.embed,
        None if right is None else right.x,
        None if right is None else right.embed,
    )
    return matrix


def _node_sums(
    kinds: Sequence[Kind],
    x: Sequence[Tensor],
    nodes: Sequence[Tensor],
    weights: Sequence[Tensor],
    lengthscales: Tensor,
) -> list[tuple[Tensor, Tensor]]:
    """Return value and slope (by the lengthscale) of s(x) = sum_q w_q k(x, node_q), by feature."""
    if lengthscales.device.type == "cpu":
        sums: list[tuple[Tensor, Tensor]] = _backend(lengthscales).node_sums(
            kinds, x, nodes, weights, lengthscales
        )
        return sums
    each = zip(kinds, x, nodes, weights, lengthscales, strict=True)
    return [_node_sum_torch(*arguments) for arguments in each]


def _node_sum_torch(
    kind: Kind, x: Tensor, nodes: Tensor, weights: Tensor, lengthscale: Tensor
) -> tuple[Tensor, Tensor]:
    """Value and slope in plain torch, for devices without compiled loops."""
    with torch.enable_grad():
        scale = lengthscale.detach().requires_grad_()
        divisor = torch.ones_like(scale) if kind == Kind.PERIODIC else scale
        a, b = x / divisor, nodes / divisor
        a = torch.where(torch.isnan(a), torch.full_like(a, FAR), a)
        b = torch.where(torch.isnan(b), torch.full_like(b, FAR), b)
        spread = scale.expand(len(a), 1)  # one copy a row, so that one pass gives all slopes
        if kind == Kind.PERIODIC:
            q = reference.squared_distance(kind, a[:, None], b[None, :], spread)
        else:
            q = (a.detach()[:, None] - b.detach()[None, :]) ** 2 * (scale.detach() / spread) ** 2
        s = reference.radial(kind, q) @ weights
        (slope,) = torch.autograd.grad(s.sum(), spread)
    return s.detach(), slope[:, 0]


class _MeanEmbedding(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kind: Kind, x: Tensor, nodes: Tensor, weights: Tensor, lengthscale: Tensor
    ) -> Tensor:
        ((s, slope),) = _node_sums([kind], [x], [nodes], [weights], lengthscale.reshape(1))
        ctx.save_for_backward(slope)
        return s

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = ctx.saved_tensors
        return None, None, None, None, (cotangents[0] * slope).sum()


def mean_embedding(
    kind: Kind, x: Tensor, nodes: Tensor, weights: Tensor, lengthscale: Tensor
) -> Tensor:
    """Return s(x) = sum_q w_q k(x, node_q), ``[n]``, differentiable in the lengthscale.

    O(n q) time and O(n) memory on the CPU. Missing values (NaN) coincide with a missing node only.
    """
    s: Tensor = _MeanEmbedding.apply(kind, x, nodes, weights, lengthscale)
    return s


class _Embeddings(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        kinds: Sequence[Kind],
        x: Tensor,
        nodes: Sequence[Tensor],
        weights: Sequence[Tensor],
        lengthscales: Tensor,
    ) -> Tensor:
        n = x.shape[1]
        both = [torch.cat([row, at]) for row, at in zip(x, nodes, strict=True)]
        sums = _node_sums(kinds, both, nodes, weights, lengthscales)
        s, ds = (torch.stack([pair[k][:n] for pair in sums]) for k in (0, 1))
        # v = E[s(X)]: the nodes are among the points.
        v, dv = (
            torch.stack([w @ pair[k][n:] for w, pair in zip(weights, sums, strict=True)])
            for k in (0, 1)
        )
        root = v.sqrt()[:, None]
        ctx.save_for_backward(ds / root - s * (0.5 * dv / v)[:, None] / root)
        return s / root

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        (slope,) = ctx.saved_tensors
        return None, None, None, None, (cotangents[0] * slope).sum(dim=1)


def embeddings(
    kinds: Sequence[Kind],
    x: Tensor,
    nodes: Sequence[Tensor],
    weights: Sequence[Tensor],
    lengthscales: Tensor,
) -> Tensor:
    """Return t(x) = s(x) / sqrt(v) of several features with node sums, in one pass.

    ``x [k, n]``, k arrays of nodes and weights, ``lengthscales [k]`` -> ``[k, n]``,
    differentiable in the lengthscales.
    """
    t: Tensor = _Embeddings.apply(kinds, x, nodes, weights, lengthscales)
    return t
