"""The command line of the harness.

    python -m benchmarks list
    python -m benchmarks run --suite regression --models oakgp,ebm --sets airfoil,yacht --splits 3
    python -m benchmarks run --suite bundled --models oakgp,linear --out results.jsonl
    python -m benchmarks table results.jsonl --metrics auc,loglik --html page.html --ranks folder
    python -m benchmarks compare new.jsonl old.jsonl

A run that was interrupted goes on where it stopped; what a results file holds is not run again.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from benchmarks import render, runner, summary
from benchmarks.adapters import ADAPTERS, parse_model, split_models
from benchmarks.data import FAMILIES, SUITES, resolve
from benchmarks.paper import with_paper
from benchmarks.records import ROOT

RESULTS = ROOT / "benchmarks" / "results"
METRICS = ("rmse", "auc", "accuracy", "loglik", "brier", "ece", "deviance")


def run(arguments: argparse.Namespace) -> int:
    models = split_models(arguments.models)
    for model in models:
        parse_model(model)
    plan = runner.Plan(
        models=models,
        sets=resolve(arguments.suite, arguments.sets),
        splits=arguments.splits,
        data=arguments.data,
        out=arguments.out or RESULTS / f"{arguments.suite or 'some'}.jsonl",
        inner=arguments.inner,
        threads=arguments.threads,
        seed=arguments.seed,
        limit=arguments.limit,
        retry=arguments.retry,
    )
    return 1 if runner.run(plan, arguments.jobs) else 0


def table(arguments: argparse.Namespace) -> int:
    records = summary.latest(arguments.results)
    if arguments.sets:
        wanted = set(resolve(arguments.suite, arguments.sets))
        records = [r for r in records if r["set"] in wanted]
    if arguments.paper:
        records = with_paper(records, arguments.paper)
    failed = [r for r in records if "error" in r]
    models = split_models(arguments.models) if arguments.models else None
    asked = arguments.metrics.split(",") if arguments.metrics else METRICS
    sections, pictures = [], []
    for metric in asked:
        grid = summary.grid(records, metric, models)
        if not grid.sets:
            continue
        heading = render.TITLES.get(metric, metric)
        sections.append((heading, render.rows_of(grid, arguments.deviations)))
        if arguments.ranks:
            arguments.ranks.mkdir(parents=True, exist_ok=True)
            path = arguments.ranks / f"ranks-{metric}.svg"
            render.rank_picture(grid, path)
            pictures.append(path.read_text())
    for heading, rows in sections:
        print(f"### {heading}\n\n{render.markdown(rows)}\n")
    for record in failed:
        print(f"FAILED: {runner.describe(record)}")
    if arguments.html:
        arguments.html.write_text(render.as_html(sections, "oakgp benchmarks", pictures))
    return 0


def compare(arguments: argparse.Namespace) -> int:
    new, old = (summary.latest([path]) for path in (arguments.new, arguments.old))
    found = summary.changes(new, old)
    if not found:
        print("The two files have no run in common.")
        return 1
    if not arguments.all:
        found = [change for change in found if change.worse]
    print(render.markdown(render.change_lines(found)) if found else "Nothing got worse.")
    return int(any(change.worse for change in found))


def show(arguments: argparse.Namespace) -> int:
    print("Models:")
    for adapter in ADAPTERS.values():
        print(f"  {adapter.name:14s} {adapter.missing() or adapter.version()}")
    print("\nSuites:")
    for name, sets in SUITES.items():
        print(f"  {name:24s} {len(sets)} sets")
    print("\nSets:")
    for family in FAMILIES.values():
        names = ", ".join(family.sets()) or "any number of a set"
        print(f"  {family.name}/: {names}\n    ({family.protocol})")
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    main = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    main.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = main.add_subparsers(required=True)

    fit = commands.add_parser("run", help="fit what the results file does not have yet")
    fit.add_argument("--suite", choices=list(SUITES))
    fit.add_argument("--sets", help="family/set, or with --suite the last part")
    fit.add_argument("--models", default="oakgp", help="such as oakgp,oakgp[max_order=2],ebm")
    fit.add_argument("--splits", type=int, help="of each set; all of its protocol if not said")
    fit.add_argument("--data", type=Path, default=Path("../shared/data"))
    fit.add_argument("--out", type=Path, help="results file (benchmarks/results/SUITE.jsonl)")
    fit.add_argument("--inner", action="store_true", help="hold out training rows: for choices")
    fit.add_argument("--threads", type=int, default=1, help="of every library")
    fit.add_argument("--jobs", type=int, default=1, help="processes at a time")
    fit.add_argument("--limit", type=float, default=3600.0, help="seconds for one split")
    fit.add_argument("--seed", type=int, default=0, help="of the models")
    fit.add_argument("--retry", action="store_true", help="try again what failed")
    fit.set_defaults(call=run)

    tables = commands.add_parser("table", help="means over splits, ranks")
    tables.add_argument("results", type=Path, nargs="+")
    tables.add_argument("--suite", choices=list(SUITES))
    tables.add_argument("--sets")
    tables.add_argument("--models")
    tables.add_argument("--metrics", help=f"of {','.join(METRICS)},wall_s,cpu_s,peak_mb,coverage90")
    tables.add_argument("--deviations", action="store_true", help="over splits, in brackets")
    tables.add_argument("--paper", type=Path, help="folder of the paper's tables, to set beside")
    tables.add_argument("--html", type=Path, help="page to write")
    tables.add_argument("--ranks", type=Path, help="folder for pictures of mean ranks")
    tables.set_defaults(call=table)

    difference = commands.add_parser("compare", help="what got worse between two results files")
    difference.add_argument("new", type=Path)
    difference.add_argument("old", type=Path)
    difference.add_argument("--all", action="store_true", help="also what did not get worse")
    difference.set_defaults(call=compare)

    commands.add_parser("list", help="models, suites and sets").set_defaults(call=show)
    return main


def main(argv: list[str] | None = None) -> int:
    logging.basicConfig(format="%(message)s")
    arguments = parser().parse_args(argv)
    try:
        return int(arguments.call(arguments))
    except (ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
