"""The CUDA backend against the plain torch reference.

Runs where there is a GPU. Where there is none but Triton is installed (3.6 wants numpy < 2.4):
``TRITON_INTERPRET=1 pytest --noconftest -o filterwarnings=default tests/ops/test_cuda.py``.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from oakgp.ops import reference
from oakgp.ops.layout import Kind, Layout, Points, Weights

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(
        not (torch.cuda.is_available() or INTERPRETED), reason="needs a GPU or TRITON_INTERPRET=1"
    ),
]

ALL_KINDS = (
    Kind.SQUARED_EXPONENTIAL,
    Kind.MATERN12,
    Kind.TABLE,
    Kind.MATERN32,
    Kind.PERIODIC,
    Kind.MATERN52,
    Kind.TABLE,
)
TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-4}
NAMES = ("orders", "scales", "lengthscales", "tables", "left", "right")


def make_layout(kinds: tuple[Kind, ...], order: int, mandatory: tuple[int, ...] = ()) -> Layout:
    sizes = tuple(3 + i if kind == Kind.TABLE else 0 for i, kind in enumerate(kinds))
    return Layout(kinds, sizes, tuple(i in mandatory for i in range(len(kinds))), order)


def make_weights(layout: Layout, generator: torch.Generator, dtype: torch.dtype) -> Weights:
    def uniform(size: int) -> Tensor:
        return 0.3 + torch.rand(size, generator=generator, dtype=torch.float64)

    tables = [uniform(size * size) - 0.8 for size in layout.table_sizes if size]
    blocks = [t.view(int(len(t) ** 0.5), -1) for t in tables]
    flat = [(block + block.T).flatten() for block in blocks]
    d = layout.n_features
    return Weights(
        *(
            t.to(DEVICE, dtype)
            for t in (
                uniform(layout.max_order + 1),
                uniform(d),
                uniform(d),
                torch.cat(flat) if flat else torch.zeros(0, dtype=torch.float64),
            )
        )
    )


def make_points(layout: Layout, n: int, generator: torch.Generator, dtype: torch.dtype) -> Points:
    x = torch.randn(layout.n_features, n, generator=generator, dtype=torch.float64)
    x[:, ::7] = torch.nan  # missing
    for i, size in enumerate(layout.table_sizes):
        if size:
            x[i] = torch.randint(size, (n,), generator=generator).double()
    embed = torch.rand(layout.n_features, n, generator=generator, dtype=torch.float64)
    return Points(x.to(DEVICE, dtype), embed.to(DEVICE, dtype))


def problem(
    layout: Layout, n: int, m: int | None, seed: int, dtype: torch.dtype = torch.float64
) -> tuple[Weights, Points, Points | None, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    weights = make_weights(layout, generator, dtype)
    left = make_points(layout, n, generator, dtype)
    right = None if m is None else make_points(layout, m, generator, dtype)
    size = (n, n if m is None else m)
    cotangent = torch.randn(size, generator=generator, dtype=torch.float64).to(DEVICE, dtype)
    return weights, left, right, cotangent


def expected(
    layout: Layout, weights: Weights, left: Points, right: Points | None, cotangent: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Value and gradient in float64 by autograd through the reference."""

    def leaf(tensor: Tensor) -> Tensor:
        return tensor.double().clone().requires_grad_()

    copy = Weights(
        leaf(weights.order_variances),
        leaf(weights.scales),
        leaf(weights.lengthscales),
        leaf(weights.tables),
    )
    u = Points(left.x.double(), leaf(left.embed))
    v = u if right is None else Points(right.x.double(), leaf(right.embed))
    matrix = reference.additive_kernel(layout, copy, u, v)
    leaves = [copy.order_variances, copy.scales, copy.lengthscales, copy.tables, u.embed]
    leaves += [] if right is None else [v.embed]
    grads = torch.autograd.grad(
        matrix, leaves, cotangent.double(), allow_unused=True, materialize_grads=True
    )
    if right is None:  # tables are symmetric: their gradient is shared out over both halves
        for start, size in zip(layout.table_offsets, layout.table_sizes, strict=True):
            block = grads[3][start : start + size * size].view(size, size)
            block.copy_(0.5 * (block + block.T))
        grads = (*grads, u.embed.new_zeros((layout.n_features, 0)))
    return matrix.detach(), grads


def assert_close(got: Tensor, want: Tensor, dtype: torch.dtype, name: str) -> None:
    assert got.dtype == dtype
    assert got.shape == want.shape, name
    if want.numel():
        error = (got.double() - want).abs().max() / want.abs().max().clamp_min(1e-300)
        assert error < TOLERANCE[dtype], (name, float(error))


def check(
    layout: Layout, n: int, m: int | None, seed: int, dtype: torch.dtype = torch.float64
) -> None:
    from oakgp.ops import cuda

    weights, left, right, cotangent = problem(layout, n, m, seed, dtype)
    matrix, grads = expected(layout, weights, left, right, cotangent)
    assert_close(cuda.value(layout, weights, left, right), matrix, dtype, "value")
    got = cuda.gradient(layout, weights, left, right, cotangent)
    for name, mine, theirs in zip(NAMES, got, grads, strict=True):
        assert_close(mine, theirs, dtype, name)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("m", [None, 19])
@pytest.mark.parametrize("kind", list(Kind))
def test_each_kind(kind: Kind, m: int | None, dtype: torch.dtype) -> None:
    check(make_layout((kind,) * 3, 3), 37, m, 1, dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("mandatory", [(), (0,), (2, 4)])
@pytest.mark.parametrize(("n", "m"), [(35, None), (33, 18), (1, 40), (40, 1), (1, None)])
def test_mixed_kinds(n: int, m: int | None, mandatory: tuple[int, ...], dtype: torch.dtype) -> None:
    check(make_layout(ALL_KINDS, 4, mandatory), n, m, 2, dtype)


@pytest.mark.parametrize("order", [0, 1, 2, 7, 30])
def test_orders_beside_the_number_of_features(order: int) -> None:
    check(make_layout(ALL_KINDS, order), 20, 17, 3)


@pytest.mark.parametrize("d", [1, 2, 9, 17])
@pytest.mark.parametrize("m", [None, 21])
def test_more_features_than_one_launch_takes(d: int, m: int | None) -> None:
    kinds = tuple(ALL_KINDS[i % len(ALL_KINDS)] for i in range(d))
    check(make_layout(kinds, 3), 18, m, 4)
    check(make_layout(kinds, 3, mandatory=(d - 1,)), 18, m, 5)


@pytest.mark.parametrize("m", [None, 9])
def test_order_above_the_fused_bound(m: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    from oakgp.ops import cuda

    monkeypatch.setattr(cuda, "_BLOCK_ENTRIES", 4000)  # several blocks of rows
    kinds = (Kind.SQUARED_EXPONENTIAL, Kind.TABLE) * (cuda.MAX_ORDER // 2 + 1)
    check(make_layout(kinds, cuda.MAX_ORDER + 1), 15, m, 6)


@pytest.mark.parametrize("m", [None, 40])
def test_tables_in_blocks_of_rows(m: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    from oakgp.ops import cuda

    monkeypatch.setattr(cuda, "_TABLE_ENTRIES", 1)
    check(make_layout(ALL_KINDS, 3), 50, m, 7)


def test_large_scales_lose_no_digits() -> None:
    from oakgp.ops import cuda

    layout = make_layout((Kind.SQUARED_EXPONENTIAL,) * 8, 8)
    weights, left, right, cotangent = problem(layout, 20, 20, 8)
    weights = replace(weights, scales=torch.logspace(-4, 4, 8, device=DEVICE).double())
    matrix, grads = expected(layout, weights, left, right, cotangent)
    assert_close(cuda.value(layout, weights, left, right), matrix, torch.float64, "value")
    for i in range(layout.n_features):
        got = cuda.gradient(layout, weights, left, right, cotangent)[1][i]
        assert abs(got - grads[1][i]) < 1e-10 * abs(grads[1][i])


@pytest.mark.parametrize("m", [None, 70])
def test_two_runs_are_equal_to_the_bit(m: int | None) -> None:
    from oakgp.ops import cuda

    layout = make_layout(ALL_KINDS, 3)
    weights, left, right, cotangent = problem(layout, 90, m, 9)
    first = cuda.gradient(layout, weights, left, right, cotangent)
    again = cuda.gradient(layout, weights, left, right, cotangent)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    value = cuda.value(layout, weights, left, right)
    assert torch.equal(value, cuda.value(layout, weights, left, right))
    if m is None:
        assert torch.equal(value, value.T)


def test_strided_and_expanded_cotangents() -> None:
    from oakgp.ops import cuda

    layout = make_layout(ALL_KINDS, 3)
    weights, left, right, cotangent = problem(layout, 21, 34, 10)
    strided = cotangent.T.contiguous().T
    for a, b in zip(
        cuda.gradient(layout, weights, left, right, cotangent),
        cuda.gradient(layout, weights, left, right, strided),
        strict=True,
    ):
        assert torch.equal(a, b)
    ones = torch.ones((), dtype=torch.float64, device=DEVICE).expand(21, 34)
    for a, b in zip(
        cuda.gradient(layout, weights, left, right, ones),
        cuda.gradient(layout, weights, left, right, ones.contiguous()),
        strict=True,
    ):
        assert torch.equal(a, b)


def test_no_rows() -> None:
    from oakgp.ops import cuda

    layout = make_layout(ALL_KINDS, 2)
    weights, left, right, _ = problem(layout, 0, 5, 11)
    assert cuda.value(layout, weights, left, right).shape == (0, 5)
    grads = cuda.gradient(layout, weights, left, right, left.x.new_zeros((0, 5)))
    assert [g.abs().sum().item() for g in grads] == [0.0] * 6


@pytest.mark.skipif(DEVICE == "cpu", reason="the dispatch takes the CPU backend")
def test_autograd_function_dispatches_here() -> None:
    from oakgp import ops

    layout = make_layout(ALL_KINDS, 3, mandatory=(1,))
    weights, left, _, cotangent = problem(layout, 40, None, 12)
    scales = weights.scales.clone().requires_grad_()
    matrix = ops.additive_kernel(layout, replace(weights, scales=scales), left)
    _, grads = expected(layout, weights, left, None, cotangent)
    (got,) = torch.autograd.grad(matrix, scales, cotangent)
    assert_close(got, grads[1], torch.float64, "scales")
