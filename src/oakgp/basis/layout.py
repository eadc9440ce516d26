"""Which products of which functions make up a basis, and where each term's columns lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from oakgp.basis.functions import FeatureBasis
from oakgp.kernels.terms import Block, Term, TermSet


@dataclass(frozen=True, eq=False)
class TermColumns:
    """The columns of one term: products of one function of each of its features.

    Parameters
    ----------
    term
        Sorted feature numbers.
    index
        ``[columns, order]`` number of each member's function.
    """

    term: Term
    index: Tensor

    @property
    def size(self) -> int:
        """Number of columns."""
        return len(self.index)


#: Products after which the rest has less than this share of a component's prior variance.
PRODUCT_TAIL = 1e-3


def rough_columns(bases: Sequence[FeatureBasis], i: int) -> TermColumns:
    """Return the rough functions of a feature, as columns of its main effect."""
    basis = bases[i]
    return TermColumns((i,), torch.arange(basis.n_smooth, basis.size)[:, None])


def term_columns(
    bases: Sequence[FeatureBasis], term: Term, largest: int, tail: float = PRODUCT_TAIL
) -> TermColumns:
    """Return the products with the largest prior variances, at most so many.

    Fewer, when what is left out has less than the share ``tail`` of the prior variance.
    """
    values = torch.ones(1, dtype=torch.float64)
    index = torch.zeros((1, 0), dtype=torch.long)
    for i in term:
        own = bases[i].smooth_values.cpu()
        numbers = torch.arange(len(own))
        values = (values[:, None] * own[None, :]).reshape(-1)
        index = torch.cat(
            [
                index.repeat_interleave(len(own), dim=0),
                numbers.repeat(len(index)).reshape(-1, 1),
            ],
            dim=1,
        )
    order = torch.argsort(values, descending=True, stable=True)
    sorted_values = values[order]
    rest = sorted_values.flip(0).cumsum(0).flip(0)
    count = min(largest, int((rest > tail * sorted_values.sum()).sum()))
    # In the order of the functions' numbers: then neighbouring columns share a factor.
    chosen = index[order[:count]]
    for k in range(chosen.shape[1] - 1, -1, -1):
        chosen = chosen[torch.argsort(chosen[:, k], stable=True)]
    return TermColumns(term, chosen)


@dataclass(frozen=True, eq=False)
class BasisLayout:
    """A basis: the constant, then the columns of each term.

    Parameters
    ----------
    bases
        Functions of each feature.
    blocks
        Columns of each term, the constant not among them.
    """

    bases: tuple[FeatureBasis, ...]
    blocks: tuple[TermColumns, ...]

    @property
    def n_features(self) -> int:
        """Number of features D."""
        return len(self.bases)

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The terms in the order of their columns, the constant first."""
        return ((), *(block.term for block in self.blocks))

    @cached_property
    def term_set(self) -> TermSet:
        """The terms as other engines list theirs."""
        return TermSet(self.n_features, tuple(Block(u, (), len(u)) for u in self.terms))

    @cached_property
    def slices(self) -> dict[Term, slice]:
        """The columns of each term."""
        ends = list(accumulate((block.size for block in self.blocks), initial=1))
        spans = [slice(0, 1), *(slice(a, b) for a, b in pairwise(ends))]
        return dict(zip(self.terms, spans, strict=True))

    @property
    def size(self) -> int:
        """Number of columns F."""
        return 1 + sum(block.size for block in self.blocks)

    @property
    def max_order(self) -> int:
        """Highest order of any term."""
        return max((len(block.term) for block in self.blocks), default=0)

    def only(self, terms: Sequence[Term]) -> BasisLayout:
        """Return the layout of some terms, in their present order."""
        chosen = set(terms)
        return BasisLayout(self.bases, tuple(b for b in self.blocks if b.term in chosen))

    def columns_of(self, terms: Sequence[Term]) -> Tensor:
        """Return the numbers of the columns of some terms."""
        spans = [self.slices[term] for term in terms]
        return torch.cat([torch.arange(s.start, s.stop) for s in spans])

    @cached_property
    def factors(self) -> Tensor:
        """``[F, R]`` row of `singles` of each factor of each column; row 0 is the constant 1."""
        starts = list(accumulate((basis.size for basis in self.bases), initial=1))
        rows = torch.zeros((self.size, max(1, self.max_order)), dtype=torch.long)
        for block in self.blocks:
            span = self.slices[block.term]
            for k, i in enumerate(block.term):
                rows[span, k] = starts[i] + block.index[:, k]
        return rows

    def to(self, device: torch.device | str) -> BasisLayout:
        """Return the same layout with its tables on another device."""
        if all(basis.table.device == torch.device(device) for basis in self.bases):
            return self
        return BasisLayout(tuple(basis.to(device) for basis in self.bases), self.blocks)


def singles(layout: BasisLayout, x: Tensor) -> Tensor:
    """Return 1 and all functions of all features at encoded rows ``[d, n]``, ``[1 + S, n]``."""
    rows = [x.new_ones((1, x.shape[1]))]
    rows += [basis.values(x[i]) for i, basis in enumerate(layout.bases)]
    return torch.cat(rows)


def design(layout: BasisLayout, x: Tensor) -> Tensor:
    """Return Phi^T at encoded rows ``[d, n]``: ``[F, n]``, a row for each column of the basis."""
    values = singles(layout, x)
    factors = layout.factors.to(x.device)
    out = values[factors[:, 0]]
    for k in range(1, factors.shape[1]):
        out = out * values[factors[:, k]]
    return out


def weighted_design(layout: BasisLayout, x: Tensor, z: Tensor, root: Tensor) -> Tensor:
    """Return (Phi, z)^T with each row of the data times a number, ``[F + 1, n]``.

    As few passes over the large array as there are orders: what a GPU waits for is its memory.
    """
    values = singles(layout, x)
    factors = layout.factors.to(x.device)
    out = x.new_empty((layout.size + 1, x.shape[1]))
    torch.index_select(values * root, 0, factors[:, 0], out=out[:-1])
    for k in range(1, factors.shape[1]):
        # Mains come first, so the columns with another factor are a range.
        there = torch.nonzero(layout.factors[:, k])[:, 0]
        if len(there):
            rows = slice(int(there[0]), int(there[-1]) + 1)
            out[rows] *= values[factors[rows, k]]
    out[-1] = root * z
    return out
