"""All benchmarks in one go, with a record for the history: what ``make bench`` runs.

    python -m benchmarks.run --splits 2                      # about 40 minutes on two cores
    python -m benchmarks.run --splits 10 --keep              # what a release keeps: some hours
    python -m benchmarks.run --sets machine,yacht --cases autompg

Prints each figure beside the newest one in ``results/history`` and says what got worse: time by
more than a quarter, RMSE by more than 2%. ``--keep`` adds the record to the history, which is
committed. ``--subsample`` adds what learning on a subsample costs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import accuracy, fits, ops, subsample
from benchmarks.records import ROOT, circumstances, read

HISTORY = ROOT / "benchmarks" / "results" / "history"
SLOWER, WORSE = 1.25, 1.02


def latest() -> dict[str, Any] | None:
    """Return the newest record of the history."""
    paths = sorted(HISTORY.glob("*.json"))
    return json.loads(paths[-1].read_text()) if paths else None


def figures(record: dict[str, Any]) -> Iterator[tuple[str, float, float]]:
    """Yield name, value and the factor from which it counts as worse; smaller is better."""
    for name, times in record.get("ops", {}).items():
        yield f"ops: {name}, CPU in numpy.exp", times["cpu_in_exps"], SLOWER
    for name, case in record.get("fits", {}).items():
        for key in ("import_estimator_s", "fit_s", "sobol_s", "every_term_s", "peak_mb"):
            if key in case:
                yield f"{name}: {key}", case[key], SLOWER
    for name, mean in record.get("accuracy", {}).items():
        # Only means over the same splits compare.
        yield f"{name}: RMSE, {mean['splits']} splits", mean["rmse"], WORSE


def compare(new: dict[str, Any], old: dict[str, Any] | None) -> None:
    """Print the figures of two records side by side."""
    before = {name: value for name, value, _ in figures(old)} if old else {}
    for name, value, limit in figures(new):
        line = f"{name:44s} {value:10.4g}"
        if name in before:
            ratio = value / max(before[name], 1e-12)
            line += f"  was {before[name]:10.4g}  {'WORSE' if ratio > limit else ''}"
        print(line.rstrip())


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--sets", default="regression", help="of the accuracy part; '' for none")
    parser.add_argument("--cases", default=",".join(fits.CASES), help="of the timings; '' for none")
    parser.add_argument("--results", type=Path, default=HISTORY.parent / "accuracy.jsonl")
    parser.add_argument("--subsample", action="store_true")
    parser.add_argument("--keep", action="store_true", help="add the record to the history")
    arguments = parser.parse_args()

    record: dict[str, Any] = {"circumstances": circumstances(None), "splits": arguments.splits}
    record["ops"] = ops.measure(rounds=15)
    record["fits"] = fits.run(arguments.data, [c for c in arguments.cases.split(",") if c])
    if arguments.sets:
        for model in ("oakgp", "lightgbm"):
            accuracy.run(
                argparse.Namespace(
                    data=arguments.data,
                    sets=arguments.sets,
                    splits=arguments.splits,
                    options="{}",
                    inner=False,
                    model=model,
                    out=arguments.results,
                )
            )
        records = read(arguments.results)
        record["accuracy"] = accuracy.summarise([r for r in records if r["model"] == "oakgp"])
        record["lightgbm"] = accuracy.summarise([r for r in records if r["model"] == "lightgbm"])
    if arguments.subsample:
        record["subsample"] = subsample.run(arguments.data, 1)
    compare(record, latest())
    if arguments.keep:
        HISTORY.mkdir(parents=True, exist_ok=True)
        versions = record["circumstances"]["versions"]
        path = HISTORY / f"{record['circumstances']['date'][:10]}-{versions['oakgp']}.json"
        path.write_text(json.dumps(record, indent=1) + "\n")
        print(f"kept as {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
