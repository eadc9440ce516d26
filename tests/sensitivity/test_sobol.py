"""Sobol indices against brute force over terms, Monte Carlo over inputs, and each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.references import (
    Problem,
    kernel_cases,
    measure_cases,
    mixed_features,
    random_problem,
    random_rows,
    tensor,
    term_variances,
)

from oakgp.inference import exact, sparse
from oakgp.inference.data import TrainingData
from oakgp.kernels import KERNELS, CategoricalKernel
from oakgp.kernels.constrained import Feature
from oakgp.kernels.terms import Term, TermSet, term_set
from oakgp.measures import Categorical, gaussian
from oakgp.posterior import KernelPosterior
from oakgp.sensitivity import sobol_totals, top_terms
from oakgp.sensitivity.quadratic import PairBlocks

TERMS = {
    "order 1": term_set(7, 1),
    "orders up to 3": term_set(7, 3),
    "all orders": term_set(7, 7),
    "forbidden feature": term_set(7, 3, forbidden=[(1,)]),
    "forbidden and forced": term_set(7, 2, forbidden=[(0, 5)], forced=[(1, 2, 6), (0, 5)]),
    "only with the first": term_set(7, 3, forbidden=[(1, 2), (3, 4), (5, 6), (1, 6)]),
}


def posterior_of(p: Problem, engine: str = "exact") -> KernelPosterior:
    data = TrainingData(p.x, p.y, torch.ones_like(p.y), 0.0)
    if engine == "exact":
        return exact.posterior(p.kernel, p.parameters, data)[0]
    inducing = torch.arange(0, len(p.y), 2)
    return sparse.posterior(p.kernel, p.parameters, data, inducing)[0]


def truth_of(p: Problem, posterior: KernelPosterior) -> dict[Term, float]:
    return term_variances(p, posterior.features.x.numpy(), posterior.mean_weights.numpy())


def many_features() -> tuple[Feature, ...]:
    """Twelve features, three of them discrete."""
    measures = list(measure_cases().values())
    kernels = [KERNELS[k]() for k in ("squared_exponential", "matern32", "matern52")] * 3
    features = [
        Feature(f"x{i}", kernel, measures[i % len(measures)]) for i, kernel in enumerate(kernels)
    ]
    features += [
        Feature("a", CategoricalKernel(3, 2), Categorical((0.6, 0.3, 0.1))),
        Feature("b", CategoricalKernel(2, 1), Categorical((0.5, 0.5))),
        Feature("c", CategoricalKernel(2, 1, True), Categorical((0.8, 0.1, 0.1))),
    ]
    return tuple(features)


# Totals.


@pytest.mark.parametrize("engine", ["exact", "sparse"])
@pytest.mark.parametrize("name", list(TERMS))
def test_totals_equal_brute_force(name: str, engine: str) -> None:
    p = random_problem(1, 25, terms=TERMS[name])
    posterior = posterior_of(p, engine)
    truth = truth_of(p, posterior)
    totals = sobol_totals(posterior)
    scale = sum(truth.values())
    assert totals.variance == pytest.approx(scale, rel=1e-6)
    for r in range(p.kernel.max_order + 1):
        order = sum(v for u, v in truth.items() if len(u) == r)
        assert float(totals.orders[r]) == pytest.approx(order, abs=1e-7 * scale)
    for i in range(7):
        assert float(totals.main[i]) == pytest.approx(truth.get((i,), 0.0), abs=1e-7 * scale)
        total = sum(v for u, v in truth.items() if i in u)
        assert float(totals.total[i]) == pytest.approx(total, abs=1e-7 * scale)


@pytest.mark.parametrize("name", ["orders up to 3", "forbidden and forced"])
def test_the_sum_over_terms_is_the_variance_of_the_mean(name: str) -> None:
    """By Monte Carlo under the product measure: all components together, no formula in sight."""
    p = random_problem(2, 30, terms=TERMS[name])
    posterior = posterior_of(p)
    x = tensor(random_rows(p.kernel.features, 20_000, np.random.default_rng(0)))
    values = posterior.mean(x).numpy()
    squares = (values - values.mean()) ** 2
    error = squares.std() / np.sqrt(len(squares))
    # The kernels without closed forms are integrated on nodes: to about a percent (Matern 1/2).
    bound = 4 * error + 0.01 * values.var()
    assert sobol_totals(posterior).variance == pytest.approx(values.var(), abs=bound)


@pytest.mark.parametrize("kernel", kernel_cases(), ids=lambda k: k.name)
@pytest.mark.parametrize("name", list(measure_cases()))
def test_each_pair_of_kernel_and_measure_against_monte_carlo(kernel: object, name: str) -> None:
    """One main effect and one interaction, variances far from 1 (DESIGN, trap 2)."""
    measure = measure_cases()[name]
    features = (
        Feature("x", kernel, measure),
        Feature("c", CategoricalKernel(2, 1), Categorical((0.7, 0.3))),
    )
    p = random_problem(3, 20, features=features, max_order=2)
    posterior = posterior_of(p)
    rng = np.random.default_rng(1)
    x = tensor(random_rows(features, 8000, rng))
    variances = dict(top_terms(posterior, 3))
    assert len(variances) == 3
    for term, got in variances.items():
        values = posterior.mean(x, term).numpy() ** 2  # the mean over the measure is 0
        error = values.std() / np.sqrt(len(values))
        assert got == pytest.approx(values.mean(), abs=4.5 * error + 0.02 * got)


def test_a_constant_function_has_no_variance() -> None:
    p = random_problem(4, 10)
    posterior = posterior_of(Problem(p.kernel, p.parameters, p.x, torch.zeros_like(p.y)))
    totals = sobol_totals(posterior)
    assert totals.variance == 0.0
    assert top_terms(posterior, 5) == []


def test_indices_are_never_negative() -> None:
    """Also where the truth is a rounding error: huge weights of both signs, repeated rows."""
    features = (Feature("x", KERNELS["squared_exponential"](), gaussian()),) * 3
    p = random_problem(5, 30, features=features)
    x = p.x.clone()
    x[:, 15:] = x[:, :15]
    pinned = replace(p.parameters, lengthscales=5 * p.parameters.lengthscales, noise=tensor(1e-8))
    posterior = posterior_of(Problem(p.kernel, pinned, x, p.y))
    totals = sobol_totals(posterior)
    for part in (totals.orders, totals.main, totals.total):
        assert bool((part >= 0).all())
    assert all(v >= 0 for _, v in top_terms(posterior, 7))


def test_a_model_that_is_not_orthogonal_is_refused() -> None:
    posterior = posterior_of(random_problem(6, 10, orthogonal=False))
    for function in (sobol_totals, lambda p: top_terms(p, 3)):
        with pytest.raises(ValueError, match="fit it with orthogonal=True"):
            function(posterior)


def test_no_features_have_no_indices() -> None:
    p = random_problem(7, 5, features=mixed_features()[:1], max_order=1)
    kernel = type(p.kernel)((), term_set(0, 0))
    parameters = type(p.parameters)(tensor([]), tensor([]), tensor([1.5]), tensor(0.2))
    posterior = posterior_of(Problem(kernel, parameters, p.x[:0, :1], p.y[:1]))
    assert sobol_totals(posterior).variance == 0.0
    assert top_terms(posterior, 5) == []


def test_only_the_constant_has_no_indices() -> None:
    p = random_problem(8, 6, terms=term_set(7, 2, forbidden=[(i,) for i in range(7)]))
    posterior = posterior_of(p)
    assert sobol_totals(posterior).variance == 0.0
    assert top_terms(posterior, 5) == []


# The search for the largest terms.


def expected_top(truth: dict[Term, float], count: int, floor: float = 0.0) -> list[Term]:
    big = [u for u in truth if truth[u] > floor]
    return sorted(big, key=lambda u: -truth[u])[:count]


@pytest.mark.parametrize("count", [1, 3, 10, 1000])
@pytest.mark.parametrize("name", list(TERMS))
def test_largest_terms_equal_brute_force(name: str, count: int) -> None:
    p = random_problem(9, 20, terms=TERMS[name])
    posterior = posterior_of(p)
    truth = truth_of(p, posterior)
    found = top_terms(posterior, count)
    assert [u for u, _ in found] == expected_top(truth, count)
    for u, v in found:
        assert v == pytest.approx(truth[u], rel=1e-6)


TWELVE: dict[str, TermSet] = {
    "order 3": term_set(12, 3),
    "forbidden and forced": term_set(
        12, 3, forbidden=[(0, 1), (2, 9, 10), (7,)], forced=[(0, 1), (3, 4, 5, 6)]
    ),
}


@pytest.mark.parametrize("name", list(TWELVE))
def test_search_among_the_terms_of_twelve_features(name: str) -> None:
    p = random_problem(10, 15, features=many_features(), terms=TWELVE[name])
    posterior = posterior_of(p)
    truth = truth_of(p, posterior)
    blocks = PairBlocks(posterior)
    total = sum(truth.values())
    for count in (1, 5, 40, 400):
        found = top_terms(posterior, count, blocks=blocks)
        assert [u for u, _ in found] == expected_top(truth, count)
    for share in (0.3, 0.02, 1e-3):
        found = top_terms(posterior, 400, share, blocks)
        assert [u for u, _ in found] == expected_top(truth, 400, share * total)
        assert all(v > share * total for _, v in found)


def test_search_finds_a_high_order_term_without_its_parts() -> None:
    """The bound must not drop a prefix because the prefix itself is small."""
    p = random_problem(11, 25, terms=TERMS["all orders"])
    orders = tensor([1, 1e-6, 1e-6, 1e-6, 1e-6, 1e3, 1e-6, 1e-6])
    p = replace(p, parameters=replace(p.parameters, order_variances=orders))
    posterior = posterior_of(p)
    truth = truth_of(p, posterior)
    found = [u for u, _ in top_terms(posterior, 4)]
    assert found == expected_top(truth, 4)
    assert {len(u) for u in found} == {5}


def test_no_terms_wanted_are_no_terms_found() -> None:
    assert top_terms(posterior_of(random_problem(12, 8)), 0) == []


def test_blocks_are_kept_and_give_the_same_sums_when_they_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    p = random_problem(13, 30)
    posterior = posterior_of(p)
    monkeypatch.setattr("oakgp.sensitivity.quadratic._BLOCK_ENTRIES", {"cpu": 70})
    kept = PairBlocks(posterior)
    first = [block.weights for block in kept]
    assert len(first) > 10
    assert all(a is b.weights for a, b in zip(first, kept, strict=True))
    whole = sobol_totals(posterior).variance
    monkeypatch.setattr("oakgp.sensitivity.quadratic._CACHE_ENTRIES", {"cpu": 0})
    fresh = PairBlocks(posterior)
    assert not any(a.weights is b.weights for a, b in zip(fresh, fresh, strict=True))
    assert sobol_totals(posterior, fresh).variance == pytest.approx(whole, rel=1e-12)
    found, again = top_terms(posterior, 5), top_terms(posterior, 5, blocks=fresh)
    assert [u for u, _ in again] == [u for u, _ in found]
    assert [v for _, v in again] == pytest.approx([v for _, v in found])
