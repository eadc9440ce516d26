"""What ``make bench`` runs: kernel, whole fits and accuracy, beside the newest record kept.

    python -m benchmarks.run                                 # about ten minutes on two cores
    python -m benchmarks.run --full --keep                   # what a release keeps: some hours
    python -m benchmarks.run --sets machine,yacht --cases autompg

Prints each figure beside the newest one in ``results/history`` and says what got worse: time by
more than a quarter, RMSE by more than 2%, log-likelihoods by 0.02. ``--keep`` adds the record to
the history, which is committed. ``--subsample`` adds what learning on a subsample costs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import fits, ops, runner, subsample
from benchmarks.data import SUITES, resolve
from benchmarks.records import ROOT, circumstances
from benchmarks.summary import grid, latest

HISTORY = ROOT / "benchmarks" / "results" / "history"
SLOWER, WORSE = 1.25, 1.02
LOWER = 0.02  # of log-likelihoods, in nats a row
QUICK = "boston,yacht,machine,servo,airfoil,baseline/breast,baseline/heart,baseline/liver"
QUICK_CASES = "import,autompg,concrete,ionosphere"
METRICS = ("rmse", "loglik", "coverage90", "auc", "brier", "ece", "accuracy", "wall_s", "cpu_s")


def newest() -> dict[str, Any] | None:
    """Return the newest record of the history."""
    paths = sorted(HISTORY.glob("*.json"))
    return json.loads(paths[-1].read_text()) if paths else None


def means(path: Path, model: str, splits: int) -> dict[str, dict[str, float]]:
    """Return set -> metric -> mean over the first splits, of one model's runs."""
    records = [
        r
        for r in latest([path])
        if r["model"] == model and "error" not in r and not r["inner"] and r["split"] < splits
    ]
    found: dict[str, dict[str, float]] = {}
    for metric in METRICS:
        table = grid(records, metric)
        for i, name in enumerate(table.sets):
            short = name.removeprefix("regression/")
            entry = found.setdefault(short, {"splits": int(table.splits[i])})
            entry[metric] = float(table.mean[i, 0])
    return found


def figures(record: dict[str, Any]) -> Iterator[tuple[str, float, str]]:
    """Yield name, value and how it gets worse: ``slower``, ``larger`` or ``smaller``."""
    for name, times in record.get("ops", {}).items():
        yield f"ops: {name}, CPU in numpy.exp", times["cpu_in_exps"], "slower"
    for name, case in record.get("fits", {}).items():
        for key in ("import_estimator_s", "fit_s", "sobol_s", "every_term_s", "peak_mb"):
            if key in case:
                yield f"{name}: {key}", case[key], "slower"
    for name, mean in record.get("accuracy", {}).items():
        # Only means over the same splits compare.
        for metric, way in (("rmse", "larger"), ("loglik", "smaller")):
            if metric in mean:
                yield f"{name}: {metric}, {mean['splits']} splits", mean[metric], way


def got_worse(value: float, before: float, way: str) -> bool:
    """Return whether a figure got worse by more than noise."""
    if way == "smaller":
        return value < before - LOWER
    return value > max(before, 1e-12) * (SLOWER if way == "slower" else WORSE)


def compare(new: dict[str, Any], old: dict[str, Any] | None) -> None:
    """Print the figures of two records side by side."""
    before = {name: value for name, value, _ in figures(old)} if old else {}
    for name, value, way in figures(new):
        line = f"{name:44s} {value:10.4g}"
        if name in before:
            worse = got_worse(value, before[name], way)
            line += f"  was {before[name]:10.4g}  {'WORSE' if worse else ''}"
        print(line.rstrip())


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--full", action="store_true", help="all sets, ten splits, all cases")
    parser.add_argument("--splits", type=int, help="of each set (2; 10 with --full)")
    parser.add_argument("--sets", help="of the accuracy part; '' for none")
    parser.add_argument("--cases", help="of the timings; '' for none")
    parser.add_argument("--models", default="oakgp,lightgbm")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--results", type=Path, default=HISTORY.parent / "bench.jsonl")
    parser.add_argument("--resume", action="store_true", help="keep what the results file holds")
    parser.add_argument("--subsample", action="store_true")
    parser.add_argument("--keep", action="store_true", help="add the record to the history")
    arguments = parser.parse_args()

    splits = arguments.splits or (10 if arguments.full else 2)
    cases = arguments.cases
    if cases is None:
        cases = ",".join(fits.CASES) if arguments.full else QUICK_CASES
    if arguments.sets is not None:
        sets = resolve("regression", arguments.sets) if arguments.sets else []
    elif arguments.full:
        sets = [*SUITES["regression"], *SUITES["baseline-classification"]]
    else:
        plain = [name if "/" in name else f"regression/{name}" for name in QUICK.split(",")]
        sets = resolve(None, ",".join(plain))

    if not arguments.resume:
        arguments.results.unlink(missing_ok=True)
    record: dict[str, Any] = {"circumstances": circumstances(None), "splits": splits}
    record["ops"] = ops.measure(rounds=15)
    record["fits"] = fits.run(arguments.data, [c for c in cases.split(",") if c])
    if sets:
        models = arguments.models.split(",")
        runner.run(
            runner.Plan(
                models, sets, splits, arguments.data, arguments.results, threads=arguments.threads
            )
        )
        record["accuracy"] = means(arguments.results, "oakgp", splits)
        for model in models:
            if model != "oakgp":
                record[model] = means(arguments.results, model, splits)
    if arguments.subsample:
        record["subsample"] = subsample.run(arguments.data, 1)
    compare(record, newest())
    if arguments.keep:
        HISTORY.mkdir(parents=True, exist_ok=True)
        versions = record["circumstances"]["versions"]
        path = HISTORY / f"{record['circumstances']['date'][:10]}-{versions['oakgp']}.json"
        path.write_text(json.dumps(record, indent=1) + "\n")
        print(f"kept as {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
