"""Minibatches against the full batch, dense inference, finite differences and themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.inference.models import Latents, latents
from tests.references import random_rows, tensor

from oakgp.inference import variational
from oakgp.inference.engines import Variational
from oakgp.inference.sites import Observations
from oakgp.inference.space import ParameterSpace
from oakgp.inference.stochastic import learning
from oakgp.inference.stochastic.adam import Adam
from oakgp.inference.stochastic.batches import endless, partition
from oakgp.inference.stochastic.estimate import bound, estimate, gradient
from oakgp.inference.stochastic.hyperparameters import Climb, Model, Pace, State, whitenings
from oakgp.inference.stochastic.inducing_gaussian import InducingGaussian
from oakgp.inference.stochastic.passes import Conditioned, Passes
from oakgp.inference.stochastic.whitening import TapedView
from oakgp.likelihoods import LIKELIHOODS
from oakgp.ops.threads import one_torch_thread

every = pytest.mark.parametrize("name", LIKELIHOODS)
N = 30


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_torch_thread():
        yield


def prior_state(p: Latents, inducing: torch.Tensor) -> State:
    x = p.observations.x[:, inducing]
    q = InducingGaussian.prior(len(inducing), x)
    return State(tensor([]), x, (q,) * len(p.model.parameters))


def conditioned(p: Latents, inducing: torch.Tensor, batch_rows: int) -> Conditioned:
    pace = Pace(batch_rows=batch_rows, max_passes=400)
    return learning.condition(p.model, p.observations, prior_state(p, inducing), 1e-11, pace, 0)


# q given all rows.


@every
@pytest.mark.parametrize("batch_rows", [N, 7])
def test_passes_end_where_the_full_batch_does(name: str, batch_rows: int) -> None:
    p = latents(name, n=N)
    inducing = torch.tensor([0, 5, 9, 3, 20, 17])
    truth = variational.update_sites(
        p.model, p.observations, None, inducing, tolerance=1e-13, max_iterations=2000
    )
    got = conditioned(p, inducing, batch_rows)
    assert got.converged
    assert got.bound == pytest.approx(truth.approximation.bound, abs=2e-5)
    test = tensor(random_rows(p.model.kernel.features, 9, np.random.default_rng(1)))
    ours, _ = learning.posterior(p.model, p.observations.x[:, inducing], got)
    theirs, _ = variational.posterior(p.model, p.observations, truth.approximation.sites, inducing)
    for one, other in zip(ours, theirs, strict=True):
        for term in (None, (0,), (1, 3)):
            for a, b in zip(
                one.mean_and_variance(test, term), other.mean_and_variance(test, term), strict=True
            ):
                np.testing.assert_allclose(a, b, atol=2e-5)


@every
def test_all_rows_as_inducing_points_give_dense_inference(name: str) -> None:
    p = latents(name, n=16)
    truth = variational.update_sites(
        p.model, p.observations, tolerance=1e-13, max_iterations=2000
    ).approximation
    got = conditioned(p, torch.arange(16), 6)
    assert got.bound == pytest.approx(truth.bound, abs=1e-4)
    ours, _ = learning.posterior(p.model, p.observations.x, got)
    for k, one in enumerate(ours):
        mean, variance = one.mean_and_variance(p.observations.x)
        np.testing.assert_allclose(mean, truth.mean[k], atol=1e-3)
        np.testing.assert_allclose(variance, truth.variance[k], atol=1e-3)


# The gradient.


def vector_model(p: Latents) -> Model:
    space = replace(p.space, learn_noise=False)
    different = len(p.model.distinct[0])
    size = len(space.limits())

    def at(theta: torch.Tensor) -> variational.LatentModel:
        blocks = theta[: size * different].split(size)
        each = [space.unpack(b) for b in blocks]
        return replace(
            p.model,
            parameters=tuple(each[k] for k in p.model.distinct[1]),
            likelihood_parameters=theta[size * different :].exp(),
        )

    own = [(float(np.log(a)), float(np.log(b))) for a, b in p.model.likelihood.parameter_bounds]
    return Model(
        at,
        lambda m: torch.stack([space.log_prior(x) for x in m.distinct[0]]).sum(),
        space.limits() * different + own,
    )


def vector(p: Latents) -> torch.Tensor:
    space = replace(p.space, learn_noise=False)
    blocks = [space.pack(x) for x in p.model.distinct[0]]
    own = np.log(p.model.likelihood_parameters.numpy())
    return tensor(np.concatenate([*blocks, own]))


def some_q(p: Latents, m: int) -> tuple[InducingGaussian, ...]:
    rng = np.random.default_rng(5)
    latents_ = []
    for _ in p.model.parameters:
        a = tensor(rng.normal(size=(m, m)))
        latents_.append(
            InducingGaussian.of(tensor(rng.normal(size=m)), torch.eye(m).double() + a @ a.T)
        )
    return tuple(latents_)


def slope(
    p: Latents,
    theta: torch.Tensor,
    q: tuple[InducingGaussian, ...],
    z: torch.Tensor,
    rows: Observations,
    scale: float,
) -> torch.Tensor:
    theta = theta.clone().requires_grad_()
    model = vector_model(p).at(theta)
    taped = [TapedView(model.kernel, x, z, rows.x) for x in model.distinct[0]]
    current = estimate(model, rows, q, [t.view for t in taped])
    matrices, by_matrices, by_own = gradient(model, rows, q, taped, current, scale)
    (out,) = torch.autograd.grad(
        [*matrices, model.likelihood_parameters], theta, [*by_matrices, by_own]
    )
    return out


def value(
    p: Latents, theta: torch.Tensor, q: tuple[InducingGaussian, ...], z: torch.Tensor
) -> float:
    model = learning.detached(vector_model(p).at(theta))
    views = [w.view(p.observations.x) for w in whitenings(model, z)]
    return bound(estimate(model, p.observations, q, views), q, 1.0)


@every
def test_the_gradient_is_that_of_the_bound_at_fixed_q(name: str) -> None:
    p = latents(name, n=12, shared=name == "softmax")
    z, q = p.observations.x[:, :5].clone(), some_q(p, 5)
    theta = vector(p)
    got = slope(p, theta, q, z, p.observations, 1.0)
    rng = np.random.default_rng(0)
    for _ in range(3):
        way = tensor(rng.standard_normal(len(theta)))
        up, down = (value(p, theta + h * way, q, z) for h in (1e-5, -1e-5))
        assert (up - down) / 2e-5 == pytest.approx(float(got @ way), rel=2e-4, abs=2e-4)


@every
def test_the_mean_over_batches_is_the_full_gradient(name: str) -> None:
    p = latents(name, n=12, shared=name == "softmax")
    z, q, theta = p.observations.x[:, :5].clone(), some_q(p, 5), vector(p)
    whole = slope(p, theta, q, z, p.observations, 1.0)
    batches = partition(12, 4, 3)
    parts = [slope(p, theta, q, z, p.observations.take(rows), 3.0) for rows in batches]
    torch.testing.assert_close(torch.stack(parts).mean(dim=0), whole, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["bernoulli_logit", "poisson", "negative_binomial"])
def test_at_the_best_q_the_gradient_is_that_of_the_sites(name: str) -> None:
    """What goes through q cancels there, so it is that of the full-batch engine."""
    p = latents(name, n=16)
    inducing = torch.tensor([0, 5, 9, 3])
    got = conditioned(p, inducing, 16)
    theta = vector(p)
    z = p.observations.x[:, inducing]
    ours = slope(p, theta, got.latents, z, p.observations, 1.0)
    sites = variational.update_sites(
        p.model, p.observations, None, inducing, tolerance=1e-13, max_iterations=2000
    ).approximation.sites
    variable = theta.clone().requires_grad_()
    loss = variational.negative_bound(vector_model(p).at(variable), p.observations, sites, inducing)
    (theirs,) = torch.autograd.grad(loss, variable)
    torch.testing.assert_close(ours, -theirs, rtol=1e-4, atol=1e-4)
