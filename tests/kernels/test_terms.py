"""Which terms a model has: blocks against asking for every subset of the features."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oakgp.kernels.terms import Block, Term, TermSet, term_set

D = 6
TERMS = st.sets(st.integers(0, D - 1), min_size=1, max_size=4).map(lambda s: tuple(sorted(s)))


def subsets() -> list[Term]:
    return [u for r in range(D + 1) for u in combinations(range(D), r)]


def expected(max_order: int, forbidden: list[Term], forced: list[Term]) -> set[Term]:
    allowed = {
        u
        for u in subsets()
        if len(u) <= max_order and not any(set(bad) <= set(u) for bad in forbidden)
    }
    return allowed | set(forced)


@given(st.integers(0, 7), st.lists(TERMS, max_size=4), st.lists(TERMS, max_size=3))
def test_terms_equal_brute_force(max_order: int, forbidden: list[Term], forced: list[Term]) -> None:
    terms = term_set(D, max_order, forbidden, forced)
    truth = expected(max_order, forbidden, forced)
    assert {u for u in subsets() if u in terms} == truth
    assert terms.count() == len(truth) - 1
    assert terms.max_order >= max(len(u) for u in truth)


@given(st.integers(0, 7), st.lists(TERMS, max_size=4), st.lists(TERMS, max_size=3))
def test_blocks_are_disjoint_and_well_formed(
    max_order: int, forbidden: list[Term], forced: list[Term]
) -> None:
    terms = term_set(D, max_order, forbidden, forced)
    for u in subsets():
        assert sum(block.contains(u) for block in terms.blocks) == (u in terms)
    for block in terms.blocks:
        assert set(block.mandatory).isdisjoint(block.optional)
        assert list(block.mandatory) == sorted(block.mandatory)
        assert len(block.mandatory) <= block.max_order


@given(st.permutations(range(D)), TERMS)
def test_the_way_a_term_is_written_is_irrelevant(order: list[int], term: Term) -> None:
    shuffled = tuple(sorted(term, key=order.index))
    one = term_set(D, 2, forbidden=[term], forced=[term, term])
    assert one == term_set(D, 2, forbidden=[shuffled], forced=[shuffled, shuffled * 2])


def test_a_plain_model_is_one_block() -> None:
    assert term_set(9, 4).blocks == (Block((), tuple(range(9)), 4),)
    assert term_set(3, 8).max_order == 3


def test_no_features_leave_the_constant() -> None:
    terms = term_set(0, 4)
    assert () in terms
    assert terms.count() == 0


def test_forbidding_everything_leaves_the_constant() -> None:
    terms = term_set(2, 2, forbidden=[(0,), (1,)])
    assert terms.count() == 0
    assert () in terms
    assert (0,) not in terms


def test_a_forced_term_does_not_bring_its_parts() -> None:
    terms = term_set(4, 1, forced=[(0, 1, 2)])
    assert (0, 1, 2) in terms
    assert (0, 1) not in terms
    assert terms.count() == 5
    assert terms.max_order == 3


@pytest.mark.parametrize("thing", [0, "x", [0, 1], None])
def test_only_tuples_are_terms(thing: object) -> None:
    assert thing not in term_set(3, 2)


def test_the_empty_set_of_blocks_has_order_zero() -> None:
    assert TermSet(3, ()).max_order == 0
