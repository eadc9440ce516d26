"""The commands of docs/cli.md, run as they stand there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("typer")
pytest.importorskip("pyarrow")

from tests.cli.test_cli import frame

from oakgp.cli.app import run

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame().drop(columns=["dear", "years", "claims"]).to_csv("houses.csv", index=False)
    blocks = re.findall(r"^```bash\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("oakgp ")]
    assert len(lines) > 10
    for line in lines:
        assert run(shlex.split(line)[1:]) == 0, line
