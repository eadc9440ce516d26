"""The E-step: fixed points, a bound that does not fall, and data that break other methods."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.inference.models import latents
from tests.references import tensor

from oakgp.inference import matching
from oakgp.inference.anderson import Anderson
from oakgp.inference.cholesky import NotPositiveDefiniteError
from oakgp.inference.conditioning import DensePrior
from oakgp.inference.matching import Target, match
from oakgp.inference.sites import Observations, Sites
from oakgp.likelihoods import LIKELIHOODS, Likelihood, Softmax
from oakgp.ops.threads import one_torch_thread

Array = NDArray[np.float64]

every = pytest.mark.parametrize("name", LIKELIHOODS)

N = 60


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Matrices this small are slower on several threads, above all on a busy machine."""
    with one_torch_thread():
        yield


def likelihood_of(name: str) -> Likelihood:
    return Softmax(3) if name == "softmax" else LIKELIHOODS[name]()


def smooth(scale: float, n: int = N, noise: float = 1e-8) -> DensePrior:
    x = np.linspace(-2.0, 2.0, n)
    k = scale * np.exp(-0.5 * (x[:, None] - x) ** 2) + noise * np.eye(n)
    return DensePrior(tensor(k))


def target(likelihood: Likelihood, y: Array, scale: float = 2.0, noise: float = 1e-8) -> Target:
    """The model as a fit would start it: levels and parameters from the responses."""
    n = len(y)
    levels, parameters = likelihood.start(y, np.ones(n), np.zeros(n))
    ones = torch.ones(n, dtype=torch.float64)
    observations = Observations(torch.zeros(1, n), tensor(y), ones, 0.0 * ones)
    priors = (smooth(scale, n, noise),) * likelihood.n_latents
    return Target(priors, likelihood, parameters, levels, observations)


def small(name: str) -> Target:
    p = latents(name)
    return Target(
        tuple(DensePrior(tensor(k)) for k in p.covariances()),
        p.model.likelihood,
        p.model.likelihood_parameters,
        p.model.levels,
        p.observations,
    )


@every
def test_the_end_is_a_fixed_point(name: str) -> None:
    t = small(name)
    end = match(t, t.start(), 1e-12, 200)
    assert end.converged
    q = end.approximation
    goal = Sites.matching(q.expected, q.mean)
    np.testing.assert_allclose(q.sites.first, goal.first, atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(q.sites.precision, goal.precision, atol=1e-5, rtol=1e-5)


@every
def test_more_steps_never_lower_the_bound(name: str) -> None:
    t = small(name)
    ends = [match(t, t.start(), 1e-12, k).approximation.bound for k in range(1, 16)]
    assert (np.diff(ends) >= -1e-9).all()
    assert ends[0] > t.approximation(t.start()).bound - 1e-9


def test_gaussian_noise_takes_one_step() -> None:
    t = small("gaussian")
    one = match(t, t.start(), 1e-9, 1)
    more = match(t, t.start(), 1e-9, 50)
    assert one.approximation.bound == pytest.approx(more.approximation.bound, abs=1e-10)
    assert more.converged
    assert more.n_iterations <= 2


@every
def test_starting_at_the_end_takes_one_step(name: str) -> None:
    t = small(name)
    end = match(t, t.start(), 1e-9, 200)
    again = match(t, end.approximation.sites, 1e-6, 200)
    assert again.converged
    assert again.n_iterations == 1


def test_the_limit_of_steps_is_told() -> None:
    t = small("poisson")
    end = match(t, t.start(), 1e-12, 1)
    assert not end.converged
    assert end.n_iterations == 1


def test_a_start_that_is_no_place_at_all() -> None:
    """Sites of another data set, a thousand times too certain and far off."""
    t = small("bernoulli_logit")
    n = t.observations.n
    far = Sites(tensor([[1e6] * n]), tensor([[1e3] * n]))
    end = match(t, far, 1e-9, 200)
    truth = match(t, t.start(), 1e-9, 200)
    assert end.converged
    assert end.approximation.bound == pytest.approx(truth.approximation.bound, abs=1e-6)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1e200])
def test_a_step_into_nowhere_is_taken_back(monkeypatch: pytest.MonkeyPatch, bad: float) -> None:
    t = small("poisson")
    truth = match(t, t.start(), 1e-6, 200).approximation
    monkeypatch.setattr(Anderson, "next", lambda _, scale: torch.full_like(scale, bad))
    end = match(t, t.start(), 1e-6, 400)
    assert end.converged
    assert end.approximation.bound == pytest.approx(truth.bound, abs=1e-3)


def test_a_kernel_that_is_not_finite_is_told() -> None:
    t = small("poisson")
    broken = DensePrior(torch.full((t.observations.n,) * 2, float("nan"), dtype=torch.float64))
    wrong = Target((broken,), t.likelihood, t.parameters, t.levels, t.observations)
    with pytest.raises(NotPositiveDefiniteError, match="not finite"):
        match(wrong, wrong.start(), 1e-6, 10)


def hard_cases() -> dict[str, Target]:
    rng = np.random.default_rng(0)
    x = np.linspace(-2.0, 2.0, N)
    separable = (x > 0).astype(float)
    rare = np.zeros(1000)
    rare[137] = 1.0
    counts = np.round(10.0 ** np.linspace(0, 6, N) * rng.uniform(0.5, 2.0, N))
    one_count = np.zeros(N)
    one_count[30] = 1e6
    outliers = np.sin(2 * x) + 0.1 * rng.standard_normal(N)
    outliers[[7, 30, 31]] += [100.0, -50.0, 1000.0]
    amounts = 10.0 ** rng.uniform(-6, 6, N)
    shares = np.clip(rng.beta(0.05, 0.05, N), 1e-12, 1 - 1e-12)
    make = likelihood_of
    cases = {
        "separable logit": target(make("bernoulli_logit"), separable, 1e2),
        "separable, huge prior": target(make("bernoulli_logit"), separable, 1e4),
        "separable probit": target(make("bernoulli_probit"), separable, 1e3),
        "all one class": target(make("bernoulli_logit"), np.ones(N)),
        "999 to 1, logit": target(make("bernoulli_logit"), rare[:300], noise=1e-6),
        "999 to 1, probit": target(make("bernoulli_probit"), rare[:300], noise=1e-6),
        "999 to 1, softmax": target(make("softmax"), rare[:300], noise=1e-6),
        "counts to 1e6": target(make("poisson"), counts, 1e2),
        "counts to 1e6, overdispersed": target(make("negative_binomial"), counts, 1e2),
        "one count of 1e6": target(make("poisson"), one_count, 10.0),
        "one count of 1e6, overdispersed": target(make("negative_binomial"), one_count, 10.0),
        "amounts over 12 decades": target(make("gamma"), amounts, 1e2),
        "shares near the edges": target(make("beta"), shares, 10.0),
        "outliers": target(make("student_t"), outliers),
        "outliers, varying noise": target(make("heteroscedastic_gaussian"), outliers),
        "separable classes": target(make("softmax"), np.repeat([0.0, 1.0, 2.0], N // 3), 1e2),
    }
    tiny = torch.tensor([1e-3, 3.0], dtype=torch.float64)
    t = cases["outliers"]
    cases["outliers of 1e6 scales"] = Target(t.priors, t.likelihood, tiny, t.levels, t.observations)
    return cases


HARD = hard_cases()


@pytest.mark.parametrize("name", list(HARD))
def test_hard_data(name: str) -> None:
    t = HARD[name]
    end = match(t, t.start(), 1e-6, 300)
    q = end.approximation
    for values in (q.sites.first, q.sites.precision, q.mean, q.variance):
        assert bool(torch.isfinite(values).all())
    assert bool((q.sites.precision >= 0).all())
    assert np.isfinite(q.bound)
    assert end.converged, end.n_iterations


@pytest.mark.parametrize("name", ["outliers", "counts to 1e6"])
def test_same_input_same_bits(name: str) -> None:
    t = HARD[name]
    one, other = (match(t, t.start(), 1e-6, 300).approximation for _ in range(2))
    assert one.bound == other.bound
    assert torch.equal(one.sites.first, other.sites.first)
    assert torch.equal(one.variance, other.variance)


def test_outliers_have_a_surplus_and_others_none() -> None:
    t = HARD["outliers"]
    q = match(t, t.start(), 1e-6, 300).approximation
    extra = matching.surplus(t, q)
    assert extra is not None
    rows = set(extra[0].nonzero()[:, 0].tolist())
    assert {7, 30, 31} <= rows
    assert len(rows) < N // 4
    log_concave = HARD["counts to 1e6"]
    q = match(log_concave, log_concave.start(), 1e-6, 300).approximation
    assert matching.surplus(log_concave, q) is None
