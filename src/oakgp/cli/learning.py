"""Commands that make models and predictions: fit, predict, truncate."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from oakgp import OAKClassifier, OAKRegressor, load
from oakgp.cli import files, screen
from oakgp.cli.looking import summary

Names = Annotated[list[str] | None, typer.Option(help="A column; may be given several times.")]


def fit(
    data: Annotated[str, typer.Argument(help="CSV or Parquet file; - is standard input.")],
    target: Annotated[str, typer.Option("--target", "-y", help="Column to learn.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Model file to write.")],
    task: Annotated[
        str, typer.Option(help="auto, regression or classification (auto: text is classes).")
    ] = "auto",
    likelihood: Annotated[
        str, typer.Option(help="Of numbers: gaussian, poisson, ...")
    ] = "gaussian",
    max_order: Annotated[int | None, typer.Option(help="Highest order of interactions.")] = None,
    engine: Annotated[str, typer.Option(help="How to compute: auto chooses.")] = "auto",
    flow: Annotated[str, typer.Option(help="Transform of numeric columns.")] = "auto",
    weights: Annotated[str | None, typer.Option(help="Column of row weights.")] = None,
    exposure: Annotated[str | None, typer.Option(help="Column of exposures.")] = None,
    drop: Names = None,
    categorical: Names = None,
    max_iter: Annotated[int, typer.Option(help="Iterations of the optimiser.")] = 120,
    seed: Annotated[int, typer.Option(help="Same seed, same model.")] = 0,
    holdout: Annotated[
        float, typer.Option(help="Share of rows to keep for a test; the score is printed.")
    ] = 0.0,
    json: Annotated[bool, typer.Option("--json", help="Print a summary as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Fit a model to a table and save it.

    Examples
    --------
        oakgp fit houses.csv --target price -o houses.oak

        oakgp fit churn.parquet -y churned --task classification --drop id -o churn.oak

        zcat claims.csv.gz | oakgp fit - -y claims --likelihood poisson --exposure years -o m.oak
    """
    if not 0.0 <= holdout < 1.0:
        raise ValueError(f"--holdout {holdout}: give a share of the rows, at least 0 and below 1")
    table = files.read(data)
    y = np.asarray(files.column(table, target, "--target").to_pylist(), dtype=object)
    X = files.without(table, [target, weights, exposure, *(drop or [])])
    for name in drop or []:
        files.column(table, name, "--drop")
    estimator = _estimator(
        _is_classes(task, table.column(target)),
        likelihood,
        {
            "max_order": max_order,
            "engine": engine,
            "flow": flow,
            "max_iter": max_iter,
            "random_state": seed,
            "categorical_features": categorical or "auto",
        },
    )
    extra = {
        "sample_weight": None if weights is None else _numbers(table, weights, "--weights"),
        "exposure": None if exposure is None else _numbers(table, exposure, "--exposure"),
    }
    order = np.random.default_rng(seed).permutation(len(y))
    test, train = np.split(order, [round(holdout * len(y))])
    test, train = np.sort(test), np.sort(train)
    given = {k: v[train] for k, v in extra.items() if v is not None}
    labels = y if isinstance(estimator, OAKClassifier) else _response(table, target)
    with screen.progress(quiet):
        estimator.fit(X.take(train), _typed(labels[train]), **given)
        estimator.save(output)
    told = summary(estimator, output)
    if len(test):
        told["holdout_rows"] = len(test)
        told |= _score(estimator, X.take(test), _typed(labels[test]), extra["exposure"], test)
    if json:
        screen.put_json(told)
        return
    screen.out.print(str(estimator.verdict_), markup=False, highlight=False)
    for name in ("holdout_rmse", "holdout_accuracy", "holdout_log_loss"):
        if name in told:
            screen.out.print(f"{name.replace('_', ' ')}: {told[name]:.4g}", highlight=False)


def _is_classes(task: str, column: pa.ChunkedArray) -> bool:
    if task not in ("auto", "regression", "classification"):
        raise ValueError(f"--task {task!r}: choose auto, regression or classification")
    if task != "auto":
        return task == "classification"
    kind = column.type
    return not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or _is_decimal(kind))


def _is_decimal(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind))


def _estimator(classes: bool, likelihood: str, options: dict[str, Any]) -> Any:
    if not classes:
        return OAKRegressor(likelihood=likelihood, **options)
    if likelihood != "gaussian":
        raise ValueError(f"--likelihood {likelihood} is for numbers, and the target has classes")
    return OAKClassifier(**options)


def _numbers(table: pa.Table, name: str, option: str) -> Any:
    values = files.column(table, name, option).to_pylist()
    try:
        return np.array([np.nan if v is None else float(v) for v in values])
    except (TypeError, ValueError):
        raise ValueError(f"{option} {name!r}: the column does not hold numbers") from None


def _response(table: pa.Table, name: str) -> Any:
    y = _numbers(table, name, "--target")
    missing = int(np.isnan(y).sum())
    if missing:
        raise ValueError(
            f"--target {name!r}: {missing} of {len(y)} rows have none; drop them first"
        )
    return y


def _typed(labels: Any) -> Any:
    """Return an array of the labels' own type, which the model file can hold."""
    return np.array(labels.tolist())


def _score(estimator: Any, X: Any, y: Any, exposure: Any, rows: Any) -> dict[str, float]:
    if isinstance(estimator, OAKClassifier):
        from sklearn.metrics import log_loss

        p = estimator.predict_proba(X)
        accuracy = float(np.mean(estimator.predict(X) == y))
        loss = float(log_loss(y, p, labels=estimator.classes_))
        return {"holdout_accuracy": accuracy, "holdout_log_loss": loss}
    given = {} if exposure is None else {"exposure": exposure[rows]}
    error = estimator.predict(X, **given) - y
    return {"holdout_rmse": float(np.sqrt(np.mean(error**2)))}


def predict(
    model: Annotated[str, typer.Argument(help="Model file.")],
    data: Annotated[str, typer.Argument(help="CSV or Parquet file; - is standard input.")] = "-",
    output: Annotated[
        str, typer.Option("--output", "-o", help="CSV or Parquet file; - is standard output.")
    ] = "-",
    interval: Annotated[
        float | None, typer.Option(help="Add the interval that holds a new value so likely: 0.9.")
    ] = None,
    std: Annotated[bool, typer.Option(help="Add standard deviations.")] = False,
    keep: Names = None,
    exposure: Annotated[str | None, typer.Option(help="Column of exposures.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Predict the rows of a table.

    Examples
    --------
        oakgp predict houses.oak new.csv --interval 0.9 -o scored.csv

        cat new.csv | oakgp predict churn.oak --keep id > scored.csv
    """
    estimator, table = load(model), files.read(data)
    columns: dict[str, Any] = {name: files.column(table, name, "--keep") for name in keep or []}
    with screen.progress(quiet):
        if isinstance(estimator, OAKClassifier):
            if std or interval is not None:
                raise ValueError("--std and --interval are for numbers; classes have probabilities")
            columns["prediction"] = estimator.predict(table)
            p = estimator.predict_proba(table)
            names = [f"probability_{label}" for label in estimator.classes_]
            columns |= {name: p[:, k] for k, name in enumerate(names)}
        else:
            given = {}
            if exposure is not None:
                given["exposure"] = _numbers(table, exposure, "--exposure")
            if std:
                columns["prediction"], columns["std"] = estimator.predict(table, True, **given)
            else:
                columns["prediction"] = estimator.predict(table, **given)
            if interval is not None:
                ends = estimator.predict_interval(table, interval, **given)
                columns["low"], columns["high"] = ends[:, 0], ends[:, 1]
    files.write(pa.table({k: _arrow(v) for k, v in columns.items()}), output)


def _arrow(values: Any) -> Any:
    return values if isinstance(values, pa.ChunkedArray) else pa.array(values)


def truncate(
    model: Annotated[str, typer.Argument(help="Model file.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Model file to write.")],
    threshold: Annotated[
        float | None, typer.Option(help="Drop terms with a smaller share of the variance: 0.01.")
    ] = None,
    terms: Annotated[int | None, typer.Option(help="Keep at most so many terms.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was kept as JSON.")] = False,
) -> None:
    """Keep the important terms only.

    Examples
    --------
        oakgp truncate churn.oak -o short.oak --terms 10
    """
    short = load(model).truncate(threshold, terms)
    short.save(output)
    whole = short.model_
    kept = [whole.label(u) for u in whole.posterior.kept or () if u]
    told = {"kept": kept, "dropped_variance": float(short.dropped_variance_), "model": output}
    if json:
        screen.put_json(told)
        return
    screen.out.print(
        f"{len(kept)} terms kept; {short.dropped_variance_:.2%} of the variance dropped",
        highlight=False,
    )
