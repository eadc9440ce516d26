"""Shapley effects and the probability of relevance, against sums over single terms and draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.explain.models import fitted
from tests.references import Problem, random_problem, term_variances

from oakgp.inference import exact
from oakgp.inference.data import TrainingData
from oakgp.kernels.terms import term_set
from oakgp.posterior import KernelPosterior
from oakgp.sensitivity import (
    expected_totals,
    posterior_variances,
    sample_variances,
    sobol_totals,
)

TERMS = {
    "order 1": term_set(7, 1),
    "orders up to 3": term_set(7, 3),
    "all orders": term_set(7, 7),
    "forbidden and forced": term_set(7, 2, forbidden=[(0, 5)], forced=[(1, 2, 6), (0, 5)]),
    "nothing": term_set(7, 0),
}


def posterior_of(p: Problem) -> KernelPosterior:
    data = TrainingData(p.x, p.y, torch.ones_like(p.y), 0.0)
    return exact.posterior(p.kernel, p.parameters, data)[0]


@pytest.mark.parametrize("name", list(TERMS))
def test_effects_equal_the_sum_over_terms(name: str) -> None:
    p = random_problem(1, 25, terms=TERMS[name])
    posterior = posterior_of(p)
    truth = term_variances(p, p.x.numpy(), posterior.mean_weights.numpy())
    expected = [sum(v / len(u) for u, v in truth.items() if i in u) for i in range(7)]
    found = sobol_totals(posterior).shapley
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-10)
    assert float(found.sum()) == pytest.approx(sum(truth.values()), rel=1e-6)


def test_expected_effects_equal_the_sum_over_terms() -> None:
    p = random_problem(2, 25)
    posterior = posterior_of(p)
    terms = [u for u in p.terms if u]
    each = posterior_variances(posterior, terms).numpy()
    expected = [
        sum(v / len(u) for u, v in zip(terms, each, strict=True) if i in u) for i in range(7)
    ]
    np.testing.assert_allclose(expected_totals(posterior).shapley, expected, rtol=1e-8)


def test_the_table_of_features_has_the_effects_with_their_intervals() -> None:
    table = fitted().sobol_.features
    assert table["shapley"].sum() == pytest.approx(1.0)
    assert table["mean_shapley"].sum() == pytest.approx(1.0)
    for name in ("shapley", "mean_shapley"):
        prefix = name.removesuffix("shapley")
        assert (table[f"{prefix}first_order"] <= table[name] + 1e-12).all()
        assert (table[name] <= table[f"{prefix}total"] + 1e-12).all()
    assert (table["shapley_low"] <= table["mean_shapley"]).all()
    assert (table["mean_shapley"] <= table["shapley_high"]).all()


def test_the_probability_of_a_share_above_one_percent() -> None:
    model = fitted().model_
    table, ranking = model.sobol.terms, model.sobol.ranking
    found = table["prob_over_1pct"]
    assert ((found >= 0) & (found <= 1)).all()
    mains = [(i,) for i in range(4) if (i,) not in ranking.terms]
    draws = sample_variances(model.posterior, [*ranking.terms, *mains], 3000, seed=5).numpy()
    shares = draws / draws.sum(axis=1, keepdims=True)  # the model has hardly any other terms
    again = (shares > 0.01).mean(axis=0)[: len(found)]
    np.testing.assert_allclose(found, again, atol=0.1)
    assert found[0] == 1.0
    assert (found[table["low"] > 0.01] >= 0.95).all()
    assert (found[table["high"] < 0.01] <= 0.05).all()
