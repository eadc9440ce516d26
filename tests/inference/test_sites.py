"""Sites: their containers, expectations, and how they start."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.inference.models import latents
from tests.likelihoods.cases import CASES
from tests.references import tensor

from oakgp.inference.sites import Observations, Sites, expectation, parameter_gradient
from oakgp.likelihoods import LIKELIHOODS, Softmax

every = pytest.mark.parametrize("name", LIKELIHOODS)

#: What fixed nodes leave between the slope of a sum and the sum of the slopes.
SLOPES = {name: 1e-7 for name in LIKELIHOODS} | {"softmax": 0.1}


def moments(count: int, n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    return tensor(rng.normal(0.0, 0.8, (count, n))), tensor(rng.uniform(0.05, 1.0, (count, n)))


def test_rows_of_observations_and_sites() -> None:
    o = latents("poisson").observations
    rows = torch.tensor([3, 1])
    some = o.take(rows)
    assert some.n == 2
    assert torch.equal(some.x, o.x[:, rows])
    for got, whole in ((some.y, o.y), (some.weight, o.weight), (some.offset, o.offset)):
        assert torch.equal(got, whole[rows])
    assert o.to("cpu", torch.float32).weight.dtype == torch.float32
    sites = Sites(torch.arange(8.0).reshape(2, 4), torch.arange(4.0).expand(2, 4))
    assert sites.take(rows).first.tolist() == [[3.0, 1.0], [7.0, 5.0]]
    assert sites.take(rows).precision.tolist() == [[3.0, 1.0], [3.0, 1.0]]


def test_offsets_belong_to_the_first_latent_function() -> None:
    o = latents("heteroscedastic_gaussian").observations
    mean, _ = moments(2, o.n)
    before = mean.clone()
    at = o.latent_mean(tensor([0.3, -2.0]), mean)
    assert torch.equal(mean, before)
    np.testing.assert_allclose(at[0], mean[0] + 0.3 + o.offset)
    np.testing.assert_allclose(at[1], mean[1] - 2.0)


def test_part_of_the_way() -> None:
    a = Sites(tensor([[0.0, 4.0]]), tensor([[1.0, 2.0]]))
    b = Sites(tensor([[8.0, 0.0]]), tensor([[3.0, 0.0]]))
    quarter = a.towards(b, 0.25)
    assert quarter.first.tolist() == [[2.0, 3.0]]
    assert quarter.precision.tolist() == [[1.5, 1.5]]
    assert a.towards(b, 1.0) is b


@every
def test_expectations_are_those_of_the_likelihood_times_the_weights(name: str) -> None:
    case, o = CASES[name], latents(name).observations
    mean, variance = moments(case.likelihood.n_latents, o.n)
    got = expectation(case.likelihood, case.theta, o, mean, variance)
    truth = case.likelihood.expected(o.y, mean, variance, case.theta)
    np.testing.assert_allclose(got.value, o.weight * truth.value, rtol=1e-12, atol=1e-12)
    for a, b in ((got.by_mean, truth.by_mean), (got.by_variance, truth.by_variance)):
        np.testing.assert_allclose(a, o.weight * b, atol=SLOPES[name])


@every
def test_slopes_are_those_of_the_value(name: str) -> None:
    """Of the very sum that the step control compares, quasi-random points included."""
    case, o = CASES[name], latents(name).observations
    mean, variance = moments(case.likelihood.n_latents, o.n)
    got = expectation(case.likelihood, case.theta, o, mean, variance)
    step = 1e-5
    for latent in range(case.likelihood.n_latents):
        move = torch.zeros_like(mean)
        move[latent] = step
        for by, ends in (
            (got.by_mean, [(mean + move, variance), (mean - move, variance)]),
            (got.by_variance, [(mean, variance + move), (mean, variance - move)]),
        ):
            high, low = (expectation(case.likelihood, case.theta, o, *m).value for m in ends)
            np.testing.assert_allclose(by[latent], (high - low) / (2 * step), rtol=1e-6, atol=1e-7)


@every
def test_gradient_by_the_parameters(name: str) -> None:
    case, o = CASES[name], latents(name).observations
    mean, variance = moments(case.likelihood.n_latents, o.n)
    got = parameter_gradient(case.likelihood, case.theta, o, mean, variance)
    assert got.shape == case.theta.shape
    for k in range(len(case.theta)):
        step = torch.zeros_like(case.theta)
        step[k] = 1e-5
        high, low = (
            float(expectation(case.likelihood, case.theta + s, o, mean, variance).value.sum())
            for s in (step, -step)
        )
        assert float(got[k]) == pytest.approx((high - low) / 2e-5, rel=1e-6, abs=1e-7)


def test_many_rows_go_through_in_chunks() -> None:
    """More than one chunk of the quadrature (6096 rows), and each row as if it were alone."""
    n = 7000
    y = (torch.arange(n) % 2).to(torch.float64)
    o = Observations(torch.zeros(1, n), y, 1.0 + y, torch.zeros(n))
    case = CASES["bernoulli_probit"]
    mean, variance = moments(1, n)
    whole = expectation(case.likelihood, case.theta, o, mean, variance)
    rows = torch.tensor([0, 6095, 6096, n - 1])
    part = expectation(case.likelihood, case.theta, o.take(rows), mean[:, rows], variance[:, rows])
    for a, b in zip(whole, part, strict=True):
        np.testing.assert_allclose(a[..., rows], b, rtol=1e-12)


@every
def test_start_is_finite_and_of_the_right_shape(name: str) -> None:
    p = latents(name)
    m = p.model
    sites = Sites.start(m.likelihood, m.likelihood_parameters, m.levels, p.observations)
    shape = (m.likelihood.n_latents, p.observations.n)
    assert sites.first.shape == sites.precision.shape == shape
    assert bool(torch.isfinite(sites.first).all())
    assert bool((sites.precision >= 0).all())
    assert float(sites.first.abs().max()) > 0


def test_negative_precisions_count_as_none() -> None:
    """The mean's slope stays what it was, so the mean still goes where the response pulls."""
    case = CASES["student_t"]
    o = Observations(torch.zeros(1, 2), tensor([0.1, 50.0]), torch.ones(2), torch.zeros(2))
    mean, variance = tensor([[0.2, 0.3]]), tensor([[0.1, 0.1]])
    expected = expectation(case.likelihood, case.theta, o, mean, variance)
    assert float(expected.by_variance[0, 1]) > 0
    sites = Sites.matching(expected, mean)
    assert float(sites.precision[0, 0]) > 0
    assert float(sites.precision[0, 1]) == 0
    np.testing.assert_allclose(sites.first - sites.precision * mean, expected.by_mean)


def test_softmax_of_many_classes_has_nodes() -> None:
    """More classes than the quasi-random points can decorrelate."""
    n, k = 4, 130
    o = Observations(
        torch.zeros(1, n), tensor([0.0, 5.0, 129.0, 5.0]), torch.ones(n), torch.zeros(n)
    )
    got = expectation(Softmax(k), tensor([]), o, torch.zeros(k, n), torch.full((k, n), 0.3))
    assert bool(torch.isfinite(got.by_variance).all())
