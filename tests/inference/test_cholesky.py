"""The Cholesky factorisation: jitter only when needed, and never a silent failure."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.references import tensor

from oakgp.inference.cholesky import NotPositiveDefiniteError, cholesky


def spectrum(values: list[float], seed: int = 0) -> torch.Tensor:
    """A symmetric matrix with these eigenvalues."""
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.standard_normal((len(values), len(values))))
    matrix = (q * values) @ q.T
    return tensor(0.5 * (matrix + matrix.T))


def test_a_definite_matrix_gets_no_jitter() -> None:
    matrix = spectrum([1e-6, 0.5, 1.0, 3.0])
    before = matrix.clone()
    factor, jitter = cholesky(matrix, "K")
    assert jitter == 0.0
    torch.testing.assert_close(factor @ factor.T, matrix)
    assert torch.equal(matrix, before)


@pytest.mark.parametrize("least", [-1e-13, -1e-9, -1e-6, -2e-4])
def test_jitter_is_the_smallest_power_of_ten_that_helps_and_is_reported(least: float) -> None:
    matrix = spectrum([least, 0.5, 1.0, 3.0])
    factor, jitter = cholesky(matrix, "K")
    scale = float(matrix.diagonal().mean())
    assert -least / scale < max(jitter, 1e-12) <= max(1e-10, -11 * least / scale)
    truth = matrix + jitter * scale * torch.eye(4, dtype=torch.float64)
    torch.testing.assert_close(factor @ factor.T, truth)


def test_a_singular_matrix_of_ones_is_factorised() -> None:
    factor, jitter = cholesky(torch.ones(30, 30, dtype=torch.float64), "K")
    assert jitter <= 1e-8
    torch.testing.assert_close(factor @ factor.T, torch.ones(30, 30).double(), atol=1e-7, rtol=0)


def test_the_first_jitter_can_be_asked_for() -> None:
    factor, jitter = cholesky(torch.eye(3, dtype=torch.float64), "K", 1e-6)
    assert jitter == 1e-6
    torch.testing.assert_close(factor.diagonal() ** 2, torch.full((3,), 1 + 1e-6).double())


def test_an_indefinite_matrix_is_an_error_with_its_name_and_a_remedy() -> None:
    with pytest.raises(
        NotPositiveDefiniteError,
        match=r"the kernel matrix \(4 rows\) is not posi.*"
        r"raise the lower bound of the noise or remove near-duplicate rows",
    ):
        cholesky(spectrum([-1.0, 0.5, 1.0, 3.0]), "the kernel matrix")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_entries_that_are_not_finite_are_an_error(bad: float) -> None:
    matrix = torch.eye(3, dtype=torch.float64)
    matrix[2, 0] = matrix[0, 2] = bad
    with pytest.raises(NotPositiveDefiniteError, match="has entries that are not finite"):
        cholesky(matrix, "the kernel matrix")


def test_factor_is_differentiable() -> None:
    matrix = spectrum([0.3, 0.5, 1.0]).requires_grad_()
    log_det = 2 * cholesky(matrix, "K")[0].diagonal().log().sum()
    (gradient,) = torch.autograd.grad(log_det, matrix)
    torch.testing.assert_close(gradient, torch.linalg.inv(matrix.detach()))
