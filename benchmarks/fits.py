"""Time and memory of whole fits, each in a process of its own.

    python -m benchmarks.fits                 # all cases
    python -m benchmarks.fits autompg import  # some
    python -m benchmarks.fits --one autompg   # in this process, as JSON

The compiled kernels come from their cache, as on every day but the first; the case ``first_fit``
has an empty cache and says what that day costs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.data import Split, load_split
from benchmarks.metrics import regression_scores
from benchmarks.records import ROOT, circumstances, peak_mb, timed

_LAZY = ("matplotlib", "pandas", "polars", "pyarrow", "dask")  # what an import must not bring in


def fit_and_explain(
    split: Split, again: bool = False, **options: Any
) -> tuple[Any, dict[str, Any]]:
    """Fit a split, make the Sobol tables, score the test rows.

    The first fit of a process loads the compiled kernels; ``again`` times a second one.
    """
    from oakgp import OAKRegressor

    before = peak_mb()
    model, fit = timed(lambda: OAKRegressor(**options).fit(split.X, split.y))
    _, sobol = timed(lambda: model.sobol_)
    unit = split.y.std()
    test = regression_scores(split.y_test, *model.predict(split.X_test, return_std=True))
    facts = model.model_.facts
    second = {}
    if again:
        other, time = timed(lambda: OAKRegressor(**options).fit(split.X, split.y))
        second = {"fit_again_s": time.wall, "sobol_again_s": timed(lambda: other.sobol_)[1].wall}
    return model, {
        **second,
        "rows": len(split.y),
        "features": split.X.shape[1],
        "terms": model.model_.posterior.kernel.terms.count(),
        "options": options,
        "engine": facts.engine,
        "converged": facts.converged,
        "evaluations": facts.n_evaluations,
        "fit_s": fit.wall,
        "fit_cpu_s": fit.cpu,
        "sobol_s": sobol.wall,
        "peak_mb": peak_mb(),
        "peak_mb_before": before,
        "relative_rmse": test["rmse"] / unit,
        "coverage90": test["coverage90"],
    }


def every_row(split: Split) -> Split:
    """Return a split whose rows, labels as numbers, all train."""
    X = pd.concat([split.X, split.X_test])
    return replace(split, X=X, y=np.concatenate([split.y, split.y_test]).astype(float))


def autompg(data: Path) -> dict[str, Any]:
    """All 127 terms of 7 features."""
    return fit_and_explain(load_split(data, "baseline/autompg", 0), again=True, max_order=7)[1]


def concrete(data: Path) -> dict[str, Any]:
    """All 255 terms of 8 features."""
    return fit_and_explain(load_split(data, "baseline/concrete", 0), again=True, max_order=8)[1]


def pumadyn(data: Path) -> dict[str, Any]:
    """Three terms carry the function: what truncation to them costs."""
    split = load_split(data, "baseline/pumadyn", 0)
    model, record = fit_and_explain(split, max_order=8, n_inducing=200)
    short = model.truncate(n_terms=3)
    record["top3"] = list(short.get_feature_names_out())
    record["top3_share"] = 1.0 - short.dropped_variance_
    test = regression_scores(split.y_test, short.predict(split.X_test), None)
    record["relative_rmse_top3"] = test["rmse"] / split.y.std()
    return record


def elevators(data: Path) -> dict[str, Any]:
    """15,000 rows, main effects and pairs."""
    return fit_and_explain(load_split(data, "regression/elevators", 0), max_order=2)[1]


def ionosphere(data: Path) -> dict[str, Any]:
    """41,448 terms: the usual table, and then every single one."""
    from oakgp.sensitivity import rank_terms

    split = every_row(load_split(data, "baseline/ionosphere", 0))
    model, record = fit_and_explain(split, max_order=4)
    every, time = timed(lambda: rank_terms(model.model_.posterior, record["terms"]))
    record["every_term_s"] = time.wall
    record["every_term_count"] = len(every.terms)
    record["peak_mb"] = peak_mb()
    return record


def imports(data: Path) -> dict[str, Any]:
    """`import oakgp`, and the estimator with torch and scikit-learn, in new interpreters.

    scikit-learn imports pandas where that is installed; oakgp does not, which `.ci/run` checks.
    """
    code = (
        "import time; begin = time.perf_counter(); import oakgp, sys\n"
        "alone = time.perf_counter() - begin\n"
        f"brought_in = [name for name in {_LAZY} if name in sys.modules]\n"
        "oakgp.OAKRegressor  # loaded when it is asked for\n"
        "import json; print(json.dumps([alone, time.perf_counter() - begin, brought_in]))"
    )
    command = [sys.executable, "-c", code]
    runs = [
        json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        for _ in range(5)
    ]
    alone, whole = (sorted(values)[2] for values in list(zip(*runs, strict=True))[:2])
    return {"import_s": alone, "import_estimator_s": whole, "brought_in": runs[0][2]}


def first_fit(data: Path) -> dict[str, Any]:
    """A fit with nothing compiled yet."""
    return autompg(data)


CASES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "import": imports,
    "first_fit": first_fit,
    "autompg": autompg,
    "concrete": concrete,
    "pumadyn": pumadyn,
    "elevators": elevators,
    "ionosphere": ionosphere,
}


def in_new_process(name: str, data: Path) -> dict[str, Any]:
    """Run one case by itself; its memory is then its own."""
    with tempfile.TemporaryDirectory() as empty:
        environment = dict(os.environ)
        if name == "first_fit":
            environment["NUMBA_CACHE_DIR"] = empty
        command = [sys.executable, "-m", "benchmarks.fits", "--one", name, "--data", str(data)]
        done = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
        )
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def show(name: str, record: dict[str, Any]) -> str:
    """Return one line on a case."""
    if name == "import":
        return (
            f"{name:12s} {record['import_s']:.2f} s, with the estimator "
            f"{record['import_estimator_s']:.2f} s; plots and frames: {record['brought_in']}"
        )
    extra = "".join(
        f", {label} {record[key]:.4g}{unit}"
        for key, label, unit in (
            ("fit_again_s", "again: fit", " s"),
            ("sobol_again_s", "Sobol", " s"),
            ("every_term_s", "every term", " s"),
            ("top3_share", "share of three terms", ""),
            ("relative_rmse_top3", "RMSE with three", ""),
        )
        if key in record
    )
    return (
        f"{name:12s} {record['rows']} x {record['features']}, {record['terms']} terms: "
        f"fit {record['fit_s']:.2f} s, Sobol {record['sobol_s']:.2f} s, "
        f"peak {record['peak_mb']:.0f} MB, RMSE {record['relative_rmse']:.3f}{extra}"
        f"{'' if record['converged'] else ', NOT converged'}"
    )


def run(data: Path, names: list[str]) -> dict[str, Any]:
    """Run some cases one after another and print a line each."""
    records = {}
    for name in names:
        records[name] = in_new_process(name, data)
        print(show(name, records[name]), flush=True)
    return records


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="case", help=", ".join(CASES))
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--one", choices=list(CASES))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(CASES[arguments.one](arguments.data)))
        return
    unknown = set(arguments.cases) - set(CASES)
    if unknown:
        parser.error(f"no such cases: {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    records = run(arguments.data, arguments.cases or list(CASES))
    if arguments.out:
        records["circumstances"] = circumstances()
        arguments.out.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
