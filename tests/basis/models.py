"""Small bases over features of every sort, and what they are compared with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from tests.references import measure_cases, mixed_features, random_rows, tensor

from oakgp.basis.functions import FeatureBasis, feature_basis
from oakgp.basis.layout import BasisLayout, TermColumns, rough_columns, term_columns
from oakgp.basis.prior import BasisParameters, n_rough
from oakgp.kernels import SquaredExponential
from oakgp.kernels.categorical import CategoricalKernel
from oakgp.kernels.constrained import Feature
from oakgp.kernels.terms import Term
from oakgp.measures import Categorical

Array = NDArray[np.float64]

#: Terms of all orders over the seven mixed features.
TERMS: list[Term] = [(0,), (1,), (2,), (3,), (4,), (5,), (6,), (0, 2), (1, 5), (5, 6), (0, 3, 6)]


def category(n_levels: int, missing: bool, weights: Sequence[float]) -> Feature:
    return Feature("c", CategoricalKernel(n_levels, 2, missing), Categorical(tuple(weights)))


def plain_features(d: int, seed: int = 0) -> tuple[Feature, ...]:
    """Numeric features under empirical measures of forty values."""
    measure = measure_cases()["quantile nodes"]
    return tuple(Feature(f"x{i}", SquaredExponential(), measure) for i in range(d))


def layout_of(
    features: Sequence[Feature],
    terms: Sequence[Term],
    m: int = 5,
    columns: int = 6,
    rough: int = 0,
) -> BasisLayout:
    """A basis; every second main effect has rough functions."""
    bases = tuple(feature_basis(feature, 0.5, m, rough) for feature in features)
    blocks = []
    for u in terms:
        block = term_columns(bases, u, columns)
        if len(u) == 1 and u[0] % 2 == 0:
            more = rough_columns(bases, u[0]).index
            block = TermColumns(u, torch.cat([block.index, more]))
        blocks.append(block)
    return BasisLayout(bases, tuple(blocks))


def mixed_layout() -> BasisLayout:
    return layout_of(mixed_features(), TERMS, rough=4)


def parameters_of(layout: BasisLayout, seed: int = 0, noise: float = 0.1) -> BasisParameters:
    """Hyperparameters of which none is 1, but the lengthscales of categories."""
    rng = np.random.default_rng(seed)
    lengthscales = [1.0 if b.is_categorical else rng.uniform(0.4, 1.5) for b in layout.bases]
    variances = rng.uniform(0.3, 1.9, len(layout.terms))
    rough = np.zeros(layout.n_features)
    for block in layout.blocks:
        if n_rough(layout, block):
            rough[block.term[0]] = rng.uniform(0.2, 0.9)
    return BasisParameters(tensor(variances), tensor(lengthscales), tensor(noise), tensor(rough))


def rows_of_every_sort(n: int, seed: int = 0) -> torch.Tensor:
    """Rows of the mixed features; the first hold what training never had, or is far outside."""
    features = mixed_features()
    x = random_rows(features, n, np.random.default_rng(seed))
    odd = {0: (0, np.nan), 1: (1, 1e300), 2: (2, -1e300), 3: (5, -1.0), 4: (6, np.nan)}
    odd |= {5: (6, 9.0), 6: (1, np.nan), 7: (3, -np.inf), 8: (3, np.inf)}
    for row, (feature, value) in odd.items():
        x[feature, row] = value
    return tensor(x)


def lookup(basis: FeatureBasis, value: float) -> Array:
    """The functions of one feature at one value, the slow way."""
    knots, table = basis.knots.numpy(), basis.table.numpy()
    q = len(knots)
    if np.isnan(value):
        return table[q] if basis.knows_missing else np.zeros(basis.size)
    if basis.is_categorical:
        return table[int(value)] if 0 <= value < q else np.zeros(basis.size)
    return np.array([np.interp(value, knots, table[:q, a]) for a in range(basis.size)])
