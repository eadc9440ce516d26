"""Which terms a model may have: all up to an order, less forbidden ones, plus forced ones.

The allowed terms are split into disjoint *blocks* "all of these features, and any of those":
each block is one call of the fused operation, no signed sums and no enumeration of terms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import comb

Term = tuple[int, ...]


@dataclass(frozen=True)
class Block:
    """The terms ``mandatory + v`` for every subset v of ``optional``, up to ``max_order``."""

    mandatory: Term
    optional: Term
    max_order: int

    @property
    def features(self) -> list[int]:
        """All features of the block; the mandatory ones come first."""
        return [*self.mandatory, *self.optional]

    def contains(self, term: Term) -> bool:
        """Whether a sorted term is one of the block's."""
        members = set(term)
        return (
            len(term) <= self.max_order
            and members.issuperset(self.mandatory)
            and members.issubset(self.features)
        )


@dataclass(frozen=True)
class TermSet:
    """The terms of a model, as disjoint blocks. The constant ``()`` is always one of them."""

    n_features: int
    blocks: tuple[Block, ...]

    @property
    def max_order(self) -> int:
        """Highest order of any term."""
        return max((block.max_order for block in self.blocks), default=0)

    def __contains__(self, term: object) -> bool:
        """Whether a sorted tuple of feature numbers is a term of the model."""
        return isinstance(term, tuple) and any(block.contains(term) for block in self.blocks)

    def counts(self) -> list[int]:
        """Return the number of terms of each order; the constant is that of order 0."""
        numbers = [0] * (self.max_order + 1)
        for block in self.blocks:
            for order in range(len(block.mandatory), block.max_order + 1):
                numbers[order] += comb(len(block.optional), order - len(block.mandatory))
        return numbers

    def count(self) -> int:
        """Return the number of terms, the constant not counted."""
        return sum(self.counts()) - 1


def _split(
    mandatory: Term, optional: Term, banned: list[frozenset[int]], order: int
) -> list[Block]:
    """Blocks of all terms that contain none of the banned sets (mandatory is taken for granted)."""
    if len(mandatory) > order or any(not b for b in banned):
        return []
    single = {next(iter(b)) for b in banned if len(b) == 1}
    optional = tuple(i for i in optional if i not in single)
    banned = [b for b in banned if b.issubset(optional)]
    if not banned:
        return [Block(mandatory, optional, order)]
    counts = {i: sum(i in b for b in banned) for b in banned for i in b}
    pivot = max(sorted(counts), key=lambda i: counts[i])
    rest = tuple(i for i in optional if i != pivot)
    without = _split(mandatory, rest, [b for b in banned if pivot not in b], order)
    with_it = _split(tuple(sorted((*mandatory, pivot))), rest, [b - {pivot} for b in banned], order)
    return without + with_it


def term_set(
    n_features: int,
    max_order: int,
    forbidden: Iterable[Term] = (),
    forced: Iterable[Term] = (),
) -> TermSet:
    """Return the terms up to ``max_order``, without the forbidden, with the forced.

    Parameters
    ----------
    n_features, max_order
        Size of the problem.
    forbidden
        Sets of features that no term may contain together: ``(0, 1)`` forbids the pair and every
        higher interaction with both; ``(0,)`` removes the feature.
    forced
        Terms that are in the model whatever ``max_order`` says (just these, not their supersets).
    """
    order = min(max_order, n_features)
    blocks = _split((), tuple(range(n_features)), [frozenset(t) for t in forbidden], order)
    chosen = TermSet(n_features, tuple(blocks))
    extra = []
    for term in dict.fromkeys(tuple(sorted(set(t))) for t in forced):
        if term and term not in chosen:
            extra.append(Block(term, (), len(term)))
    return TermSet(n_features, (*blocks, *extra))
