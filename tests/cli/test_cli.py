"""The program, run as users run it: files, pipes, exit codes, one-line errors."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")
pytest.importorskip("pyarrow")

from oakgp import load
from oakgp.cli.app import run

QUICK = ["--max-order", "2", "--max-iter", "4", "--flow", "normal_score", "--quiet"]


def frame(n: int = 60) -> pd.DataFrame:
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "id": [f"r{k}" for k in range(n)],
            "area": random.lognormal(4.0, 0.4, n),
            "heat": random.choice(["gas", "oil"], n),
        }
    )
    table.loc[3, "area"] = np.nan
    table["price"] = np.log(table["area"].fillna(50.0)) + (table["heat"] == "gas")
    table["dear"] = np.where(table["price"] > 4.4, "yes", "no")
    table["years"] = random.uniform(0.5, 2.0, n)
    table["claims"] = random.poisson(table["years"])
    return table


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    frame().to_csv("data.csv", index=False)
    frame().to_parquet("data.parquet", index=False)
    return tmp_path


def ok(*arguments: str) -> None:
    assert run(list(arguments)) == 0


def fitted(target: str = "price", *more: str) -> None:
    others = [c for c in ("price", "dear", "years", "claims", "id") if c not in (target, *more)]
    drops = [part for name in others for part in ("--drop", name)]
    ok("fit", "data.csv", "-y", target, "-o", "m.oak", *drops, *QUICK, *more)


def test_fit_and_predict(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fitted()
    assert "converged" in capsys.readouterr().out
    ok("predict", "m.oak", "data.csv", "--std", "--interval", "0.8", "--keep", "id", "-o", "p.csv")
    found = pd.read_csv("p.csv")
    assert list(found) == ["id", "prediction", "std", "low", "high"]
    model = load("m.oak")
    mean, sd = model.predict(frame(), return_std=True)
    np.testing.assert_allclose(found["prediction"], mean, rtol=1e-9)
    np.testing.assert_allclose(found["std"], sd, rtol=1e-9)
    assert found["id"].tolist() == frame()["id"].tolist()
    ok("predict", "m.oak", "data.parquet", "-o", "p.parquet")
    np.testing.assert_allclose(pd.read_parquet("p.parquet")["prediction"], mean, rtol=1e-9)


def test_classes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fitted("dear")
    capsys.readouterr()
    ok("predict", "m.oak", "data.csv")
    found = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert list(found) == ["prediction", "probability_no", "probability_yes"]
    np.testing.assert_allclose(found[["probability_no", "probability_yes"]].sum(axis=1), 1.0)
    assert run(["predict", "m.oak", "data.csv", "--std"]) == 2


def test_counts_with_exposure_and_holdout(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drops = ["--drop", "id", "--drop", "price", "--drop", "dear"]
    likelihood = ["--likelihood", "poisson", "--exposure", "years"]
    ok("fit", "data.csv", "-y", "claims", "-o", "m.oak", *drops, *likelihood, "--holdout", "0.2",
       "--json", *QUICK)  # fmt: skip
    told = json.loads(capsys.readouterr().out)
    assert told["rows"] == 48
    assert told["holdout_rows"] == 12
    assert told["holdout_rmse"] > 0
    ok("predict", "m.oak", "data.csv", "--exposure", "years", "-o", "p.csv")
    table = frame()
    expected = load("m.oak").predict(table, exposure=table["years"])
    np.testing.assert_allclose(pd.read_csv("p.csv")["prediction"], expected, rtol=1e-9)


def test_pipes(folder: Path) -> None:
    fitted()
    command = [sys.executable, "-m", "oakgp.cli", "predict", "m.oak", "--keep", "id"]
    for name in ("data.csv", "data.parquet"):
        done = subprocess.run(
            command, input=Path(name).read_bytes(), capture_output=True, check=True
        )
        found = pd.read_csv(io.BytesIO(done.stdout))
        np.testing.assert_allclose(found["prediction"], load("m.oak").predict(frame()), rtol=1e-9)


def test_show_and_truncate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fitted()
    capsys.readouterr()
    ok("show", "m.oak")
    text = capsys.readouterr().out
    assert "area" in text
    assert "█" in text
    ok("show", "m.oak", "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["terms"]["term"][0] in ("area", "heat")
    ok("truncate", "m.oak", "-o", "short.oak", "--terms", "1", "--json")
    told = json.loads(capsys.readouterr().out)
    assert len(told["kept"]) == 1
    assert len(load("short.oak").model_.posterior.kept) == 2


def test_explain(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fitted()
    ok("explain", "m.oak", "data.csv", "--keep", "id", "-o", "e.csv")
    found = pd.read_csv("e.csv")
    names = [n for n in found if n != "id" and not n.endswith("(sd)")]
    total = found[names].sum(axis=1)
    np.testing.assert_allclose(total, load("m.oak").predict(frame()), rtol=1e-9)
    capsys.readouterr()
    ok("explain", "m.oak", "data.csv", "--row", "2")
    assert "(constant)" in capsys.readouterr().out
    ok("explain", "m.oak", "data.csv", "--row", "2", "--json")
    assert abs(json.loads(capsys.readouterr().out)["heat"] - found["heat"][2]) < 1e-9
    assert run(["explain", "m.oak", "data.csv", "--row", "60"]) == 2


@pytest.mark.parametrize("name", ["s.sql", "s.onnx", "s.py", "s.json", "s.csv"])
def test_export(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    fitted()
    capsys.readouterr()
    ok("export", "m.oak", "-o", name, "--quiet", "--json")
    told = json.loads(capsys.readouterr().out)
    assert 0 < told["bound"] <= 1e-3
    assert Path(name).stat().st_size > 1000
    if name == "s.py":
        rows = frame().to_csv(index=False)
        done = subprocess.run(
            [sys.executable, "-I", name], input=rows, capture_output=True, text=True, check=True
        )
        found = pd.read_csv(io.StringIO(done.stdout))["prediction"]
        np.testing.assert_allclose(found, load("m.oak").predict(frame()), atol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "none.csv", "-y", "price", "-o", "m.oak"], "no such file"),
        (["fit", "data.csv", "-y", "cost", "-o", "m.oak"], "no such column"),
        (["fit", "data.csv", "-y", "area", "-o", "m.oak"], "have none"),
        (["fit", "data.csv", "-y", "id", "-o", "m.oak", "--task", "regression"], "numbers"),
        (["fit", "data.csv", "-y", "price", "-o", "m.oak", "--task", "magic"], "choose"),
        (["fit", "data.csv", "-y", "price", "-o", "m.oak", "--engine", "magic"], "engine"),
        (["fit", "data.csv", "-y", "price", "-o", "m.oak", "--holdout", "2"], "share"),
        (["fit", "data.csv", "-o", "m.oak"], "target"),
        (["fit", "data.xlsx", "-y", "price", "-o", "m.oak"], "no such file|must end"),
        (["predict", "none.oak", "data.csv"], "none.oak"),
        (["predict", "data.csv", "data.csv"], "model"),
        (["unknown"], "unknown"),
        (["bench", "--name", "no_such_benchmark"], "repository"),
    ],
)
def test_mistakes_are_one_line_with_a_remedy(
    folder: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import re

    assert run(arguments) == 2
    told = capsys.readouterr()
    assert told.out == ""
    lines = [line for line in told.err.splitlines() if "oakgp: error" in line]
    assert len(lines) == 1
    assert re.search(message, lines[0], re.IGNORECASE)
    assert "Traceback" not in told.err
    assert not Path("m.oak").exists()


def test_debug_shows_where(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--debug", "predict", "none.oak", "data.csv"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_a_fault_of_the_program_is_another_code(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(path: str) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("oakgp.cli.looking.load", broken)
    assert run(["show", "m.oak"]) == 1
    assert "--debug" in capsys.readouterr().err

    def interrupted(path: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("oakgp.cli.looking.load", interrupted)
    assert run(["show", "m.oak"]) == 130


def test_progress_is_lines_where_there_is_no_terminal(folder: Path) -> None:
    command = [sys.executable, "-m", "oakgp.cli", "fit", "data.csv", "-y", "price", "-o", "m.oak"]
    options = [o for o in QUICK if o != "--quiet"]
    done = subprocess.run(
        [*command, "--drop", "id", *options], capture_output=True, text=True, check=True
    )
    assert "learning hyperparameters" in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(
    "command",
    ["fit", "predict", "explain", "report", "show", "truncate", "export", "demo", "bench"],
)
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"oakgp {command}" in text
    assert "Examples" in text


def test_completion_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert "--install-completion" in capsys.readouterr().out
    assert run(["--version"]) == 0
    assert "oakgp 0." in capsys.readouterr().out


def test_the_demo_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ok("demo", "-o", "d.oak", "--json", "--quiet")
    told = json.loads(capsys.readouterr().out)
    assert told["holdout_rmse"] < 0.75 * told["holdout_sd"]
    assert 0.8 < told["holdout_coverage"] <= 1.0
    assert load("d.oak").n_features_in_ == 10
