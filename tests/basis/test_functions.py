"""Laws of the functions of one feature, over all kernels and measures."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.basis.models import category, lookup
from tests.references import kernel_cases, kernel_values, measure_cases, tensor

from oakgp.basis.functions import TAIL, FeatureBasis, feature_basis
from oakgp.kernels import SquaredExponential
from oakgp.kernels.constrained import Feature
from oakgp.measures import MEASURES as MEASURE_CLASSES
from oakgp.measures import Empirical, fit_measure

KERNELS = {kernel.name: kernel for kernel in kernel_cases()}
MEASURES = measure_cases()
NAN = float("nan")


def atoms_of(basis: FeatureBasis) -> torch.Tensor:
    """What the probabilities belong to, as encoded values."""
    knots = basis.knots[: len(basis.mass) - int(basis.knows_missing)]
    return torch.cat([knots, tensor([NAN])]) if basis.knows_missing else knots


def check_orthonormal(basis: FeatureBasis) -> None:
    values, mass = basis.values(atoms_of(basis)), basis.mass
    assert float(mass.sum()) == pytest.approx(1.0)
    torch.testing.assert_close((values * mass) @ values.T, torch.eye(basis.size).double())
    assert float((values @ mass).abs().max()) < 1e-9 if basis.size else True


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_functions_are_orthonormal_with_mean_zero(kernel: str, measure: str) -> None:
    basis = feature_basis(Feature("x", KERNELS[kernel], MEASURES[measure]), 0.4, 12)
    assert basis.size > 2
    assert basis.knows_missing == ("missing" in measure)
    check_orthonormal(basis)
    assert bool((basis.eigenvalues[1:] <= basis.eigenvalues[:-1]).all())


@pytest.mark.parametrize("measure", ["empirical with missing", "uniform", "quantile nodes"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_rough_functions_are_orthonormal_to_each_other_and_to_the_smooth(
    kernel: str, measure: str
) -> None:
    feature = Feature("x", KERNELS[kernel], MEASURES[measure])
    smooth, basis = feature_basis(feature, 0.4, 6), feature_basis(feature, 0.4, 6, 9)
    assert basis.n_smooth == smooth.size == 6
    assert basis.size == 6 + (0 if kernel == "periodic" else 9)
    check_orthonormal(basis)
    assert torch.equal(basis.table[:, :6], smooth.table)
    assert bool((basis.rough_values[1:] <= basis.rough_values[:-1]).all())
    # They are the part of a rough process that the constant and the smooth functions lack.
    nodes, p = atoms_of(basis).numpy(), basis.mass.numpy()
    k = kernel_values(KERNELS["matern12"], nodes, nodes, 0.4)
    k = k - np.outer(k @ p, k @ p) / (p @ k @ p)
    values = basis.values(atoms_of(basis))[6:].numpy() * p
    np.testing.assert_allclose(
        values @ k @ values.T, np.diag(basis.rough_values.numpy()), atol=1e-9
    )


def test_categories_and_few_values_have_no_more_functions_than_values() -> None:
    assert feature_basis(category(3, True, (0.5, 0.2, 0.2, 0.1)), 0.4, 9, 9).size == 3
    few = Empirical((0.0, 1.0, 2.5, NAN), (0.3, 0.3, 0.3, 0.1))
    basis = feature_basis(Feature("x", SquaredExponential(), few), 0.4, 9, 9)
    assert basis.size == 3
    check_orthonormal(basis)


@pytest.mark.parametrize("measure", ["empirical with missing", "gaussian", "quantile nodes"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_prior_at_the_reference_is_diagonal(kernel: str, measure: str) -> None:
    basis = feature_basis(Feature("x", KERNELS[kernel], MEASURES[measure]), 0.4, 12)
    torch.testing.assert_close(
        basis.prior(tensor(0.4)), torch.diag(basis.eigenvalues), atol=1e-12, rtol=1e-9
    )


@pytest.mark.parametrize("measure", ["empirical with missing", "quantile nodes"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_prior_is_the_projection_of_the_constrained_kernel(kernel: str, measure: str) -> None:
    feature = Feature("x", KERNELS[kernel], MEASURES[measure])
    basis = feature_basis(feature, 0.4, 9)
    nodes, p = atoms_of(basis).numpy(), basis.mass.numpy()
    k = kernel_values(feature.kernel, nodes, nodes, 0.9)
    k = k - np.outer(k @ p, k @ p) / (p @ k @ p)
    values = basis.values(tensor(nodes)).numpy() * p
    np.testing.assert_allclose(basis.prior(tensor(0.9)), values @ k @ values.T, atol=1e-12)


def test_the_gradient_of_the_prior_by_the_lengthscale() -> None:
    basis = feature_basis(
        Feature("x", KERNELS["matern32"], MEASURES["empirical with missing"]), 0.4, 4
    )
    assert torch.autograd.gradcheck(basis.prior, tensor(0.7).requires_grad_())


@pytest.mark.parametrize("kernel", KERNELS)
def test_all_functions_together_are_the_kernel(kernel: str) -> None:
    """Mercer: with every function, sum of eigenvalue phi(x) phi(x') is k~ at the nodes."""
    feature = Feature("x", KERNELS[kernel], MEASURES["empirical with missing"])
    basis = feature_basis(feature, 0.3, 10_000)
    values = basis.values(atoms_of(basis))
    nodes, p = atoms_of(basis).numpy(), basis.mass.numpy()
    k = kernel_values(feature.kernel, nodes, nodes, 0.3)
    truth = tensor(k - np.outer(k @ p, k @ p) / (p @ k @ p))
    found = (values.T * basis.eigenvalues) @ values
    lost = float(((truth - found).diagonal() * basis.mass).sum())
    assert lost > -1e-12
    assert lost <= TAIL * float((truth.diagonal() * basis.mass).sum())


def test_coinciding_nodes_count_once() -> None:
    tied = Empirical((2.0, 0.0, 1.0, 1.0, NAN, 1.0, NAN), (0.1, 0.2, 0.1, 0.2, 0.1, 0.1, 0.2))
    basis = feature_basis(Feature("x", SquaredExponential(), tied), 0.4, 9)
    assert basis.knots.tolist() == [0.0, 1.0, 2.0]
    np.testing.assert_allclose(basis.mass, [0.2, 0.4, 0.1, 0.3])
    check_orthonormal(basis)
    assert basis.size == 3  # four atoms less the mean
    assert bool(torch.isfinite(basis.values(tensor([-5.0, 0.5, 1.0, 7.0, NAN]))).all())


@pytest.mark.parametrize("values", [[0.0, 1.0], [0.0, 1.0, NAN], [3.0, NAN], [-1.0, 0.0, 4.0]])
def test_few_distinct_values_have_one_function_less_than_values(values: list[float]) -> None:
    column = np.repeat(values, np.arange(1, len(values) + 1))
    for name in ("empirical", "gaussian", "gaussian_mixture", "uniform"):
        basis = feature_basis(Feature("x", SquaredExponential(), fit_measure(name, column)), 0.4, 9)
        check_orthonormal(basis)
        if name == "empirical":
            assert basis.size == len(values) - 1


@pytest.mark.parametrize("values", [[1.0], [NAN], [0.3] * 7])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_constant_feature_has_no_functions(kernel: str, values: list[float]) -> None:
    measure = fit_measure("empirical", np.array(values))
    basis = feature_basis(Feature("x", KERNELS[kernel], measure), 0.4, 9)
    assert basis.size == 0
    assert basis.values(tensor([0.0, 1.0, NAN])).shape == (0, 3)
    assert basis.prior(tensor(0.8)).shape == (0, 0)


@pytest.mark.parametrize("name", [*MEASURE_CLASSES, "gaussian"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_rounding_makes_no_functions(kernel: str, name: str) -> None:
    close = np.array([1.0, 1.0 + 2e-16, 1.0 + 4e-16])
    basis = feature_basis(Feature("x", KERNELS[kernel], fit_measure(name, close)), 0.4, 9)
    check_orthonormal(basis)
    if name != "uniform":  # which has a least width
        assert basis.size == 0


def test_a_level_without_probability_has_finite_values() -> None:
    basis = feature_basis(category(3, False, (0.7, 0.3, 0.0)), 0.4, 9)
    check_orthonormal(basis)
    assert bool(torch.isfinite(basis.table).all())


@pytest.mark.parametrize(
    ("levels", "missing", "weights"),
    [
        (4, False, (0.4, 0.3, 0.2, 0.1)),
        (3, True, (0.5, 0.2, 0.2, 0.1)),
        (2, False, (0.999, 0.001)),
        (1, True, (0.6, 0.4)),
    ],
)
def test_categories(levels: int, missing: bool, weights: tuple[float, ...]) -> None:
    basis = feature_basis(category(levels, missing, weights), 0.4, 9)
    assert basis.is_categorical
    assert basis.knows_missing == missing
    assert len(basis.knots) == levels
    assert basis.size == len(weights) - 1
    check_orthonormal(basis)
    torch.testing.assert_close(basis.prior(tensor(1.0)), torch.diag(basis.eigenvalues))
    # Levels are independent with unit variance before the constraint.
    p = np.array(weights)
    k = np.eye(len(p)) - np.outer(p, p) / (p @ p)
    values = basis.values(atoms_of(basis)).numpy()
    np.testing.assert_allclose((values.T * basis.eigenvalues.numpy()) @ values, k, atol=1e-10)
    odd = tensor([-1.0, float(levels), 99.0] + ([] if missing else [NAN]))
    assert bool((basis.values(odd) == 0).all())
    assert bool(basis.unknown(odd).all())
    assert not bool(basis.unknown(atoms_of(basis)).any())


@pytest.mark.parametrize("measure", ["empirical", "uniform with missing", "quantile nodes"])
def test_values_are_interpolated_and_flat_outside(measure: str) -> None:
    basis = feature_basis(Feature("x", SquaredExponential(), MEASURES[measure]), 0.4, 6)
    rng = np.random.default_rng(1)
    x = np.r_[rng.normal(0, 2, 60), basis.knots.numpy(), 1e308, -1e308, np.inf, -np.inf, NAN]
    found = basis.values(tensor(x)).numpy()
    np.testing.assert_allclose(found.T, [lookup(basis, v) for v in x], atol=1e-12)
    assert bool(basis.unknown(tensor([NAN]))[0]) == ("missing" not in measure)
    assert not bool(basis.unknown(tensor([-1e9, 1e9])).any())


def test_at_most_so_many_and_no_more_than_the_tail_asks_for() -> None:
    feature = Feature("x", SquaredExponential(), MEASURES["quantile nodes"])
    assert feature_basis(feature, 0.4, 3).size == 3
    rough, smooth = (feature_basis(feature, length, 1000).size for length in (0.2, 2.0))
    assert smooth < rough < 40


def test_signs_are_fixed_and_copies_are_equal() -> None:
    feature = Feature("x", SquaredExponential(), MEASURES["quantile nodes"])
    first, second = (feature_basis(feature, 0.4, 8) for _ in range(2))
    assert torch.equal(first.table, second.table)
    peaks = first.table.abs().argmax(dim=0)
    assert bool((first.table[peaks, torch.arange(first.size)] > 0).all())
    assert torch.equal(first.to("cpu").table, first.table)
