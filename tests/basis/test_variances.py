"""Sobol indices of the basis engine against quadrature, Monte Carlo and draws."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from tests.basis.models import Array, layout_of, parameters_of
from tests.references import measure_cases, tensor

from oakgp.basis.layout import BasisLayout, design
from oakgp.basis.posterior import BasisPosterior
from oakgp.kernels import Matern32, SquaredExponential
from oakgp.kernels.categorical import CategoricalKernel
from oakgp.kernels.constrained import Feature
from oakgp.kernels.terms import Term
from oakgp.measures import Categorical

TERMS: list[Term] = [(0,), (1,), (2,), (0, 1), (0, 2), (0, 1, 2)]
N_DRAWS = 20_000


def layout() -> BasisLayout:
    measures = measure_cases()
    return layout_of(
        (
            Feature("a", SquaredExponential(), measures["quantile nodes"]),
            Feature("b", Matern32(), measures["uniform with missing"]),
            Feature("c", CategoricalKernel(3, 2, True), Categorical((0.5, 0.2, 0.2, 0.1))),
        ),
        TERMS,
        4,
        5,
    )


def posterior(seed: int = 0) -> BasisPosterior:
    own, rng = layout(), np.random.default_rng(seed)
    weights = rng.standard_normal(own.size)
    root = np.triu(rng.normal(0.0, 0.15, (own.size, own.size)))
    return BasisPosterior(own, parameters_of(own), tensor(weights), tensor(root), 0.1)


def atoms(own: BasisLayout) -> tuple[torch.Tensor, Array]:
    """All combinations of the atoms of all features, with their probabilities."""
    values, masses = [], []
    for basis in own.bases:
        q = len(basis.mass) - int(basis.knows_missing)
        values.append([*basis.knots[:q].tolist(), *[np.nan] * int(basis.knows_missing)])
        masses.append(basis.mass.tolist())
    x = tensor(list(product(*values))).T
    return x.contiguous(), np.array([np.prod(p) for p in product(*masses)])


def variance_of(p: BasisPosterior, term: Term, x: torch.Tensor, mass: Array) -> float:
    values = p.mean(x, term).numpy()
    mean = float(mass @ values)
    return float(mass @ (values - mean) ** 2)


def test_variances_are_those_of_quadrature() -> None:
    p = posterior()
    x, mass = atoms(p.layout)
    truth = np.array([variance_of(p, u, x, mass) for u in TERMS])
    np.testing.assert_allclose(p.variances().of(TERMS), truth, rtol=1e-9)
    totals = p.variances().totals()
    np.testing.assert_allclose(totals.main, truth[:3], rtol=1e-9)
    contains = np.array([[i in u for u in TERMS] for i in range(3)])
    np.testing.assert_allclose(totals.total, contains @ truth, rtol=1e-9)
    orders = [sum(v for u, v in zip(TERMS, truth, strict=True) if len(u) == r) for r in range(4)]
    np.testing.assert_allclose(totals.orders, orders, rtol=1e-9)
    values = p.mean(x).numpy()
    whole = float(mass @ (values - mass @ values) ** 2)
    assert totals.variance == pytest.approx(whole, rel=1e-9)


def test_variances_are_those_of_rows_from_the_measures() -> None:
    p, rng = posterior(), np.random.default_rng(5)
    columns = []
    for basis in p.layout.bases:
        q = len(basis.mass) - int(basis.knows_missing)
        values = np.r_[basis.knots[:q].numpy(), [np.nan] * int(basis.knows_missing)]
        columns.append(rng.choice(values, 40_000, p=basis.mass.numpy()))
    x = tensor(columns)
    for u, v in zip(TERMS, p.variances().of(TERMS).tolist(), strict=True):
        assert float(p.mean(x, u).var()) == pytest.approx(v, rel=0.06)


def test_expected_variances_and_draws_are_those_of_the_weights() -> None:
    p = posterior()
    variances = p.variances()
    expected = variances.expected_of(TERMS)
    x, mass = atoms(p.layout)
    for k, u in enumerate(TERMS):  # V_u of the mean, and the component's variance on the average
        _, own = p.mean_and_variance(x, u)
        truth = float(variances.of([u])[0]) + float(mass @ own.numpy())
        assert float(expected[k]) == pytest.approx(truth, rel=1e-9)
    draws = variances.draws(TERMS, N_DRAWS, seed=3)
    assert draws.shape == (N_DRAWS, len(TERMS))
    np.testing.assert_allclose(draws.mean(dim=0), expected, rtol=0.05)
    assert variances.expected_totals().variance == pytest.approx(float(expected.sum()))
    # One draw by hand: the squared lengths of drawn weights.
    generator = torch.Generator().manual_seed(3)
    white = torch.randn((N_DRAWS, len(p.root)), generator=generator, dtype=torch.float64)
    weights = p.mean_weights + white[7] @ p.root
    span = p.layout.slices[TERMS[3]]
    assert float(draws[7, 3]) == pytest.approx(float((weights[span] ** 2).sum()))


def test_several_functions_are_averaged() -> None:
    first, second = posterior(0), posterior(1)
    both = first.variances([second])
    for name in ("of", "expected_of"):
        each = [getattr(p.variances(), name)(TERMS) for p in (first, second)]
        torch.testing.assert_close(getattr(both, name)(TERMS), (each[0] + each[1]) / 2)


def test_the_largest_come_first() -> None:
    variances = posterior().variances()
    found = variances.largest(3)
    values = variances.of(TERMS)
    assert [v for _, v in found] == pytest.approx(sorted(values.tolist(), reverse=True)[:3])
    whole = variances.totals().variance
    assert all(v > 0.2 * whole for _, v in variances.largest(10, 0.2))
    assert variances.largest(0) == []
    assert len(variances.largest(100)) == len(TERMS)


def test_a_draw_of_a_component_and_its_deviation() -> None:
    p = posterior()
    x = atoms(p.layout)[0][:, ::40]
    _, variance = p.mean_and_variance(x, (0, 1))
    phi = design(p.layout, x)
    span = p.layout.slices[(0, 1)]
    part = p.root[:, span] @ phi[span]
    np.testing.assert_allclose(variance, (part**2).sum(dim=0), atol=1e-12)
    draws = p.sample(x, 4000, seed=0, term=(0, 1))
    np.testing.assert_allclose(draws.var(dim=0), variance, rtol=0.15, atol=1e-6)
