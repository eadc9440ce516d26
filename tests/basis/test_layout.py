"""Columns of a basis: which products, in which order, and what they are at rows."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from tests.basis.models import (
    TERMS,
    layout_of,
    lookup,
    mixed_layout,
    parameters_of,
    plain_features,
    rows_of_every_sort,
)
from tests.references import mixed_features, random_rows, tensor

from oakgp.basis.layout import BasisLayout, design, term_columns
from oakgp.basis.passes import CompiledBasis
from oakgp.basis.prior import n_rough, prior_blocks


def compiled_design(layout: BasisLayout, x: torch.Tensor) -> torch.Tensor:
    """The columns as the compiled loops make them."""
    compiled = CompiledBasis(layout)
    space, n = compiled.workspace(), x.shape[1]
    assert n <= space.block.shape[1]
    space.fill(np.ascontiguousarray(x.numpy()), 0, n, np.ones(n))
    return torch.from_numpy(space.block[:, :n].copy())


def test_columns_are_products_of_looked_up_functions() -> None:
    layout, x = mixed_layout(), rows_of_every_sort(20)
    phi = design(layout, x).numpy()
    np.testing.assert_array_equal(phi[0], 1.0)
    for block in layout.blocks:
        for k, numbers in enumerate(block.index.tolist()):
            column = phi[layout.slices[block.term].start + k]
            truth = [
                math.prod(
                    lookup(layout.bases[i], float(x[i, n]))[a]
                    for i, a in zip(block.term, numbers, strict=True)
                )
                for n in range(x.shape[1])
            ]
            np.testing.assert_allclose(column, truth, atol=1e-11)


def test_compiled_loops_make_the_same_columns() -> None:
    layout, x = mixed_layout(), rows_of_every_sort(300)
    torch.testing.assert_close(compiled_design(layout, x), design(layout, x), atol=1e-12, rtol=0)


@pytest.mark.parametrize("order", [4, 5])
def test_compiled_loops_know_terms_of_any_order(order: int) -> None:
    """Forced terms may be of higher order than those that are found."""
    features = mixed_features()
    layout = layout_of(features, [(0,), tuple(range(order)), (1, 2)])
    x = tensor(random_rows(features, 50, np.random.default_rng(0)))
    torch.testing.assert_close(compiled_design(layout, x), design(layout, x), atol=1e-12, rtol=0)


def test_no_features_and_features_without_functions() -> None:
    nothing = BasisLayout((), ())
    for fill in (design, compiled_design):
        assert torch.equal(fill(nothing, torch.zeros((0, 4)).double()), torch.ones((1, 4)).double())
    mains = layout_of(mixed_features(), [(0,)])
    x = rows_of_every_sort(12)
    torch.testing.assert_close(compiled_design(mains, x), design(mains, x))


def test_columns_lie_one_after_the_other() -> None:
    layout = mixed_layout()
    assert layout.terms == ((), *TERMS)
    spans = list(layout.slices.values())
    assert spans[0] == slice(0, 1)
    assert all(a.stop == b.start for a, b in pairwise(spans))
    assert spans[-1].stop == layout.size
    assert layout.max_order == 3
    some = layout.only([(5, 6), (0,)])
    assert some.terms == ((), (0,), (5, 6))
    x = rows_of_every_sort(15)
    chosen = layout.columns_of(some.terms)
    assert torch.equal(design(some, x), design(layout, x)[chosen])


@pytest.mark.parametrize("term", [(0,), (0, 2), (0, 3, 6)])
def test_products_of_largest_prior_variance_are_taken(term: tuple[int, ...]) -> None:
    bases = layout_of(mixed_features(), []).bases
    variances = bases[term[0]].eigenvalues
    for i in term[1:]:
        variances = torch.outer(variances, bases[i].eigenvalues).reshape(-1)
    for count in (1, 4, 7):
        block = term_columns(bases, term, count, tail=0.0)
        own = torch.ones(block.size).double()
        for k, i in enumerate(term):
            own = own * bases[i].eigenvalues[block.index[:, k]]
        assert len({tuple(row) for row in block.index.tolist()}) == block.size
        largest = variances.sort(descending=True).values[:count]
        torch.testing.assert_close(own.sort(descending=True).values, largest)


def test_columns_that_carry_next_to_nothing_are_left_out() -> None:
    bases = layout_of(plain_features(2), []).bases
    whole = float(torch.outer(bases[0].eigenvalues, bases[1].eigenvalues).sum())
    for tail in (0.3, 0.05):
        block = term_columns(bases, (0, 1), 10_000, tail)
        own = bases[0].eigenvalues[block.index[:, 0]] * bases[1].eigenvalues[block.index[:, 1]]
        assert float(own.sum()) >= (1 - tail) * whole
        assert float(own.sum() - own.min()) < (1 - tail) * whole


def test_columns_are_orthonormal_under_the_product_measure() -> None:
    layout = layout_of(plain_features(2), [(0,), (1,), (0, 1)])
    knots, mass = layout.bases[0].knots, layout.bases[0].mass
    x = torch.cartesian_prod(knots, knots).T
    phi, p = design(layout, x), torch.outer(mass, mass).reshape(-1)
    torch.testing.assert_close((phi * p) @ phi.T, torch.eye(layout.size).double())


def test_prior_blocks_are_products_of_single_priors() -> None:
    layout = mixed_layout()
    parameters = parameters_of(layout)
    singles = [b.prior(v) for b, v in zip(layout.bases, parameters.lengthscales, strict=True)]
    blocks = prior_blocks(layout, parameters)
    assert float(blocks[0]) == float(parameters.variances[0])
    for own, block, variance in zip(
        layout.blocks, blocks[1:], parameters.variances[1:], strict=True
    ):
        smooth = own.index[: own.size - n_rough(layout, own)].tolist()
        for r, left in enumerate(smooth):
            for c, right in enumerate(smooth):
                truth = float(variance)
                for i, a, b in zip(own.term, left, right, strict=True):
                    truth *= float(singles[i][a, b])
                assert float(block[r, c]) == pytest.approx(truth, rel=1e-12, abs=1e-14)

        count = len(smooth)
        assert not bool(block[count:, :count].any())
        if count < own.size:
            (i,) = own.term
            rough = layout.bases[i].rough_values * parameters.rough[i]
            torch.testing.assert_close(block[count:, count:], torch.diag(rough))
