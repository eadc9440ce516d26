"""What is particular to single likelihoods: limits, starting values, refusals, hard integrals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import logsumexp
from tests.likelihoods.cases import CASES, Array
from tests.references import tensor

from oakgp.likelihoods import (
    BernoulliLogit,
    BernoulliProbit,
    Beta,
    Gamma,
    Gaussian,
    HeteroscedasticGaussian,
    Likelihood,
    NegativeBinomial,
    Poisson,
    Softmax,
    StudentT,
    likelihood_from_dict,
)
from oakgp.likelihoods.quadrature import rule

NONE = tensor([])
GRID = np.linspace(-9.0, 9.0, 100_001)
MASS = np.exp(-(GRID**2) / 2) / np.exp(-(GRID**2) / 2).sum()


def moments(mean: float, variance: float) -> tuple[torch.Tensor, torch.Tensor]:
    return tensor([[mean]]), tensor([[variance]])


# Rules of quadrature.


@pytest.mark.parametrize("n_latents", [1, 2, 3, 12])
def test_rules_are_exact_up_to_cubes(n_latents: int) -> None:
    nodes, weights = rule(n_latents)
    assert nodes.shape == (n_latents, len(weights))
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(nodes @ weights, 0.0, atol=1e-12)
    np.testing.assert_allclose((nodes * weights) @ nodes.T, np.eye(n_latents), atol=1e-12)
    cubes = np.einsum("is,js,ks,s->ijk", nodes, nodes, nodes, weights)
    np.testing.assert_allclose(cubes, 0.0, atol=1e-12)


def test_more_classes_than_points_still_have_unit_variances() -> None:
    nodes, weights = rule(150)
    np.testing.assert_allclose(nodes**2 @ weights, 1.0, atol=1e-12)
    p = Softmax(150).response_mean(torch.zeros(150, 2).double(), torch.ones(150, 2).double(), NONE)
    np.testing.assert_allclose(p.sum(dim=0), 1.0, atol=1e-12)


def test_quasi_random_points_do_not_touch_the_global_generator() -> None:
    before = torch.random.get_rng_state()
    rule.cache_clear()
    first = rule(4)[0].copy()
    rule.cache_clear()
    np.testing.assert_array_equal(rule(4)[0], first)
    assert torch.equal(torch.random.get_rng_state(), before)


# Integrands that fixed nodes would miss.


@pytest.mark.parametrize("deviation", [0.1, 1.0])
def test_predictive_density_of_a_large_count(deviation: float) -> None:
    mean, y = math.log(1e5), np.round(1e5 * math.exp(0.7 * deviation))
    got = Poisson().log_predictive(tensor([y]), *moments(mean, deviation**2), NONE)
    rate = np.exp(mean + deviation * GRID)
    truth = logsumexp(stats.poisson.logpmf(y, rate), b=MASS)
    assert float(got) == pytest.approx(float(truth), abs=1e-7)


@pytest.mark.parametrize("deviation", [0.1, 1.0])
def test_quantiles_of_a_large_count(deviation: float) -> None:
    """The count's own spread is far below the nodes' distance: the stated error remains."""
    levels = (0.025, 0.5, 0.975)
    mean = math.log(1e5)
    got = Poisson().response_quantiles(*moments(mean, deviation**2), NONE, levels)[0].numpy()
    for level, y in zip(levels, got, strict=True):
        reached = MASS @ stats.poisson.cdf(y, np.exp(mean + deviation * GRID))
        assert reached == pytest.approx(level, abs=3e-3)


@pytest.mark.parametrize("ratio", [3.0, 30.0])
def test_student_t_with_a_scale_far_below_the_latent_deviation(ratio: float) -> None:
    freedom, scale, y = 4.0, 0.2, 0.3
    deviation = ratio * scale
    f = -0.1 + deviation * GRID
    d = y - f
    c = freedom * scale**2
    truth = (
        MASS @ stats.t(freedom, scale=scale).logpdf(d),
        MASS @ ((freedom + 1) * d / (c + d**2)),
        MASS @ (0.5 * (freedom + 1) * (d**2 - c) / (c + d**2) ** 2),
    )
    theta = tensor([scale, freedom])
    got = StudentT().expected(tensor([y]), *moments(-0.1, deviation**2), theta)
    for one, other in zip(got, truth, strict=True):
        assert float(one) == pytest.approx(float(other), rel=1e-8, abs=1e-10)


# Limits and relations.


def test_softmax_of_two_is_the_logit_of_the_difference() -> None:
    rng = np.random.default_rng(2)
    mean, variance = tensor(rng.normal(size=(2, 20))), tensor(rng.uniform(0.1, 1.0, (2, 20)))
    y = tensor(rng.integers(0, 2, 20))
    softmax, logit = Softmax(2), BernoulliLogit()
    difference = (mean[[1]] - mean[[0]], variance.sum(dim=0, keepdim=True), NONE)
    got = softmax.expected(y, mean, variance, NONE)
    truth = logit.expected(y, *difference)
    np.testing.assert_allclose(got.value, truth.value, atol=1e-7)
    np.testing.assert_allclose(got.by_mean[1], truth.by_mean[0], atol=1e-6)
    np.testing.assert_allclose(got.by_mean[0], -truth.by_mean[0], atol=1e-6)
    for row in got.by_variance:
        np.testing.assert_allclose(row, truth.by_variance[0], atol=1e-6)
    p = softmax.response_mean(mean, variance, NONE)
    np.testing.assert_allclose(p[1], logit.response_mean(*difference), atol=1e-6)


def test_negative_binomial_without_dispersion_is_poisson() -> None:
    y, mean, variance = tensor([0.0, 2.0, 9.0]), tensor([[0.1, 0.9, 1.5]]), tensor([[0.2] * 3])
    got = NegativeBinomial().expected(y, mean, variance, tensor([1e-6]))
    truth = Poisson().expected(y, mean, variance, NONE)
    for one, other in zip(got, truth, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_gamma_of_shape_one_is_exponential() -> None:
    got = Gamma().log_density(tensor([0.7]), tensor([[0.4]]), tensor([1.0]))
    assert float(got) == pytest.approx(stats.expon(scale=math.exp(0.4)).logpdf(0.7), abs=1e-12)


def test_heteroscedastic_noise_that_is_known_is_gaussian_noise() -> None:
    y, mean, variance = tensor([0.3]), tensor([[0.1], [-1.0]]), tensor([[0.4], [0.0]])
    noise = tensor([math.exp(-1.0)])
    got = HeteroscedasticGaussian().expected(y, mean, variance, NONE)
    truth = Gaussian().expected(y, mean[:1], variance[:1], noise)
    for one, other in zip(got, truth, strict=True):
        torch.testing.assert_close(one.reshape(-1)[:1], other.reshape(-1))
    quantiles = HeteroscedasticGaussian().response_quantiles(mean, variance, NONE, [0.1, 0.7])
    truth = Gaussian().response_quantiles(mean[:1], variance[:1], noise, [0.1, 0.7])
    torch.testing.assert_close(quantiles, truth, atol=1e-8, rtol=1e-8)


def test_probit_derivatives_in_the_far_tail() -> None:
    f = tensor([[-1e3, -1e5, 50.0]])
    first, second = BernoulliProbit().derivatives(tensor([1.0, 1.0, 1.0]), f, NONE)
    np.testing.assert_allclose(first[0, :2], [1e3 + 1e-3 - 2e-9, 1e5 + 1e-5], rtol=1e-13)
    np.testing.assert_allclose(second[0, :2], [-1.0, -1.0], rtol=1e-4)
    assert float(first[0, 2]) == float(second[0, 2]) == 0.0


def test_overshooting_latent_values_are_finite_and_pushed_back() -> None:
    y, far = tensor([3.0]), moments(1e4, 1e3)
    poisson = Poisson().expected(y, *far, NONE)
    assert float(poisson.by_mean) < -1e100
    gamma = Gamma().expected(y, tensor([[-1e4]]), far[1], tensor([2.0]))
    assert float(gamma.by_mean) > 1e100
    beta = Beta().log_density(tensor([0.5, 0.5]), tensor([[1e4, -1e4]]), tensor([3.0]))
    for value in (*poisson, *gamma, beta):
        assert bool(torch.isfinite(value).all())


# Refusals.


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (
            Poisson(),
            [1.0, -2.0, -1.0],
            r"y is negative in 2 of 3 rows, the first is row 1 \(-2, counted from 0\); counts are",
        ),
        (
            NegativeBinomial(),
            [0.0, 1.5],
            r"y is not a whole number in 1 of 2 rows, the first is row 1 \(1.5.*use the gamma",
        ),
        (
            Beta(),
            [0.0, 0.5, 1.0],
            r"not strictly between 0 and 1 in 2 of 3 rows, the first is row 0 \(0, .*"
            r"squeeze .*\(y \* \(n - 1\) \+ 0.5\) / n",
        ),
        (Beta(), [0.5, np.nan], r"in 1 of 2 rows, the first is row 1 \(nan"),
        (Gamma(), [1.0, 0.0], r"y is not positive in 1 of 2 rows, the first is row 1 \(0,.*zeros"),
        (BernoulliLogit(), [0.0, 2.0, 1.0], r"y is not 0 or 1 in 1 of 3 rows.*row 1 \(2,.*number"),
        (BernoulliProbit(), [0.5], r"y is not 0 or 1 in 1 of 1 rows, the first is row 0 \(0.5"),
        (Softmax(3), [0.0, 3.0, -1.0], r"class numbers 0 .. 2 in 2 of 3 rows.*row 1 \(3,.*from 0"),
        (Gaussian(), [0.0, np.inf], r"y is not finite in 1 of 2 rows.*row 1 \(inf.*drop"),
        (StudentT(), [np.nan], r"y is not finite in 1 of 1 rows"),
        (HeteroscedasticGaussian(), [np.nan], r"y is not finite"),
        (Poisson(), [np.nan], r"y is not finite"),
        (Gamma(), [np.inf], r"y is not finite"),
    ],
)
def test_impossible_responses_are_refused(
    likelihood: Likelihood, y: list[float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        likelihood.check(np.array(y))


@pytest.mark.parametrize("level", [0.0, 1.0, math.nan])
@pytest.mark.parametrize("name", ["gaussian", "bernoulli_logit", "poisson"])
def test_levels_outside_the_open_interval_are_refused(name: str, level: float) -> None:
    case = CASES[name]
    with pytest.raises(ValueError, match=r"quantile level .*between 0 and 1, exclusive"):
        case.likelihood.response_quantiles(*moments(0.0, 1.0), case.theta, [0.5, level])


def test_classes_have_no_quantiles() -> None:
    with pytest.raises(ValueError, match=r"classes have no order; use the class probabilities"):
        Softmax(3).response_quantiles(torch.zeros(3, 2), torch.ones(3, 2), NONE, [0.5])


def test_one_class_is_no_choice() -> None:
    with pytest.raises(ValueError, match=r"n_classes=1: a choice needs at least 2 classes"):
        Softmax(1)


def test_an_unknown_name_in_a_model_file_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Unknown likelihood 'cauchy'.*update it"):
        likelihood_from_dict({"name": "cauchy"})


def test_latent_functions_have_names() -> None:
    assert Poisson().latent_names == ("",)
    assert Softmax(3).latent_names == ("class 0", "class 1", "class 2")
    assert HeteroscedasticGaussian().latent_names == ("mean", "log noise")


# Starting values.


def start(
    likelihood: Likelihood, y: Array | list[float], offset: Array | None = None
) -> tuple[list[float], list[float]]:
    response = np.asarray(y, dtype=np.float64)
    shift = np.zeros(len(response)) if offset is None else offset
    level, parameters = likelihood.start(response, np.ones(len(response)), shift)
    return level.tolist(), parameters.tolist()


def test_start_is_centred_on_the_data() -> None:
    assert start(Gaussian(), [1.0, 3.0]) == ([2.0], [0.5])
    assert start(BernoulliLogit(), [0, 0, 0, 1])[0] == pytest.approx([math.log(1 / 3)])
    assert start(BernoulliProbit(), [0, 0, 0, 1])[0] == pytest.approx([stats.norm.ppf(0.25)])
    assert start(Poisson(), [0, 1, 5])[0] == pytest.approx([math.log(2)])
    assert start(Beta(), [0.1, 0.3])[0] == pytest.approx([math.log(0.25)])
    level, _ = start(Softmax(3), [0, 0, 0, 0, 1, 1, 2, 2])
    assert sum(level) == pytest.approx(0.0)
    assert level[0] - level[1] == pytest.approx(math.log(2))
    level, _ = start(HeteroscedasticGaussian(), [1.0, 3.0])
    assert level == pytest.approx([2.0, math.log(0.5)])


def test_start_takes_exposure_out_of_the_rate() -> None:
    exposure = np.array([1.0, 10.0, 4.0])
    level, _ = start(Poisson(), [2.0, 20.0, 8.0], np.log(exposure))
    assert level == pytest.approx([math.log(2.0)])


def test_start_of_one_label_or_no_event_counts_half_a_row() -> None:
    assert start(BernoulliLogit(), [1] * 9)[0] == pytest.approx([math.log(0.95 / 0.05)])
    assert start(BernoulliLogit(), [0] * 9)[0] == pytest.approx([math.log(0.05 / 0.95)])
    assert start(Poisson(), [0] * 10)[0] == pytest.approx([math.log(0.05)])


def test_start_of_spreads_gives_half_to_the_noise() -> None:
    rng = np.random.default_rng(0)
    gamma = stats.gamma(3.0, scale=2.0 / 3.0).rvs(20_000, random_state=rng)
    assert start(Gamma(), gamma)[1] == pytest.approx([6.0], rel=0.1)
    counts = stats.nbinom(2.0, 2.0 / 6.0).rvs(20_000, random_state=rng)  # mean 4, alpha 1/2
    assert start(NegativeBinomial(), counts)[1] == pytest.approx([0.25], rel=0.1)
    shares = stats.beta(2.0, 6.0).rvs(20_000, random_state=rng)
    assert start(Beta(), shares)[1] == pytest.approx([17.0], rel=0.1)


def test_start_of_student_t_ignores_an_outlier() -> None:
    y = np.r_[np.linspace(-1.0, 1.0, 101), 1e9]
    level, (scale, freedom) = start(StudentT(), y)
    assert level == pytest.approx([0.0], abs=0.05)
    assert scale == pytest.approx(math.sqrt(0.5) / 1.349, rel=0.05)
    assert freedom == 4.0


# Draws.


@pytest.mark.parametrize("name", list(CASES))
def test_draws_have_the_shape_of_the_latent_values(name: str) -> None:
    case = CASES[name]
    f = torch.zeros(case.likelihood.n_latents, 2, 3, 5, dtype=torch.float64)
    draws = case.likelihood.sample(f, case.theta, torch.Generator().manual_seed(0))
    assert draws.shape == (2, 3, 5)
    assert draws.dtype == torch.float64


def test_draws_follow_the_distribution() -> None:
    count = 4000
    for name in ("gamma", "student_t", "beta", "gaussian"):
        case = CASES[name]
        f = torch.full((1, count), 0.4, dtype=torch.float64)
        draws = case.likelihood.sample(f, case.theta, torch.Generator().manual_seed(3)).numpy()
        assert case.given is not None
        assert stats.kstest(draws, case.given(np.array([0.4])).cdf).pvalue > 1e-3
