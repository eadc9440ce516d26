"""Shapley values of the basis engine against sums over its components."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.references import mixed_features, random_rows, tensor

from oakgp.basis.functions import feature_basis
from oakgp.basis.layout import BasisLayout, design, term_columns
from oakgp.basis.posterior import BasisPosterior
from oakgp.basis.prior import BasisParameters
from oakgp.kernels.terms import Term

TERMS: list[Term] = [(0,), (2,), (3,), (5,), (6,), (0, 2), (2, 5), (5, 6), (0, 3, 6)]


def random_posterior(seed: int = 0) -> BasisPosterior:
    rng = np.random.default_rng(seed)
    bases = [feature_basis(feature, 0.5, 5) for feature in mixed_features()]
    layout = BasisLayout(tuple(bases), tuple(term_columns(bases, u, 6) for u in TERMS))
    parameters = BasisParameters(
        tensor(rng.uniform(0.5, 2.0, len(TERMS) + 1)),
        torch.ones(7).double(),
        tensor(0.1),
        torch.zeros(7).double(),
    )
    root = np.triu(rng.normal(0.0, 0.3, (layout.size, layout.size)))
    return BasisPosterior(
        layout, parameters, tensor(rng.standard_normal(layout.size)), tensor(root), 0.1
    )


def rows_with_the_unknown(n: int = 8) -> torch.Tensor:
    rows = random_rows(mixed_features(), n, np.random.default_rng(3))
    rows[5, 0], rows[6, 1] = -1.0, -1.0
    return tensor(rows)


def joint(posterior: BasisPosterior, x: torch.Tensor, terms: list[Term]) -> list[np.ndarray]:
    """Mean and covariance of all components at each row, `[n]` arrays of [k] and [k, k]."""
    phi = design(posterior.layout, x).numpy()
    root = posterior.root.numpy()
    unknown = dict(posterior.unknown_variances(posterior.layout, x))
    found = []
    for n in range(x.shape[1]):
        parts = np.zeros((len(terms), posterior.layout.size))
        for k, u in enumerate(terms):
            span = posterior.layout.slices[u]
            parts[k, span] = phi[span, n]
        covariance = parts @ root.T @ root @ parts.T
        covariance += np.diag([float(unknown[u][n]) if u in unknown else 0.0 for u in terms])
        found.append((parts @ posterior.mean_weights.numpy(), covariance))
    return found


@pytest.mark.parametrize("kept", [None, [(0,), (0, 2), (5, 6), (0, 3, 6)]])
def test_moments_and_covariances_are_those_of_sums_of_components(kept: list[Term] | None) -> None:
    posterior, x = random_posterior(), rows_with_the_unknown()
    terms = TERMS if kept is None else kept
    shares = np.array([[(i in u) / len(u) for u in terms] for i in range(7)])
    chosen = posterior.keep(kept)
    mean, variance = chosen.shapley(x)
    covariance = chosen.shapley_covariance(x)
    for n, (component_mean, component_covariance) in enumerate(joint(posterior, x, terms)):
        truth = shares @ component_covariance @ shares.T
        np.testing.assert_allclose(mean[:, n], shares @ component_mean, atol=1e-10)
        np.testing.assert_allclose(variance[:, n], np.diag(truth), atol=1e-10)
        np.testing.assert_allclose(covariance[n], truth, atol=1e-10)
    np.testing.assert_allclose(mean.sum(dim=0), chosen.mean(x) - chosen.mean(x, ()), atol=1e-10)


def test_the_variance_of_all_other_terms() -> None:
    posterior, x = random_posterior(), rows_with_the_unknown()
    listed: list[Term] = [(0,), (5, 6)]
    for kept in (None, [(0,), (2,), (0, 2), (5, 6)]):
        rest = [u for u in (TERMS if kept is None else kept) if u not in listed]
        found = posterior.keep(kept).rest_variance(x, listed)
        truth = [covariance.sum() for _, covariance in joint(posterior, x, rest)]
        np.testing.assert_allclose(found, truth, atol=1e-10)


def test_moments_of_many_components_are_those_of_each() -> None:
    posterior, x = random_posterior(), rows_with_the_unknown()
    mean, variance = posterior.component_moments(x, TERMS)
    for k, term in enumerate(TERMS):
        one = posterior.mean_and_variance(x, term)
        assert torch.equal(mean[k], one[0])
        assert torch.equal(variance[k], one[1])


def test_effects_share_the_variance_of_each_term() -> None:
    posterior = random_posterior()
    totals = posterior.variances().totals()
    each = posterior.variances().of(TERMS).numpy()
    expected = [
        sum(v / len(u) for u, v in zip(TERMS, each, strict=True) if i in u) for i in range(7)
    ]
    np.testing.assert_allclose(totals.shapley, expected)
    assert float(totals.shapley.sum()) == pytest.approx(totals.variance)
