"""Minibatches against the full batch, dense inference, finite differences and themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.inference.models import Latents, latents
from tests.references import mixed_features, random_rows, tensor

from oakgp.inference import variational
from oakgp.inference.inducing import greedy_inducing
from oakgp.inference.optimize import minimise
from oakgp.inference.sites import Observations
from oakgp.inference.stochastic import learning
from oakgp.inference.stochastic.adam import Adam
from oakgp.inference.stochastic.batches import endless, partition
from oakgp.inference.stochastic.estimate import bound, estimate, gradient
from oakgp.inference.stochastic.hyperparameters import Climb, Model, Pace, State, whitenings
from oakgp.inference.stochastic.inducing_gaussian import InducingGaussian
from oakgp.inference.stochastic.passes import Conditioned
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


# Learning.

QUICK = Pace(batch_rows=30, max_steps=18, warm_steps=3, window=6, sample_rows=60)


def run(p: Latents, pace: Pace = QUICK, seed: int = 0, m: int = 10) -> learning.Outcome:
    def choose(theta: torch.Tensor) -> torch.Tensor:
        parameters = vector_model(p).at(theta).parameters[0]
        rows = greedy_inducing(p.model.kernel, parameters, p.observations.x, m, 0)
        return p.observations.x[:, rows].contiguous()

    return learning.learn(
        vector_model(p),
        p.observations,
        vector(p),
        choose,
        tolerance=1e-3,
        seed=seed,
        pace=pace,
    )


@every
def test_learning_raises_the_bound_and_repeats_to_the_bit(name: str) -> None:
    p = latents(name, n=80, shared=name == "softmax")
    one, again = run(p), run(p)
    assert one.course.path[-1] > one.course.path[0]
    assert one.conditioned.converged
    assert torch.equal(one.theta, again.theta)
    assert one.conditioned.bound == again.conditioned.bound
    for a, b in zip(one.posteriors, again.posteriors, strict=True):
        assert torch.equal(a.mean_weights, b.mean_weights)
        assert torch.equal(a.whitener, b.whitener)
    other = run(p, seed=1)
    assert not torch.equal(one.theta, other.theta)


def test_the_batch_of_all_rows_climbs_to_the_optimum_of_the_full_batch() -> None:
    p = latents("poisson", n=24, features=mixed_features()[:2])
    pace = Pace(batch_rows=24, max_steps=300, window=100, patience=100.0, gain=0.0)
    found = run(p, pace, m=24)
    inducing = greedy_inducing(p.model.kernel, found.model.parameters[0], p.observations.x, 24, 0)
    objective = variational.VariationalObjective(found.model, p.observations, inducing)

    def value(theta: torch.Tensor) -> torch.Tensor:
        model = vector_model(p).at(theta)
        loss = objective(model.parameters, model.likelihood_parameters)
        return loss - vector_model(p).log_prior(model)

    best = minimise(
        value, found.theta.numpy(), vector_model(p).limits, max_iter=100, tolerance=1e-6
    )
    assert float(value(found.theta)) == pytest.approx(best.value, abs=0.05)


def hard(kind: str, n: int = 300) -> Latents:
    """Rows that break what takes steps without looking."""
    name = {"separable": "bernoulli_logit", "rare": "bernoulli_probit"}.get(kind, "poisson")
    p = latents("student_t" if kind == "outliers" else name, n=n, variance=3.0)
    x = p.observations.x[0].nan_to_num()
    generator = torch.Generator().manual_seed(0)
    y = {
        "separable": (x > 0).double(),
        "rare": (torch.arange(n) < 1).double(),
        "huge": torch.poisson(1e6 * torch.exp(x), generator=generator),
        "one huge": torch.where(torch.arange(n) == 5, 1e9, 1.0).double(),
        "outliers": torch.where(torch.arange(n) % 7 == 0, 1e4, x).double(),
    }[kind]
    level = {"huge": 14.0, "one huge": 15.0, "rare": -2.7}.get(kind, 0.0)
    model = replace(p.model, levels=tensor([level]))
    return replace(p, model=model, observations=replace(p.observations, y=y))


@pytest.mark.parametrize("kind", ["separable", "rare", "huge", "one huge", "outliers"])
def test_nothing_diverges(kind: str) -> None:
    p = hard(kind)
    found = run(p)
    path = np.array(found.course.path)
    assert np.isfinite(path).all()
    assert path[-1] >= path[0]
    assert (np.diff(path) > -0.05 * np.abs(path[:-1]) - 0.05).all()
    assert np.isfinite(found.conditioned.bound)
    mean, variance = found.posteriors[0].mean_and_variance(p.observations.x)
    assert torch.isfinite(mean).all()
    assert torch.isfinite(variance).all()
    if kind == "separable":
        right = (mean > 0) == (p.observations.y > 0)
        assert float(right.double().mean()) > 0.9


def test_after_a_fall_it_goes_back_with_half_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    p = latents("poisson", n=120)
    reading, calls = Climb.reading, iter(range(1000))

    def falls(self: Climb) -> float:
        return -np.inf if next(calls) in (2, 3) else reading(self)

    monkeypatch.setattr(Climb, "reading", falls)
    found = run(p, replace(QUICK, max_steps=48))
    assert found.course.n_restarts == 2
    assert np.isfinite(found.course.path).all()
    assert found.conditioned.converged

    monkeypatch.setattr(Climb, "reading", lambda self: -np.inf)
    lost = run(p, replace(QUICK, max_steps=48))
    assert lost.course.n_restarts == QUICK.max_restarts + 1
    assert not lost.course.converged
    assert torch.equal(lost.theta, vector(p))


# The parts.


def test_moving_to_the_same_inducing_points_changes_nothing() -> None:
    p = latents("poisson", n=20)
    (whitening,) = whitenings(p.model, p.observations.x[:, :6])
    (q,) = some_q(p, 6)
    moved = q.seen_from(whitening, whitening)
    torch.testing.assert_close(moved.mean, q.mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(moved.covariance, q.covariance, rtol=1e-5, atol=1e-6)


def test_q_at_more_inducing_points_predicts_the_same() -> None:
    p = latents("poisson", n=20)
    (few,) = whitenings(p.model, p.observations.x[:, :6])
    (more,) = whitenings(p.model, p.observations.x[:, :14])
    (q,) = some_q(p, 6)
    moved = q.seen_from(few, more)
    before = q.moments(few.view(p.observations.x[:, :14]))
    after = moved.moments(more.view(p.observations.x[:, :14]))
    for a, b in zip(before[:2], after[:2], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_batches_hold_each_row_once_and_an_epoch_follows_another() -> None:
    parts = partition(23, 5, 0)
    assert sorted(torch.cat(parts).tolist()) == list(range(23))
    assert {len(part) for part in parts} == {4, 5}
    stream = endless(23, 5, 0)
    first, second = ([next(stream) for _ in range(5)] for _ in range(2))
    assert sorted(torch.cat(second).tolist()) == list(range(23))
    assert not all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_adam_stays_in_bounds_and_finds_a_noisy_optimum() -> None:
    adam = Adam([(-1.0, 1.0), (-9.0, 9.0)], 0.1, 50.0)
    theta, generator = tensor([0.0, 0.0]), torch.Generator().manual_seed(0)
    for _ in range(1500):
        noise = torch.randn(2, generator=generator, dtype=torch.float64)
        theta = adam.step(theta, -(theta - tensor([3.0, 2.0])) + noise)
        assert bool((theta[0] >= -1.0) & (theta[0] <= 1.0))
    assert float(theta[0]) == pytest.approx(1.0, abs=0.05)
    assert float(theta[1]) == pytest.approx(2.0, abs=0.3)
