"""Edited posteriors of both engines against what the same engines say without the edit."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from tests.basis.test_shapley import TERMS, random_posterior, rows_with_the_unknown
from tests.edits.models import regressor, rows

from oakgp.edits.posterior import EditedPosterior, TermEdit
from oakgp.edits.tables import ComponentGrid, GridAxis
from oakgp.kernels.terms import Term
from oakgp.posterior import Posterior

Case = tuple[Posterior, torch.Tensor, list[Term]]


def kernel_case() -> Case:
    model = regressor().model_
    terms = [(i,) for i in range(3)] + list(combinations(range(3), 2))
    return model.posterior, model.encode(rows(12)), terms


def basis_case() -> Case:
    return random_posterior(), rows_with_the_unknown(), list(TERMS)


CASES: list[Any] = [
    pytest.param(kernel_case, id="kernel"),
    pytest.param(basis_case, id="basis"),
]


def close(a: torch.Tensor, b: torch.Tensor, size: float = 1.0) -> None:
    scale = max(1.0, float(b.abs().max()))
    torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7 * scale * size)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("truncate", [False, True])
def test_dropping_is_keeping_the_others(case: Callable[[], Case], truncate: bool) -> None:
    posterior, x, terms = case()
    if truncate:
        posterior, terms = posterior.keep(terms[1:]), terms[1:]
    gone = [terms[0], terms[-1]]
    edited = EditedPosterior(posterior, tuple(TermEdit(u, 0.0) for u in gone))
    short = posterior.keep([u for u in terms if u not in gone])
    close(edited.mean(x), short.mean(x))
    for a, b in zip(edited.mean_and_variance(x), short.mean_and_variance(x), strict=True):
        close(a, b)
    close(edited.covariance(x), short.covariance(x))
    close(edited.covariance(x, x[:, :3]), short.covariance(x, x[:, :3]))
    for a, b in zip(edited.shapley(x), short.shapley(x), strict=True):
        close(a, b)
    close(edited.shapley_covariance(x), short.shapley_covariance(x))
    some = [terms[1]]
    close(edited.rest_variance(x, some), short.rest_variance(x, some))


@pytest.mark.parametrize("case", CASES)
def test_factors_and_tables_enter_every_moment(case: Callable[[], Case]) -> None:
    posterior, x, terms = case()
    first, second = terms[0], terms[-1]
    edited = EditedPosterior(posterior, (TermEdit(first, 0.3), TermEdit(second, -2.0)))
    mean, variance = edited.mean_and_variance(x)
    parts, own = edited.component_moments(x, [(), *terms])
    close(parts.sum(dim=0), mean)
    for k, u in enumerate([(), *terms]):
        one = edited.mean_and_variance(x, u)
        close(parts[k], one[0])
        close(own[k], one[1])
    close(edited.covariance(x).diagonal(), variance)
    close(edited.covariance(x, term=first), 0.09 * posterior.covariance(x, term=first))
    values, spread = edited.shapley(x)
    close(values.sum(dim=0), mean - parts[0])
    covariance = edited.shapley_covariance(x)
    close(covariance.diagonal(dim1=1, dim2=2).T, spread)
    close(covariance.sum(dim=(1, 2)), edited.rest_variance(x, []))
    # Halfway between two factors the variance is that of a parabola.
    at = [
        EditedPosterior(posterior, (TermEdit(first, c),)).mean_and_variance(x)[1]
        for c in (-1.0, 0.0, 1.0, 2.0)
    ]
    close(at[3], at[0] - 3 * at[1] + 3 * at[2], 10.0)


def test_a_table_is_interpolated_and_flat_beyond_its_ends() -> None:
    axis = GridAxis((0.0, 1.0, 3.0))
    grid = ComponentGrid(
        (axis,), np.array([1.0, 2.0, 6.0, 9.0]), np.array([1.0, 0.0, 1.0, 1.0]), np.full(4, 0.25)
    )
    mean, factor = grid.at(np.array([[-5.0, 0.5, 2.0, 7.0, np.nan]]))
    assert mean.tolist() == [1.0, 1.5, 4.0, 6.0, 9.0]
    assert factor.tolist() == [1.0, 0.5, 0.5, 1.0, 1.0]
    assert grid.variance == pytest.approx(np.var([1.0, 2.0, 6.0, 9.0]))


def test_levels_are_looked_up_and_what_was_never_seen_is_the_last_entry() -> None:
    axis = GridAxis((0.0, 1.0, float("nan")), levels=True)
    found = axis.weights(np.array([1.0, np.nan, -1.0, 7.0])).argmax(axis=1)
    assert found.tolist() == [1, 2, 3, 3]
    plain = GridAxis((0.0, 1.0), levels=True)
    assert plain.weights(np.array([np.nan])).argmax() == 2


def test_other_posteriors_are_refused() -> None:
    from oakgp.edits.weighted import weighted_variance

    with pytest.raises(TypeError, match="cannot be edited"):
        weighted_variance(object(), torch.zeros((1, 2)), {})  # type: ignore[arg-type]
