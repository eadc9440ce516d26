"""Anderson's acceleration on linear iterations, where the answer is known."""

from __future__ import annotations

import numpy as np
import torch
from tests.references import tensor

from oakgp.inference.anderson import Anderson


def test_the_first_step_is_the_plain_one() -> None:
    a = Anderson(3)
    a.add(tensor([1.0, 2.0]), tensor([0.5, -0.25]))
    assert a.next(tensor([1.0, 1.0])).tolist() == [1.5, 1.75]


def test_a_linear_iteration_ends_after_as_many_steps_as_it_has_modes() -> None:
    """x <- A x + b with eigenvalues that converge slowly, oscillate and diverge."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((3, 3))
    matrix = vectors @ np.diag([0.99, -0.95, -1.5]) @ np.linalg.inv(vectors)
    b = rng.standard_normal(3)
    truth = np.linalg.solve(np.eye(3) - matrix, b)
    a, x, scale = Anderson(5), np.zeros(3), tensor(rng.uniform(0.5, 2.0, 3))
    for _ in range(5):
        a.add(tensor(x), tensor(matrix @ x + b - x))
        x = a.next(scale).numpy()
    np.testing.assert_allclose(x, truth, atol=1e-6)


def test_memory_is_bounded_and_can_be_cleared() -> None:
    a = Anderson(2)
    for k in range(6):
        a.add(tensor([float(k)]), tensor([1.0]))
    assert a.n_points == 3
    a.clear()
    assert a.n_points == 0


def test_equal_residuals_do_no_harm() -> None:
    """Differences of 0 leave the plain step."""
    a = Anderson(4)
    for _ in range(3):
        a.add(tensor([1.0, 1.0]), tensor([0.5, 0.5]))
    assert a.next(torch.ones(2, dtype=torch.float64)).tolist() == [1.5, 1.5]
