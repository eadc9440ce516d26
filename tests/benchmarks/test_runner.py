"""Runs in processes of their own: what is done is not done again, what fails is noted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import worker
from benchmarks.__main__ import main
from benchmarks.adapters import ADAPTERS, Job, parse_model, split_models
from benchmarks.data import load_split
from benchmarks.records import read
from benchmarks.runner import Plan, run, work_of

NOWHERE = Path("nowhere")


def plan(out, **changes):
    settings = {
        "models": ["linear", "constant"],
        "sets": ["bundled/iris"],
        "splits": 2,
        "data": NOWHERE,
        "out": out,
        "limit": 120.0,
    }
    return Plan(**(settings | changes))


def test_models_and_their_options_are_read():
    text = "oakgp,oakgp[max_order=2,link=probit],ebm"
    assert split_models(text) == ["oakgp", "oakgp[max_order=2,link=probit]", "ebm"]
    adapter, options = parse_model("oakgp[max_order=2,link=probit]")
    assert adapter is ADAPTERS["oakgp"]
    assert options == {"max_order": 2, "link": "probit"}
    with pytest.raises(ValueError, match="no model 'nothing'; there are oakgp"):
        parse_model("nothing")
    with pytest.raises(ValueError, match="option=value"):
        parse_model("oakgp[probit]")


def test_runs_are_recorded_once(tmp_path, capsys):
    out = tmp_path / "r.jsonl"
    assert run(plan(out)) == 0
    records = read(out)
    assert len(records) == 4
    linear = [r for r in records if r["model"] == "linear"]
    assert all(r["accuracy"] > 0.8 for r in linear)
    for r in records:
        assert r["threads"] == 1
        assert r["versions"]["scikit-learn"] != "absent"
        assert r["peak_mb"] >= r["before_mb"] > 0
        assert r["total_s"] >= r["wall_s"]
    assert run(plan(out)) == 0
    assert len(read(out)) == 4
    assert [w["splits"] for w in work_of(plan(out, splits=3))] == [[2], [2]]
    assert work_of(plan(out, splits=1, inner=True))  # other rows: another run
    assert main(["table", str(out), "--metrics", "loglik", "--html", str(tmp_path / "p.html")]) == 0
    assert "mean rank" in capsys.readouterr().out
    assert "<table>" in (tmp_path / "p.html").read_text()
    assert main(["compare", str(out), str(out)]) == 0


def test_a_failure_is_a_record_and_not_the_end(tmp_path):
    out = tmp_path / "r.jsonl"
    bad = "linear[max_iter=-1]"
    assert run(plan(out, models=[bad, "constant"], splits=1)) == 1
    found = {r["model"]: r for r in read(out)}
    assert "max_iter" in found[bad]["error"]
    assert "error" not in found["constant"]
    assert work_of(plan(out, models=[bad], splits=1)) == []
    assert len(work_of(plan(out, models=[bad], splits=1, retry=True))) == 1


def test_a_run_beyond_its_limit_is_stopped(tmp_path):
    out = tmp_path / "r.jsonl"
    assert run(plan(out, models=["constant"], splits=1, limit=0.01)) == 1
    assert "took more than 0.01 s" in read(out)[0]["error"]


def test_what_is_not_installed_is_said(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(type(ADAPTERS["svgp"]), "module", "no_such_module")
    assert work_of(plan(tmp_path / "r.jsonl", models=["svgp"])) == []
    assert "svgp is not installed: pip install gpytorch" in caplog.text


def test_point_predictions_get_their_deviation_from_training_rows():
    split = load_split(NOWHERE, "bundled/diabetes", 0)
    record = worker.evaluate(ADAPTERS["constant"], {}, split, 1, 0, True)
    assert record["density"] == "held out"
    spread = np.std(split.y) / split.unit
    expected = -0.5 * np.log(2 * np.pi * spread**2) - 0.5
    assert record["loglik"] == pytest.approx(expected, abs=0.1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["linear", "mlp", "svm", "knn", "forest", "histgb", "gpr"])
@pytest.mark.parametrize("task", ["regression", "binary"])
def test_scikit_learns_models_beat_the_constant(name, task):
    rng = np.random.default_rng(1)
    import pandas as pd

    X = pd.DataFrame(rng.standard_normal((120, 2)), columns=["a", "b"])
    X["c"] = np.where(np.arange(120) % 2, "one", None)
    y = X["a"].to_numpy() + 0.1 * rng.standard_normal(120)
    y = y if task == "regression" else (y > 0).astype(int)
    fitted = ADAPTERS[name].fit(X[:80], y[:80], None, Job(task))
    p = fitted.predict(X[80:])
    if task == "regression":
        assert np.mean((p.mean - y[80:]) ** 2) < 0.5 * np.var(y[80:])
    else:
        assert p.probabilities.shape == (40, 2)
        np.testing.assert_allclose(p.probabilities.sum(axis=1), 1.0)
        assert np.mean(p.probabilities.argmax(axis=1) == y[80:]) > 0.8


def test_records_are_lines_of_json(tmp_path):
    out = tmp_path / "r.jsonl"
    run(plan(out, models=["constant"], splits=1))
    (line,) = out.read_text().splitlines()
    assert json.loads(line)["set"] == "bundled/iris"
