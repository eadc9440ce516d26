"""The categorical kernel: A = W W^T + diag(kappa), its constraint, and levels out of the table."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.references import categorical_table, tensor

from oakgp.kernels import CategoricalKernel

CASES = [(k, rank, missing) for k in (1, 2, 5) for rank in (1, 2) for missing in (False, True)]


def random_table(
    n_levels: int, rank: int, has_missing: bool
) -> tuple[CategoricalKernel, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(10 * n_levels + rank)
    kernel = CategoricalKernel(n_levels, rank, has_missing)
    w, kappa = rng.normal(0, 1, (n_levels, rank)), rng.uniform(0.1, 2, n_levels)
    p = rng.dirichlet(np.ones(kernel.n_known))
    a = kernel.covariance(tensor(w), tensor(kappa))
    return kernel, kernel.table(a, tensor(p)).numpy(), w, kappa, p


@pytest.mark.parametrize(("n_levels", "rank", "has_missing"), CASES)
def test_table_follows_the_formula(n_levels: int, rank: int, has_missing: bool) -> None:
    kernel, table, w, kappa, p = random_table(n_levels, rank, has_missing)
    np.testing.assert_allclose(table, categorical_table(kernel, w, kappa, p), atol=1e-13)


@pytest.mark.parametrize(("n_levels", "rank", "has_missing"), CASES)
def test_table_is_orthogonal_to_the_constant(n_levels: int, rank: int, has_missing: bool) -> None:
    kernel, table, _, _, p = random_table(n_levels, rank, has_missing)
    np.testing.assert_allclose(table[: kernel.n_known, : kernel.n_known] @ p, 0.0, atol=1e-13)
    np.testing.assert_allclose(table, table.T, atol=1e-14)
    assert np.linalg.eigvalsh(table).min() > -1e-12


@pytest.mark.parametrize(("n_levels", "rank", "has_missing"), CASES)
def test_unseen_levels_have_mean_zero_and_a_full_variance(
    n_levels: int, rank: int, has_missing: bool
) -> None:
    kernel, table, w, kappa, _ = random_table(n_levels, rank, has_missing)
    unseen = kernel.n_known
    np.testing.assert_array_equal(table[unseen, :unseen], 0.0)
    diagonal = np.r_[(w**2).sum(axis=1) + kappa, [1.0] * has_missing]
    assert table[unseen, unseen] == pytest.approx(diagonal.mean())


def test_a_single_level_leaves_nothing() -> None:
    _, table, *_ = random_table(1, 1, False)
    np.testing.assert_allclose(table[0], 0.0, atol=1e-14)


def test_missing_is_a_level_of_its_own() -> None:
    kernel, _, w, kappa, _ = random_table(5, 2, True)
    a = kernel.covariance(tensor(w), tensor(kappa)).numpy()
    np.testing.assert_array_equal(a[-1], [0.0] * 5 + [1.0])


@pytest.mark.parametrize("has_missing", [False, True])
def test_codes(has_missing: bool) -> None:
    kernel = CategoricalKernel(3, 2, has_missing)
    x = torch.tensor([0.0, 2.0, 3.0, 7.0, -1.0, torch.nan, 1.0])
    unseen = 4.0 if has_missing else 3.0
    assert kernel.codes(x).tolist() == [0.0, 2.0, unseen, unseen, unseen, 3.0, 1.0]
    assert kernel.table_size == int(unseen) + 1


def test_table_is_differentiable() -> None:
    rng = np.random.default_rng(0)
    kernel = CategoricalKernel(3, 2, True)
    p = tensor([0.4, 0.3, 0.2, 0.1])

    def function(w: torch.Tensor, kappa: torch.Tensor) -> torch.Tensor:
        return kernel.table(kernel.covariance(w, kappa), p)

    leaves = (
        tensor(rng.normal(size=(3, 2))).requires_grad_(),
        tensor(rng.uniform(0.2, 1, 3)).requires_grad_(),
    )
    assert torch.autograd.gradcheck(function, leaves)
