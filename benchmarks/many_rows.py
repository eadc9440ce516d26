"""Variational inference with many rows: minibatches beside the full-batch sparse engine.

    python -m benchmarks.many_rows run --response binary --rows 1000000 --engine stochastic
    python -m benchmarks.many_rows table results.jsonl

Each run is a process of its own, whose peak of resident memory is recorded with its time, and the
predictive log-likelihood of 20,000 further rows beside that of the function they were drawn from.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from scipy.stats import poisson

from benchmarks.records import ROOT, append, circumstances, peak_mb, read, timed

N_TEST = 20_000
RESPONSES = ("binary", "poisson")


class Problem(NamedTuple):
    """Rows and the log odds, or log rates, that their responses were drawn from."""

    X: Any
    y: Any
    f: Any


def problem(response: str, n: int, seed: int = 0) -> Problem:
    """Return rows of eight features, with two interactions and one feature of few values."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    X[:, 3] = np.round(2.0 * X[:, 3])
    f = 1.5 * np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] ** 2 - 0.5 + X[:, 2] * X[:, 4]
    f += 0.6 * np.cos(2.0 * X[:, 5]) * X[:, 6] + 0.3 * X[:, 3]
    if response == "binary":
        return Problem(X, (rng.random(n) < expit(f)).astype(int), f)
    f = np.clip(0.5 * f - 1.0, -20.0, 6.0)
    return Problem(X, rng.poisson(np.exp(f)), f)


def evaluate(response: str, n: int, options: dict[str, Any]) -> dict[str, Any]:
    """Fit in this process and return the record."""
    from oakgp import OAKClassifier, OAKRegressor

    rows = problem(response, n + N_TEST)
    X, y = rows.X[:n], rows.y[:n]
    X_test, y_test, f = rows.X[n:], rows.y[n:], rows.f[n:]
    if response == "binary":
        classifier = OAKClassifier(**options)
        model, time = timed(lambda: classifier.fit(X, y))
        density = classifier.predict_log_proba(X_test)[np.arange(N_TEST), y_test]
        truth = np.where(y_test == 1, np.log(expit(f)), np.log(expit(-f)))
    else:
        regressor = OAKRegressor(likelihood="poisson", **options)
        model, time = timed(lambda: regressor.fit(X, y))
        density = regressor.predict_log_density(X_test, y_test)
        truth = poisson.logpmf(y_test, np.exp(f))
    link, _ = model.predict_link(X_test)
    facts = model.model_.facts
    return {
        "response": response,
        "rows": n,
        "options": options,
        "engine": facts.engine,
        "converged": facts.converged,
        "evaluations": facts.n_evaluations,
        "evidence_per_row": facts.log_evidence / max(1, facts.evidence_rows),
        "loglik": float(np.mean(density)),
        "loglik_truth": float(np.mean(truth)),
        "rmse_link": float(np.sqrt(np.mean((link - f) ** 2))),
        "fit_s": round(time.wall, 1),
        "fit_cpu_s": round(time.cpu, 1),
        "peak_mb": round(peak_mb()),
        **circumstances(0),
    }


def run(arguments: argparse.Namespace) -> None:
    """Fit, in a fresh process, what the results file does not have yet."""
    options = {"engine": arguments.engine, **json.loads(arguments.options)}
    if arguments.here:
        print(json.dumps(evaluate(arguments.response, arguments.rows, options)))
        return
    same = {"response": arguments.response, "rows": arguments.rows, "options": options}
    done = [r for r in read(arguments.out) if all(r[k] == v for k, v in same.items())]
    if done:
        return
    command = [sys.executable, "-m", "benchmarks.many_rows", "run", "--here"]
    command += ["--response", arguments.response, "--rows", str(arguments.rows)]
    command += ["--engine", arguments.engine, "--options", arguments.options]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    record = json.loads(found.stdout.splitlines()[-1])
    append(arguments.out, record)
    print(f"{record['fit_cpu_s']} s of processor, {record['peak_mb']} MB, {record['loglik']:.4f}")


def table(arguments: argparse.Namespace) -> None:
    """Print a line for each run."""
    print(
        "| response | rows | engine | log-likelihood | of the truth | rms error of f | processor s "
        "| peak MB |"
    )
    print("|---|---|---|---|---|---|---|---|")
    records = read(arguments.results)
    for r in sorted(records, key=lambda r: (r["response"], r["rows"], r["engine"])):
        print(
            f"| {r['response']} | {r['rows']:,} | {r['engine']} | {r['loglik']:.4f} | "
            f"{r['loglik_truth']:.4f} | {r['rmse_link']:.3f} | {r['fit_cpu_s']:.0f} | "
            f"{r['peak_mb']:,} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    runner = commands.add_parser("run")
    runner.add_argument("--response", choices=RESPONSES, default="binary")
    runner.add_argument("--rows", type=int, default=1_000_000)
    runner.add_argument("--engine", choices=("auto", "sparse", "stochastic"), default="auto")
    runner.add_argument("--options", default="{}", help="further options of the estimator, as JSON")
    runner.add_argument("--out", type=Path, default=Path("many_rows.jsonl"))
    runner.add_argument("--here", action="store_true", help="in this process, to standard output")
    runner.set_defaults(call=run)
    printer = commands.add_parser("table")
    printer.add_argument("results", type=Path)
    printer.set_defaults(call=table)
    arguments = parser.parse_args()
    arguments.call(arguments)


if __name__ == "__main__":
    main()
