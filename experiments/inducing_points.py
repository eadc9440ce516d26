"""Test error and bound against the number of inducing points, with and without the constraint.

    python -m experiments.inducing_points run --set pumadyn
    python -m experiments.inducing_points show

Section 4.3 (pumadyn) and the appendix on inducing points (churn). The paper: the constrained kernel
needs fewer points than the unconstrained one of Duvenaud et al. (2011) and than a full squared
exponential kernel. The bounds of the two kernels here are of the same rows in the same units.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.data import load_split
from benchmarks.records import append, circumstances, read, timed
from benchmarks.render import Rows
from experiments.output import FIGURES, RESULTS, markdown, save_table
from oakgp import OAKClassifier, OAKRegressor

FILE = RESULTS / "inducing_points.jsonl"
SETS = {"pumadyn": ("baseline/pumadyn", 8), "churn": ("churn/churn", 2)}
COUNTS = (10, 20, 50, 100, 200, 400)


def evaluate(data: Path, name: str, fold: int, orthogonal: bool, count: int) -> dict[str, Any]:
    """Fit a fold with so many inducing points and return its record."""
    full_name, order = SETS[name]
    split = load_split(data, full_name, fold)
    options = {
        "max_order": order,
        "orthogonal": orthogonal,
        "engine": "sparse",
        "n_inducing": count,
        "flow": "normal_score",  # the same for both: bounds compare
    }
    kind = OAKRegressor if split.task == "regression" else OAKClassifier
    model, time = timed(lambda: kind(**options).fit(split.X, split.y))
    if split.task == "regression":
        residual = (split.y_test - model.predict(split.X_test)) / split.unit
        metric = float(np.sqrt(np.mean(residual**2)))
    else:
        metric = float(roc_auc_score(split.y_test, model.predict_proba(split.X_test)[:, 1]))
    facts = model.model_.facts
    return {
        "set": name,
        "split": fold,
        "orthogonal": orthogonal,
        "count": count,
        "metric": metric,
        "bound_per_row": facts.log_evidence / facts.evidence_rows,
        "wall_s": time.wall,
        "cpu_s": time.cpu,
        **circumstances(0),
    }


def run(arguments: argparse.Namespace) -> None:
    done = {(r["set"], r["split"], r["orthogonal"], r["count"]) for r in read(FILE)}
    for fold in range(arguments.folds):
        for count in (int(c) for c in arguments.counts.split(",")):
            for orthogonal in (True, False):
                if (arguments.set, fold, orthogonal, count) in done:
                    continue
                record = evaluate(arguments.data, arguments.set, fold, orthogonal, count)
                append(FILE, record)
                print(
                    f"{arguments.set} {fold} {'OAK' if orthogonal else 'unconstrained':14s} "
                    f"{count:4d}  {record['metric']:.4f}  {record['bound_per_row']:+.4f}  "
                    f"{record['cpu_s']:.0f} s",
                    flush=True,
                )


def means(records: list[dict[str, Any]], name: str) -> dict[tuple[bool, int], tuple[float, ...]]:
    """Return (orthogonal, count) -> means of metric and bound, and the number of folds."""
    groups: dict[tuple[bool, int], list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        if record["set"] == name:
            groups[record["orthogonal"], record["count"]].append(record)
    return {
        key: (
            float(np.mean([r["metric"] for r in group])),
            float(np.mean([r["bound_per_row"] for r in group])),
            len(group),
        )
        for key, group in sorted(groups.items())
    }


def show(arguments: argparse.Namespace) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    records = read(FILE)
    names = [name for name in SETS if any(r["set"] == name for r in records)]
    texts = []
    figure, axes = plt.subplots(
        len(names), 2, figsize=(8, 3 * len(names)), layout="constrained", squeeze=False
    )
    for name, pair in zip(names, axes, strict=True):
        found = means(records, name)
        metric = "RMSE" if name == "pumadyn" else "AUC"
        rows: Rows = [["set", "kernel", "inducing points", "folds", metric, "bound a row"]]
        for (orthogonal, count), (value, bound, folds) in found.items():
            label = "constrained" if orthogonal else "unconstrained"
            rows.append([name, label, str(count), str(folds), f"{value:.4f}", f"{bound:+.4f}"])
        texts.append(markdown(rows))
        for k, (axis, title) in enumerate(
            zip(pair, (f"test {metric}", "bound a row"), strict=True)
        ):
            for orthogonal, color in ((True, "#1f5fa8"), (False, "#c03a2b")):
                points = [(c, v[k]) for (o, c), v in found.items() if o == orthogonal]
                label = "constrained" if orthogonal else "unconstrained"
                axis.plot(*zip(*points, strict=True), marker="o", color=color, label=label)
            axis.set(xscale="log", xlabel="inducing points", title=f"{name}: {title}")
        pair[0].legend(fontsize=8)
    save_table("inducing_points", *texts)
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURES / "inducing_points.png", dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(required=True)
    fit = commands.add_parser("run")
    fit.add_argument("--data", type=Path, default=Path("../shared/data"))
    fit.add_argument("--set", choices=list(SETS), default="pumadyn")
    fit.add_argument("--counts", default=",".join(map(str, COUNTS)))
    fit.add_argument("--folds", type=int, default=5)
    fit.set_defaults(call=run)
    commands.add_parser("show").set_defaults(call=show)
    arguments = parser.parse_args()
    arguments.call(arguments)


if __name__ == "__main__":
    main()
