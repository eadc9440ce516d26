"""Ranking and truncation: which terms are kept, what is dropped, the curve along the way."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.references import Problem, random_problem

from oakgp.inference import exact
from oakgp.inference.data import TrainingData
from oakgp.posterior import KernelPosterior
from oakgp.sensitivity import Ranking, metric_curve, rank_terms, select, sobol_totals, top_terms

RANKING = Ranking(((2,), (0, 1), (0,), (1,)), (6.0, 3.0, 0.9, 0.05), 10.0)


def posterior_of(p: Problem) -> KernelPosterior:
    data = TrainingData(p.x, p.y, torch.ones_like(p.y), 0.0)
    return exact.posterior(p.kernel, p.parameters, data)[0]


@pytest.fixture(scope="module")
def posterior() -> KernelPosterior:
    return posterior_of(random_problem(1, 25))


def test_ranking_is_the_search_with_shares_of_the_whole(posterior: KernelPosterior) -> None:
    ranking = rank_terms(posterior, 6)
    assert list(zip(ranking.terms, ranking.variances, strict=True)) == top_terms(posterior, 6)
    assert ranking.variance == sobol_totals(posterior).variance
    assert list(ranking.variances) == sorted(ranking.variances, reverse=True)
    np.testing.assert_allclose(ranking.shares, np.array(ranking.variances) / ranking.variance)
    everything = rank_terms(posterior, 1000)
    assert sum(everything.shares) == pytest.approx(1.0, abs=1e-9)
    assert all(share > 0.01 for share in rank_terms(posterior, 1000, 0.01).shares)


def test_a_constant_function_has_shares_of_zero() -> None:
    p = random_problem(2, 8)
    ranking = rank_terms(posterior_of(Problem(p.kernel, p.parameters, p.x, 0 * p.y)), 5)
    assert ranking == Ranking((), (), 0.0)
    assert select(ranking, 0.01, None) == ((), 0.0)
    assert Ranking(((0,),), (0.0,), 0.0).shares == (0.0,)


@pytest.mark.parametrize(
    ("threshold", "n_terms", "forced", "kept", "dropped"),
    [
        (None, None, (), ((2,), (0, 1), (0,), (1,)), 0.005),
        (0.01, None, (), ((2,), (0, 1), (0,)), 0.01),
        (0.3, None, (), ((2,), (0, 1)), 0.1),
        (None, 1, (), ((2,),), 0.4),
        (0.5, 3, (), ((2,),), 0.4),
        (0.9, None, (), (), 1.0),
        (0.3, None, ((1,), (2,)), ((2,), (0, 1), (1,)), 0.095),
        (0.3, None, ((4, 5),), ((2,), (0, 1), (4, 5)), 0.1),
    ],
)
def test_selection(
    threshold: float | None,
    n_terms: int | None,
    forced: tuple[tuple[int, ...], ...],
    kept: tuple[tuple[int, ...], ...],
    dropped: float,
) -> None:
    terms, lost = select(RANKING, threshold, n_terms, forced)
    assert terms == kept
    assert lost == pytest.approx(dropped)


def test_curve_follows_the_means_of_the_kept_models(posterior: KernelPosterior) -> None:
    ranking = rank_terms(posterior, 1000)
    x = random_problem(3, 12).x

    def metric(mean: torch.Tensor) -> float:
        return float(mean @ mean)

    curve = metric_curve(posterior, ranking, x, metric)
    assert [k for k, _, _ in curve] == list(range(len(ranking.terms) + 1))
    assert curve[0][1:] == (0.0, metric(posterior.mean(x, ())))
    for k, cumulative, value in curve[:: len(curve) // 5]:
        assert cumulative == pytest.approx(sum(ranking.shares[:k]))
        kept = posterior.keep(ranking.terms[:k])
        assert value == pytest.approx(metric(kept.mean(x)), rel=1e-8)
    assert curve[-1][1] == pytest.approx(1.0)
    assert curve[-1][2] == pytest.approx(metric(posterior.mean(x)), rel=1e-6)
