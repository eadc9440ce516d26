"""The page of results and the history say what the records say."""

from __future__ import annotations

import json

import pytest

from benchmarks import page, run

RUN = {
    "threads": 1,
    "machine": "a machine",
    "inner": False,
    "wall_s": 1.0,
    "cpu_s": 0.5,
    "peak_mb": 100.0,
}


@pytest.fixture
def results(tmp_path):
    def write(file, records):
        lines = [json.dumps(RUN | {"split": 0} | r) for r in records]
        (tmp_path / f"{file}.jsonl").write_text("\n".join(lines) + "\n")

    write(
        "regression",
        [
            {"set": "regression/yacht", "model": "oakgp", "rmse": 0.2, "coverage90": 0.9}
            | {"coverage50": 0.5, "coverage80": 0.8, "coverage95": 0.95, "loglik": 0.1},
            {"set": "regression/yacht", "model": "ebm", "rmse": 0.1, "loglik": 0.0},
            {"set": "regression/boston", "model": "ebm", "error": "took more than 5 s"},
            {"set": "regression/airfoil", "model": "ebm", "rmse": 7.0, "inner": True},
        ],
    )
    return tmp_path


def test_the_page(results):
    text = page.page(results, None)
    assert text.startswith("# Results")
    assert "| yacht | 1 | 0.200 | **0.100** |" in text
    assert "Behind by more than a little: yacht 0.200 against 0.100 (ebm)." in text
    assert "| oakgp | 1 sets | 50.0% | 80.0% | 90.0% | 95.0% |" in text
    assert "FAILED: took more than 5 s" in text
    assert "7.000" not in text  # inner splits are for choices, not for show
    assert "Churn" not in text  # no such file


def test_means_for_the_history(results):
    found = run.means(results / "regression.jsonl", "oakgp", 2)
    assert found["yacht"]["rmse"] == 0.2
    assert found["yacht"]["splits"] == 1
    assert run.means(results / "regression.jsonl", "ebm", 0) == {}


def test_what_got_worse():
    assert run.got_worse(1.3, 1.0, "slower")
    assert not run.got_worse(1.2, 1.0, "slower")
    assert run.got_worse(1.03, 1.0, "larger")
    assert run.got_worse(-0.5, -0.4, "smaller")
    assert not run.got_worse(-0.41, -0.4, "smaller")


def test_the_newest_record_of_the_history_is_read(capsys):
    record = run.newest()
    names = [name for name, _, _ in run.figures(record)]
    assert "yacht: rmse, 10 splits" in names
    run.compare(record, record)
    assert "WORSE" not in capsys.readouterr().out
