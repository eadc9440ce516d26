"""Greedy inducing points against the naive rule: condition on the chosen, take the worst row."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.references import covariance, mixed_features, random_problem

from oakgp.inference.inducing import greedy_inducing
from oakgp.kernels.terms import term_set


def naive_greedy(k: np.ndarray, count: int) -> tuple[list[int], list[float]]:
    chosen: list[int] = []
    worst: list[float] = []
    for _ in range(count):
        remaining = np.diag(k).copy()
        if chosen:
            inner = k[np.ix_(chosen, chosen)]
            remaining -= np.einsum("ij,ij->j", k[chosen], np.linalg.solve(inner, k[chosen]))
        remaining[chosen] = -np.inf
        chosen.append(int(np.argmax(remaining)))
        worst.append(float(remaining.max()))
    return chosen, worst


@pytest.mark.parametrize("seed", range(4))
def test_choice_equals_the_naive_rule(seed: int) -> None:
    terms = term_set(7, 2, forbidden=[(0, 1)], forced=[(0, 1, 2)]) if seed % 2 else None
    p = random_problem(seed, 40, terms=terms)
    truth, _ = naive_greedy(covariance(p, p.x.numpy(), p.x.numpy()), 20)
    got = greedy_inducing(p.kernel, p.parameters, p.x, 20, seed=0)
    assert got.tolist() == truth


def test_fewer_points_are_a_prefix_and_none_comes_twice() -> None:
    p = random_problem(4, 50)
    many = greedy_inducing(p.kernel, p.parameters, p.x, 50, seed=0).tolist()
    assert len(set(many)) == len(many)
    assert greedy_inducing(p.kernel, p.parameters, p.x, 7, seed=3).tolist() == many[:7]


def test_it_stops_when_the_rest_is_determined() -> None:
    p = random_problem(5, 20, features=mixed_features()[6:], max_order=1)
    got = greedy_inducing(p.kernel, p.parameters, p.x, 20, seed=0)
    # Two levels: the constant and one contrast span all there is.
    assert len(got) == 2
    repeated = p.x[:, got.repeat(10)]
    assert len(greedy_inducing(p.kernel, p.parameters, repeated, 20, seed=0)) == 2


def test_more_points_than_rows_are_all_rows() -> None:
    p = random_problem(6, 8)
    got = greedy_inducing(p.kernel, p.parameters, p.x, 500, seed=0)
    assert sorted(got.tolist()) == list(range(8))


def test_candidates_are_a_seeded_subset_of_many_rows() -> None:
    p = random_problem(7, 60)
    one, same, other = (
        greedy_inducing(p.kernel, p.parameters, p.x, 10, seed, max_candidates=25).tolist()
        for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other
    assert max(one + other) > 25  # numbers of rows, not of candidates
    generator = torch.Generator().manual_seed(1)
    subset = torch.randperm(60, generator=generator)[:25].numpy()
    sub = p.x.numpy()[:, subset]
    assert one == subset[naive_greedy(covariance(p, sub, sub), 10)[0]].tolist()


def test_the_chosen_points_explain_more_than_random_ones() -> None:
    p = random_problem(8, 120)
    k = covariance(p, p.x.numpy(), p.x.numpy())

    def unexplained(rows: np.ndarray) -> float:
        cross = k[rows]
        inner = k[np.ix_(rows, rows)] + 1e-9 * np.eye(len(rows))
        return float(np.trace(k) - np.trace(cross.T @ np.linalg.solve(inner, cross)))

    greedy = greedy_inducing(p.kernel, p.parameters, p.x, 25, seed=0).numpy()
    rng = np.random.default_rng(0)
    random = [unexplained(rng.choice(120, 25, replace=False)) for _ in range(20)]
    assert unexplained(greedy) < min(random)
