"""The scripts of the paper's figures run, and write what they say. Slow: each fits a model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data"
SCRIPTS: dict[str, tuple[list[str], set[str]]] = {
    "paper_pumadyn": (["--rows", "200"], {"pumadyn_components", "pumadyn_orders"}),
    "paper_susy": (["--rows", "150"], {"susy_components", "susy_reliability"}),
    "paper_churn": (["--rows", "200"], {"churn_components", "churn_customer"}),
    "paper_curves": (
        ["--names", "fertility", "--terms", "3"],
        {"curve_fertility", "orders_fertility", "order_variances_fertility"},
    ),
}


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_the_toy_problem(tmp_path: Path) -> None:
    printed = run("paper_toy", "--out", str(tmp_path))
    errors = [float(line.split(" by ")[1].split()[0]) for line in printed.splitlines()]
    assert errors[0] < 0.1 < errors[1]  # only the orthogonal kernel finds the true effect
    assert {path.name for path in tmp_path.iterdir()} == {"toy_orthogonal.png", "toy_plain.png"}


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="needs the paper's data sets beside the checkout")
@pytest.mark.parametrize("name", list(SCRIPTS))
def test_scripts_write_their_figures(name: str, tmp_path: Path) -> None:
    arguments, expected = SCRIPTS[name]
    printed = run(name, "--data", str(DATA), "--out", str(tmp_path), *arguments)
    assert printed.strip()
    assert {path.stem for path in tmp_path.iterdir()} == expected
