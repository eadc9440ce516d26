"""Training rows: merging equal rows changes nothing but the size of the problem."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from tests.references import covariance, random_problem, tensor

from oakgp.inference import exact
from oakgp.inference.data import TrainingData, merge_rows

VALUES = st.sampled_from([0.0, -0.0, 1.0, 2.5, float("nan")])
ROWS = st.lists(
    st.tuples(VALUES, VALUES, st.sampled_from([-1.0, 0.5, 3.0]), st.sampled_from([0.0, 1.0, 2.5])),
    min_size=1,
    max_size=12,
).filter(lambda rows: any(row[3] > 0 for row in rows))


def training(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> TrainingData:
    rows, means, totals, within = merge_rows(x, y, weight)
    return TrainingData(tensor(rows.T.copy()), tensor(means), tensor(totals), within)


@given(ROWS)
def test_merged_rows_equal_a_dictionary_of_groups(rows: list[tuple[float, ...]]) -> None:
    table = np.array(rows)
    x, means, totals, within = merge_rows(table[:, :2], table[:, 2], table[:, 3])
    groups: dict[tuple[object, ...], list[tuple[float, float]]] = {}
    for a, b, y, w in rows:
        if w > 0:
            key = tuple("missing" if np.isnan(v) else v + 0.0 for v in (a, b))
            groups.setdefault(key, []).append((y, w))
    got = {tuple("missing" if np.isnan(v) else v for v in row): i for i, row in enumerate(x)}
    assert set(got) == set(groups)
    assert len(got) == len(x)
    residual = 0.0
    for key, members in groups.items():
        y, w = np.array(members).T
        assert totals[got[key]] == pytest.approx(w.sum())
        assert means[got[key]] == pytest.approx(np.average(y, weights=w))
        residual += w @ (y - np.average(y, weights=w)) ** 2
    assert within == pytest.approx(residual, abs=1e-12)


@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_no_bit(rows: list[tuple[float, ...]], random: Random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    one, other = (
        merge_rows(t[:, :2], t[:, 2], t[:, 3]) for t in (np.array(rows), np.array(shuffled))
    )
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_evidence_is_that_of_the_rows_before_merging() -> None:
    """Repeated rows, missing values: the dense density of all responses, constants included."""
    p = random_problem(0, 12)
    rng = np.random.default_rng(2)
    pick = np.r_[np.arange(12), rng.integers(0, 12, 15)]
    x, y = p.x.numpy().T[pick], rng.normal(0, 1, len(pick))
    k = covariance(p, x.T, x.T) + float(p.parameters.noise) * np.eye(len(pick))
    truth = multivariate_normal(np.zeros(len(pick)), k).logpdf(y)
    data = training(x, y, np.ones(len(pick)))
    assert data.n == 12
    assert data.total_weight == len(pick)
    got = float(exact.negative_evidence(p.kernel, p.parameters, data))
    assert got == pytest.approx(-truth, abs=1e-8)


def test_a_weight_is_a_number_of_rows() -> None:
    p = random_problem(1, 9)
    rng = np.random.default_rng(3)
    x, y = p.x.numpy().T, rng.normal(0, 1, 9)
    counts = np.array([1, 2, 0, 3, 1, 1, 5, 0, 2])
    weighted = training(x, y, counts.astype(float))
    repeated = training(np.repeat(x, counts, axis=0), np.repeat(y, counts), np.ones(counts.sum()))
    assert weighted.n == 7
    torch.testing.assert_close(weighted.y, repeated.y)
    torch.testing.assert_close(weighted.weight, repeated.weight)
    one, other = (
        float(exact.negative_evidence(p.kernel, p.parameters, d)) for d in (weighted, repeated)
    )
    assert one == pytest.approx(other, abs=1e-9)


def test_replicate_term_is_what_merging_leaves_out() -> None:
    """One row with responses y_j around f: the density's terms in the mean are split off."""
    y, noise, f = np.array([0.3, -0.4, 1.1]), 0.2, 0.15
    data = training(np.zeros((3, 1)), y, np.ones(3))

    def logpdf(value: float, mean: float, variance: float) -> float:
        return float(-0.5 * np.log(2 * np.pi * variance) - (value - mean) ** 2 / (2 * variance))

    truth = sum(logpdf(v, f, noise) for v in y) - logpdf(float(y.mean()), f, noise / 3)
    assert float(data.replicate_term(tensor(noise))) == pytest.approx(truth, abs=1e-12)


def test_no_columns_leave_one_row() -> None:
    x, means, totals, within = merge_rows(np.empty((4, 0)), np.array([1.0, 2, 3, 6]), np.ones(4))
    assert x.shape == (1, 0)
    assert (means[0], totals[0], within) == (3.0, 4.0, 14.0)


def test_taking_rows_shares_the_spread_out() -> None:
    data = TrainingData(torch.zeros(1, 4), torch.arange(4.0), tensor([1, 3, 2, 1]), 6.0)
    parts = [data.take(torch.tensor(rows)) for rows in ([0, 3], [1], [2])]
    assert [part.within for part in parts] == [0.0, 4.0, 2.0]
    assert sum(part.total_weight for part in parts) == data.total_weight


def test_moving_keeps_the_numbers() -> None:
    data = TrainingData(tensor([[1.0, np.nan]]), tensor([0.5, 2.0]), tensor([1.0, 3.0]), 0.7)
    moved = data.to("cpu", torch.float32)
    assert {t.dtype for t in (moved.x, moved.y, moved.weight)} == {torch.float32}
    assert moved.within == 0.7
    np.testing.assert_array_equal(moved.x, data.x)
