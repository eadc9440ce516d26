"""The additive kernel: all orders at once equals the sum over the allowed terms, one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.references import (
    Problem,
    all_terms,
    covariance,
    mixed_features,
    random_parameters,
    random_problem,
    random_rows,
    tensor,
    term_covariance,
)

from oakgp.kernels.additive import AdditiveKernel
from oakgp.kernels.terms import Term, TermSet, term_set

D = len(mixed_features())
TERM_SETS = {
    "all up to 1": term_set(D, 1),
    "all up to 3": term_set(D, 3),
    "all orders": term_set(D, D),
    "a forbidden feature": term_set(D, 3, forbidden=[(2,)]),
    "forbidden pairs": term_set(D, 3, forbidden=[(0, 1), (1, 5), (2, 3)]),
    "a forbidden triple": term_set(D, 4, forbidden=[(0, 5, 6)]),
    "forced": term_set(D, 1, forced=[(0, 5), (1, 2, 3, 6)]),
    "both": term_set(D, 2, forbidden=[(0,), (4, 5)], forced=[(0, 6), (4, 5)]),
    "nothing but the constant": term_set(D, 2, forbidden=[(i,) for i in range(D)]),
}


def problem(name: str, orthogonal: bool = True) -> Problem:
    return random_problem(3, 17, terms=TERM_SETS[name], orthogonal=orthogonal)


@pytest.mark.parametrize("orthogonal", [True, False])
@pytest.mark.parametrize("name", list(TERM_SETS))
def test_matrix_and_diagonal_equal_the_sum_over_terms(name: str, orthogonal: bool) -> None:
    p = problem(name, orthogonal)
    other = tensor(random_rows(p.kernel.features, 9, np.random.default_rng(1)))
    weights = p.kernel.weights(p.parameters)
    left, right = (p.kernel.points(p.parameters, x) for x in (p.x, other))
    truth = covariance(p, p.x.numpy(), p.x.numpy())
    close = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(p.kernel.matrix(weights, left), truth, **close)
    np.testing.assert_allclose(p.kernel.diagonal(weights, left), np.diag(truth), **close)
    cross = covariance(p, p.x.numpy(), other.numpy())
    np.testing.assert_allclose(p.kernel.matrix(weights, left, right), cross, **close)


@pytest.mark.parametrize("orthogonal", [True, False])
def test_single_terms(orthogonal: bool) -> None:
    p = problem("all up to 3", orthogonal)
    weights = p.kernel.weights(p.parameters)
    points = p.kernel.points(p.parameters, p.x)
    for term in all_terms(p.kernel.terms):
        truth = term_covariance(p, term, p.x.numpy(), p.x.numpy())
        one = p.kernel.term_matrix(weights, term, points)
        both = p.kernel.term_matrix(weights, term, points, points)
        np.testing.assert_allclose(one, truth, atol=1e-9)
        np.testing.assert_allclose(both, truth, atol=1e-9)
        np.testing.assert_allclose(
            p.kernel.term_diagonal(weights, term, points), np.diag(truth), atol=1e-9
        )


@pytest.mark.parametrize("name", ["all orders", "both", "forbidden pairs"])
def test_matrix_is_symmetric_and_positive_semidefinite(name: str) -> None:
    p = problem(name)
    x = p.x.clone()
    x[:, 5:8] = x[:, 4:5]  # one row four times
    x[:5, 9] = torch.nan
    x[:4, 10] = 1e9
    x[:4, 11] = -1e150
    points = p.kernel.points(p.parameters, x)
    k = p.kernel.matrix(p.kernel.weights(p.parameters), points)
    assert torch.equal(k, k.T)
    assert bool(torch.isfinite(k).all())
    assert float(torch.linalg.eigvalsh(k).min()) > -1e-11 * float(k.diagonal().max())


def loss(
    kernel: AdditiveKernel, parameters: object, x: torch.Tensor, g: torch.Tensor
) -> torch.Tensor:
    points = kernel.points(parameters, x)
    weights = kernel.weights(parameters)
    return (kernel.matrix(weights, points) * g).sum() + kernel.diagonal(weights, points) @ g[0]


@pytest.mark.parametrize("name", ["all up to 3", "both"])
def test_gradient_of_every_hyperparameter_against_finite_differences(name: str) -> None:
    """Through embeddings, tables and blocks; missing values in the rows."""
    p = problem(name)
    rng = np.random.default_rng(8)
    g = tensor(rng.standard_normal((17, 17)))
    fields = ("lengthscales", "scales", "order_variances")
    leaves = [getattr(p.parameters, f).clone().requires_grad_() for f in fields]
    mixing = tuple(w.clone().requires_grad_() for w in p.parameters.mixing)
    diagonal = tuple(k.clone().requires_grad_() for k in p.parameters.diagonal)
    parameters = replace(
        p.parameters, **dict(zip(fields, leaves, strict=True)), mixing=mixing, diagonal=diagonal
    )
    everything = [*leaves, *mixing, *diagonal]
    got = torch.autograd.grad(loss(p.kernel, parameters, p.x, g), everything)
    numeric = p.kernel.categorical
    step = 1e-6
    for leaf, gradient in zip(everything, got, strict=True):
        for k in range(leaf.numel()):
            ends = []
            for sign in (1, -1):
                with torch.no_grad():
                    leaf.view(-1)[k] += sign * step
                    ends.append(float(loss(p.kernel, parameters, p.x, g)))
                    leaf.view(-1)[k] -= sign * step
            truth = (ends[0] - ends[1]) / (2 * step)
            if leaf is leaves[0] and k in numeric:
                assert float(gradient[k]) == 0.0  # a category has no lengthscale
            assert float(gradient.view(-1)[k]) == pytest.approx(truth, rel=1e-5, abs=1e-5)


def test_no_features_leave_the_constant() -> None:
    kernel = AdditiveKernel((), term_set(0, 0))
    p = Problem(kernel, random_parameters(kernel, np.random.default_rng(0)), *(tensor([]),) * 2)
    x = torch.zeros((0, 3), dtype=torch.float64)
    weights, points = kernel.weights(p.parameters), kernel.points(p.parameters, x)
    level = float(p.parameters.order_variances[0])
    np.testing.assert_array_equal(kernel.matrix(weights, points), np.full((3, 3), level))
    np.testing.assert_array_equal(kernel.diagonal(weights, points), np.full(3, level))


def test_the_constant_is_a_term() -> None:
    p = problem("all up to 1")
    weights = p.kernel.weights(p.parameters)
    points = p.kernel.points(p.parameters, p.x)
    level = float(p.parameters.order_variances[0])
    constant: Term = ()
    assert p.kernel.term_matrix(weights, constant, points).unique().tolist() == [level]
    assert p.kernel.term_diagonal(weights, constant, points).unique().tolist() == [level]


def test_float32_agrees_with_float64() -> None:
    p = problem("all up to 3")
    double = p.kernel.matrix(p.kernel.weights(p.parameters), p.kernel.points(p.parameters, p.x))
    parameters = p.parameters.to("cpu", torch.float32)
    single = p.kernel.matrix(p.kernel.weights(parameters), p.kernel.points(parameters, p.x.float()))
    assert single.dtype == torch.float32
    scale = float(double.abs().max())
    np.testing.assert_allclose(single, double, atol=2e-5 * scale)


def test_a_term_set_of_one_block_is_one_call_of_the_fused_operation() -> None:
    """And many blocks give the same matrix as one: the plain model cut up by a forced term."""
    p = problem("all up to 3")
    pieces = TermSet(D, term_set(D, 3, forbidden=[(0, 6)]).blocks)
    with_pair = tuple(u for u in all_terms(p.kernel.terms) if {0, 6} <= set(u))
    forced = term_set(D, 3, forbidden=[(0, 6)], forced=with_pair)
    assert len(pieces.blocks) > 1
    whole = p.kernel.matrix(p.kernel.weights(p.parameters), p.kernel.points(p.parameters, p.x))
    other = replace(p.kernel, terms=forced)
    cut = other.matrix(other.weights(p.parameters), other.points(p.parameters, p.x))
    np.testing.assert_allclose(cut, whole, atol=1e-11)
