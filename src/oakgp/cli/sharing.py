"""Commands to carry a model elsewhere, to try the library, and to measure it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from oakgp import OAKRegressor, load
from oakgp.cli import screen
from oakgp.cli.looking import summary

_FORMATS = {".sql": "sql", ".onnx": "onnx", ".py": "python", ".json": "json", ".csv": "csv"}


def export(
    model: Annotated[str, typer.Argument(help="Model file, of terms of one or two features.")],
    output: Annotated[
        str, typer.Option("--output", "-o", help=f"File to write: {', '.join(_FORMATS)}.")
    ],
    format: Annotated[
        str | None, typer.Option(help="sql, onnx, python, json or csv; by the file's name if not.")
    ] = None,
    dialect: Annotated[str, typer.Option(help="Of SQL: duckdb, postgresql, sqlite.")] = "duckdb",
    table: Annotated[str, typer.Option(help="Of SQL: the table to score.")] = "data",
    keep: Annotated[list[str] | None, typer.Option(help="Of SQL: columns to keep.")] = None,
    tol: Annotated[float, typer.Option(help="Largest error, in target sd.")] = 1e-3,
    terms: Annotated[list[str] | None, typer.Option(help="Terms to take.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Export a model as SQL, ONNX, a Python file, or tables in JSON or CSV.

    Examples
    --------
        oakgp export churn.oak -o score.sql --dialect postgresql --table customers --keep id

        oakgp export churn.oak -o churn.onnx
    """
    chosen = format or _FORMATS.get(Path(output).suffix.lower())
    if chosen not in _FORMATS.values():
        raise ValueError(
            f"--format {chosen!r}: choose one of {', '.join(_FORMATS.values())}, or a file name "
            f"that ends in one of {', '.join(_FORMATS)}"
        )
    estimator = load(model)
    with screen.progress(quiet):
        tables = estimator.compile(tol, terms, bands=chosen == "json")
    if chosen == "sql":
        from oakgp.export.sql import to_sql

        Path(output).write_text(to_sql(tables, dialect, table, keep or ()), "utf-8")
    elif chosen == "onnx":
        from oakgp.export.onnx import to_onnx

        to_onnx(tables, output)
    elif chosen == "python":
        from oakgp.export.python_file import to_python

        to_python(tables, output)
    elif chosen == "json":
        tables.to_json(output)
    else:
        tables.to_csv(output)
    told = {
        "written": output,
        "format": chosen,
        "terms": sum(len(f.sum.tables) for f in tables.functions),
        "bound": tables.bound,
    }
    if json:
        screen.put_json(told)
        return
    screen.say(
        f"{output}: {told['terms']} tables; largest error {tables.bound:.2g} target standard "
        "deviations (or units of the link)"
    )


def demo(
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Where to save the model, if at all.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Fit the diabetes data that come with scikit-learn, and show what was learned.

    Examples
    --------
        oakgp demo -o diabetes.oak

        oakgp show diabetes.oak
    """
    from sklearn.datasets import load_diabetes

    data = load_diabetes(scaled=False)
    columns = {name: data.data[:, k] for k, name in enumerate(data.feature_names)}
    import pyarrow as pa

    X, y = pa.table(columns), data.target
    test = np.arange(len(y)) % 5 == 0
    rows = np.flatnonzero(~test)
    with screen.progress(quiet):
        estimator = OAKRegressor(max_order=2).fit(X.take(rows), y[rows])
        if output is not None:
            estimator.save(output)
    held = np.flatnonzero(test)
    mean, ends = estimator.predict(X.take(held)), estimator.predict_interval(X.take(held))
    told: dict[str, Any] = summary(estimator, output or "") | {
        "holdout_rmse": float(np.sqrt(np.mean((mean - y[held]) ** 2))),
        "holdout_sd": float(y[held].std()),
        "holdout_coverage": float(np.mean((ends[:, 0] <= y[held]) & (y[held] <= ends[:, 1]))),
    }
    if json:
        screen.put_json(told)
        return
    screen.out.print(
        f"442 patients, {len(rows)} to learn from: disease progression after a year.\n",
        highlight=False,
    )
    screen.out.print(str(estimator.verdict_), markup=False, highlight=False)
    screen.out.print()
    screen.show_table("Terms", estimator.components_.to_dict(), "share", 10)
    screen.out.print(
        f"\nOn the other {len(held)}: root mean squared error {told['holdout_rmse']:.1f} (sd "
        f"{told['holdout_sd']:.1f}); 90% intervals hold {told['holdout_coverage']:.0%}.",
        highlight=False,
    )


def bench(
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Handed to the benchmarks: see --help of these.")
    ] = None,
    name: Annotated[str, typer.Option(help="Which: python -m benchmarks.NAME.")] = "run",
) -> None:
    """Run the benchmarks of the repository (they are not part of the installed package).

    Examples
    --------
        oakgp bench --name predict
    """
    import subprocess
    import sys

    module = f"benchmarks.{name}"
    if not name.isidentifier():
        raise ValueError(f"--name {name!r} is no name of a module")
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None and not Path("benchmarks", f"{name}.py").exists():
        raise ValueError(
            f"there is no {module} here: benchmarks are part of the repository, not of the "
            "installed package; clone the repository and run this from its root"
        )
    done = subprocess.run([sys.executable, "-m", module, *(arguments or [])])
    raise typer.Exit(done.returncode)
