"""Commands to look at a model: show, explain, report."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from oakgp import load
from oakgp.cli import files, screen

_REST = "(all other terms)"


def summary(estimator: Any, path: str) -> dict[str, Any]:
    """Return what a model is, as JSON can hold it."""
    model = estimator.model_
    facts = model.facts
    return {
        "model": path,
        "estimator": type(estimator).__name__,
        "engine": facts.engine,
        "rows": facts.n_rows,
        "features": model.names,
        "converged": facts.converged,
        "log_evidence": facts.log_evidence,
        "seconds": facts.seconds,
        "notes": list(facts.notes),
    }


_TERMS = ("term", "order", "share", "low", "high", "sd")
_FEATURES = ("feature", "total", "total_low", "total_high", "first_order")
_ORDERS = ("order", "share", "low", "high")


def show(
    model: Annotated[str, typer.Argument(help="Model file.")],
    terms: Annotated[int, typer.Option(help="Terms to list.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="All tables as JSON.")] = False,
) -> None:
    """Show what a model says: verdict, terms, features and orders.

    Examples
    --------
        oakgp show churn.oak

        oakgp show churn.oak --json | jq '.terms.term[:5]'
    """
    estimator = load(model)
    sobol = estimator.sobol_ if estimator.model_.posterior.orthogonal else None
    if json:
        told = summary(estimator, model) | {"verdict": str(estimator.verdict_)}
        if sobol is not None:
            told |= {
                "terms": sobol.terms.to_dict(),
                "by_feature": sobol.features.to_dict(),
                "by_order": sobol.orders.to_dict(),
            }
        screen.put_json(told)
        return
    screen.out.print(str(estimator.verdict_), markup=False, highlight=False)
    if sobol is None:
        return
    for title, table, names, most in (
        ("Terms", sobol.terms, _TERMS, terms),
        ("Features", sobol.features, _FEATURES, 30),
        ("Orders", sobol.orders, _ORDERS, 10),
    ):
        # What fits a terminal; --json has all columns.
        columns = {name: table.to_dict()[name] for name in names}
        bar = next((n for n in ("share", "total") if n in columns), None)
        screen.out.print()
        screen.show_table(title, columns, bar, most)


def explain(
    model: Annotated[str, typer.Argument(help="Model file.")],
    data: Annotated[str, typer.Argument(help="CSV or Parquet file; - is standard input.")] = "-",
    output: Annotated[
        str, typer.Option("--output", "-o", help="CSV or Parquet file; - is standard output.")
    ] = "-",
    keep: Annotated[list[str] | None, typer.Option(help="Columns to hand through.")] = None,
    row: Annotated[int | None, typer.Option(help="Show one row (from 0) on the terminal.")] = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON, one object per row.")] = False,
) -> None:
    """Explain predictions: what each term adds to each row, with its standard deviation.

    Examples
    --------
        oakgp explain churn.oak new.csv --keep id -o reasons.csv

        oakgp explain churn.oak new.csv --row 3
    """
    estimator, table = load(model), files.read(data)
    if row is not None:
        if not 0 <= row < table.num_rows:
            raise ValueError(f"--row {row}: the table has rows 0 to {table.num_rows - 1}")
        table = table.slice(row, 1)
    columns = contributions(estimator, table)
    if row is not None and not json:
        _show_row(columns, row)
        return
    kept = {name: files.column(table, name, "--keep") for name in keep or []}
    shown = pa.table({k: _arrow(v) for k, v in (kept | columns).items()})
    if json:
        for record in shown.to_pylist():
            screen.put_json(record)
        return
    files.write(shown, output)


def contributions(estimator: Any, table: Any) -> dict[str, Any]:
    """Return the contribution of each term and its deviation, in columns by name.

    What all terms add that are too small to be listed is one more column, so that the means add up
    to the prediction (on the scale of the link).
    """
    columns: dict[str, Any] = {}
    for whole, terms in estimator._listed_terms():
        head = f"{whole.name}: " if len(estimator.model_.outputs) > 1 else ""
        total = np.zeros(table.num_rows)
        for term in [(), *terms]:
            mean, sd = whole.component(table, term)
            columns[f"{head}{whole.label(term)}"] = mean
            columns[f"{head}{whole.label(term)} (sd)"] = sd
            total = total + mean
        columns[f"{head}{_REST}"] = whole.mean(table) - total
    return columns


def _show_row(columns: dict[str, Any], row: int) -> None:
    names = [name for name in columns if not name.endswith(" (sd)")]
    values = [float(np.asarray(columns[name])[0]) for name in names]
    deviations = [columns.get(f"{name} (sd)", [np.nan]) for name in names]
    sds = [float(np.asarray(sd)[0]) for sd in deviations]
    order = sorted(range(1, len(names)), key=lambda k: -abs(values[k]))
    order = [0, *order]
    screen.show_table(
        f"Row {row}",
        {
            "term": [names[k] for k in order],
            "effect": [values[k] for k in order],
            "sd": ["" if np.isnan(sds[k]) else f"{sds[k]:.4g}" for k in order],
        },
    )


def _arrow(values: Any) -> Any:
    return values if isinstance(values, pa.ChunkedArray) else pa.array(values)


def report(
    model: Annotated[str, typer.Argument(help="Model file.")],
    output: Annotated[str, typer.Option("--output", "-o", help="HTML file to write.")],
    test: Annotated[str | None, typer.Option(help="CSV or Parquet file of test rows.")] = None,
    target: Annotated[str | None, typer.Option("--target", "-y", help="Its response.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Write a report: one HTML file that needs no network.

    Examples
    --------
        oakgp report churn.oak -o churn.html --test test.csv --target churned
    """
    estimator = load(model)
    if not hasattr(estimator, "report"):
        raise ValueError(
            "this version of oakgp makes no reports; oakgp show prints the same tables"
        )
    if (test is None) != (target is None):
        raise ValueError(
            "--test and --target go together: rows, and the column with their response"
        )
    X = y = None
    if test is not None and target is not None:
        table = files.read(test)
        y = np.array(files.column(table, target, "--target").to_pylist())
        X = files.without(table, [target])
    with screen.progress(quiet):
        estimator.report(output, X, y)
