"""Measures: closed forms and node sums against fine quadrature, fits, and the written form."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from scipy import integrate
from tests.references import (
    dense_atoms,
    density,
    draws,
    kernel_cases,
    kernel_values,
    measure_cases,
    tensor,
)

from oakgp.kernels import Periodic, RadialKernel, SquaredExponential
from oakgp.kernels.constrained import Feature, embeddings
from oakgp.measures import (
    MEASURES,
    Categorical,
    Empirical,
    GaussianMixture,
    Measure,
    MissingAtom,
    Uniform,
    fit_measure,
    gaussian,
    measure_from_dict,
)

MEASURE_CASES = measure_cases()
LENGTHSCALES = (0.3, 0.8, 4.0)
POINTS = np.array([-2.5, -0.7, 0.0, 0.3, 1.9, 6.0, np.nan])

#: How well the measure's own nodes integrate a kernel at the shortest lengthscale here, which is
#: twice their distance in the worst case (Gaussian). Discrete measures are their nodes, closed
#: forms are right to rounding; a kink or a jump in a derivative costs digits.
TOLERANCE = {
    "squared_exponential": 1e-10,
    "matern12": 6e-3,
    "matern32": 3e-4,
    "matern52": 2e-5,
    "periodic": 2e-3,
}

pairs = pytest.mark.parametrize(
    ("kernel", "measure"),
    [
        pytest.param(k, m, id=f"{k.name}-{name}")
        for k in kernel_cases()
        for name, m in MEASURE_CASES.items()
    ],
)


def tolerance(kernel: RadialKernel, measure: Measure) -> float:
    return 1e-12 if isinstance(measure, Empirical) else TOLERANCE[kernel.name]


@pairs
def test_the_five_expectations_against_fine_quadrature(
    kernel: RadialKernel, measure: Measure
) -> None:
    nodes, p = dense_atoms(measure, panels=150)
    bound = tolerance(kernel, measure)
    a = tensor(POINTS)
    for value in LENGTHSCALES:
        length = tensor(value)
        at_points = kernel_values(kernel, POINTS, nodes, value)
        few, mass = dense_atoms(measure, panels=60)
        s = kernel_values(kernel, few, nodes, value) @ p
        expected = {
            "mean_embedding": at_points @ p,
            "mean_mean": mass @ s,
            "cross_moment": (at_points * p) @ at_points.T,
            "embedding_moment": kernel_values(kernel, POINTS, few, value) @ (mass * s),
            "embedding_square": mass @ s**2,
        }
        got = {
            "mean_embedding": measure.mean_embedding(kernel, a, length),
            "mean_mean": measure.mean_mean(kernel, length),
            "cross_moment": measure.cross_moment(kernel, a, a, length),
            "embedding_moment": measure.embedding_moment(kernel, a, length),
            "embedding_square": measure.embedding_square(kernel, length),
        }
        for name, truth in expected.items():
            np.testing.assert_allclose(got[name].numpy(), truth, atol=bound, rtol=0, err_msg=name)


@pytest.mark.parametrize("name", ["gaussian", "gaussian_mixture", "uniform"])
def test_closed_forms_against_adaptive_quadrature(name: str) -> None:
    measure, kernel, value = MEASURE_CASES[name], SquaredExponential(), 0.65
    length = tensor(value)
    low, high = (measure.low, measure.high) if isinstance(measure, Uniform) else (-12.0, 12.0)

    def expectation(function: object) -> float:
        def integrand(x: float) -> float:
            assert callable(function)
            return float(function(x) * density(measure, np.array([x]))[0])

        return integrate.quad(integrand, low, high, limit=400, epsabs=1e-12, epsrel=1e-12)[0]

    def k(x: float, a: float) -> float:
        return float(np.exp(-((x - a) ** 2) / (2 * value**2)))

    def s(x: float) -> float:
        return float(measure.mean_embedding(kernel, tensor([x]), length)[0])

    a, b = 0.4, -1.1
    at = tensor([a])
    assert s(a) == pytest.approx(expectation(lambda x: k(x, a)), abs=1e-10)
    assert float(measure.mean_mean(kernel, length)) == pytest.approx(expectation(s), abs=1e-10)
    cross = measure.cross_moment(kernel, at, tensor([b]), length)
    assert float(cross[0, 0]) == pytest.approx(expectation(lambda x: k(x, a) * k(x, b)), abs=1e-10)
    moment = measure.embedding_moment(kernel, at, length)
    assert float(moment[0]) == pytest.approx(expectation(lambda x: s(x) * k(x, a)), abs=1e-10)
    square = measure.embedding_square(kernel, length)
    assert float(square) == pytest.approx(expectation(lambda x: s(x) ** 2), abs=1e-10)


@pairs
def test_expectations_are_differentiable_by_the_lengthscale(
    kernel: RadialKernel, measure: Measure
) -> None:
    """Also where a value is missing: its term must not turn the sum's gradient into NaN."""
    feature = Feature("x", kernel, measure)
    x = tensor(POINTS)

    def t(length: torch.Tensor) -> torch.Tensor:
        return embeddings([feature], x[None], length.reshape(1))[0]

    length = tensor(0.8).requires_grad_()
    (slope,) = torch.autograd.grad(t(length) @ tensor(np.arange(1.0, 8.0)), length)
    step = 1e-5
    numeric = (t(tensor(0.8 + step)) - t(tensor(0.8 - step))) / (2 * step)
    np.testing.assert_allclose(
        float(slope), float(numeric @ tensor(np.arange(1.0, 8.0))), rtol=1e-6
    )


@pytest.mark.parametrize("name", list(MEASURE_CASES))
def test_nodes_are_a_probability_distribution_with_the_right_moments(name: str) -> None:
    measure = MEASURE_CASES[name]
    nodes, p = measure.atoms
    assert (p >= 0).all()
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    dense, q = dense_atoms(measure)
    missing, truth = np.isnan(nodes), np.isnan(dense)
    assert p[missing].sum() == pytest.approx(q[truth].sum(), abs=1e-12)
    for power in (1, 2, 3):
        got = p[~missing] @ nodes[~missing] ** power
        assert got == pytest.approx(q[~truth] @ dense[~truth] ** power, abs=1e-7)


@pytest.mark.parametrize("name", [*MEASURE_CASES, "categorical"])
def test_the_written_form_reads_back_exactly(name: str) -> None:
    measure = (MEASURE_CASES | {"categorical": Categorical((0.2, 1 / 3, 7 / 15))})[name]
    read = measure_from_dict(json.loads(json.dumps(measure.to_dict(), allow_nan=False)))
    assert type(read) is type(measure)
    for one, other in zip(read.atoms, measure.atoms, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_unknown_written_form_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown measure kind 'cauchy'"):
        measure_from_dict({"kind": "cauchy"})


# Fits.


@pytest.mark.parametrize("name", [*MEASURES, "gaussian"])
def test_a_weight_is_a_number_of_rows(name: str) -> None:
    rng = np.random.default_rng(3)
    x = np.r_[rng.normal(0, 1, 30), np.nan, 0.5, 0.5]
    counts = rng.integers(0, 4, len(x))
    weighted = fit_measure(name, x, counts.astype(float))
    repeated = fit_measure(name, np.repeat(x, counts))
    for one, other in zip(weighted.atoms, repeated.atoms, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-3)  # the mixture: two ends of one climb


@pytest.mark.parametrize("name", [*MEASURES, "gaussian"])
def test_the_order_of_rows_is_irrelevant(name: str) -> None:
    rng = np.random.default_rng(4)
    x = np.r_[rng.normal(0, 1, 400), [np.nan] * 7, [0.25] * 30]
    one, other = fit_measure(name, x), fit_measure(name, rng.permutation(x))
    np.testing.assert_allclose(one.atoms[0], other.atoms[0], atol=1e-9)
    np.testing.assert_allclose(one.atoms[1], other.atoms[1], atol=1e-9)


@pytest.mark.parametrize("name", [*MEASURES, "gaussian"])
@pytest.mark.parametrize(
    "column",
    [
        np.full(5, 3.0),
        np.array([2.5]),
        np.full(4, np.nan),
        np.array([0.0, np.nan]),
        np.array([0.0, 0.0, 0.0, 1.0]),
        np.array([1.0, 2.0, 1e9]),
    ],
    ids=["constant", "one row", "all missing", "one present", "two values", "outlier"],
)
def test_odd_columns_have_a_measure_with_finite_embeddings(name: str, column: np.ndarray) -> None:
    measure = fit_measure(name, column)
    for kernel in kernel_cases():
        v = measure.mean_mean(kernel, tensor(0.7))
        t = embeddings([Feature("x", kernel, measure)], tensor(column)[None], tensor([0.7]))[0]
        assert 0 < float(v) <= 1 + 1e-12
        assert bool(torch.isfinite(t).all())


def test_empirical_nodes_are_the_distinct_values_when_there_are_few() -> None:
    measure = Empirical.fit(np.array([2.0, 1.0, 2.0, np.nan, 5.0]))
    np.testing.assert_array_equal(measure.nodes, [1.0, 2.0, 5.0, np.nan])
    np.testing.assert_allclose(measure.weights, [0.2, 0.4, 0.2, 0.2])


def test_empirical_nodes_keep_mass_and_mean_when_there_are_many() -> None:
    rng = np.random.default_rng(6)
    x = np.r_[rng.standard_gamma(2.0, 5000), np.zeros(3000), [np.nan] * 800]
    measure = Empirical.fit(x, max_nodes=64)
    nodes, p = measure.atoms
    present = ~np.isnan(nodes)
    assert present.sum() <= 65
    assert p[~present].sum() == pytest.approx(800 / 8800)
    assert p[present] @ nodes[present] * 8800 / 8000 == pytest.approx(np.nanmean(x))
    # Zero would fill many groups at once: it is one node, with all of its mass.
    assert p[nodes == 0].tolist() == pytest.approx([(x == 0).sum() / 8800])
    assert len(np.unique(nodes[present])) == present.sum()
    s = measure.mean_embedding(SquaredExponential(), tensor([0.0]), tensor(0.5))
    truth = np.where(np.isnan(x), 0.0, np.exp(-2 * np.nan_to_num(x) ** 2)).mean()
    assert float(s[0]) == pytest.approx(truth, abs=5e-4)


def test_mixture_fit_finds_the_clusters() -> None:
    rng = np.random.default_rng(8)
    truth = GaussianMixture((0.3, 0.7), (-3.0, 2.0), (0.25, 1.0))
    fitted = GaussianMixture.fit(draws(truth, 2500, rng))
    assert len(fitted.weights) == 2
    np.testing.assert_allclose(fitted.weights, truth.weights, atol=0.04)
    np.testing.assert_allclose(fitted.means, truth.means, atol=0.15)
    np.testing.assert_allclose(fitted.variances, truth.variances, rtol=0.2)


def test_gaussian_is_a_mixture_of_one() -> None:
    fitted = fit_measure("gaussian", np.array([1.0, 2.0, 6.0]))
    assert fitted == gaussian(3.0, 14 / 3)


def test_missing_atom_has_the_share_of_missing_rows() -> None:
    measure = fit_measure(
        "uniform", np.array([0.0, np.nan, 2.0, 1.0]), np.array([1.0, 2.0, 3.0, 4.0])
    )
    assert measure == MissingAtom(Uniform(0.0, 2.0), 0.2)


def test_every_pair_is_covered() -> None:
    assert set(TOLERANCE) == {kernel.name for kernel in kernel_cases()}
    assert set(MEASURES) <= set(MEASURE_CASES)
    assert any(isinstance(kernel, Periodic) for kernel in kernel_cases())
