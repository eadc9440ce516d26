"""The ten baseline sets: orders, truncation, flow ablation, unconstrained and product kernels.

    python -m experiments.baseline_sets run --sets autompg,heart --folds 1
    python -m experiments.baseline_sets show

Section 5.1, figures 4 and 5 and appendix J of the paper: five folds; all orders in regression, at
most 4 in classification and 2 for sonar. Each fold and variant is a JSON line of
``results/baseline_sets.jsonl``; what it holds is not run again.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.data import baseline, load_split
from benchmarks.metrics import class_scores, regression_scores
from benchmarks.records import append, circumstances, read, timed
from benchmarks.render import Rows
from experiments.output import FIGURES, RESULTS, markdown, save_table
from oakgp import OAKClassifier, OAKRegressor

FILE = RESULTS / "baseline_sets.jsonl"
VARIANTS: dict[str, dict[str, Any]] = {
    "oak": {},
    "paper": {"priors": "paper", "feature_variances": False, "flow": "sinh_arcsinh"},
    "no flow": {"flow": "none"},
    "unconstrained": {"orthogonal": False},
    "product": {"variant": "product"},
}
CURVE = 20  # terms


def settings(name: str, d: int, variant: str) -> dict[str, Any]:
    """Return the options of a variant with the paper's highest order."""
    order = d if name in baseline.REGRESSION else 2 if name == "sonar" else 4
    options = {"max_order": order, **VARIANTS[variant]}
    if name == "pumadyn":
        options["n_inducing"] = 200
    return options


def order_variances(model: Any) -> list[float]:
    """Return the shares of the orders 1, 2, ... in the sum of order variances."""
    found = model.model_.posterior.parameters.order_variances.numpy()[1:]
    return (found / found.sum()).tolist()


def evaluate(data: Path, name: str, fold: int, variant: str) -> dict[str, Any]:
    """Fit a fold and return its record."""
    split = load_split(data, f"baseline/{name}", fold)
    options = settings(name, split.X.shape[1], variant)
    regression = split.task == "regression"
    kind = OAKRegressor if regression else OAKClassifier
    model, time = timed(lambda: kind(**options).fit(split.X, split.y))
    if regression:
        mean, sd = model.predict(split.X_test, return_std=True)
        scores = regression_scores(split.y_test, mean, sd, split.unit)
    else:
        scores = class_scores(split.y_test, model.predict_proba(split.X_test))
    record = {
        "set": name,
        "split": fold,
        "variant": variant,
        "options": options,
        **scores,
        "order_variances": order_variances(model),
        "wall_s": time.wall,
        "cpu_s": time.cpu,
    }
    if VARIANTS[variant].get("orthogonal", True):
        record["order_shares"] = list(model.sobol_.orders["share"])

        def auc(y: Any, p: Any) -> float:
            return float(roc_auc_score(y, p[:, 1]))

        metric = None if regression else auc
        curve = model.truncation_curve(split.X_test, split.y_test, CURVE, metric)
        unit = split.unit if regression else 1.0
        record["curve"] = [float(v) / unit for v in curve["metric"]]
        record["curve_shares"] = [float(v) for v in curve["cumulative_share"]]
    return record | circumstances(0)


def run(arguments: argparse.Namespace) -> None:
    done = {(r["set"], r["split"], r["variant"]) for r in read(FILE)}
    for name in arguments.sets.split(","):
        for variant in arguments.variants.split(","):
            for fold in range(arguments.folds):
                if (name, fold, variant) in done:
                    continue
                record = evaluate(arguments.data, name, fold, variant)
                append(FILE, record)
                key = "rmse" if "rmse" in record else "auc"
                print(f"{name:11s} {variant:14s} {fold}  {key} {record[key]:.4f}", flush=True)


def _means(records: list[dict[str, Any]], key: str) -> Any:
    vectors = [r[key] for r in records if key in r]
    if not vectors:
        return None
    length = min(len(v) for v in vectors)
    return np.mean([v[:length] for v in vectors], axis=0)


def tables(records: list[dict[str, Any]]) -> list[Rows]:
    """Return the tables of scores, of orders, and of how few terms do."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        groups[record["set"], record["variant"]].append(record)
    names = list(dict.fromkeys(name for name, _ in groups))
    scores: Rows = [["set", "metric", "folds", *VARIANTS]]
    orders: Rows = [["set", "Sobol of order 1", "2", "3", "variance of order 1", "2", "3"]]
    orders[0] += ["unconstrained 1", "2", "3"]
    terms: Rows = [["set", "terms for 99% of the variance", "metric with these", "with all"]]
    for name in names:
        metric = "rmse" if name in baseline.REGRESSION else "auc"
        row = [name, metric]
        present = [v for v in VARIANTS if groups.get((name, v))]
        common = set.intersection(*({r["split"] for r in groups[name, v]} for v in present))
        row.append(str(len(common)))
        for variant in VARIANTS:
            part = [r for r in groups.get((name, variant), []) if r["split"] in common]
            row.append(f"{np.mean([r[metric] for r in part]):.3f}" if part else "")
        scores.append(row)
        ours, other = groups.get((name, "oak"), []), groups.get((name, "unconstrained"), [])
        cells = [name]
        for part, key in ((ours, "order_shares"), (ours, "order_variances")):
            cells += _three(_means(part, key))
        orders.append([*cells, *_three(_means(other, "order_variances"))])
        curve, shares = _means(ours, "curve"), _means(ours, "curve_shares")
        if curve is not None:
            enough = np.flatnonzero(shares >= 0.99)
            at = int(enough[0]) if len(enough) else len(curve) - 1
            count = f"{at}" if len(enough) else f"more than {at}"
            whole = np.mean([r[metric] for r in ours])
            terms.append([name, count, f"{curve[at]:.3f}", f"{whole:.3f}"])
    return [scores, orders, terms]


def _three(values: Any) -> list[str]:
    if values is None:
        return ["", "", ""]
    return [f"{v:.3f}" for v in values[:3]] + [""] * max(0, 3 - len(values))


def draw(records: list[dict[str, Any]]) -> None:
    """Draw metric and cumulative share against the number of terms, a panel a set."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    ours = [r for r in records if r["variant"] == "oak"]
    names = list(dict.fromkeys(r["set"] for r in ours))
    columns = min(5, len(names))
    rows = -(-len(names) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(2.9 * columns, 2.4 * rows), layout="constrained", squeeze=False
    )
    for axis in axes.flat[len(names) :]:
        axis.axis("off")
    for axis, name in zip(axes.flat, names, strict=False):
        part = [r for r in ours if r["set"] == name]
        curve, shares = _means(part, "curve"), _means(part, "curve_shares")
        count = np.arange(len(curve))
        axis.plot(count, curve, color="#c03a2b")
        axis.set_title(f"{name} ({'RMSE' if name in baseline.REGRESSION else 'AUC'})", fontsize=9)
        twin = axis.twinx()
        twin.plot(count, shares, color="#2e8b57", ls="--")
        twin.set_ylim(0, 1.05)
        axis.tick_params(labelsize=8)
        twin.tick_params(labelsize=8)
    figure.supxlabel("terms (red: metric on test rows, green: cumulative Sobol index)", fontsize=9)
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURES / "cumulative.png", dpi=110)
    plt.close(figure)


def show(arguments: argparse.Namespace) -> None:
    records = read(FILE)
    save_table("baseline_sets", *(markdown(rows) for rows in tables(records)))
    draw(records)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(required=True)
    fit = commands.add_parser("run")
    fit.add_argument("--data", type=Path, default=Path("../shared/data"))
    fit.add_argument("--sets", default=",".join(baseline.REGRESSION + baseline.CLASSIFICATION))
    fit.add_argument("--variants", default=",".join(VARIANTS))
    fit.add_argument("--folds", type=int, default=5)
    fit.set_defaults(call=run)
    commands.add_parser("show").set_defaults(call=show)
    arguments = parser.parse_args()
    arguments.call(arguments)


if __name__ == "__main__":
    main()
