"""Conditioning on sites against dense inverses, and its gradients against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.inference.models import Array, conditioned
from tests.references import tensor

from oakgp.inference.conditioning import Conditioned, DensePrior, Prior, SparsePrior

N, M = 9, 4


def gram(seed: int) -> Array:
    a = np.random.default_rng(seed).standard_normal((N, 2 * N))
    return a @ a.T / N


def matrices(kind: str, k: Array) -> tuple[torch.Tensor, ...]:
    if kind == "dense":
        return (tensor(k),)
    return tensor(k[:M, :M]), tensor(k[:M]), tensor(np.diag(k).copy())


def prior(kind: str, parts: tuple[torch.Tensor, ...]) -> Prior:
    return DensePrior(*parts) if kind == "dense" else SparsePrior(*parts)


def sites(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """One row in three has no precision; precisions of others differ by orders of magnitude."""
    rng = np.random.default_rng(seed)
    precision = np.exp(rng.normal(0.0, 2.0, N))
    precision[::3] = 0.0
    return tensor(rng.standard_normal(N)), tensor(precision)


@pytest.mark.parametrize("seed", [0, 1])
def test_dense_is_dense_algebra(seed: int) -> None:
    k, (first, precision) = gram(seed), sites(seed)
    q = DensePrior(tensor(k)).condition(first, precision)
    truth = conditioned(k, first.numpy(), precision.numpy())
    np.testing.assert_allclose(q.mean, truth.mean, atol=1e-10)
    np.testing.assert_allclose(q.variance, np.diag(truth.covariance), atol=1e-10)
    assert float(q.divergence) == pytest.approx(truth.divergence, abs=1e-9)
    a, w = q.weights()
    np.testing.assert_allclose(k @ a.numpy(), truth.mean, atol=1e-10)
    np.testing.assert_allclose(k - k @ (w.T @ w).numpy() @ k, truth.covariance, atol=1e-10)


@pytest.mark.parametrize("seed", [0, 1])
def test_sparse_is_dense_algebra(seed: int) -> None:
    """q(u) given sites on f = K_fu K_uu^-1 u, and f given u under the prior."""
    k, (first, precision) = gram(seed), sites(seed)
    kuu = k[:M, :M] + 1e-8 * np.trace(k[:M, :M]) / M * np.eye(M)
    projection = np.linalg.solve(kuu, k[:M]).T
    s = precision.numpy()
    cov = np.linalg.inv(np.linalg.inv(kuu) + (projection.T * s) @ projection)
    mean = cov @ projection.T @ first.numpy()
    q = SparsePrior(*matrices("sparse", k)).condition(first, precision)
    rest = np.diag(k - projection @ k[:M])
    np.testing.assert_allclose(q.mean, projection @ mean, atol=1e-10)
    truth = rest + np.diag(projection @ cov @ projection.T)
    np.testing.assert_allclose(q.variance, truth, atol=1e-10)
    trace = np.trace(np.linalg.solve(kuu, cov)) + mean @ np.linalg.solve(kuu, mean) - M
    log_ratio = np.linalg.slogdet(kuu)[1] - np.linalg.slogdet(cov)[1]
    assert float(q.divergence) == pytest.approx(0.5 * (trace + log_ratio), abs=1e-9)
    a, w = q.weights()
    np.testing.assert_allclose(k[:M].T @ a.numpy(), projection @ mean, atol=1e-7)
    explained = k[:M].T @ (w.T @ w).numpy() @ k[:M]
    np.testing.assert_allclose(np.diag(k - explained), q.variance, atol=1e-6)


@pytest.mark.parametrize("surplus", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_gradients_at_fixed_sites(kind: str, surplus: bool) -> None:
    """Of sum_i (r_i m_i + g_i v_i) - KL: any E with these slopes has this gradient."""
    k, (first, precision) = gram(2), sites(2)
    extra = torch.zeros(N, dtype=torch.float64)
    if surplus:
        extra[[0, 3]] = tensor([0.7, 1.9])
    parts = matrices(kind, k)
    if kind == "sparse":  # room for moves of one matrix alone: no remaining variance is near 0
        parts = (*parts[:2], parts[2] + 3.0)
    q = prior(kind, parts).condition(first, precision)
    slope, bend = first - precision * q.mean, extra - 0.5 * precision

    def value(moved: tuple[torch.Tensor, ...]) -> float:
        at: Conditioned = prior(kind, moved).condition(first, precision)
        return float(slope @ at.mean + bend @ at.variance - at.divergence)

    rng, step = np.random.default_rng(0), 1e-6
    for which, gradient in enumerate(q.gradients(extra if surplus else None)):
        for _ in range(5):
            direction = rng.standard_normal(parts[which].shape)
            if direction.ndim == 2 and len(direction) == len(direction.T):
                direction = direction + direction.T
            ends = []
            for sign in (1, -1):
                moved = list(parts)
                moved[which] = parts[which] + sign * step * tensor(direction)
                ends.append(value(tuple(moved)))
            got = float((gradient * tensor(direction)).sum())
            truth = (ends[0] - ends[1]) / (2 * step)
            # The jitter follows the mean diagonal, which the gradient leaves out.
            assert got == pytest.approx(truth, rel=1e-5, abs=1e-5), which


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_no_sites_give_the_prior(kind: str) -> None:
    k = gram(3)
    zero = torch.zeros(N, dtype=torch.float64)
    q = prior(kind, matrices(kind, k)).condition(zero, zero)
    assert float(q.divergence) == pytest.approx(0.0, abs=1e-12)
    assert float(q.mean.abs().max()) == 0.0
    np.testing.assert_allclose(q.variance, np.diag(k), rtol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_singular_kernels_and_huge_precisions(kind: str) -> None:
    """Duplicated rows, and sites as certain as counts of 1e9."""
    k = gram(4)
    order = [0, 1, 2, 0, 1, 2, 0, 1, 2]
    twice = k[np.ix_(order, order)]
    precision = torch.full((N,), 1e9, dtype=torch.float64)
    level = tensor([0.3, -1.0, 2.0] * 3)
    q = prior(kind, matrices(kind, twice)).condition(precision * level, precision)
    np.testing.assert_allclose(q.mean, level, atol=1e-5)
    assert bool((q.variance >= 0).all())
    assert float(q.variance.max()) < 1e-6
    assert bool(torch.isfinite(q.divergence))
