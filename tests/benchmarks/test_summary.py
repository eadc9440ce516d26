"""Means, ranks and comparisons of hand-written records."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import render, summary
from benchmarks.paper import printed_name, with_paper


def record(name, split, model, **values):
    return {"set": name, "split": split, "model": model, **values}


@pytest.fixture
def records():
    return [
        record("f/a", 0, "one", rmse=1.0, loglik=-1.0),
        record("f/a", 1, "one", rmse=3.0, loglik=-3.0),
        record("f/a", 0, "two", rmse=1.5, loglik=-0.5),
        record("f/b", 0, "one", rmse=2.0, loglik=-2.0),
        record("f/b", 0, "two", rmse=1.0, loglik=-2.0),
        record("f/c", 0, "one", rmse=5.0, loglik=-2.0),
    ]


def test_means_are_over_the_splits_that_all_models_have(records):
    grid = summary.grid(records, "rmse")
    assert grid.sets == ("f/a", "f/b", "f/c")
    np.testing.assert_array_equal(grid.mean[:2], [[1.0, 1.5], [2.0, 1.0]])
    assert grid.mean[2, 0] == 5.0
    assert np.isnan(grid.mean[2, 1])
    assert grid.splits.tolist() == [1, 1, 1]
    assert grid.complete().sets == ("f/a", "f/b")


def test_ranks_know_which_way_is_better(records):
    rmse = summary.grid(records, "rmse").complete()
    np.testing.assert_array_equal(summary.ranks(rmse), [[1.0, 2.0], [2.0, 1.0]])
    loglik = summary.grid(records, "loglik").complete()
    np.testing.assert_array_equal(summary.ranks(loglik), [[2.0, 1.0], [1.5, 1.5]])
    assert summary.wins(loglik).tolist() == [1, 2]


def test_the_critical_difference_is_the_textbooks():
    # Demsar (2006), section 3.2.3: five classifiers on 30 sets; q = 2.728.
    expected = 2.728 * np.sqrt(5 * 6 / (6 * 30))
    assert summary.critical_difference(5, 30) == pytest.approx(expected, abs=2e-3)


def test_the_newest_record_counts_but_no_failure_replaces_a_result(tmp_path):
    lines = [
        record("f/a", 0, "one", rmse=1.0),
        record("f/a", 0, "one", rmse=2.0),
        record("f/a", 0, "one", error="no"),
        record("f/b", 0, "one", error="no"),
    ]
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = summary.latest([path])
    assert [r.get("rmse", r.get("error")) for r in found] == [2.0, "no"]


def test_changes_compare_the_runs_that_both_have(records):
    worse = [dict(r, rmse=r["rmse"] * 1.1) for r in records[:2]]
    found = summary.changes(worse, records)
    by_metric = {c.metric: c for c in found}
    assert by_metric["rmse"].worse
    assert by_metric["rmse"].before == 2.0
    assert by_metric["rmse"].splits == 2
    assert not by_metric["loglik"].worse
    assert not any(c.worse for c in summary.changes(records, records))
    assert summary.changes([record("f/z", 0, "one", rmse=1.0)], records) == []


def test_tables(records):
    rows = render.rows_of(summary.grid(records, "rmse"))
    assert rows[0] == ["set", "splits", "one", "two"]
    assert rows[1] == ["a", "1", "**1.000**", "1.500"]
    assert rows[3][-1] == ""
    assert ["mean rank", "", "1.50", "1.50"] in rows
    text = render.markdown(rows)
    assert text.splitlines()[1] == "|---|---|---|---|"
    page = render.as_html([("A <title>", rows)], "benchmarks")
    assert "A &lt;title&gt;" in page
    assert "<b>1.000</b>" in page


def test_the_picture_of_ranks(records, tmp_path):
    path = tmp_path / "ranks.svg"
    render.rank_picture(summary.grid(records, "rmse"), path)
    assert "svg" in path.read_text()
    with pytest.raises(ValueError, match="at least two models"):
        render.rank_picture(summary.grid(records[:2], "rmse"), path)


def test_bars_join_what_chance_could():
    joined = render._joined(np.array([1.0, 1.5, 3.0, 3.2]), 0.6)
    assert joined == [(1.0, 1.5), (3.0, 3.2)]


def test_the_papers_columns_stand_beside_the_right_sets(tmp_path):
    header = "dataset,n,d,method,mean,sd\n"
    for file in ("regression_rmse.csv", "regression_loglik.csv"):
        rows = "boston,506,13,OAK,0.290,0.036\ntamielectr,1,1,OAK,1.0,0.0\n"
        (tmp_path / file).write_text(header + rows)
    for file in ("classification_accuracy.csv", "classification_loglik.csv"):
        (tmp_path / file).write_text(header + "blood,748,5,GBM,0.7,0.0\n")
    names = ("regression/boston", "regression/boston_paperparse", "regression/tamielectric")
    names += ("classification/blood", "leaking/blood")
    found = with_paper([record(name, 0, "oakgp") for name in names], tmp_path)[5:]
    assert {(r["set"], r["model"]) for r in found} == {
        ("regression/boston_paperparse", "OAK (paper)"),
        ("regression/tamielectric", "OAK (paper)"),
        ("leaking/blood", "GBM (paper)"),
    }
    assert printed_name("leaking", "oocytes_merluccius_nucleus_4d") == "oocytes_me"
