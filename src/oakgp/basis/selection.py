"""Which terms the basis has, and how many columns each gets.

All main effects are in. Interactions are screened on the residual; those that pay are fitted
together, those that turn out empty are dropped, those that fill their columns get more, and triples
are tried where pairs are strong. What is spent is bounded: the number of columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch
from torch import Tensor

from oakgp.basis.functions import FeatureBasis
from oakgp.basis.layout import BasisLayout, TermColumns, rough_columns, term_columns
from oakgp.kernels.terms import Term

#: From candidates to the gain in log evidence that each promises.
Screen = Callable[[Sequence[TermColumns]], Tensor]

#: Highest order of a term.
MAX_ORDER = 3

_EMPTY = 1e-5  # share of the variance below which a fitted interaction is dropped
_STRONG = 2e-3  # share from which it may get more columns
_TAIL = 0.02  # share of a term's variance in the later half of its columns: it fills them
_GROWTH = 2.0
_TRIED_TRIPLES = 200
_MAINS = 2 / 3  # share of the columns that all main effects together may take
_AMPLE = 0.5  # share of the free columns that all candidates together may take unscreened


@dataclass(frozen=True)
class Budget:
    """Numbers of columns.

    Parameters
    ----------
    columns
        In all.
    main, pair, triple
        Most for one term of that order, at first.
    rough
        Most rough functions of a main effect.
    screened
        Columns by which a candidate interaction is judged.
    interactions
        Most interactions there may be; None: as many as fit.
    """

    columns: int = 2200
    main: int = 18
    pair: int = 9
    triple: int = 9
    rough: int = 40
    screened: int = 10
    interactions: int | None = None

    def of(self, order: int) -> int:
        """Return the most columns of a new term of an order."""
        return (self.main, self.pair, self.triple)[min(order, 3) - 1]


def main_layout(
    bases: Sequence[FeatureBasis],
    allowed: Callable[[Term], bool],
    forced: Sequence[Term],
    budget: Budget,
) -> BasisLayout:
    """Return the basis of all allowed main effects, and of forced interactions.

    Of many features each gets fewer functions, so that columns are left for interactions.
    """
    terms: list[Term] = [(i,) for i in range(len(bases)) if allowed((i,))]
    terms += [u for u in forced if u not in terms]
    largest = budget.main
    while True:
        sizes = [largest if len(u) == 1 else budget.of(len(u)) for u in terms]
        blocks = [term_columns(bases, u, size) for u, size in zip(terms, sizes, strict=True)]
        mains = sum(b.size for b in blocks if len(b.term) == 1)
        if largest == 1 or mains <= _MAINS * budget.columns:
            return BasisLayout(tuple(bases), tuple(b for b in blocks if b.size))
        largest = max(1, min(largest - 1, int(largest * _MAINS * budget.columns / mains)))


def with_rough(layout: BasisLayout, screen: Screen, budget: Budget) -> BasisLayout:
    """Return the basis with the rough functions of the main effects that ask for them most."""
    mains = [b.term[0] for b in layout.blocks if len(b.term) == 1]
    candidates = [rough_columns(layout.bases, i) for i in mains]
    candidates = [block for block in candidates if block.size]
    if not candidates:
        return layout
    gains = screen(candidates)
    least = 2.0 + math.log(len(candidates))
    room = int(_MAINS * budget.columns) - (layout.size - 1)
    chosen = {}
    for k in torch.argsort(gains, descending=True, stable=True).tolist():
        if float(gains[k]) > least and candidates[k].size <= room:
            chosen[candidates[k].term] = candidates[k]
            room -= candidates[k].size
    blocks = [
        TermColumns(b.term, torch.cat([b.index, chosen[b.term].index])) if b.term in chosen else b
        for b in layout.blocks
    ]
    return BasisLayout(layout.bases, tuple(blocks))


def with_pairs(
    layout: BasisLayout, allowed: Callable[[Term], bool], screen: Screen, budget: Budget
) -> BasisLayout:
    """Return the basis with the pairs that promise most, as many as fit."""
    return _with_best(layout, _pairs(layout, allowed), screen, budget, budget.columns)


def refined(
    layout: BasisLayout,
    shares: dict[Term, float],
    tails: dict[Term, float],
    allowed: Callable[[Term], bool],
    forced: Sequence[Term],
    screen: Screen,
    budget: Budget,
    max_order: int,
) -> BasisLayout:
    """Return the basis without empty interactions, with more columns for those that fill theirs.

    Parameters
    ----------
    layout
        The basis that was fitted.
    shares, tails
        Of each term: its share of the variance, and how much of that lies in the later half of its
        columns.
    allowed, forced
        Which terms may be in the model, and which must.
    screen
        Gains of candidates on the residual.
    budget
        Numbers of columns.
    max_order
        Highest order of new terms.
    """
    kept = [
        block
        for block in layout.blocks
        if len(block.term) == 1 or block.term in forced or shares[block.term] > _EMPTY
    ]
    sizes = {block.term: block.size for block in kept}
    free = budget.columns - 1 - sum(sizes.values())
    full = [u for u in sizes if len(u) > 1 and shares[u] > _STRONG and tails[u] > _TAIL]
    for u in sorted(full, key=lambda u: -shares[u] * tails[u]):
        more = min(free, math.ceil((_GROWTH - 1.0) * sizes[u]))
        if more > 0:
            sizes[u] += more
            free -= more
    blocks = [
        block if sizes[block.term] == block.size else _grown(layout, block.term, sizes[block.term])
        for block in kept
    ]
    wider = BasisLayout(layout.bases, tuple(blocks))
    found = _pairs(wider, allowed) + (_triples(wider, shares, allowed) if max_order > 2 else [])
    return _with_best(wider, found, screen, budget, budget.columns)


def tail_shares(layout: BasisLayout, squares: Tensor) -> dict[Term, float]:
    """Return how much of each term's ``squares`` (of the weights) lies in its later columns."""
    found: dict[Term, float] = {(): 0.0}
    for block in layout.blocks:
        prior = torch.ones(block.size, dtype=torch.float64)
        for k, i in enumerate(block.term):
            prior = prior * layout.bases[i].eigenvalues.cpu()[block.index[:, k]]
        later = torch.argsort(prior, descending=True, stable=True)[block.size // 2 :]
        own = squares[layout.slices[block.term]]
        found[block.term] = float(own[later].sum() / own.sum().clamp_min(1e-300))
    return found


def _grown(layout: BasisLayout, term: Term, size: int) -> TermColumns:
    return term_columns(layout.bases, term, size, tail=0.0)


def _pairs(layout: BasisLayout, allowed: Callable[[Term], bool]) -> list[Term]:
    """Return the allowed pairs that are not in the basis."""
    active = sorted({i for u in layout.terms for i in u})
    return [u for u in combinations(active, 2) if u not in layout.slices and allowed(u)]


def _triples(
    layout: BasisLayout, shares: dict[Term, float], allowed: Callable[[Term], bool]
) -> list[Term]:
    """Return the allowed triples whose pairs are strong, the most promising ones."""
    pairs = {u: shares.get(u, 0.0) for u in layout.terms if len(u) == 2}
    linked = sorted({i for u, s in pairs.items() if s > _EMPTY for i in u})
    scored = []
    for u in combinations(linked, 3):
        own = sorted((pairs.get(v, 0.0) for v in combinations(u, 2)), reverse=True)
        if own[1] > _EMPTY and allowed(u) and u not in layout.slices:
            scored.append((own[0] * own[1] + own[0] * own[2] + own[1] * own[2], u))
    scored.sort(key=lambda entry: (-entry[0], entry[1]))
    return [u for _, u in scored[:_TRIED_TRIPLES]]


def _with_best(
    layout: BasisLayout, candidates: Sequence[Term], screen: Screen, budget: Budget, columns: int
) -> BasisLayout:
    """Return the basis with the candidates of largest gain, as many as there is room for."""
    room = columns - layout.size
    present = sum(len(u) > 1 for u in layout.terms)
    places = len(candidates) if budget.interactions is None else budget.interactions - present
    if not candidates or room <= 0 or places <= 0:
        return layout
    gains = screen([term_columns(layout.bases, u, budget.screened) for u in candidates])
    # Of many candidates some look good by chance. Where there is room for all, none is refused:
    # the evidence of all together drops what is empty, and knows better than the residual.
    ample = len(candidates) * budget.of(len(candidates[0])) < _AMPLE * room
    least = -1.0 if ample else 2.0 + math.log(len(candidates))
    order = torch.argsort(gains, descending=True, stable=True).tolist()
    chosen = [candidates[k] for k in order if float(gains[k]) > least][:places]
    blocks = list(layout.blocks)
    for term in chosen:
        block = term_columns(layout.bases, term, budget.of(len(term)))
        if block.size > room:
            break
        if block.size:
            blocks.append(block)
            room -= block.size
    return BasisLayout(layout.bases, tuple(blocks))
