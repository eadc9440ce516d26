"""The bound, its gradient and its posterior against other engines, brute force and quadrature."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp
from tests.inference.models import Array, Latents, divergence, latents
from tests.likelihoods.cases import CASES
from tests.references import mixed_features, random_rows, tensor

from oakgp.inference import exact, sparse
from oakgp.inference.data import TrainingData
from oakgp.inference.matching import Approximation, Matched
from oakgp.inference.sites import Observations, Sites
from oakgp.inference.variational import (
    LatentModel,
    VariationalObjective,
    negative_bound,
    posterior,
    update_sites,
)
from oakgp.likelihoods import LIKELIHOODS, Softmax
from oakgp.ops.threads import one_torch_thread

every = pytest.mark.parametrize("name", LIKELIHOODS)
engines = pytest.mark.parametrize("inducing", [None, torch.tensor([0, 5, 9, 3])])

TIGHT = 1e-12


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Matrices this small are slower on several threads, above all on a busy machine."""
    with one_torch_thread():
        yield


def optimum(p: Latents, inducing: torch.Tensor | None = None) -> Matched:
    return update_sites(
        p.model, p.observations, None, inducing, tolerance=TIGHT, max_iterations=400
    )


def best(p: Latents, inducing: torch.Tensor | None = None) -> Approximation:
    return optimum(p, inducing).approximation


# Gaussian noise: the regression engines.


def regression(p: Latents) -> TrainingData:
    o = p.observations
    return TrainingData(o.x, o.y - o.offset - p.model.levels[0], o.weight, 0.0)


@engines
def test_gaussian_noise_gives_the_regression_engines(inducing: torch.Tensor | None) -> None:
    p = latents("gaussian", n=25)
    noise = p.model.likelihood_parameters[0]
    data = regression(p)

    def reference(vector: torch.Tensor) -> torch.Tensor:
        (parameters,), theta = p.unpack(vector)
        parameters = replace(parameters, noise=theta[0])
        if inducing is None:
            return exact.negative_evidence(p.model.kernel, parameters, data)
        return sparse.negative_bound(p.model.kernel, parameters, data, inducing)

    objective = VariationalObjective(p.model, p.observations, inducing)
    vector = p.vector().requires_grad_()
    got, truth = objective(*p.unpack(vector)), reference(vector)
    assert float(got.detach()) == pytest.approx(float(truth.detach()), abs=1e-8)
    (a,), (b,) = torch.autograd.grad(got, vector), torch.autograd.grad(truth, vector)
    np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-7)

    (one,), jitter = posterior(p.model, p.observations, best(p, inducing).sites, inducing)
    parameters = replace(p.model.parameters[0], noise=noise)
    if inducing is None:
        other, other_jitter = exact.posterior(p.model.kernel, parameters, data)
    else:
        other, other_jitter = sparse.posterior(p.model.kernel, parameters, data, inducing)
    assert jitter == other_jitter
    assert one.noise == 0.0
    test = tensor(random_rows(p.model.kernel.features, 9, np.random.default_rng(1)))
    for term in (None, (), (0,), (5,), (1, 3)):
        for x, y in zip(
            one.mean_and_variance(test, term), other.mean_and_variance(test, term), strict=True
        ):
            np.testing.assert_allclose(x, y, atol=1e-8)
        np.testing.assert_allclose(
            one.covariance(test, term=term), other.covariance(test, term=term), atol=1e-8
        )


def test_tiny_noise_keeps_its_digits() -> None:
    p = latents("gaussian", n=25)
    p = replace(p, model=replace(p.model, likelihood_parameters=tensor([1e-6])))
    parameters = replace(p.model.parameters[0], noise=tensor(1e-6))
    truth = exact.negative_evidence(p.model.kernel, parameters, regression(p))
    assert -best(p).bound == pytest.approx(float(truth), rel=1e-9)


# Other likelihoods: brute force.


def free_bound(
    p: Latents, mean: torch.Tensor, factor: torch.Tensor, k: torch.Tensor
) -> torch.Tensor:
    """E_q[log p] - KL for q = N(mean, factor factor^T), differentiable, one latent function."""
    o, m = p.observations, p.model
    variance = (factor**2).sum(dim=1)
    at = mean + m.levels[0] + o.offset
    values = m.likelihood.expected_value(o.y, at[None], variance[None], m.likelihood_parameters)
    lower = torch.linalg.cholesky(k)
    half = torch.linalg.solve_triangular(lower, factor, upper=False)
    white = torch.linalg.solve_triangular(lower, mean[:, None], upper=False)
    log_ratio = 2 * (lower.diagonal().log().sum() - factor.diagonal().abs().log().sum())
    kl = 0.5 * ((half**2).sum() + (white**2).sum() - len(mean) + log_ratio)
    return (o.weight * values).sum() - kl


@pytest.mark.parametrize(
    "name", ["bernoulli_logit", "bernoulli_probit", "poisson", "gamma", "student_t"]
)
def test_full_rank_optimum_is_that_of_brute_force(name: str) -> None:
    """Over the mean and all of the covariance's Cholesky factor, from the prior."""
    n = 8
    p = latents(name, seed=3, n=n)
    k = tensor(p.covariances()[0])
    rows, columns = torch.tril_indices(n, n)

    def split(vector: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        factor = torch.zeros(n, n, dtype=torch.float64).index_put((rows, columns), vector[n:])
        return vector[:n], factor

    def value(vector: Array) -> tuple[float, Array]:
        v = torch.tensor(vector, requires_grad=True)
        out = -free_bound(p, *split(v), k)
        return float(out.detach()), torch.autograd.grad(out, v)[0].numpy()

    start = np.r_[np.zeros(n), torch.linalg.cholesky(k)[rows, columns].numpy()]
    options = {"maxiter": 5000, "maxfun": 20_000, "gtol": 1e-8, "ftol": 1e-15}
    truth = minimize(value, start, jac=True, method="L-BFGS-B", options=options)
    got = best(p)
    assert got.bound == pytest.approx(-truth.fun, abs=1e-6)
    mean, factor = split(torch.tensor(truth.x))
    np.testing.assert_allclose(got.mean[0], mean, atol=2e-3)
    np.testing.assert_allclose(got.variance[0], (factor**2).sum(dim=1), atol=2e-3)


@every
def test_the_bound_is_its_formula(name: str) -> None:
    """Expectations and dense divergences at the optimum's own moments."""
    p = latents(name)
    q = best(p)
    o, m = p.observations, p.model
    at = o.latent_mean(m.levels, q.mean)
    value = m.likelihood.expected_value(o.y, at, q.variance, m.likelihood_parameters)
    total = float(o.weight @ value)
    for k, precision, mean in zip(p.covariances(), q.sites.precision, q.mean, strict=True):
        cov = np.linalg.inv(np.linalg.inv(k) + np.diag(precision.numpy()))
        total -= divergence(mean.numpy(), cov, k)
    assert q.bound == pytest.approx(total, abs=1e-6)


@every
def test_the_bound_is_below_the_marginal_likelihood_and_near_it(name: str) -> None:
    """Two rows: a grid over the whitened latent values of each, or many draws of them."""
    p = latents(name, seed=1, n=2)
    o, m = p.observations, p.model
    count = m.likelihood.n_latents
    factors = [tensor(np.linalg.cholesky(k)) for k in p.covariances()]
    if count == 1:
        grid = np.linspace(-8.0, 8.0, 801)
        white = tensor(np.stack(np.meshgrid(grid, grid, indexing="ij")).reshape(1, 2, -1))
        log_mass = -0.5 * (white**2).sum(dim=(0, 1)).numpy()
    else:
        white = tensor(np.random.default_rng(0).standard_normal((count, 2, 400_000)))
        log_mass = np.zeros(white.shape[-1])
    f = torch.stack([(a @ z).T for a, z in zip(factors, white, strict=True)])
    f = f + m.levels[:, None, None]
    f[0] += o.offset
    log_p = m.likelihood.log_density(o.y, f, m.likelihood_parameters) @ o.weight
    truth = logsumexp(log_p.numpy() + log_mass) - logsumexp(log_mass)
    bound = best(p).bound
    assert bound <= truth + (1e-6 if count == 1 else 0.02)
    assert bound > truth - 0.7


# Gradients.


def central_differences(p: Latents, inducing: torch.Tensor | None, step: float = 1e-4) -> Array:
    """Of the optimal bound, the sites converged anew at each end."""
    vector = p.vector()
    start = best(p, inducing).sites

    def value(at: torch.Tensor) -> float:
        parameters, theta = p.unpack(at)
        model = replace(p.model, parameters=parameters, likelihood_parameters=theta)
        end = update_sites(
            model, p.observations, start, inducing, tolerance=TIGHT, max_iterations=400
        )
        return -end.approximation.bound

    slopes = []
    for k in range(len(vector)):
        move = torch.zeros_like(vector)
        move[k] = step
        slopes.append((value(vector + move) - value(vector - move)) / (2 * step))
    return np.array(slopes)


@engines
@every
def test_gradient_by_every_hyperparameter(name: str, inducing: torch.Tensor | None) -> None:
    p = latents(name, seed=2, features=mixed_features()[3:6])
    vector = p.vector().requires_grad_()
    parameters, theta = p.unpack(vector)
    model = replace(p.model, parameters=parameters, likelihood_parameters=theta)
    value = negative_bound(model, p.observations, best(p, inducing).sites, inducing)
    (gradient,) = torch.autograd.grad(value, vector)
    truth = central_differences(p, inducing)
    np.testing.assert_allclose(gradient, truth, rtol=2e-4, atol=2e-5)


@engines
def test_gradient_with_outliers(inducing: torch.Tensor | None) -> None:
    """Precisions cut at 0 leave a small error: less than a hundredth of the largest slope."""
    p = latents("student_t", seed=2, features=mixed_features()[3:6])
    y = p.observations.y.clone()
    y[[2, 7]] += tensor([6.0, -40.0])
    p = replace(p, observations=replace(p.observations, y=y))
    q = best(p, inducing)
    assert bool((q.sites.precision[0, [2, 7]] == 0).all())
    vector = p.vector().requires_grad_()
    parameters, theta = p.unpack(vector)
    model = replace(p.model, parameters=parameters, likelihood_parameters=theta)
    value = negative_bound(model, p.observations, q.sites, inducing)
    (gradient,) = torch.autograd.grad(value, vector)
    truth = central_differences(p, inducing)
    np.testing.assert_allclose(gradient, truth, atol=0.01 * np.abs(truth).max())


def test_the_objective_is_the_optimal_bound_wherever_it_begins() -> None:
    p = latents("poisson")
    objective = VariationalObjective(p.model, p.observations, tolerance=1e-10)
    vector = p.vector()
    moved = vector + 0.3 * tensor(np.random.default_rng(0).standard_normal(len(vector)))
    first = float(objective(*p.unpack(vector)))
    cold = objective.n_iterations
    float(objective(*p.unpack(moved)))
    again = float(objective(*p.unpack(vector)))
    assert objective.converged
    assert first == pytest.approx(-best(p).bound, abs=1e-8)
    assert again == pytest.approx(first, abs=1e-8)
    before = objective.n_iterations
    float(objective(*p.unpack(vector)))
    assert objective.n_iterations - before < cold


def test_a_search_cut_short_is_told_and_goes_on() -> None:
    p = latents("poisson")
    objective = VariationalObjective(p.model, p.observations, max_iterations=2)
    values = [float(objective(*p.unpack(p.vector())))]
    assert not objective.converged
    values += [float(objective(*p.unpack(p.vector()))) for _ in range(20)]
    assert not np.isnan(values).any()
    assert (np.diff(values) <= 1e-6).all()
    assert objective.converged
    assert values[-1] == pytest.approx(-best(p).bound, abs=1e-4)


def test_sites_led_astray_are_left() -> None:
    """A search that failed far off, then reasonable hyperparameters again."""
    p = latents("poisson")
    n = p.observations.n
    objective = VariationalObjective(p.model, p.observations, tolerance=1e-9)
    objective.sites = Sites(tensor([[1e9] * n]), tensor([[1e-9] * n]))
    objective.converged = False
    assert float(objective(*p.unpack(p.vector()))) == pytest.approx(-best(p).bound, abs=1e-6)
    assert objective.converged


def test_shared_hyperparameters_add_up_their_gradients() -> None:
    """Equal hyperparameters in one object, or in three."""
    p = latents("softmax")
    three = tuple(q.detach() for q in p.model.parameters)
    apart = replace(p, model=replace(p.model, parameters=three))
    assert len(p.model.distinct[0]) == 1
    assert len(apart.model.distinct[0]) == 3
    gradients = []
    for which in (p, apart):
        vector = which.vector().requires_grad_()
        objective = VariationalObjective(which.model, which.observations)
        (g,) = torch.autograd.grad(objective(*which.unpack(vector)), vector)
        gradients.append(g.reshape(-1, len(p.vector())).sum(dim=0))
    np.testing.assert_allclose(gradients[0], gradients[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["bernoulli_logit", "student_t", "softmax"])
def test_same_input_same_bits(name: str) -> None:
    p = latents(name)
    results = []
    for _ in range(2):
        vector = p.vector().requires_grad_()
        value = VariationalObjective(p.model, p.observations)(*p.unpack(vector))
        results.append((float(value.detach()), torch.autograd.grad(value, vector)[0]))
    assert results[0][0] == results[1][0]
    assert torch.equal(results[0][1], results[1][1])


# Posterior.


@engines
@every
def test_posterior_at_the_rows_is_q(name: str, inducing: torch.Tensor | None) -> None:
    p = latents(name)
    q = best(p, inducing)
    posteriors, jitter = posterior(p.model, p.observations, q.sites, inducing)
    assert jitter == (0.0 if inducing is None else sparse.JITTER)
    for one, mean, variance in zip(posteriors, q.mean, q.variance, strict=True):
        got = one.mean_and_variance(p.observations.x)
        np.testing.assert_allclose(got[0], mean, atol=1e-7)
        np.testing.assert_allclose(got[1], variance, atol=1e-7)


@every
def test_all_rows_as_inducing_points_give_full_rank(name: str) -> None:
    """To 1e-5: the jitter of K_uu is what is left."""
    p = latents(name)
    rows = torch.arange(p.observations.n)
    full, low = best(p), best(p, rows)
    assert low.bound == pytest.approx(full.bound, abs=1e-5)
    np.testing.assert_allclose(low.mean, full.mean, atol=1e-4)
    np.testing.assert_allclose(low.variance, full.variance, atol=1e-4)
    test = tensor(random_rows(p.model.kernel.features, 5, np.random.default_rng(1)))
    one, _ = posterior(p.model, p.observations, full.sites)
    other, _ = posterior(p.model, p.observations, low.sites, rows)
    for a, b, term in product(one[:1], other[:1], [None, (0,), (1, 5)]):
        for x, y in zip(
            a.mean_and_variance(test, term), b.mean_and_variance(test, term), strict=True
        ):
            np.testing.assert_allclose(x, y, atol=1e-4)


def test_fewer_inducing_points_never_raise_the_bound() -> None:
    p = latents("poisson", n=20)
    bounds = [best(p, torch.arange(m)).bound for m in (2, 6, 12, 20)]
    assert (np.diff(bounds) > -1e-7).all()
    assert bounds[-1] <= best(p).bound + 1e-6


# What rows mean.


@every
def test_a_row_of_weight_two_is_the_row_twice(name: str) -> None:
    p = latents(name)
    o = p.observations
    once = replace(p, observations=replace(o, weight=torch.ones_like(o.weight)))
    weight = torch.ones_like(o.weight)
    weight[3] = 2.0
    heavy = replace(p, observations=replace(o, weight=weight))
    rows = torch.tensor([*range(o.n), 3])
    twice = replace(p, observations=once.observations.take(rows))
    a, b = best(heavy), best(twice)
    assert a.bound == pytest.approx(b.bound, abs=1e-6)
    np.testing.assert_allclose(a.mean, b.mean[:, :-1], atol=1e-4)
    np.testing.assert_allclose(a.variance, b.variance[:, :-1], atol=1e-4)


def test_exposure_is_an_offset() -> None:
    """One constant rate: y_i ~ Poisson(exposure_i e^(level + c)), c ~ N(0, s2), by hand.

    The rate's variational Gaussian N(m, v) solves m / s2 = sum y - E e^(level + m + v/2) and
    1 / v = 1 / s2 + E e^(level + m + v/2), with E the total exposure.
    """
    p = latents("poisson", n=6)
    orders = torch.zeros_like(p.model.parameters[0].order_variances)
    orders[0] = 0.7
    parameters = (replace(p.model.parameters[0], order_variances=orders),)
    exposure = np.array([1.0, 2.0, 0.5, 30.0, 7.0, 4.0])
    y = np.array([0.0, 3.0, 1.0, 19.0, 2.0, 5.0])
    ones = torch.ones(6, dtype=torch.float64)
    o = Observations(p.observations.x, tensor(y), ones, tensor(np.log(exposure)))
    q = best(Latents(replace(p.model, parameters=parameters), o, p.problems))
    level = float(p.model.levels[0])
    m, v = 0.0, 0.1
    for _ in range(200):
        rate = exposure.sum() * np.exp(level + m + 0.5 * v)
        m += 0.2 * (0.7 * (y.sum() - rate) - m) / (1 + 0.7 * rate)
        v += 0.2 * (1.0 / (1.0 / 0.7 + rate) - v)
    np.testing.assert_allclose(q.mean[0], m, atol=1e-5)
    np.testing.assert_allclose(q.variance[0], v, atol=1e-5)


def test_softmax_of_two_classes_is_nearly_the_logit_of_the_difference() -> None:
    """f_1 - f_0 has twice the prior variance of each, but the posterior correlates f_0 and f_1.

    Responses say nothing of f_0 + f_1, which independent q cannot express. With site precisions S
    of f_1 - f_0 it has covariance (K^-1 + S)^-1, and 2 (2 K^-1 + S)^-1 = (K^-1 + S / 2)^-1 from two
    independent q: between once and twice as much. Its mean agrees to a tenth of the largest, and
    the bound is lower by a few nats at most.
    """
    p = latents("bernoulli_logit", seed=4, n=40)
    plain = replace(p.observations, offset=torch.zeros_like(p.observations.offset))
    single = p.model.parameters[0]
    half = replace(single, order_variances=0.5 * single.order_variances)
    zero = tensor([0.0])
    one = best(Latents(replace(p.model, levels=zero, parameters=(single,)), plain, p.problems))
    classes = LatentModel(p.model.kernel, (half, half), tensor([0.0, 0.0]), Softmax(2), tensor([]))
    two = best(Latents(classes, plain, p.problems * 2))
    difference = two.mean[1] - two.mean[0]
    largest = float(one.mean.abs().max())
    np.testing.assert_allclose(difference, one.mean[0], atol=0.1 * largest)
    ratio = two.variance.sum(dim=0) / one.variance[0]
    assert 1.0 < float(ratio.min()) <= float(ratio.max()) < 2.0
    assert one.bound - 3.0 < two.bound < one.bound


def test_constant_log_noise_is_nearly_gaussian_noise() -> None:
    """The second latent function has next to no prior variance around log(noise)."""
    p = latents("gaussian", n=30)
    noise = float(p.model.likelihood_parameters[0])
    single = p.model.parameters[0]
    still = replace(single, order_variances=1e-8 * single.order_variances)
    levels = torch.cat([p.model.levels, tensor([np.log(noise)])])
    two = LatentModel(
        p.model.kernel,
        (single, still),
        levels,
        LIKELIHOODS["heteroscedastic_gaussian"](),
        tensor([]),
    )
    a, b = best(p), best(Latents(two, p.observations, p.problems * 2))
    assert b.bound == pytest.approx(a.bound, abs=1e-4)
    np.testing.assert_allclose(b.mean[0], a.mean[0], atol=1e-4)
    np.testing.assert_allclose(b.variance[0], a.variance[0], atol=1e-4)
    assert float(b.mean[1].abs().max()) < 1e-4


def test_counts_that_do_not_fit_are_refused() -> None:
    p = latents("bernoulli_logit")
    with pytest.raises(ValueError, match=r"softmax has 3 latent functions, but there are 1 sets"):
        replace(p.model, likelihood=CASES["softmax"].likelihood)


def test_nothing_but_a_constant() -> None:
    """One row, one feature of which no term exists but the constant."""
    p = latents("bernoulli_probit", n=1, features=mixed_features()[:1], max_order=1)
    q = best(p)
    assert np.isfinite(q.bound)
    vector = p.vector().requires_grad_()
    value = VariationalObjective(p.model, p.observations)(*p.unpack(vector))
    (gradient,) = torch.autograd.grad(value, vector)
    assert bool(torch.isfinite(gradient).all())


def test_sites_of_some_rows_start_the_sites_of_the_same_rows() -> None:
    p = latents("gamma")
    rows = torch.arange(8)
    some = replace(p, observations=p.observations.take(rows))
    begin: Sites = best(p).sites.take(rows)
    warm = update_sites(some.model, some.observations, begin, tolerance=1e-9)
    assert warm.converged
    assert warm.approximation.bound == pytest.approx(best(some).bound, abs=1e-7)
