"""The fused operation against its plain reference, brute force, finite differences and itself."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.references import brute_force_esp, newton_girard
from torch import Tensor

from oakgp import ops
from oakgp.ops import cpu, reference
from oakgp.ops.layout import FAR, Kind, Layout, Points, Weights

#: Around the width of a strip of columns (64) and of a block of rows (8).
SIZES = (1, 7, 8, 63, 64, 65, 130)
ALL_KINDS = (
    Kind.SQUARED_EXPONENTIAL,
    Kind.MATERN12,
    Kind.TABLE,
    Kind.MATERN32,
    Kind.PERIODIC,
    Kind.MATERN52,
    Kind.TABLE,
)
NAMES = ("order variances", "scales", "lengthscales", "tables", "left", "right")


def make_layout(
    kinds: tuple[Kind, ...] = ALL_KINDS, order: int = 3, mandatory: tuple[int, ...] = ()
) -> Layout:
    sizes = tuple(2 + i if kind == Kind.TABLE else 0 for i, kind in enumerate(kinds))
    return Layout(kinds, sizes, tuple(i in mandatory for i in range(len(kinds))), order)


def make_weights(layout: Layout, rng: np.random.Generator) -> Weights:
    tables = []
    for size in layout.table_sizes:
        square = rng.normal(0.0, 0.7, (size, size))
        tables.append((square + square.T).ravel())
    d = layout.n_features
    return Weights(
        torch.tensor(rng.uniform(0.2, 2.0, layout.max_order + 1)),
        torch.tensor(rng.uniform(0.3, 1.8, d)),
        torch.tensor(rng.uniform(0.4, 2.5, d)),
        torch.tensor(np.concatenate([*tables, np.zeros(0)])),
    )


def make_points(layout: Layout, n: int, rng: np.random.Generator) -> Points:
    x = rng.standard_normal((layout.n_features, n))
    x[rng.random(x.shape) < 0.15] = np.nan
    x[:, n // 2] = x[:, 0]  # a repeated row
    for i, size in enumerate(layout.table_sizes):
        if size:
            x[i] = rng.integers(size, size=n)
    return Points(torch.tensor(x), torch.tensor(rng.uniform(0.1, 0.9, x.shape)))


def gradients(
    function: object,
    layout: Layout,
    weights: Weights,
    left: Points,
    right: Points | None,
    cotangent: Tensor,
) -> list[Tensor]:
    """Gradient of sum(cotangent * K) by all parameters and by the embeddings."""
    assert callable(function)
    leaves = [
        t.clone().requires_grad_()
        for t in (
            weights.order_variances,
            weights.scales,
            weights.lengthscales,
            weights.tables,
            left.embed,
            *([] if right is None else [right.embed]),
        )
    ]
    other = None if right is None else Points(right.x, leaves[5])
    matrix = function(layout, Weights(*leaves[:4]), Points(left.x, leaves[4]), other)
    return list(torch.autograd.grad((matrix * cotangent).sum(), leaves, allow_unused=True))


def truth(layout: Layout, weights: Weights, left: Points, right: Points | None) -> Tensor:
    return reference.additive_kernel(layout, weights, left, left if right is None else right)


def symmetrised(layout: Layout, tables: Tensor) -> Tensor:
    """A table is symmetric, so only the symmetric part of its gradient means anything."""
    out = tables.clone()
    for start, size in zip(layout.table_offsets, layout.table_sizes, strict=True):
        block = out[start : start + size * size].view(size, size)
        block.copy_(0.5 * (block + block.T))
    return out


def compare(layout: Layout, n: int, m: int | None, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = make_weights(layout, rng)
    left = make_points(layout, n, rng)
    right = None if m is None else make_points(layout, m, rng)
    value = ops.additive_kernel(layout, weights, left, right)
    torch.testing.assert_close(value, truth(layout, weights, left, right), rtol=1e-12, atol=1e-12)
    cotangent = torch.tensor(rng.standard_normal(tuple(value.shape)))
    got = gradients(ops.additive_kernel, layout, weights, left, right, cotangent)
    expected = gradients(truth, layout, weights, left, right, cotangent)
    for name, one, other in zip(NAMES, got, expected, strict=False):
        want = torch.zeros_like(one) if other is None else other
        if name == "tables":
            one, want = symmetrised(layout, one), symmetrised(layout, want)
        scale = float(want.abs().max()) if want.numel() else 1.0
        torch.testing.assert_close(one, want, rtol=1e-10, atol=1e-11 * max(scale, 1.0), msg=name)


@pytest.mark.parametrize("n", SIZES)
def test_symmetric_matrix_equals_the_reference(n: int) -> None:
    compare(make_layout(), n, None, seed=n)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("m", SIZES)
def test_rectangular_matrix_equals_the_reference(n: int, m: int) -> None:
    compare(make_layout(order=2), n, m, seed=1000 * n + m)


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("m", [None, 70])
def test_each_kind_equals_the_reference(kind: Kind, m: int | None) -> None:
    compare(make_layout((kind, Kind.MATERN52, kind), order=3), 33, m, seed=int(kind))


@pytest.mark.parametrize("mandatory", [(0,), (2,), (6,), (0, 2, 4), tuple(range(7))])
@pytest.mark.parametrize("order", [1, 3, 7])
@pytest.mark.parametrize("m", [None, 9])
def test_mandatory_features_equal_the_reference(
    mandatory: tuple[int, ...], order: int, m: int | None
) -> None:
    compare(make_layout(order=order, mandatory=mandatory), 66, m, seed=order)


@pytest.mark.parametrize("order", [0, 1, 2, 7, 9])
def test_every_order_equals_the_reference(order: int) -> None:
    """Orders beyond the number of features have no terms."""
    compare(make_layout(order=order), 40, None, seed=order)
    compare(make_layout(order=order), 40, 3, seed=order)


def test_one_feature_and_many_features() -> None:
    compare(make_layout((Kind.PERIODIC,), order=1), 30, None, seed=1)
    compare(make_layout(ALL_KINDS * 5, order=4), 30, 20, seed=2)


def test_no_features_leave_the_constant() -> None:
    layout = make_layout((), order=0)
    weights = Weights(torch.tensor([1.7]), *(torch.zeros(0) for _ in range(3)))
    points = Points(torch.zeros(0, 4), torch.zeros(0, 4))
    np.testing.assert_array_equal(
        ops.additive_kernel(layout, weights, points), np.full((4, 4), 1.7, np.float32)
    )


@pytest.mark.parametrize("symmetric", [True, False])
def test_gradient_against_finite_differences(symmetric: bool) -> None:
    """On its own, without trusting the reference's autograd."""
    rng = np.random.default_rng(5)
    layout = make_layout((Kind.SQUARED_EXPONENTIAL, Kind.TABLE, Kind.MATERN32, Kind.PERIODIC), 3)
    weights, left, right = make_weights(layout, rng), make_points(layout, 5, rng), None
    if not symmetric:
        right = make_points(layout, 4, rng)
    size = layout.table_sizes[1]

    def function(orders: Tensor, scales: Tensor, length: Tensor, half: Tensor, t: Tensor) -> Tensor:
        table = (half + half.T).reshape(-1)  # stays symmetric when it is moved
        weights = Weights(orders, scales, length, table)
        return ops.additive_kernel(layout, weights, Points(left.x, t), right)

    inputs = (
        weights.order_variances,
        weights.scales,
        weights.lengthscales,
        weights.tables.reshape(size, size) / 2,
        left.embed,
    )
    leaves = tuple(t.clone().requires_grad_() for t in inputs)
    assert torch.autograd.gradcheck(function, leaves, eps=1e-6, atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("kind", [k for k in Kind if k != Kind.TABLE])
def test_mean_embedding_against_the_reference_and_finite_differences(kind: Kind) -> None:
    rng = np.random.default_rng(9)
    x = torch.tensor(np.r_[rng.standard_normal(70), np.nan, 1e12])
    for count in (1, 63, 64, 65, 130):
        nodes = torch.tensor(np.r_[rng.standard_normal(count), np.nan])
        p = torch.tensor(rng.dirichlet(np.ones(count + 1)))
        length = torch.tensor(0.7, dtype=torch.float64)
        divisor = 1.0 if kind == Kind.PERIODIC else length
        a, b = (torch.nan_to_num(v / divisor, nan=FAR) for v in (x, nodes))
        q = reference.squared_distance(kind, a[:, None], b[None, :], length)
        s = ops.mean_embedding(kind, x, nodes, p, length)
        torch.testing.assert_close(s, reference.radial(kind, q) @ p, rtol=1e-12, atol=1e-14)
    assert torch.autograd.gradcheck(
        lambda value: ops.mean_embedding(kind, x[:-1], nodes, p, value),
        (length.clone().requires_grad_(),),
        eps=1e-6,
        atol=1e-8,
    )


# Elementary symmetric polynomials (DESIGN, trap 1).


def esp_through_the_kernel(z: np.ndarray, order: int, dtype: torch.dtype) -> np.ndarray:
    """e_order of ``z [d]``: a kernel of 1 x 1 tables whose other order variances are 0."""
    d = len(z)
    layout = Layout((Kind.TABLE,) * d, (1,) * d, (False,) * d, order)
    orders = torch.zeros(order + 1, dtype=dtype)
    orders[order] = 1.0
    ones = torch.ones(d, dtype=dtype)
    points = Points(torch.zeros(d, 1, dtype=dtype), torch.zeros(d, 1, dtype=dtype))
    weights = Weights(orders, ones, ones, torch.tensor(z, dtype=dtype))
    return ops.additive_kernel(layout, weights, points).numpy()[0, 0]


@pytest.mark.parametrize("seed", range(3))
def test_polynomials_equal_brute_force_and_newton_girard(seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = rng.uniform(-1.0, 2.0, 9)
    truth, newton = brute_force_esp(z, 9), newton_girard(z, 9)
    plain = reference.esp(torch.tensor(z)[:, None], 9)
    for r in range(10):
        got = esp_through_the_kernel(z, r, torch.float64)
        assert got == pytest.approx(truth[r], rel=1e-12, abs=1e-12)
        assert float(plain[r][0]) == pytest.approx(truth[r], rel=1e-12, abs=1e-12)
        assert newton[r] == pytest.approx(truth[r], rel=1e-8, abs=1e-8)


def test_mandatory_polynomials_equal_brute_force() -> None:
    z = np.random.default_rng(4).uniform(-1.0, 2.0, (6, 3))
    got = reference.esp(torch.tensor(z), 5, (True, False, True, False, False, False))
    rest = brute_force_esp(z[[1, 3, 4, 5]], 4)
    for r in range(6):
        truth = z[0] * z[2] * rest[r - 2] if r >= 2 else np.zeros(3)
        np.testing.assert_allclose(got[r], truth, atol=1e-12)


def test_newton_girard_loses_its_digits_in_float32_and_the_recursion_does_not() -> None:
    z = np.exp(np.random.default_rng(0).standard_normal((30, 200)))  # factors of uneven size
    truth = generating_polynomial(z, 10)
    newton = newton_girard(z.astype(np.float32), 10)[10]
    plain = reference.esp(torch.tensor(z, dtype=torch.float32), 10)[10].numpy()
    fused = np.array([esp_through_the_kernel(column, 10, torch.float32) for column in z.T[:20]])
    assert np.abs(newton / truth - 1).max() > 1e-3
    assert np.abs(plain / truth - 1).max() < 1e-5
    assert np.abs(fused / truth[:20] - 1).max() < 1e-5


def generating_polynomial(z: np.ndarray, order: int) -> np.ndarray:
    """Coefficients of prod_d (1 + z_d t), in exact-enough long doubles."""
    out = []
    for column in z.T.astype(np.longdouble):
        poly = np.array([1.0], dtype=np.longdouble)
        for value in column:
            poly = np.convolve(poly, np.array([1.0, value], dtype=np.longdouble))
        out.append(poly[order])
    return np.array(out, dtype=np.float64)


def test_gradient_keeps_its_digits_at_high_order() -> None:
    """de_r/dz_d is the leave-one-out polynomial: a sum of products, no division, no difference."""
    rng = np.random.default_rng(1)
    d, order = 12, 6
    z = rng.uniform(0.2, 1.0, d)
    layout = Layout((Kind.TABLE,) * d, (1,) * d, (False,) * d, order)
    orders = torch.zeros(order + 1, dtype=torch.float64)
    orders[order] = 1.0
    scales = torch.tensor(z, requires_grad=True)
    ones = torch.ones(d, dtype=torch.float64)
    points = Points(torch.zeros(d, 1, dtype=torch.float64), torch.zeros(d, 1, dtype=torch.float64))
    ops.additive_kernel(layout, Weights(orders, scales, ones, ones), points).sum().backward()
    truth = [brute_force_esp(np.delete(z, i), order - 1)[order - 1] for i in range(d)]
    assert scales.grad is not None
    np.testing.assert_allclose(scales.grad, truth, rtol=1e-13)


# Numbers and machines.


def test_float32_inputs_agree_with_float64() -> None:
    rng = np.random.default_rng(2)
    layout = make_layout(order=4)
    weights, left = make_weights(layout, rng), make_points(layout, 90, rng)
    single = Weights(
        *(
            t.float()
            for t in (
                weights.order_variances,
                weights.scales,
                weights.lengthscales,
                weights.tables,
            )
        )
    )
    small = Points(left.x.float(), left.embed.float())
    double, value = (
        ops.additive_kernel(layout, w, p) for w, p in ((weights, left), (single, small))
    )
    assert value.dtype == torch.float32
    scale = float(double.abs().max())
    torch.testing.assert_close(value.double(), double, rtol=1e-5, atol=1e-5 * scale)
    g = torch.tensor(rng.standard_normal((90, 90)))
    expected = gradients(ops.additive_kernel, layout, weights, left, None, g)
    got = gradients(ops.additive_kernel, layout, single, small, None, g.float())
    for one, other in zip(got, expected, strict=True):
        assert one.dtype == torch.float32
        scale = float(other.abs().max())
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4 * scale)


def test_missing_and_far_away_values() -> None:
    """k(miss, miss) = 1, k(miss, x) = 0, and a value at the end of the floats is finite."""
    for kind in (k for k in Kind if k != Kind.TABLE):
        layout = make_layout((kind,), order=1)
        one = torch.ones(1, dtype=torch.float64)
        weights = Weights(torch.tensor([0.0, 1.0]).double(), one, 0.5 * one, one[:0])
        x = torch.tensor([[0.0, torch.nan, torch.nan, 1e150, -1e150]], dtype=torch.float64)
        points = Points(x, torch.zeros_like(x))
        k = ops.additive_kernel(layout, weights, points)
        assert bool(torch.isfinite(k).all())
        np.testing.assert_allclose(k[1:3, 1:3], 1.0)
        np.testing.assert_allclose(k[0, 1:3], 0.0, atol=1e-100)
        np.testing.assert_allclose(k.diagonal(), 1.0)
        points = Points(x.clamp(-1e60, 1e60), points.embed)
        got = gradients(ops.additive_kernel, layout, weights, points, None, torch.ones_like(k))
        expected = gradients(truth, layout, weights, points, None, torch.ones_like(k))
        for one, other in zip(got, expected, strict=True):
            torch.testing.assert_close(one, torch.zeros_like(one) if other is None else other)


@pytest.mark.parametrize("m", [None, 150])
def test_same_bits_on_one_and_on_two_threads(m: int | None) -> None:
    rng = np.random.default_rng(3)
    layout = make_layout(order=4)
    weights, left = make_weights(layout, rng), make_points(layout, 170, rng)
    right = None if m is None else make_points(layout, m, rng)
    g = torch.tensor(rng.standard_normal((170, m or 170)))
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2, 2, 1, 3):
            torch.set_num_threads(count)
            value = ops.additive_kernel(layout, weights, left, right)
            grads = gradients(ops.additive_kernel, layout, weights, left, right, g)
            results.append([value, *grads])
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("m", [None, 14])
def test_same_bits_wherever_the_arrays_lie(m: int | None) -> None:
    rng = np.random.default_rng(0)
    layout = make_layout()
    weights, left = make_weights(layout, rng), make_points(layout, 12, rng)
    right = None if m is None else make_points(layout, m, rng)
    cotangent = torch.tensor(rng.standard_normal((12, m or 12)))

    def moved(points: Points) -> Points:
        return Points(points.x.clone(), points.embed.clone())

    first: list[Tensor] = []
    for _ in range(200):
        between = [torch.empty(int(rng.integers(1, 5000))) for _ in range(rng.integers(60))]
        sides = moved(left), right and moved(right)
        value = cpu.value(layout, weights, *sides)
        found = [value, *cpu.gradient(layout, weights, *sides, cotangent.clone())]
        first = first or found
        assert all(torch.equal(a, b) for a, b in zip(found, first, strict=True))
        del between


def test_symmetric_and_rectangular_calls_agree() -> None:
    rng = np.random.default_rng(13)
    layout = make_layout(order=3)
    weights, left = make_weights(layout, rng), make_points(layout, 130, rng)
    square = ops.additive_kernel(layout, weights, left)
    assert torch.equal(square, square.T)
    both = ops.additive_kernel(layout, weights, left, left)
    torch.testing.assert_close(square, both, rtol=1e-13, atol=1e-13)


def test_the_order_of_rows_is_irrelevant() -> None:
    rng = np.random.default_rng(14)
    layout = make_layout(order=3)
    weights, left = make_weights(layout, rng), make_points(layout, 100, rng)
    order = torch.tensor(rng.permutation(100))
    square = ops.additive_kernel(layout, weights, left)
    moved = ops.additive_kernel(layout, weights, left.take(order))
    torch.testing.assert_close(moved, square[order][:, order], rtol=1e-13, atol=1e-13)


def test_inputs_are_left_alone() -> None:
    rng = np.random.default_rng(15)
    layout = make_layout(order=3)
    weights, left = make_weights(layout, rng), make_points(layout, 70, rng)
    before = [t.clone() for t in (left.x, left.embed, weights.tables, weights.scales)]
    g = torch.ones(70, 70, dtype=torch.float64)
    cpu.gradient(layout, weights, left, None, g)
    ops.additive_kernel(layout, weights, left)
    after = [left.x, left.embed, weights.tables, weights.scales]
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(g, torch.ones_like(g))


def test_memory_grows_with_the_matrix_not_with_matrix_times_features() -> None:
    """In a process of its own, whose peak memory no earlier test has raised."""
    script = """
        import resource
        import numpy as np, torch
        from oakgp import ops
        from oakgp.ops.layout import Kind, Layout, Points, Weights
        d, n = 60, 900
        rng = np.random.default_rng(0)
        layout = Layout((Kind.SQUARED_EXPONENTIAL,) * d, (0,) * d, (False,) * d, 4)
        ones = torch.ones(d, dtype=torch.float64)
        learned = ones.clone().requires_grad_()
        weights = Weights(torch.ones(5, dtype=torch.float64), ones, learned, ones[:0])
        def call(n):
            x = torch.tensor(rng.standard_normal((d, n)))
            ops.additive_kernel(layout, weights, Points(x, torch.zeros_like(x))).sum().backward()
        call(10)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        call(n)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print((after - before) * 1024 / (8 * n * n))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    # 60 features would be 60 matrices for the pages alone; value, cotangent and copies are a few.
    assert float(done.stdout) < 15


def test_blocks_of_features_are_slices() -> None:
    """What `Weights.features` and `Points.features` cut out is the kernel of these features."""
    rng = np.random.default_rng(16)
    layout = make_layout(order=2)
    weights, left = make_weights(layout, rng), make_points(layout, 20, rng)
    index = [6, 0, 2]
    small = make_layout(tuple(ALL_KINDS[i] for i in index), order=2)
    small = replace(small, table_sizes=tuple(layout.table_sizes[i] for i in index))
    pages = reference.constrained_kernels(layout, weights, left, left)[index].numpy()
    e = brute_force_esp(pages, 2)
    truth = sum(float(s) * p for s, p in zip(weights.order_variances, e, strict=True))
    chosen = weights.features(layout, index)
    got = ops.additive_kernel(small, chosen, left.features(index))
    np.testing.assert_allclose(got, truth, atol=1e-12)


def test_embeddings_in_plain_torch_are_the_compiled_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of devices without compiled loops, which runs inside a forward without gradients."""
    rng = np.random.default_rng(17)
    kinds = [kind for kind in Kind if kind != Kind.TABLE]
    x = torch.tensor(rng.standard_normal((len(kinds), 30)))
    x[:, 3] = torch.nan
    nodes = [torch.tensor(rng.standard_normal(4 + i)) for i in range(len(kinds))]
    nodes[0][1] = torch.nan
    weights = [torch.full_like(q, 1.0 / len(q)) for q in nodes]
    found = []
    for plain in (False, True):
        if plain:
            monkeypatch.setattr(
                ops,
                "_node_sums",
                lambda *a: [ops._node_sum_torch(*one) for one in zip(*a, strict=True)],
            )
        lengthscales = torch.linspace(0.4, 1.6, len(kinds), dtype=torch.float64).requires_grad_()
        t = ops.embeddings(kinds, x, nodes, weights, lengthscales)
        found.append((t.detach(), torch.autograd.grad(torch.cos(t).sum(), lengthscales)[0]))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
