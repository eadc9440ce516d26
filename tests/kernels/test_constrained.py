"""The laws of the constrained kernel, for every kernel under every measure."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.references import dense_atoms, draws, kernel_cases, kernel_values, measure_cases, tensor

from oakgp.kernels import KERNELS, CategoricalKernel, Periodic, RadialKernel
from oakgp.kernels.additive import AdditiveKernel, Parameters
from oakgp.kernels.constrained import Feature, SobolPoints, embeddings, mean_variance
from oakgp.kernels.terms import term_set
from oakgp.measures import Categorical, Empirical, Measure

MEASURE_CASES = measure_cases()
NO_TABLE = torch.zeros((0, 0), dtype=torch.float64)
LENGTHSCALES = (0.35, 1.1, 5.0)

pairs = pytest.mark.parametrize(
    ("kernel", "measure"),
    [
        pytest.param(k, m, id=f"{k.name}-{name}")
        for k in kernel_cases()
        for name, m in MEASURE_CASES.items()
    ],
)


def matrix(feature: Feature, a: np.ndarray, b: np.ndarray, length: float) -> np.ndarray:
    """k~ as the model computes it: through the additive kernel's first term, times 1.7 * 0.6."""
    kernel = AdditiveKernel((feature,), term_set(1, 1))
    parameters = Parameters(
        tensor([length]), tensor([0.6]), tensor([0.9, 1.7]), tensor(0.1), (), ()
    )
    left, right = (kernel.points(parameters, tensor(x)[None]) for x in (a, b))
    return kernel.term_matrix(kernel.weights(parameters), (0,), left, right).numpy() / (1.7 * 0.6)


def quadrature_error(kernel: RadialKernel, measure: Measure) -> float:
    """What the measure's nodes leave of an integral (see test_measures)."""
    if isinstance(measure, Empirical) or kernel.name == "squared_exponential":
        return 1e-9
    return {"matern12": 1e-2, "matern32": 5e-4, "matern52": 5e-5, "periodic": 2e-3}[kernel.name]


@pairs
def test_the_kernel_integrates_to_zero(kernel: RadialKernel, measure: Measure) -> None:
    feature = Feature("x", kernel, measure)
    x = np.array([-2.0, -0.4, 0.3, 1.7, 30.0, np.nan])
    nodes, p = dense_atoms(measure, panels=150)
    for length in LENGTHSCALES:
        integral = matrix(feature, x, nodes, length) @ p
        # Where k~ itself vanishes (a value far from the measure), so does its integral.
        np.testing.assert_allclose(integral, 0.0, atol=quadrature_error(kernel, measure))
        own, q = measure.atoms
        closed = 1e-7 if kernel.name == "squared_exponential" else 1e-12
        np.testing.assert_allclose(matrix(feature, x, own, length) @ q, 0.0, atol=closed)


@pairs
def test_the_kernel_is_symmetric_and_positive_semidefinite(
    kernel: RadialKernel, measure: Measure
) -> None:
    rng = np.random.default_rng(7)
    feature = Feature("x", kernel, measure)
    x = np.r_[draws(measure, 20, rng), np.nan, np.nan, 1e3, -1e6, 1e150, 0.3, 0.3, 0.3]
    x[3] = x[4]
    x = np.mod(x, 1.0) if isinstance(kernel, Periodic) else x  # a phase
    for length in LENGTHSCALES:
        k = matrix(feature, x, x, length)
        np.testing.assert_allclose(k, k.T, atol=1e-14)
        assert np.linalg.eigvalsh(0.5 * (k + k.T)).min() > -1e-12 * len(x)
        np.testing.assert_allclose(k[-1], k[-2], atol=1e-14)


@pairs
def test_the_kernel_is_the_base_kernel_less_a_rank_one(
    kernel: RadialKernel, measure: Measure
) -> None:
    rng = np.random.default_rng(5)
    feature = Feature("x", kernel, measure)
    x, nodes, p = draws(measure, 12, rng), *dense_atoms(measure, panels=150)
    for length in LENGTHSCALES:
        few, q = dense_atoms(measure, panels=60)
        s = kernel_values(kernel, x, nodes, length) @ p
        v = q @ kernel_values(kernel, few, nodes, length) @ p
        truth = kernel_values(kernel, x, x, length) - np.outer(s, s) / v
        bound = 10 * quadrature_error(kernel, measure)
        np.testing.assert_allclose(matrix(feature, x, x, length), truth, atol=bound)


@pairs
def test_mean_variance_is_the_average_of_the_diagonal(
    kernel: RadialKernel, measure: Measure
) -> None:
    feature = Feature("x", kernel, measure)
    nodes, p = measure.atoms
    for length in LENGTHSCALES:
        got = float(mean_variance(feature, tensor(length), NO_TABLE))
        t = embeddings([feature], tensor(nodes)[None], tensor([length]))[0].numpy()
        assert got == pytest.approx(p @ (1 - t**2), abs=1e-10)
        assert -1e-12 < got < 1


def test_a_long_lengthscale_makes_a_component_fade() -> None:
    """DESIGN, trap 4: the prior variance depends on the lengthscale, and is not normalised away."""
    for name, measure in MEASURE_CASES.items():
        if "missing" in name:
            continue
        feature = Feature("x", KERNELS["squared_exponential"](), measure)
        sizes = [
            float(mean_variance(feature, tensor(length), NO_TABLE)) for length in (0.5, 2, 8, 50)
        ]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[-1] < 1e-3


def test_one_atom_leaves_nothing() -> None:
    """The constrained kernel of a constant feature is identically 0 there (DESIGN, trap 3)."""
    for kernel in kernel_cases():
        feature = Feature("x", kernel, Empirical((0.4,), (1.0,)))
        np.testing.assert_allclose(
            matrix(feature, np.full(3, 0.4), np.full(3, 0.4), 0.8), 0, atol=1e-15
        )


def test_missing_at_prediction_only_has_mean_zero_and_the_full_prior_variance() -> None:
    for kernel in kernel_cases():
        for name, measure in MEASURE_CASES.items():
            if "missing" in name:
                continue
            feature = Feature("x", kernel, measure)
            k = matrix(feature, np.array([np.nan]), np.array([np.nan, -1.0, 0.3, 2.0]), 0.9)
            np.testing.assert_allclose(k, [[1.0, 0.0, 0.0, 0.0]], atol=1e-12)


# Sobol matrices: L(a, b) = E[k~(X, a) k~(X, b)] (DESIGN, trap 2).


@pairs
def test_sobol_matrix_equals_quadrature(kernel: RadialKernel, measure: Measure) -> None:
    feature = Feature("x", kernel, measure)
    a = np.array([-1.5, 0.3, np.nan, 2.2])
    b = np.array([0.0, 0.9, np.nan])
    nodes, p = dense_atoms(measure, panels=150)
    for length in LENGTHSCALES:
        truth = (matrix(feature, a, nodes, length) * p) @ matrix(feature, nodes, b, length)
        both = tensor(np.r_[a, b])
        points = SobolPoints(feature, both, tensor(length), NO_TABLE, tensor(1.0))
        got = points.matrix(slice(len(a)), slice(len(a), None)).numpy()
        np.testing.assert_allclose(got, truth, atol=3 * quadrature_error(kernel, measure))
        own, q = measure.atoms
        sums = (matrix(feature, a, own, length) * q) @ matrix(feature, own, b, length)
        closed = 1e-7 if kernel.name == "squared_exponential" else 1e-12
        np.testing.assert_allclose(got, sums, atol=closed)


@pairs
def test_sobol_matrix_equals_monte_carlo_with_the_square_of_the_scale(
    kernel: RadialKernel, measure: Measure
) -> None:
    rng = np.random.default_rng(2)
    features = (Feature("x", kernel, measure), Feature("z", kernel, measure))
    additive = AdditiveKernel(features, term_set(2, 1))
    scales, lengths = tensor([0.6, 2.5]), tensor([0.8, 0.8])
    parameters = Parameters(lengths, scales, tensor([1.0, 1.0]), tensor(0.1))
    a = np.array([-1.1, 0.4, 1.3])
    x = draws(measure, 20_000, rng)
    samples = 2.5 * matrix(features[1], x, a, 0.8)
    products = samples[:, :, None] * samples[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(x))
    points = additive.sobol_points(parameters, tensor([a, a]))[1]
    got = points.matrix(slice(None), slice(None)).numpy()
    bound = 5 * error + 3 * 2.5**2 * quadrature_error(kernel, measure)
    assert (np.abs(got - products.mean(axis=0)) < bound).all()
    assert (np.linalg.eigvalsh(got) > -1e-9).all()


@pytest.mark.parametrize("has_missing", [False, True])
@pytest.mark.parametrize("n_levels", [2, 4])
def test_categorical_sobol_matrix_equals_monte_carlo(n_levels: int, has_missing: bool) -> None:
    rng = np.random.default_rng(n_levels)
    kernel = CategoricalKernel(n_levels, 2, has_missing)
    shares = tuple(rng.dirichlet(np.ones(kernel.n_known)).tolist())
    feature = Feature("c", kernel, Categorical(shares))
    additive = AdditiveKernel((feature,), term_set(1, 1))
    w, kappa = rng.normal(0, 1, (n_levels, 2)), rng.uniform(0.2, 2, n_levels)
    parameters = Parameters(
        tensor([1.0]),
        tensor([2.5]),
        tensor([1.0, 1.0]),
        tensor(0.1),
        (tensor(w),),
        (tensor(kappa),),
    )
    codes = torch.arange(kernel.table_size, dtype=torch.float64)
    (points,) = additive.sobol_points(parameters, codes[None])
    got = points.matrix(slice(None), slice(None)).numpy()
    table = 2.5 * additive.tables(parameters)[0].numpy()
    x = rng.choice(kernel.n_known, 40_000, p=shares)
    products = table[x][:, :, None] * table[x][:, None, :]
    error = products.std(axis=0) / np.sqrt(len(x))
    assert (np.abs(got - products.mean(axis=0)) <= 5 * error + 1e-12).all()
    exact = table[:, : kernel.n_known] @ np.diag(shares) @ table[: kernel.n_known]
    np.testing.assert_allclose(got, exact, atol=1e-13)
    spread = additive.mean_variances(parameters).numpy()
    np.testing.assert_allclose(spread, [np.diag(table)[: kernel.n_known] @ shares], atol=1e-13)


# Base kernels.


@pytest.mark.parametrize("kernel", kernel_cases(), ids=lambda kernel: kernel.name)
def test_base_kernel_follows_its_formula(kernel: RadialKernel) -> None:
    rng = np.random.default_rng(1)
    a, b = np.r_[rng.normal(size=9), np.nan], np.r_[rng.normal(size=6), np.nan]
    for length in LENGTHSCALES:
        got = kernel(tensor(a), tensor(b), tensor(length)).numpy()
        np.testing.assert_allclose(got, kernel_values(kernel, a, b, length), atol=1e-13)


def test_periodic_kernel_works_on_phases() -> None:
    kernel = Periodic(period=24.0)
    hours = np.array([0.0, 5.5, 24.0, 29.5, -18.5, 12.0])
    phase = kernel.phase(hours)
    assert ((phase >= 0) & (phase < 1)).all()
    got = kernel(tensor(phase), tensor(phase), tensor(0.6)).numpy()
    np.testing.assert_allclose(got, kernel_values(kernel, hours, hours, 0.6, 24.0), atol=1e-12)
    np.testing.assert_allclose(got[0, 2], 1.0)
    np.testing.assert_allclose(got[1, 3:5], 1.0)


@pytest.mark.parametrize("period", [0.0, -1.0, np.inf, np.nan])
def test_periodic_kernel_refuses_a_period_that_is_none(period: float) -> None:
    with pytest.raises(ValueError, match="give a finite period above 0"):
        Periodic(period=period)
