"""Laws of all likelihoods, against SciPy, dense grids, finite differences and Monte Carlo."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import integrate
from scipy.special import expit
from tests.likelihoods.cases import CASES, Array, Case, Rows, dense_average, random_rows
from tests.references import tensor

from oakgp.likelihoods import LIKELIHOODS, Likelihood, likelihood_from_dict, quadrature

every = pytest.mark.parametrize("name", LIKELIHOODS)
seeds = pytest.mark.parametrize("seed", [0, 1])
QUANTILES = [name for name in LIKELIHOODS if name != "softmax"]
CLOSED = ["gaussian", "poisson", "gamma", "student_t", "heteroscedastic_gaussian"]
LEVELS = (0.025, 0.2, 0.5, 0.9, 0.975)

#: Absolute error of the quadrature on rows whose latent variance is at most 1; quasi-random points
#: for the classes.
TOLERANCE = {name: 1e-9 for name in LIKELIHOODS} | {
    "softmax": 5e-3,
    "bernoulli_probit": 1e-8,
}


def test_every_likelihood_has_a_case_under_its_name() -> None:
    assert set(CASES) == set(LIKELIHOODS)
    for name, kind in LIKELIHOODS.items():
        assert kind.name == name
        assert len(kind.parameter_names) == len(kind.parameter_bounds)


# The density.


@every
@seeds
def test_density_is_that_of_scipy(name: str, seed: int) -> None:
    case = CASES[name]
    rows = random_rows(case, seed, n=40)
    got = case.likelihood.log_density(rows.y, rows.mean, case.theta)
    truth = case.log_density(rows.y.numpy(), rows.mean.numpy())
    np.testing.assert_allclose(got, truth, atol=1e-11, rtol=1e-11)


def total_mass(case: Case, density: Callable[[Array], Array]) -> float:
    """Sum or integral over all responses; the integral over a line that tames tails and edges."""
    support = case.likelihood.support
    if support in ("binary", "classes", "count"):
        last = {"binary": 1, "classes": case.likelihood.n_latents - 1, "count": 3000}[support]
        return float(density(np.arange(last + 1.0)).sum())
    u = np.linspace(-30.0, 30.0, 20_001)
    y, slope = {
        "real": (np.sinh(u), np.cosh(u)),
        "positive": (np.exp(u), np.exp(u)),
        "unit": (expit(u), expit(u) * expit(-u)),
    }[support]
    return float(integrate.trapezoid(density(y) * slope, u))


@every
@seeds
def test_density_and_predictive_density_have_mass_one(name: str, seed: int) -> None:
    case = CASES[name]
    rows = random_rows(case, seed, n=1)

    def conditional(y: Array) -> Array:
        f = rows.mean.expand(-1, len(y))
        return case.likelihood.log_density(tensor(y), f, case.theta).exp().numpy()

    def predictive(y: Array) -> Array:
        mean, variance = (m.expand(-1, len(y)) for m in (rows.mean, rows.variance))
        log_p = case.likelihood.log_predictive(tensor(y), mean, variance, case.theta)
        return log_p.exp().numpy()

    assert total_mass(case, conditional) == pytest.approx(1.0, abs=1e-7)
    assert total_mass(case, predictive) == pytest.approx(1.0, abs=1e-4)


@every
@seeds
def test_derivatives_are_those_of_the_density(name: str, seed: int) -> None:
    case = CASES[name]
    rows = random_rows(case, seed, n=20)
    f = torch.stack([rows.mean, 2.0 * rows.mean], dim=1)  # any dimensions in between
    got = case.likelihood.derivatives(rows.y, f, case.theta)
    truth = Likelihood.derivatives(case.likelihood, rows.y, f, case.theta)
    for one, other in zip(got, truth, strict=True):
        assert one.shape == f.shape
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


# Expectations.


@every
@seeds
def test_expected_value_against_a_dense_grid(name: str, seed: int) -> None:
    case = CASES[name]
    rows = random_rows(case, seed)
    got = case.likelihood.expected(rows.y, rows.mean, rows.variance, case.theta)
    y = rows.y.numpy()
    truth = [
        dense_average(lambda f, v=v: case.log_density(v, f), one_row(rows, i))[0]
        for i, v in enumerate(y)
    ]
    np.testing.assert_allclose(got.value, truth, atol=TOLERANCE[name], rtol=1e-9)


def one_row(rows: Rows, i: int) -> Rows:
    return Rows(rows.y[[i]], rows.mean[:, [i]], rows.variance[:, [i]])


@every
@seeds
def test_expected_agrees_with_its_differentiable_value(name: str, seed: int) -> None:
    case = CASES[name]
    rows = random_rows(case, seed, n=30)
    mean, variance = rows.mean.clone().requires_grad_(), rows.variance.clone().requires_grad_()
    value = case.likelihood.expected_value(rows.y, mean, variance, case.theta)
    got = case.likelihood.expected(rows.y, rows.mean, rows.variance, case.theta)
    slopes = torch.autograd.grad(value.sum(), (mean, variance))
    torch.testing.assert_close(value.detach(), got.value, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(slopes[0], got.by_mean, atol=1e-11, rtol=1e-11)
    # The curvature under the sum equals the slope of the sum only once the quadrature converged.
    bound = {"softmax": 2e-2, "bernoulli_probit": 1e-7}.get(name, 1e-8)
    torch.testing.assert_close(slopes[1], got.by_variance, atol=bound, rtol=1e-8)


@every
@seeds
def test_slopes_against_finite_differences(name: str, seed: int) -> None:
    case = CASES[name]
    likelihood = case.likelihood
    rows = random_rows(case, seed)
    start = (rows.mean, rows.variance, case.theta)
    moved = [s.clone().requires_grad_() for s in start]
    weights = torch.arange(1.0, 6.0, dtype=torch.float64)
    value = weights @ likelihood.expected_value(rows.y, *moved)
    slopes = torch.autograd.grad(value, moved, allow_unused=True)
    step = 1e-5
    for k, slope in enumerate(slopes):
        for index in np.ndindex(*start[k].shape):
            ends = []
            for sign in (1.0, -1.0):
                point = [s.clone() for s in start]
                point[k][index] += sign * step
                ends.append(float(weights @ likelihood.expected_value(rows.y, *point)))
            assert slope is not None
            assert float(slope[index]) == pytest.approx(
                (ends[0] - ends[1]) / (2 * step), abs=1e-6, rel=1e-6
            )


@pytest.mark.parametrize("name", CLOSED)
@seeds
def test_closed_forms_equal_the_quadrature_they_replace(name: str, seed: int) -> None:
    case = CASES[name]
    rows = random_rows(case, seed, n=20)
    moments = (rows.mean, rows.variance, case.theta)
    likelihood = case.likelihood
    got = likelihood.expected(rows.y, *moments)
    truth = Likelihood.expected(likelihood, rows.y, *moments)
    bound = 1e-4 if name == "student_t" else 1e-9  # poles near the real line: nodes converge slowly
    for one, other in zip(got, truth, strict=True):
        torch.testing.assert_close(one, other, atol=bound, rtol=bound)


@pytest.mark.parametrize("name", ["gaussian", "bernoulli_probit"])
@seeds
def test_closed_predictions_equal_the_quadrature_they_replace(name: str, seed: int) -> None:
    case = CASES[name]
    likelihood = case.likelihood
    rows = random_rows(case, seed, n=20)
    moments = (rows.mean, rows.variance, case.theta)
    density = likelihood.log_predictive(rows.y, *moments)
    truth = Likelihood.log_predictive(likelihood, rows.y, *moments)
    torch.testing.assert_close(density, truth, atol=1e-9, rtol=1e-9)
    quantiles = likelihood.response_quantiles(*moments, LEVELS)
    truth = Likelihood.response_quantiles(likelihood, *moments, LEVELS)
    torch.testing.assert_close(quantiles, truth, atol=1e-7, rtol=1e-7)


@every
def test_without_variance_the_expectation_is_the_density(name: str) -> None:
    case = CASES[name]
    likelihood, theta = case.likelihood, case.theta
    rows = random_rows(case, 5, n=20)
    zero = torch.zeros_like(rows.mean)
    density = likelihood.log_density(rows.y, rows.mean, theta)
    first, second = likelihood.derivatives(rows.y, rows.mean, theta)
    got = likelihood.expected(rows.y, rows.mean, zero, theta)
    torch.testing.assert_close(got.value, density, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(got.by_mean, first, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(got.by_variance, 0.5 * second, atol=1e-12, rtol=1e-12)
    predictive = likelihood.log_predictive(rows.y, rows.mean, zero, theta)
    torch.testing.assert_close(predictive, density, atol=1e-12, rtol=1e-12)

    mean, variance = rows.mean.clone().requires_grad_(), zero.clone().requires_grad_()
    value = likelihood.expected_value(rows.y, mean, variance, theta)
    slopes = torch.autograd.grad(value.sum(), (mean, variance))
    torch.testing.assert_close(value.detach(), density, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(slopes[0], first, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(slopes[1], 0.5 * second, atol=1e-6, rtol=1e-6)


@every
@seeds
def test_log_concave_densities_have_no_negative_site_precision(name: str, seed: int) -> None:
    case = CASES[name]
    rows = random_rows(case, seed, n=300, spread=9.0)
    # Responses that the latent values did not expect.
    y = rows.y[torch.randperm(300, generator=torch.Generator().manual_seed(seed))]
    highest = case.likelihood.expected(y, rows.mean, rows.variance, case.theta).by_variance.max()
    if case.likelihood.log_concave:
        assert float(highest) <= 0.0
    else:
        assert float(highest) > 0.0


@every
def test_rows_in_chunks_are_the_rows_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    likelihood = case.likelihood
    rows = random_rows(case, 2, n=11)

    def everything() -> list[torch.Tensor]:
        moments = (rows.mean, rows.variance, case.theta)
        out = [*likelihood.expected(rows.y, *moments), likelihood.expected_value(rows.y, *moments)]
        out += [likelihood.response_mean(*moments), likelihood.response_variance(*moments)]
        out.append(likelihood.log_predictive(rows.y, *moments))
        if name in QUANTILES:
            out.append(likelihood.response_quantiles(*moments, LEVELS))
        return out

    whole = everything()
    monkeypatch.setattr(quadrature, "MAX_ELEMENTS", 2000)
    for one, other in zip(everything(), whole, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


# Predictions.


@every
@seeds
def test_predictive_moments_against_a_dense_grid(name: str, seed: int) -> None:
    case = CASES[name]
    rows = random_rows(case, seed, n=3)
    moments = (rows.mean, rows.variance, case.theta)

    def conditional(f: Array) -> Array:
        if case.given is None:
            p = np.exp(f - f.max(axis=0))
            p /= p.sum(axis=0)
            return np.stack([p, p])  # an indicator is its own square
        d = case.given(f)
        mean, variance = (np.broadcast_to(m, f.shape[1:]) for m in d.stats("mv"))
        return np.stack([mean, variance + mean**2])

    first, second = dense_average(conditional, rows)
    bound = 5e-3 if name == "softmax" else 1e-8
    got_mean = case.likelihood.response_mean(*moments)
    got_variance = case.likelihood.response_variance(*moments)
    np.testing.assert_allclose(got_mean, first, atol=bound, rtol=1e-8)
    np.testing.assert_allclose(got_variance, second - first**2, atol=bound, rtol=1e-8)


@every
def test_predictive_moments_against_draws(name: str) -> None:
    case = CASES[name]
    rows = random_rows(case, 3, n=3, spread=0.5)
    moments = (rows.mean, rows.variance, case.theta)
    count = 40_000
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn((len(rows.mean), count, 3), generator=generator, dtype=torch.float64)
    f = rows.mean[:, None] + rows.variance.sqrt()[:, None] * noise
    draws = case.likelihood.sample(f, case.theta, generator)
    if name == "softmax":
        draws = torch.stack([(draws == k).double() for k in range(3)])
    mean, variance = case.likelihood.response_mean(*moments), draws.var(dim=-2)
    error = (variance / count).sqrt()
    assert bool(((draws.mean(dim=-2) - mean).abs() <= 4.0 * error + 5e-3).all())
    square = (draws - mean[..., None, :]) ** 2
    spread = case.likelihood.response_variance(*moments)
    error = (square.var(dim=-2) / count).sqrt()
    assert bool(((square.mean(dim=-2) - spread).abs() <= 4.0 * error + 5e-3).all())


@pytest.mark.parametrize("name", QUANTILES)
@seeds
def test_quantiles_invert_the_predictive_distribution(name: str, seed: int) -> None:
    case = CASES[name]
    rows = random_rows(case, seed, n=3)
    assert case.given is not None
    got = case.likelihood.response_quantiles(rows.mean, rows.variance, case.theta, LEVELS).numpy()
    assert got.shape == (3, len(LEVELS))
    assert np.all(np.diff(got, axis=1) >= 0)

    def cdf(y: float, i: int) -> float:
        return float(dense_average(lambda f: case.given(f).cdf(y), one_row(rows, i))[0])

    for i in range(3):
        for level, y in zip(LEVELS, got[i], strict=True):
            if case.likelihood.support in ("count", "binary"):
                assert y == math.floor(y)
                assert cdf(y, i) >= level - 1e-9
                assert cdf(y - 1.0, i) < level
            else:
                assert cdf(y, i) == pytest.approx(level, abs=1e-7)


@every
@seeds
def test_predictive_density_against_a_dense_grid(name: str, seed: int) -> None:
    case = CASES[name]
    rows = random_rows(case, seed, n=4)
    got = case.likelihood.log_predictive(rows.y, rows.mean, rows.variance, case.theta)
    truth = [
        np.log(dense_average(lambda f, v=v: np.exp(case.log_density(v, f)), one_row(rows, i))[0])
        for i, v in enumerate(rows.y.numpy())
    ]
    bound = {"softmax": 2e-2, "student_t": 1e-4}.get(name, 1e-8)
    np.testing.assert_allclose(got, truth, atol=bound)


# Draws, starting values, extremes, files.


@every
def test_the_same_seed_draws_the_same(name: str) -> None:
    case = CASES[name]
    rows = random_rows(case, 4, n=50)

    def draw(seed: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        return case.likelihood.sample(rows.mean, case.theta, generator)

    before = torch.random.get_rng_state()
    assert torch.equal(draw(7), draw(7))
    assert not torch.equal(draw(7), draw(8))
    assert torch.equal(torch.random.get_rng_state(), before)
    case.likelihood.check(draw(7).numpy())


DEGENERATE = {
    "real": [[0.0], [3.0] * 5, [0.0] * 4, [-1e12, 1e12]],
    "positive": [[2.0], [3.0] * 5, [1e-300] * 4, [1e-300, 1e300]],
    "unit": [[0.2], [0.3] * 5, [1e-300] * 4, [1e-300, 1 - 1e-16], [1 - 1e-16] * 3],
    "count": [[0.0], [3.0] * 5, [0.0] * 4, [0.0, 1e15]],
    "binary": [[0.0], [1.0] * 5, [0.0] * 4],
    "classes": [[0.0], [2.0] * 5, [1.0, 2.0]],
}


@every
def test_start_is_finite_and_within_bounds(name: str) -> None:
    likelihood = CASES[name].likelihood
    for response in DEGENERATE[likelihood.support]:
        y = np.array(response)
        likelihood.check(y)
        for offset in (np.zeros(len(y)), np.linspace(-3.0, 2.0, len(y))):
            level, parameters = likelihood.start(y, np.full(len(y), 0.3), offset)
            assert level.shape == (likelihood.n_latents,)
            assert level.dtype == parameters.dtype == torch.float64
            assert bool(torch.isfinite(level).all())
            assert bool((level.abs() < 800).all() or likelihood.support == "real")
            for value, (low, high) in zip(
                parameters.tolist(), likelihood.parameter_bounds, strict=True
            ):
                assert low <= value <= high


@every
def test_a_weight_is_a_number_of_rows_at_the_start(name: str) -> None:
    case = CASES[name]
    y = random_rows(case, 6, n=40).y.numpy()
    counts = np.random.default_rng(0).integers(0, 3, 40)
    offset = np.linspace(-0.5, 0.5, 40)
    weighted = case.likelihood.start(y, counts.astype(float), offset)
    repeated = case.likelihood.start(
        np.repeat(y, counts), np.ones(counts.sum()), np.repeat(offset, counts)
    )
    for one, other in zip(weighted, repeated, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


EXTREME = {
    "real": [-1e6, 0.0, 1e6],
    "positive": [1e-300, 1.0, 1e300],
    "unit": [1e-300, 0.5, 1 - 1e-16],
    "count": [0.0, 1.0, 1e12],
    "binary": [0.0, 1.0],
    "classes": [0.0, 2.0],
}


@every
@pytest.mark.parametrize("which", ["given", "lowest", "highest"])
def test_everything_is_finite_at_extremes(name: str, which: str) -> None:
    case = CASES[name]
    likelihood = case.likelihood
    bounds = likelihood.parameter_bounds
    theta = {
        "given": case.parameters,
        "lowest": tuple(low for low, _ in bounds),
        "highest": tuple(high for _, high in bounds),
    }[which]
    grid = np.array(
        np.meshgrid([-40.0, 0.0, 40.0], [0.0, 1e-20, 1.0, 100.0], EXTREME[likelihood.support])
    ).reshape(3, -1)
    y = tensor(grid[2])
    mean, variance = (
        tensor(np.tile(g, (likelihood.n_latents, 1))).requires_grad_() for g in grid[:2]
    )
    parameters = tensor(theta).requires_grad_()
    value = likelihood.expected_value(y, mean, variance, parameters)
    slopes = torch.autograd.grad(value.sum(), (mean, variance, parameters), allow_unused=True)
    moments = (mean.detach(), variance.detach(), parameters.detach())
    results = [value, *(s for s in slopes if s is not None)]
    results += [*likelihood.expected(y, *moments), likelihood.log_predictive(y, *moments)]
    results += [likelihood.response_mean(*moments), likelihood.response_variance(*moments)]
    generator = torch.Generator().manual_seed(0)
    draws = likelihood.sample(moments[0], moments[2], generator)
    likelihood.check(draws.numpy())
    if name in QUANTILES:
        results.append(likelihood.response_quantiles(*moments, LEVELS))
    for result in results:
        assert result.dtype == torch.float64
        assert bool(torch.isfinite(result).all())
    assert float(likelihood.response_variance(*moments).min()) >= 0.0


@every
def test_the_written_form_reads_back(name: str) -> None:
    likelihood = CASES[name].likelihood
    written = json.loads(json.dumps(likelihood.to_dict(), allow_nan=False))
    assert likelihood_from_dict(written) == likelihood
    with pytest.raises(ValueError, match=r"Pass what to_dict\(\) gave, unchanged"):
        likelihood_from_dict(written | {"colour": 1})


@pytest.mark.cuda
@every
def test_cuda_gives_what_the_cpu_gives(name: str) -> None:
    case = CASES[name]
    likelihood = case.likelihood
    rows = random_rows(case, 1, n=50)

    def everything(device: str) -> list[torch.Tensor]:
        y, mean, variance, theta = (
            t.to(device) for t in (rows.y, rows.mean, rows.variance, case.theta)
        )
        moments = (mean, variance, theta)
        out = [*likelihood.expected(y, *moments), likelihood.expected_value(y, *moments)]
        out += [likelihood.response_mean(*moments), likelihood.response_variance(*moments)]
        out.append(likelihood.log_predictive(y, *moments))
        out.append(likelihood.sample(mean, theta, torch.Generator().manual_seed(0)))
        if name in QUANTILES:
            out.append(likelihood.response_quantiles(*moments, LEVELS))
        assert all(t.device.type == device for t in out)
        return [t.cpu() for t in out]

    for one, other in zip(everything("cuda"), everything("cpu"), strict=True):
        torch.testing.assert_close(one, other, atol=1e-8, rtol=1e-8)
