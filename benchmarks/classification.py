"""Classification on the paper's six baseline sets: AUC, log-likelihood, calibration and time.

    python -m benchmarks.classification run --out results.jsonl
    python -m benchmarks.classification run --model lightgbm --out results.jsonl
    python -m benchmarks.classification table results.jsonl
    python -m benchmarks.classification plot results.jsonl --out reliability.png

Five folds as in the paper's appendix: rows permuted by seed 4, then cut by ``KFold(5)``. One JSON
line a fold; a run that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.datasets import Split
from benchmarks.records import PACKAGES, append, circumstances, read, timed, unfinished
from oakgp import OAKClassifier
from oakgp.calibration import (
    brier_score,
    class_log_likelihood,
    expected_calibration_error,
    reliability,
)
from oakgp.table import Table

BASELINE = ("breast", "pima", "sonar", "ionosphere", "liver", "heart")
MODELS = ("oakgp", "lightgbm", "logistic")
FOLDS = 5
_BINS = 10


def load_fold(folder: Path, name: str, fold: int) -> Split:
    """Return one of the five folds of a baseline classification set."""
    frame = pd.read_csv(folder / "baseline" / f"{name}.csv.gz")
    order = np.random.RandomState(4).permutation(len(frame))
    train, test = list(KFold(FOLDS).split(order))[fold]
    X = frame.iloc[:, :-1].astype(float)
    y = frame.iloc[:, -1].to_numpy(int)
    train, test = order[train], order[test]
    return Split(name, fold, X.iloc[train], y[train], X.iloc[test], y[test])


def binary_scores(y: Any, p: Any) -> dict[str, Any]:
    """Return what the probabilities of class 1 are worth, and the table of their reliability."""
    both = np.stack([1.0 - p, p], axis=1)
    bins = reliability(y == 1, p, _BINS)
    inside = (bins["observed_low"] <= bins["predicted"]) & (
        bins["predicted"] <= bins["observed_high"]
    )
    return {
        "auc": float(roc_auc_score(y, p)),
        "loglik": class_log_likelihood(y, np.clip(both, 1e-12, 1.0)),
        "brier": brier_score(y, both),
        "ece": expected_calibration_error(bins),
        "bins_right": float((bins["count"] * inside).sum() / bins["count"].sum()),
        "accuracy": float(np.mean((p > 0.5) == (y == 1))),
        "reliability": bins.to_dict(),
    }


def pooled_reliability(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return predicted and observed shares by bin over the test rows of several folds."""
    count, predicted, observed = np.zeros(_BINS), np.zeros(_BINS), np.zeros(_BINS)
    for record in records:
        table = record["reliability"]
        for low, number, p, share in zip(
            table["low"], table["count"], table["predicted"], table["observed"], strict=True
        ):
            k = round(low * _BINS)
            count[k] += number
            predicted[k] += number * p
            observed[k] += number * share
    used = count > 0
    return {
        "count": count[used],
        "predicted": predicted[used] / count[used],
        "observed": observed[used] / count[used],
    }


def make(name: str, options: dict[str, Any]) -> Any:
    """Return an unfitted model, the others with their defaults."""
    if name == "oakgp":
        return OAKClassifier(**options)
    if name == "logistic":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    from lightgbm import LGBMClassifier

    return LGBMClassifier(random_state=0, verbose=-1)


def evaluate(
    folder: Path, model_name: str, name: str, fold: int, options: dict[str, Any]
) -> dict[str, Any]:
    """Fit one fold and return its record."""
    split = load_fold(folder, name, fold)
    X, X_test = (rows.rename(columns=lambda c: f"f_{c}") for rows in (split.X, split.X_test))
    model, time = timed(lambda: make(model_name, options).fit(X, split.y))
    record = {
        "set": name,
        "split": fold,
        "options": options,
        "model": model_name,
        **binary_scores(split.y_test, model.predict_proba(X_test)[:, 1]),
        "wall_s": round(time.wall, 3),
        "cpu_s": round(time.cpu, 3),
    }
    if model_name == "oakgp":
        facts = model.model_.facts
        evidence = facts.log_evidence / max(1, facts.evidence_rows)
        record |= {
            "engine": facts.engine,
            "flow": facts.flow,
            "evidence_per_row": evidence,
            "converged": facts.converged,
        }
    return {**record, **circumstances(0, (*PACKAGES, "lightgbm"))}


def run(arguments: argparse.Namespace) -> None:
    """Fit all sets and folds that the results file does not have yet."""
    options = json.loads(arguments.options)
    same = {"options": options, "model": arguments.model}
    for name, fold in unfinished(arguments.out, arguments.sets.split(","), FOLDS, same):
        record = evaluate(arguments.data, arguments.model, name, fold, options)
        append(arguments.out, record)
        print(
            f"{arguments.model:9s} {name:11s} {fold}  auc {record['auc']:.4f}  "
            f"loglik {record['loglik']:+.3f}  {record['wall_s']:.1f} s",
            flush=True,
        )


def table(arguments: argparse.Namespace) -> None:
    """Print means over the folds, a line for each set and model."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = defaultdict(list)
    for record in read(arguments.results):
        key = (record["set"], record["model"], json.dumps(record["options"]))
        groups[key].append(record)
    print(
        "| set | model | options | folds | AUC | log-likelihood | Brier | ECE of a fold "
        "| ECE of all folds | s a fold |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for (name, model, options), records in sorted(groups.items()):
        means = [
            f"{np.mean([r[key] for r in records]):.{digits}f}"
            for key, digits in (("auc", 4), ("loglik", 3), ("brier", 3), ("ece", 3))
        ]
        pooled = "reliability" in records[0]  # older records lack it
        whole = expected_calibration_error(Table(pooled_reliability(records))) if pooled else None
        means.append("" if whole is None else f"{whole:.3f}")
        means.append(f"{np.mean([r['wall_s'] for r in records]):.1f}")
        print(f"| {name} | {model} | {options} | {len(records)} | {' | '.join(means)} |")


def plot(arguments: argparse.Namespace) -> None:
    """Draw observed shares against predicted probabilities, all sets together, by model."""
    import matplotlib.pyplot as plt

    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in read(arguments.results):
        if "reliability" in record:
            groups[record["model"]].append(record)
    figure = plt.figure(figsize=(4.2, 4.0), layout="constrained")
    ax = figure.add_subplot()
    ax.plot([0, 1], [0, 1], color="0.7", linewidth=0.8)
    for model, records in sorted(groups.items()):
        bins = pooled_reliability(records)
        ax.plot(bins["predicted"], bins["observed"], "o-", markersize=4, label=model)
    ax.set(xlabel="predicted probability", ylabel="observed share", aspect="equal")
    ax.legend()
    figure.savefig(arguments.out, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument("--data", type=Path, default=Path("../shared/data"))
    runner.add_argument("--sets", default=",".join(BASELINE))
    runner.add_argument("--model", choices=MODELS, default="oakgp")
    runner.add_argument("--options", default="{}")
    runner.add_argument("--out", type=Path, required=True)
    runner.set_defaults(call=run)
    printer = commands.add_parser("table")
    printer.add_argument("results", type=Path)
    printer.set_defaults(call=table)
    drawer = commands.add_parser("plot")
    drawer.add_argument("results", type=Path)
    drawer.add_argument("--out", type=Path, required=True)
    drawer.set_defaults(call=plot)
    arguments = parser.parse_args()
    arguments.call(arguments)


if __name__ == "__main__":
    main()
