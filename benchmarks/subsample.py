"""What learning the hyperparameters on a subsample of rows costs in accuracy, and saves in time.

    python -m benchmarks.subsample --splits 2

Beyond 2000 rows the main run of a fit sees 1000 of them, and the sparse bound 5000 before it sees
them all. That is set beside twice as many rows in the main run and all of them under the bound,
same splits and seeds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import load_split
from benchmarks.metrics import regression_scores
from benchmarks.records import circumstances, timed
from oakgp.fitting import Options, fit_model
from oakgp.inference.learn import Schedule

SETS = ("power", "elevators")
SCHEDULES = {
    "subsample": Schedule(),
    "all rows": Schedule(middle_rows=2000, sparse_rows=10**9),
}


def compare(data: Path, name: str, seed: int) -> dict[str, dict[str, float]]:
    """Fit one split under each schedule."""
    split = load_split(data, f"regression/{name}", seed)
    found = {}
    for label, schedule in SCHEDULES.items():
        options = Options(schedule=schedule, max_order=2)
        model, time = timed(
            lambda options=options: fit_model(split.X, split.y, np.ones(len(split.y)), options)
        )
        found[label] = {
            **regression_scores(split.y_test, *model.moments(split.X_test, noisy=True), split.unit),
            "evidence_per_row": model.facts.log_evidence / model.facts.evidence_rows,
            "wall_s": time.wall,
            "cpu_s": time.cpu,
        }
    return found


def run(data: Path, splits: int) -> dict[str, Any]:
    """Compare on all sets and print a line each."""
    result: dict[str, Any] = {}
    for name in SETS:
        pairs = [compare(data, name, seed) for seed in range(splits)]
        result[name] = {
            label: {
                key: float(np.mean([pair[label][key] for pair in pairs])) for key in pairs[0][label]
            }
            for label in SCHEDULES
        }
        few, every = (result[name][label] for label in SCHEDULES)
        print(
            f"{name:10s} RMSE {few['rmse']:.4f} / {every['rmse']:.4f}, log-likelihood "
            f"{few['loglik']:+.3f} / {every['loglik']:+.3f}, evidence a row "
            f"{few['evidence_per_row']:+.4f} / {every['evidence_per_row']:+.4f}, "
            f"CPU {few['cpu_s']:.1f} / {every['cpu_s']:.1f} s",
            flush=True,
        )
    return result


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    result = run(arguments.data, arguments.splits)
    if arguments.out:
        result["circumstances"] = circumstances()
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
