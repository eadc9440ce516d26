"""The example that runs the passes on Spark; skipped where pyspark is not installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_spark_gives_the_same_as_one_process() -> None:
    pytest.importorskip("pyspark")
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "spark.py")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stderr
    assert "same schema: True" in done.stdout
    found = re.search(r"difference of the sums: (\S+)", done.stdout)
    assert found is not None
    assert float(found[1]) < 1e-9
