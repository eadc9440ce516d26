"""Sums over rows: compiled, chunked, added and taken away, and the same bits every time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.basis.models import layout_of, mixed_layout, rows_of_every_sort
from tests.references import mixed_features, tensor

from oakgp.basis.layout import BasisLayout, design
from oakgp.basis.passes import GramSum, gather, moments
from oakgp.basis.statistics import Statistics, statistics, total

N = 3000


def problem(n: int = N, seed: int = 0) -> tuple[BasisLayout, tuple[torch.Tensor, ...]]:
    """Rows of every sort, responses, and weights of which some are 0."""
    rng = np.random.default_rng(seed)
    w = rng.uniform(0.1, 4.0, n) * (rng.random(n) > 0.1)
    return mixed_layout(), (rows_of_every_sort(n), tensor(rng.normal(0, 3, n)), tensor(w))


def same(found: Statistics, truth: Statistics, relative: float = 1e-9) -> None:
    assert found.rows == truth.rows
    for name in ("gram", "moment", "square", "weight"):
        left, right = getattr(found, name), getattr(truth, name)
        assert left.shape == right.shape
        atol = relative * float(right.abs().max())
        torch.testing.assert_close(left, right, rtol=relative, atol=atol)


def test_compiled_sums_are_the_plain_ones() -> None:
    layout, (x, z, w) = problem()
    found = gather(layout, x, z, w)
    same(found, statistics(design(layout, x), z, w))
    assert torch.equal(found.gram, found.gram.T)
    assert found.rows == int((w > 0).sum())


@pytest.mark.parametrize("sizes", [[1] * 40 + [N - 40], [511, 512, 513, N - 1536], [0, N, 0]])
def test_chunks_add_up_to_the_whole(sizes: list[int]) -> None:
    layout, rows = problem()
    whole = gather(layout, *rows)
    chunks = list(zip(*(t.split(sizes, dim=-1) for t in rows), strict=True))
    running = GramSum(layout)
    for chunk in chunks:
        running.add(*chunk)
    same(running.statistics(), whole)
    same(total([gather(layout, *chunk) for chunk in chunks]), whole)
    backwards = total([gather(layout, *chunk) for chunk in reversed(chunks)])
    same(backwards, whole)


def test_rows_can_be_taken_away_again() -> None:
    layout, rows = problem()
    first, second = zip(*(t.split([1000, N - 1000], dim=-1) for t in rows), strict=True)
    same(gather(layout, *rows) - gather(layout, *first), gather(layout, *second))


def test_rows_of_weight_zero_are_no_rows() -> None:
    layout, (x, z, w) = problem()
    used = w > 0
    same(gather(layout, x, z, w), gather(layout, x[:, used], z[used], w[used]))
    none = gather(layout, x, z, torch.zeros_like(w))
    assert none.rows == 0
    assert not bool(none.gram.any())


def test_a_weight_counts_like_repeated_rows() -> None:
    layout, (x, z, _) = problem(700)
    times = torch.arange(700) % 4
    one = gather(layout, x, z, times.double())
    many = gather(
        layout,
        x.repeat_interleave(times, dim=1),
        z.repeat_interleave(times),
        torch.ones(int(times.sum())).double(),
    )
    for name in ("gram", "moment", "square", "weight"):
        torch.testing.assert_close(getattr(one, name), getattr(many, name), rtol=1e-10, atol=1e-8)


def test_some_columns_only() -> None:
    layout, rows = problem()
    terms = [(), (2,), (5, 6)]
    some = gather(layout, *rows).of(layout.columns_of(terms))
    same(some, gather(layout.only(terms), *rows))


def test_any_number_of_threads_gives_the_same_bits() -> None:
    layout, (x, z, w) = problem()
    root = torch.randn(
        (layout.size, layout.size), generator=torch.Generator().manual_seed(0)
    ).double()
    found, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2, 2):
            torch.set_num_threads(threads)
            sums = gather(layout, x, z, w)
            mean, length = moments(layout, x, root[:2], root)
            assert length is not None
            found.append((sums.gram, sums.moment, sums.square, mean, length))
    finally:
        torch.set_num_threads(before)
    for one in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(one, found[0], strict=True))


@pytest.mark.parametrize("n", [0, 1, 511, 1025])
def test_moments_are_products_with_the_design(n: int) -> None:
    layout = mixed_layout()
    x = rows_of_every_sort(max(n, 9))[:, :n]
    rng = np.random.default_rng(0)
    mean, root = (
        tensor(rng.normal(size=(3, layout.size))),
        tensor(rng.normal(size=(4, layout.size))),
    )
    first, second = moments(layout, x, mean, root)
    phi = design(layout, x)
    torch.testing.assert_close(first, mean @ phi)
    torch.testing.assert_close(second, ((root @ phi) ** 2).sum(dim=0))
    only, none = moments(layout, x, mean, None)
    assert none is None
    assert torch.equal(only, first)


def test_a_basis_of_the_constant_alone() -> None:
    layout = layout_of(mixed_features(), [])
    _, (x, z, w) = problem(30)
    found = gather(layout, x, z, w)
    assert float(found.gram) == pytest.approx(float(w.sum()))
    assert float(found.moment) == pytest.approx(float(w @ z))
