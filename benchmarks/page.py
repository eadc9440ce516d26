"""The documentation's page of results, from the results files that are in the repository.

    python -m benchmarks.page            # writes docs/results.md

Each results file of `SECTIONS` gives a section: means over splits, ranks, calibration, speed and
memory, what failed. Nothing on the page is written by hand but the words.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import render
from benchmarks.data import FAMILIES
from benchmarks.paper import with_paper
from benchmarks.records import ROOT
from benchmarks.runner import describe
from benchmarks.summary import critical_difference, grid, latest

RESULTS = ROOT / "benchmarks" / "results"
LOST = 1.05  # the factor of a set that is lost by more than a little
ENOUGH = 0.9  # of the runs of the model that has most: less is shown apart
OURS = "oakgp"


@dataclass(frozen=True)
class Section:
    """A results file and what to show of it."""

    file: str
    title: str
    metrics: tuple[str, ...]
    words: str = ""


SECTIONS = (
    Section(
        "baseline-classification",
        "The paper's baseline sets: classification",
        ("auc", "loglik", "brier", "ece"),
    ),
    Section(
        "classification",
        "The paper's classification table, without the row number",
        ("loglik", "accuracy", "auc", "ece"),
        "The paper had the row number as a feature, which tells the class where rows are sorted by "
        "it; here no model has it, so the printed figures are no comparison.",
    ),
    Section("churn", "Churn", ("auc", "loglik", "brier", "ece")),
    Section("susy", "SUSY, 21 thousand events", ("auc", "loglik", "brier", "ece")),
    Section("mixed", "Categories and missing values", ("auc", "loglik", "brier", "ece")),
    Section("multiclass", "Several classes", ("loglik", "accuracy", "auc")),
    Section(
        "counts",
        "Claim counts with exposure",
        ("deviance", "loglik"),
        "50,000 random policies of freMTPL2; log-likelihoods are Poisson at the predicted mean.",
    ),
    Section("regression", "The paper's regression table", ("rmse", "loglik")),
    Section(
        "baseline-regression",
        "The paper's baseline sets: regression",
        ("rmse", "loglik"),
    ),
)

HEAD = """# Results

This page is made by `python -m benchmarks.page` from the results files in `benchmarks/results`,
one JSON line a run with versions, machine, seed, times and memory; `python -m benchmarks run` goes
on where they stop.

How to read it:

- Means over the splits that all models of a row have, each model with its defaults. Bold is best.
  Nothing of the test rows reaches a model, and no default of oakgp was chosen on test rows.
- Regression scores are of the response divided by its deviation over all rows, as the paper prints
  them. Models that predict a number only get a Gaussian around it for the log-likelihood; its
  deviation is the error of a second fit on a fifth of the training rows that it did not see. That
  fit is not in the times.
- Probabilities are kept 1e-12 away from 0 and 1 in log-likelihoods, in all models alike.
- AUC of several classes is the mean of one class against the rest. The calibration error has ten
  bins of equal width.
- Times are of the fit alone, in a process that has the library loaded; other work ran on the
  machine, so seconds of the processor say more than those on the clock.
"""


def calibration(records: list[dict[str, Any]]) -> render.Rows | None:
    """Return the coverage of intervals by model, over all sets, or None where there is none."""
    rows: render.Rows = [["model", "of", "50%", "80%", "90%", "95%"]]
    for model in dict.fromkeys(r["model"] for r in records):
        runs = [r for r in records if r["model"] == model and "coverage90" in r]
        if runs:
            by_set = [
                [
                    np.mean([r[f"coverage{level}"] for r in runs if r["set"] == name])
                    for level in (50, 80, 90, 95)
                ]
                for name in dict.fromkeys(r["set"] for r in runs)
            ]
            mean = np.mean(by_set, axis=0)
            rows.append([model, f"{len(by_set)} sets", *(f"{100 * m:.1f}%" for m in mean)])
    return rows if len(rows) > 1 else None


def _ours(records: list[dict[str, Any]]) -> list[str]:
    return [m for m in dict.fromkeys(r["model"] for r in records) if m.startswith(OURS)]


def lost(records: list[dict[str, Any]], metric: str) -> list[str]:
    """Return where this library is behind the best by more than 5% of an error or 0.02 nats."""
    table = grid(records, metric)
    names = _ours(records)
    if not names:
        return []
    j = table.models.index(names[0])
    found = []
    for i, name in enumerate(table.sets):
        best = int(np.nanargmin(table.sign * table.mean[i]))
        ours, other = table.mean[i, j], table.mean[i, best]
        if np.isnan(ours):
            found.append(f"{name.partition('/')[2]}: no result")
            continue
        behind = ours > other * LOST if metric in ("rmse", "deviance") else other - ours > 0.02
        if behind and best != j:
            found.append(
                f"{name.partition('/')[2]} {ours:.3f} against {other:.3f} ({table.models[best]})"
            )
    return found


def by_completeness(records: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the records of the models that have most runs, and the names of the other models.

    Rows are means over the splits that all their models have, so one model with a few runs would
    take the others' runs out of the table.
    """
    runs: dict[str, set[Any]] = {}
    for record in records:
        runs.setdefault(record["model"], set()).add((record["set"], record["split"]))
    most = max(map(len, runs.values()), default=0)
    partial = [model for model, found in runs.items() if len(found) < ENOUGH * most]
    return [r for r in records if r["model"] not in partial], partial


def _metric_text(records: list[dict[str, Any]], metric: str) -> list[str]:
    table = grid(records, metric)
    if not table.sets:
        return []
    text = [f"**{render.TITLES.get(metric, metric)}**", ""]
    text += [render.markdown(render.rows_of(table)), ""]
    whole = table.complete()
    if len(whole.sets) > 2 and len(whole.models) > 1:
        difference = critical_difference(len(whole.models), len(whole.sets))
        line = f"Mean ranks differ by more than chance (Nemenyi, 5%) from {difference:.2f} on."
        text += [line, ""]
    behind = lost(records, metric)
    if behind and metric in ("rmse", "loglik", "auc", "deviance"):
        text += [f"Behind by more than a little: {'; '.join(behind)}.", ""]
    return text


def section(part: Section, folder: Path, paper: Path | None) -> str | None:
    """Return the text of a section, or None while its results file does not exist."""
    path = folder / f"{part.file}.jsonl"
    records = [r for r in latest([path]) if not r.get("inner")]
    if not records:
        return None
    ours = [r for r in records if "error" not in r]
    ours.sort(key=lambda r: not r["model"].startswith(OURS))
    shown = with_paper(ours, paper) if paper and part.file == "regression" else ours
    families = dict.fromkeys(r["set"].partition("/")[0] for r in ours)
    protocol = "; ".join(FAMILIES[name].protocol for name in families)
    threads = sorted({r["threads"] for r in ours})
    machines = "; ".join(dict.fromkeys(r["machine"] for r in ours))
    text = [f"## {part.title}", ""]
    if part.words:
        text += [part.words, ""]
    text += [
        f"{protocol[0].upper()}{protocol[1:]}. {machines}, "
        f"{' and '.join(map(str, threads))} thread{'' if threads == [1] else 's'}.",
        "",
    ]
    whole, partial = by_completeness(shown)
    for metric in part.metrics:
        text += _metric_text(whole, metric)
    for model in partial:
        some = whole + [r for r in shown if r["model"] == model]
        sets = {r["set"] for r in some if r["model"] == model}
        table = grid([r for r in some if r["set"] in sets], part.metrics[0])
        title = render.in_a_sentence(table.metric)
        text += [f"**{model}, on some of the sets so far: {title}**", ""]
        text += [render.markdown(render.rows_of(table)), ""]
    covered = calibration(ours)
    if covered:
        text += ["**Coverage of intervals**", "", render.markdown(covered), ""]
    text += ["**Speed and memory**, means over sets", "", render.markdown(costs(ours)), ""]
    failed = [describe(r) for r in records if "error" in r]
    if failed:
        text += ["Failed:", "", *(f"- {' '.join(line.split())}" for line in failed), ""]
    return "\n".join(text)


def costs(records: list[dict[str, Any]]) -> render.Rows:
    """Return times and memory by model, means over the sets that all models have."""
    rows: render.Rows = [["model", "fit, s of the processor", "fit, s on the clock", "peak, MB"]]
    tables = [grid(records, metric).complete() for metric in ("cpu_s", "wall_s", "peak_mb")]
    for j, model in enumerate(tables[0].models):
        means = [table.mean[:, j].mean() if len(table.sets) else np.nan for table in tables]
        rows.append([model, f"{means[0]:.2f}", f"{means[1]:.2f}", f"{means[2]:.0f}"])
    return rows


def page(folder: Path, paper: Path | None) -> str:
    """Return the whole page."""
    parts = [section(part, folder, paper) for part in SECTIONS]
    return "\n".join([HEAD, *(part for part in parts if part)]).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--paper", type=Path, default=Path("../shared/paper"))
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results.md")
    arguments = parser.parse_args()
    paper = arguments.paper if arguments.paper.exists() else None
    arguments.out.write_text(page(arguments.results, paper))


if __name__ == "__main__":
    main()
