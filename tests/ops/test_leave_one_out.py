"""Sums over the terms that contain a feature, against brute force over subsets."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

from oakgp.ops.leave_one_out import in_torch, leave_one_out

CASES = [(1, 1, ()), (4, 2, ()), (6, 6, ()), (6, 3, (1, 4)), (5, 5, (0, 1, 2, 3, 4)), (5, 2, (2,))]


def brute_force(z: np.ndarray, weights: np.ndarray, mandatory: tuple[int, ...]) -> np.ndarray:
    out = np.zeros_like(z)
    for r in range(1, len(weights)):
        for u in combinations(range(len(z)), r):
            if set(mandatory) <= set(u):
                for i in u:
                    out[i] += weights[r] * np.prod(z[list(u)], axis=0)
    return out


@pytest.mark.parametrize(("d", "order", "mandatory"), CASES)
def test_equals_the_sum_over_subsets(d: int, order: int, mandatory: tuple[int, ...]) -> None:
    rng = np.random.default_rng(d + order)
    weights = rng.uniform(0.2, 2.0, order + 1)
    flags = tuple(i in mandatory for i in range(d))
    for shape in [(1,), (63,), (3, 65), (20, 40)]:
        z = rng.normal(0.0, 1.3, (d, *shape))
        truth = brute_force(z, weights, mandatory)
        arguments = torch.tensor(z), torch.tensor(weights), flags
        np.testing.assert_allclose(leave_one_out(*arguments), truth, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(in_torch(*arguments), truth, rtol=1e-11, atol=1e-12)


def test_many_entries_are_shared_among_threads_without_a_difference() -> None:
    rng = np.random.default_rng(0)
    z, weights = torch.tensor(rng.normal(0.0, 1.0, (5, 120, 130))), torch.ones(4).double()
    flags = (False,) * 5
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = leave_one_out(z, weights, flags)
        torch.set_num_threads(2)
        assert torch.equal(one, leave_one_out(z, weights, flags))
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(one, in_torch(z, weights, flags), rtol=1e-12, atol=1e-12)


def test_large_factors_lose_no_digits() -> None:
    """Dividing a factor of 1e6 out of the polynomials would leave nothing of the others."""
    z = torch.tensor([[1e6], [1e-3], [2e-3], [3e-3]], dtype=torch.float64)
    weights = torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0], dtype=torch.float64)
    product = float(z.prod())
    found = leave_one_out(z, weights, (False,) * 4)
    np.testing.assert_allclose(found, np.full((4, 1), product), rtol=1e-12)
