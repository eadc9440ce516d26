"""The evidence from sums alone against the dense Gaussian density, and its gradient."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from tests.basis.models import Array, layout_of, mixed_layout, parameters_of, plain_features
from tests.references import mixed_features, random_rows, tensor

from oakgp.basis.evidence import Solution, block_factors, log_evidence
from oakgp.basis.layout import BasisLayout, design
from oakgp.basis.prior import BasisParameters, BasisSpace, prior_blocks
from oakgp.basis.statistics import Statistics, statistics

N = 25


def rows(layout: BasisLayout, n: int = N) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(4)
    features = [basis.feature for basis in layout.bases]
    x = tensor(random_rows(features, n, rng))
    w = rng.uniform(0.2, 3.0, n)
    w[3] = 0.0
    return x, tensor(rng.standard_normal(n)), tensor(w)


def prior_of(layout: BasisLayout, parameters: BasisParameters) -> Array:
    return torch.block_diag(*prior_blocks(layout, parameters)).numpy()


def solved(layout: BasisLayout, data: Statistics, parameters: BasisParameters) -> Solution:
    return Solution(data, block_factors(prior_blocks(layout, parameters)), float(parameters.noise))


def log_density(z: Array, marginal: Array, w: Array, noise: float) -> float:
    """Log of the integral over f of prod N(z | f, noise)^w: a row of weight 2 is two rows."""
    once = multivariate_normal(np.zeros(len(z)), marginal).logpdf(z)
    more = -0.5 * ((w - 1) * np.log(2 * np.pi * noise) + np.log(w))
    return float(once + more.sum())


VARIANCES = {
    "as they are": lambda v: v,
    "one at its lower bound": lambda v: v.index_fill(0, torch.tensor([2, 9]), 1e-8),
    "one next to nothing": lambda v: v.index_fill(0, torch.tensor([3, 10]), 1e-300),
    "all but the constant tiny": lambda v: torch.cat([v[:1], v[1:] * 1e-12]),
}


@pytest.mark.parametrize("name", VARIANCES)
@pytest.mark.parametrize("noise", [1e-4, 0.3, 5.0])
def test_evidence_mean_and_covariance_are_those_of_dense_algebra(name: str, noise: float) -> None:
    layout = mixed_layout()
    p = parameters_of(layout, noise=noise)
    p = replace(p, variances=VARIANCES[name](p.variances))
    x, z, w = rows(layout)
    phi, used = design(layout, x).numpy(), w.numpy() > 0
    data = statistics(design(layout, x), z, w)
    prior, phi = prior_of(layout, p), phi[:, used]
    s = np.diag(noise / w.numpy()[used])
    marginal = phi.T @ prior @ phi + s
    solution = solved(layout, data, p)
    truth = log_density(z.numpy()[used], marginal, w.numpy()[used], noise)
    assert float(solution.log_evidence) == pytest.approx(truth, rel=1e-7, abs=1e-6)
    gain = np.linalg.solve(marginal, phi.T @ prior).T
    np.testing.assert_allclose(solution.mean, gain @ z.numpy()[used], atol=1e-6)
    covariance = prior - gain @ phi.T @ prior
    found = solution.root.T @ solution.root
    np.testing.assert_allclose(found, covariance, atol=1e-6)


def test_gradient_by_blocks_and_noise_is_that_of_finite_differences() -> None:
    layout = mixed_layout()
    p = parameters_of(layout)
    x, z, w = rows(layout)
    data = statistics(design(layout, x), z, w)
    blocks = [b.requires_grad_() for b in prior_blocks(layout, p)]
    noise = p.noise.clone().requires_grad_()
    log_evidence(data, noise, blocks).backward()
    assert noise.grad is not None
    rng = np.random.default_rng(0)

    def value(step: float, k: int, direction: torch.Tensor) -> float:
        moved = [block.detach() for block in blocks]
        moved[k] = moved[k] + step * direction
        return float(log_evidence(data, p.noise, moved))

    for k, block in enumerate(blocks):
        # In proportion to the block, so that it stays positive definite.
        factor, random = block_factors([block.detach()])[0], tensor(rng.normal(size=block.shape))
        direction = factor @ (random + random.T) @ factor.T
        assert block.grad is not None
        slope = float((block.grad * direction).sum())
        numeric = (value(1e-4, k, direction) - value(-1e-4, k, direction)) / 2e-4
        assert slope == pytest.approx(numeric, rel=1e-4, abs=1e-6)
    up, down = (
        float(log_evidence(data, p.noise + h, [b.detach() for b in blocks])) for h in (1e-6, -1e-6)
    )
    assert float(noise.grad) == pytest.approx((up - down) / 2e-6, rel=1e-5)


def test_gradient_by_the_optimisers_vector() -> None:
    layout = layout_of(mixed_features(), [(0,), (1,), (5,), (0, 1), (1, 5)])
    x, z, w = rows(layout)
    data = statistics(design(layout, x), z, w)
    space = BasisSpace(layout)
    start = torch.from_numpy(space.pack(parameters_of(layout)))

    def objective(theta: torch.Tensor) -> torch.Tensor:
        p = space.unpack(theta)
        return log_evidence(data, p.noise, prior_blocks(layout, p)) + space.log_prior(p)

    theta = start.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(objective(theta), theta)
    for k in range(len(start)):
        step = torch.zeros_like(start)
        step[k] = 1e-5
        numeric = float(objective(start + step) - objective(start - step)) / 2e-5
        assert float(gradient[k]) == pytest.approx(numeric, rel=1e-4, abs=1e-6)


def test_the_vector_and_the_hyperparameters_are_the_same_thing() -> None:
    layout = mixed_layout()
    for learns in (True, False):
        space = BasisSpace(layout, learn_noise=learns)
        p = parameters_of(layout, noise=0.2 if learns else 1.0)
        again = space.unpack(torch.from_numpy(space.pack(p)))
        torch.testing.assert_close(again.variances, p.variances)
        torch.testing.assert_close(again.noise, p.noise)
        torch.testing.assert_close(again.lengthscales, p.lengthscales)
        wild = replace(p, variances=p.variances * 1e30, lengthscales=p.lengthscales * 1e-30)
        low, high = np.array(space.limits()).T
        theta = space.pack(wild)
        assert ((theta >= low) & (theta <= high)).all()


def test_singular_priors_take_jitter_and_change_next_to_nothing() -> None:
    layout = layout_of(plain_features(2), [(0,), (1,)])
    x, z, w = rows(layout)
    phi = design(layout, x)
    data = statistics(phi, z, w)
    direction = torch.ones((5, 1)).double()
    blocks = [torch.ones((1, 1)).double(), direction @ direction.T, 0.5 * torch.eye(5).double()]
    solution = Solution(data, block_factors(blocks), 0.3)
    prior, used = torch.block_diag(*blocks).numpy(), w.numpy() > 0
    marginal = phi.numpy().T[used] @ prior @ phi.numpy()[:, used]
    marginal += np.diag(0.3 / w.numpy()[used])
    truth = log_density(z.numpy()[used], marginal, w.numpy()[used], 0.3)
    assert float(solution.log_evidence) == pytest.approx(truth, rel=1e-5)
    zero = [blocks[0], torch.zeros((5, 5)).double(), blocks[2]]
    assert not bool(Solution(data, block_factors(zero), 0.3).mean[1:6].any())


def test_duplicated_columns_share_what_one_would_have() -> None:
    """Twice the same feature: the posterior precision stays positive definite without help."""
    layout = layout_of(plain_features(2), [(0,), (1,)])
    x, z, w = rows(layout, 200)
    twins = torch.stack([x[0], x[0]])
    data = statistics(design(layout, twins), z, w)
    solution = solved(layout, data, replace(parameters_of(layout, noise=1e-6)))
    assert solution.jitter == 0.0
    mean = solution.mean
    assert bool(torch.isfinite(mean).all())
    assert bool(torch.isfinite(solution.root).all())


def test_evidence_of_no_rows_is_nothing() -> None:
    layout = mixed_layout()
    x, z, w = rows(layout)
    data = statistics(design(layout, x), z, torch.zeros_like(w))
    p = parameters_of(layout)
    solution = solved(layout, data, p)
    assert float(solution.log_evidence) == 0.0
    assert not bool(solution.mean.any())
    found = solution.root.T @ solution.root
    np.testing.assert_allclose(found, prior_of(layout, p), atol=1e-8)


def test_a_row_of_weight_two_is_two_rows() -> None:
    layout = mixed_layout()
    x, z, _ = rows(layout)
    times = torch.arange(N) % 3
    once = statistics(design(layout, x), z, times.double())
    many = x.repeat_interleave(times, dim=1), z.repeat_interleave(times)
    repeated = statistics(design(layout, many[0]), many[1], torch.ones(len(many[1])).double())
    values = []
    for data in (once, repeated):
        noise = tensor(0.2).requires_grad_()
        value = log_evidence(data, noise, prior_blocks(layout, parameters_of(layout)))
        (slope,) = torch.autograd.grad(value, noise)
        values.append((float(value.detach()), float(slope)))
    assert values[0] == pytest.approx(values[1], rel=1e-10)
