"""Both engines of the learner: their vectors, objectives and posteriors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.inference.models import Latents, latents
from tests.references import mixed_features, tensor

from oakgp.inference import variational
from oakgp.inference.data import TrainingData
from oakgp.inference.engines import Regression, Variational
from oakgp.inference.learn import Learned, Learner, Schedule
from oakgp.inference.matching import Matched
from oakgp.inference.sites import Observations
from oakgp.inference.space import ParameterSpace
from oakgp.inference.stochastic.hyperparameters import Pace
from oakgp.kernels.additive import AdditiveKernel
from oakgp.kernels.terms import term_set
from oakgp.likelihoods import LIKELIHOODS, BernoulliLogit
from oakgp.ops.threads import one_torch_thread

SHORT = Schedule(max_iterations=6, race_iterations=3, trial_iterations=3, tolerance=1e-3)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_torch_thread():
        yield


def engine(name: str, n: int = 16) -> Variational:
    p: Latents = latents(name, n=n, shared=True)
    model = p.model
    space = ParameterSpace(model.kernel, learn_scales=True, learn_noise=False)
    own = model.likelihood_parameters
    return Variational(space, p.observations, model.likelihood, model.levels, own)


def learn(name: str, how: str = "exact", schedule: Schedule = SHORT, n: int = 16) -> Learned:
    return Learner(engine(name, n), schedule, 0).learn(how, 8)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_vector_holds_each_kernel_once_and_the_logs_of_the_parameters(name: str) -> None:
    given = engine(name)
    n_kernels = 2 if name == "heteroscedastic_gaussian" else 1
    start, limits = given.start(0.7, 0.1, 0), np.array(given.limits())
    assert (
        len(start) == len(limits) == n_kernels * len(given.space.limits()) + len(given.parameters)
    )
    assert (limits[:, 0] <= start).all()
    assert (start <= limits[:, 1]).all()
    model = given.at(start)
    assert len(model.distinct[0]) == n_kernels
    torch.testing.assert_close(model.likelihood_parameters, given.parameters)
    assert float(model.parameters[0].lengthscales[0]) == pytest.approx(0.7)


@pytest.mark.parametrize("name", ["bernoulli_logit", "heteroscedastic_gaussian", "beta"])
@pytest.mark.parametrize("inducing", [None, torch.tensor([0, 3, 7, 11])])
def test_slopes_of_the_objective(name: str, inducing: torch.Tensor | None) -> None:
    given = engine(name)
    run = given.objective(inducing)
    run.bound.tolerance = 1e-11
    at = given.start(0.8, 0.1, 0) + 0.05
    variable = tensor(at).requires_grad_()
    (slopes,) = torch.autograd.grad(run(variable), variable)
    rng = np.random.default_rng(0)
    for _ in range(3):
        way = tensor(rng.standard_normal(len(at)))
        with torch.no_grad():
            up, down = (float(run(tensor(at) + step * way)) for step in (1e-4, -1e-4))
        assert (up - down) / 2e-4 == pytest.approx(float(slopes @ way), rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize("how", ["exact", "sparse"])
def test_same_seed_same_bits(name: str, how: str) -> None:
    one, other = learn(name, how), learn(name, how)
    assert len(one.fitted.posteriors) == engine(name).likelihood.n_latents
    assert one.log_evidence == other.log_evidence
    assert np.isfinite(one.log_evidence)
    for a, b in zip(one.fitted.posteriors, other.fitted.posteriors, strict=True):
        assert torch.equal(a.mean_weights, b.mean_weights)
        assert torch.equal(a.whitener, b.whitener)
    assert torch.equal(one.fitted.likelihood_parameters, other.fitted.likelihood_parameters)


def test_gaussian_noise_is_learned_as_in_regression() -> None:
    """The same evidence, but for the noise's prior and bounds."""
    given = engine("gaussian", n=40)
    o = given.observations
    data = TrainingData(o.x, o.y - o.offset - given.levels[0], o.weight, 0.0)
    other = Regression(ParameterSpace(given.space.kernel, learn_scales=True), data)
    theta = given.start(0.6, 0.1, 0)
    block, own = theta[:-1], theta[-1:]
    parameters = given.unpack(tensor(theta))[0][0]
    vector = other.space.pack(
        type(parameters)(
            parameters.lengthscales,
            parameters.scales,
            parameters.order_variances,
            tensor(np.exp(own[0])),
            parameters.mixing,
            parameters.diagonal,
        )
    )
    assert len(vector) == len(block) + 1
    value = float(given.objective()(tensor(theta))) + given.log_prior(theta)
    truth = float(other.objective()(tensor(vector))) + other.log_prior(vector)
    assert value == pytest.approx(truth, abs=1e-6)
    (one,), (two,) = given.finish(theta).posteriors, other.finish(vector).posteriors
    np.testing.assert_allclose(one.mean(o.x), two.mean(o.x), atol=1e-7)


def test_more_rows_than_the_main_run_sees_go_through_inducing_points() -> None:
    schedule = Schedule(
        start_rows=10, exact_rows=15, middle_rows=12, sparse_rows=18, max_iterations=4
    )
    learned = learn("poisson", "auto", schedule, n=30)
    assert learned.engine == "sparse"
    assert 0 < learned.n_inducing <= 8
    assert learned.evidence_rows == 30
    exact = learn("poisson", "exact", schedule, n=30)
    assert (exact.engine, exact.n_inducing, exact.evidence_rows) == ("exact", 0, 30)


def test_runs_begin_anew_unless_told_to_go_on() -> None:
    given = engine("bernoulli_logit")
    theta = tensor(given.start(1.0, 0.1, 0))
    first = given.objective()
    assert first.bound.sites is None
    first(theta)
    assert given.objective().bound.sites is None
    assert given.objective(after=first).bound.sites is first.bound.sites
    # Other rows have other sites.
    assert given.take(torch.arange(5)).objective(after=first).bound.sites is None


def test_a_posterior_that_was_not_found_is_not_convergence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = variational.update_sites

    def lost(*given: Any) -> Matched:
        return replace(found(*given), converged=False)

    plenty = Schedule(max_iterations=300)
    assert learn("poisson", schedule=plenty).converged
    monkeypatch.setattr(variational, "update_sites", lost)
    assert not learn("poisson", schedule=plenty).converged


def test_several_latent_functions_get_fewer_rows() -> None:
    assert Schedule().for_latents(1).exact_rows == 1000
    assert Schedule().for_latents(3).exact_rows == 700
    assert Schedule(exact_rows=50).for_latents(1).exact_rows == 50


def test_minibatches_find_an_interaction_that_few_rows_had_given_up() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 1500))
    f = 3.0 * np.cos(2.0 * x[0]) * x[1]
    y = (rng.random(1500) < 1.0 / (1.0 + np.exp(-f))).astype(float)
    features = [feature for feature in mixed_features() if not feature.is_categorical][:1] * 2
    kernel = AdditiveKernel(tuple(features), term_set(2, 2))
    space = ParameterSpace(kernel, learn_scales=True, learn_noise=False)
    one = torch.ones(1500, dtype=torch.float64)
    rows = Observations(tensor(x), tensor(y), one, torch.zeros_like(one))
    given = Variational(space, rows, BernoulliLogit(), tensor([0.0]), tensor([]))
    faded = space.pack(
        replace(
            space.unpack(tensor(given.start(1.0, 0.1, 0))),
            lengthscales=tensor([100.0, 1.0]),
            order_variances=tensor([0.1, 0.1, 1e-10]),
        )
    )
    pace = Pace(batch_rows=300, max_steps=120)
    fitted, found = given.learn_in_batches(faded, 40, tolerance=0.1, seed=0, pace=pace)
    mean = fitted.posteriors[0].mean(rows.x)
    assert float(np.corrcoef(mean.numpy(), f)[0, 1]) > 0.9
    assert float(found.model.parameters[0].lengthscales[0]) < 2.0
