"""Which terms are found, and what bounds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from tests.basis.models import layout_of, plain_features
from tests.references import random_rows, tensor

from oakgp.basis import screen
from oakgp.basis.evidence import Solution, block_factors
from oakgp.basis.fit import BasisFit, BasisFitter, BasisSchedule
from oakgp.basis.functions import feature_basis
from oakgp.basis.layout import BasisLayout, design, term_columns
from oakgp.basis.rows import InMemory, Rows
from oakgp.basis.screen import gains
from oakgp.basis.selection import (
    Budget,
    Screen,
    main_layout,
    refined,
    tail_shares,
    with_pairs,
    with_rough,
)
from oakgp.basis.statistics import statistics
from oakgp.basis.working import GaussianWorking
from oakgp.kernels.terms import Term, term_set

D = 7
FEATURES = plain_features(D)
BASES = tuple(feature_basis(feature, 0.4, 8) for feature in FEATURES)
PAIRS = list(combinations(range(D), 2))


def rows(n: int, truth: Callable[[torch.Tensor], torch.Tensor], noise: float = 0.3) -> Rows:
    rng = np.random.default_rng(2)
    x = tensor(random_rows(FEATURES, n, rng))
    y = truth(x)
    y = (y - y.mean()) / y.std() + noise * tensor(rng.standard_normal(n))
    return Rows(x, y, torch.ones(n).double(), torch.zeros(n).double())


def found(
    given: Rows,
    *,
    forbidden: Sequence[Term] = (),
    forced: Sequence[Term] = (),
    max_order: int = 3,
    columns: int = 300,
    interactions: int | None = None,
    schedule: BasisSchedule | None = None,
) -> BasisFit:
    allowed = term_set(D, max_order, forbidden=forbidden, forced=forced)
    budget = Budget(columns=columns, main=8, pair=8, triple=8, interactions=interactions)
    fitter = BasisFitter(
        FEATURES,
        GaussianWorking(),
        allowed=allowed.__contains__,
        forced=forced,
        max_order=max_order,
        schedule=schedule or BasisSchedule(budget=budget),
        unit=1.0,
        seed=0,
        device="cpu",
    )
    return fitter.fit(InMemory(given))


def shares(fit: BasisFit) -> dict[Term, float]:
    variances = fit.posteriors[0].variances()
    terms = [u for u in fit.posteriors[0].layout.terms if u]
    values = variances.of(terms)
    return dict(zip(terms, (values / values.sum()).tolist(), strict=True))


def pair_truth(x: torch.Tensor) -> torch.Tensor:
    return x[0] + x[1] * x[2]


def triple_truth(x: torch.Tensor) -> torch.Tensor:
    return x[3] + x[0] * x[1] + x[1] * x[2] + x[0] * x[1] * x[2]


def test_a_product_is_found_among_noise() -> None:
    own = shares(found(rows(1500, pair_truth), max_order=2))
    assert own[(1, 2)] > 0.3
    assert own[(0,)] > 0.3
    assert sum(v for u, v in own.items() if u not in ((0,), (1, 2))) < 0.03


def test_a_triple_is_found_among_noise() -> None:
    own = shares(found(rows(3000, triple_truth)))
    assert own[(0, 1, 2)] > 0.05
    assert max(own, key=lambda u: own[u] if len(u) == 3 else 0.0) == (0, 1, 2)
    assert sum(v for u, v in own.items() if {4, 5, 6} & set(u)) < 0.03


def test_forbidden_terms_are_never_in() -> None:
    fit = found(rows(600, triple_truth), forbidden=[(1, 2), (3,)])
    for u in fit.posteriors[0].layout.terms:
        assert 3 not in u
        assert not {1, 2} <= set(u)


def test_forced_terms_are_always_in() -> None:
    forced: list[Term] = [(5, 6), (3, 4, 5), (0, 1, 2, 3)]
    fit = found(rows(300, pair_truth), forced=forced, max_order=1)
    terms = fit.posteriors[0].layout.terms
    assert set(terms) == {(), *((i,) for i in range(D)), *forced}
    assert set(forced) <= set(
        found(rows(300, pair_truth), forced=forced).posteriors[0].layout.terms
    )


@pytest.mark.parametrize("most", [0, 1, 2])
def test_so_many_interactions_and_no_more(most: int) -> None:
    fit = found(rows(800, triple_truth), interactions=most)
    interactions = [u for u in fit.posteriors[0].layout.terms if len(u) > 1]
    assert len(interactions) == most
    assert most == 0 or set(interactions) & {(0, 1), (1, 2), (0, 1, 2), (0, 2)}


@pytest.mark.parametrize("order", [1, 2, 3])
def test_no_term_is_of_higher_order_than_asked(order: int) -> None:
    layout = found(rows(800, triple_truth), max_order=order).posteriors[0].layout
    assert layout.max_order <= order


@pytest.mark.parametrize("columns", [20, 62, 100])
def test_columns_stay_within_the_budget(columns: int) -> None:
    """Also where the main effects alone, with as many functions as they might have, do not."""
    layout = found(rows(800, triple_truth), columns=columns).posteriors[0].layout
    assert layout.size <= columns
    assert {(i,) for i in range(D)} <= set(layout.terms)


def test_the_same_rows_give_the_same_model() -> None:
    first, second = (found(rows(500, pair_truth)).posteriors[0] for _ in range(2))
    assert first.layout.terms == second.layout.terms
    assert torch.equal(first.mean_weights, second.mean_weights)
    assert torch.equal(first.root, second.root)


# The screen.


@pytest.mark.parametrize("order", [2, 3])
def test_gains_are_log_evidence_over_that_of_no_term(order: int) -> None:
    given, rng = rows(200, triple_truth), np.random.default_rng(0)
    weights = tensor(rng.uniform(0.0, 2.0, 200) * (rng.random(200) > 0.1))
    terms = list(combinations(range(D), order))[:6]
    noise = 0.4
    blocks = [term_columns(BASES, u, 10) for u in terms]
    found_gains = gains(BASES, blocks, given.x, given.y, weights, noise)
    for k, (u, block) in enumerate(zip(terms, blocks, strict=True)):
        phi = design(BasisLayout(BASES, (block,)), given.x)[1:]
        prior = torch.ones(block.size).double()
        for j, i in enumerate(u):
            prior = prior * BASES[i].eigenvalues[block.index[:, j]]
        data = statistics(phi, given.y, weights)
        values = []
        for variance in screen._VARIANCES:
            for scale in (1.0, 0.0):
                blocks = block_factors([scale * variance * torch.diag(prior)])
                values.append(float(Solution(data, blocks, noise).log_evidence))
        best = max(0.0, *(a - b for a, b in zip(values[::2], values[1::2], strict=True)))
        assert float(found_gains[k]) == pytest.approx(best, rel=1e-7, abs=1e-9)


def test_the_screen_ranks_the_truth_first() -> None:
    given = rows(1000, lambda x: x[1] * x[2])
    blocks = [term_columns(BASES, u, 10) for u in PAIRS]
    found_gains = gains(BASES, blocks, given.x, given.y, given.w, 0.1)
    assert PAIRS[int(found_gains.argmax())] == (1, 2)
    others = [g for u, g in zip(PAIRS, found_gains.tolist(), strict=True) if u != (1, 2)]
    assert max(others) < 0.1 * float(found_gains.max())
    assert min(others) >= 0.0


# Steps of the selection, with a screen that is told what to say.


def told(values: dict[Term, float]) -> Screen:
    return lambda blocks: tensor([values.get(block.term, 0.0) for block in blocks])


def everything(term: Term) -> bool:
    return True


def test_pairs_come_by_their_gain_while_there_is_room() -> None:
    budget = Budget(columns=1 + 8 * D + 20, main=5, pair=8, triple=8)
    mains = main_layout(BASES, everything, (), budget)
    assert mains.terms == ((), *((i,) for i in range(D)))
    gain = {(2, 4): 90.0, (0, 1): 50.0, (1, 2): 70.0, (0, 6): 1.0}
    wider = with_pairs(mains, everything, told(gain), budget)
    sizes = [term_columns(BASES, u, 8).size for u in ((2, 4), (1, 2), (0, 1))]
    count = sum(mains.size + sum(sizes[: k + 1]) <= budget.columns for k in range(3))
    assert wider.terms[D + 1 :] == ((2, 4), (1, 2), (0, 1))[:count]
    assert wider.size <= budget.columns
    assert with_pairs(mains, lambda u: u != (2, 4), told(gain), budget).terms[D + 1] == (1, 2)
    two = with_pairs(mains, everything, told(gain), replace(budget, interactions=2, columns=300))
    assert two.terms[D + 1 :] == ((2, 4), (1, 2))


def test_chance_gains_are_refused_unless_there_is_room_for_all() -> None:
    gain = {(2, 4): 90.0, (0, 6): 1.0}
    few, many = (Budget(columns=c, main=5, pair=8, triple=8) for c in (150, 2000))
    mains = main_layout(BASES, everything, (), few)
    assert with_pairs(mains, everything, told(gain), few).terms[D + 1 :] == ((2, 4),)
    assert set(with_pairs(mains, everything, told(gain), many).terms[D + 1 :]) == set(PAIRS)


def test_rough_functions_go_where_they_are_asked_for_while_there_is_room() -> None:
    bases = tuple(feature_basis(feature, 0.4, 5, 10) for feature in FEATURES)
    budget = Budget(columns=2 * (5 * D + 25), main=5)
    mains = main_layout(bases, everything, (), budget)
    gain: dict[Term, float] = {(3,): 30.0, (1,): 50.0, (2,): 40.0, (5,): 1.0}
    for columns, chosen in ((2000, {1, 2, 3}), (3 * (5 * D + 22) // 2, {1, 2}), (40, set())):
        layout = with_rough(mains, told(gain), replace(budget, columns=columns))
        assert layout.terms == mains.terms
        assert {b.term[0] for b in layout.blocks if b.size > 5} == chosen
        assert all(b.size == 15 for b in layout.blocks if b.term[0] in chosen)
    assert with_rough(layout_of(FEATURES, [(0,)]), told(gain), budget).size == 6


def test_steps_are_fitted_by_rough_functions() -> None:
    given = rows(2000, lambda x: (x[0] > 0.3).double() + x[1], noise=0.05)
    budget = Budget(columns=300, main=8, interactions=0)
    noise = []
    for rough in (0, 20):
        schedule = BasisSchedule(budget=replace(budget, rough=rough))
        noise.append(found(given, schedule=schedule).posteriors[0].noise)
    assert noise[1] < 0.7 * noise[0]


def test_many_main_effects_leave_room_for_interactions() -> None:
    bases = BASES * 20
    for columns in (200, 400, 1000):
        layout = main_layout(bases, everything, (), Budget(columns=columns, main=8))
        assert {len(u) for u in layout.terms} == {0, 1}
        assert len(layout.terms) == len(bases) + 1
        assert layout.size == len(bases) + 1 or layout.size <= 1 + columns * 2 / 3
    assert main_layout(bases, everything, (), Budget(columns=10, main=8)).size == len(bases) + 1


def test_empty_interactions_go_and_full_ones_grow() -> None:
    layout = layout_of(FEATURES, [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2)], 8, 8)
    given = {(0,): 0.3, (1,): 0.0, (2,): 0.1, (0, 1): 0.4, (1, 2): 0.0, (0, 2): 0.2}
    tails = {u: 0.5 if u == (0, 1) else 0.0 for u in given}
    budget = Budget(columns=75, main=8, pair=8, triple=8)  # not room for all candidates
    after = refined(layout, given, tails, everything, [], told({}), budget, 3)
    assert set(after.terms) == {(), (0,), (1,), (2,), (0, 1), (0, 2)}
    sizes = {block.term: block.size for block in after.blocks}
    assert sizes[(0, 1)] > 8
    assert sizes[(0, 2)] == 8
    kept = refined(layout, given, tails, everything, [(1, 2)], told({}), budget, 3)
    assert (1, 2) in kept.slices
    more = refined(layout, given, tails, everything, [], told({(0, 1, 2): 99.0}), budget, 3)
    assert (0, 1, 2) in more.slices
    no_more = refined(layout, given, tails, everything, [], told({(0, 1, 2): 99.0}), budget, 2)
    assert (0, 1, 2) not in no_more.slices


def test_tail_shares_are_those_of_the_later_half() -> None:
    layout = layout_of(FEATURES, [(0,), (0, 1)], 8, 6)
    squares = torch.zeros(layout.size).double()
    block = layout.blocks[1]
    prior = BASES[0].eigenvalues[block.index[:, 0]] * BASES[1].eigenvalues[block.index[:, 1]]
    span = layout.slices[(0, 1)]
    squares[span] = (prior < prior.median()).double()
    assert tail_shares(layout, squares)[(0, 1)] == pytest.approx(1.0)
    squares[span] = (prior > prior.median()).double()
    assert tail_shares(layout, squares)[(0, 1)] < 0.5
