"""What got slower: a handful of timings as ratios to a frozen implementation, in one run.

    python -m benchmarks.guard            # make bench-guard: compare with this machine's history
    python -m benchmarks.guard --keep     # add the ratios to it

Absolute times differ with the machine and with what else runs on it; `benchmarks.reference` is
timed in turn with each case, and the smallest of several rounds counts. A kind of machine (the
processor's name and the number of threads) has a file of its own in ``results/guard``.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks import reference
from benchmarks.ops import problem
from benchmarks.records import ROOT, circumstances, processor
from oakgp import OAKClassifier, OAKRegressor, ops

HISTORY = ROOT / "benchmarks" / "results" / "guard"
SLOWER = 1.3  # of the median of the last records, from which a case counts as slower
LAST = 5
ROWS, FEATURES = 250, 6


def table(seed: int = 0) -> tuple[Any, Any]:
    """Return rows and a response with main effects and an interaction."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (ROWS, FEATURES))
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + X[:, 2] * X[:, 3] + 0.1 * rng.standard_normal(ROWS)
    return X, y


def unit() -> Callable[[], object]:
    """Return the call whose time is the unit."""
    X, y = table()
    x = X.T.copy()
    lengthscales, variances = np.full(FEATURES, 0.7), (1.0, 0.5, 0.1, 0.02, 0.01)
    return lambda: reference.regression(x, y, x[:, :100], lengthscales, variances, 0.01)


def cases() -> dict[str, Callable[[], object]]:
    """Return what is guarded."""
    X, y = table()
    labels = (y > np.median(y)).astype(int)
    layout, weights, points = problem(600, 8, 4)
    leaves = [weights.order_variances, weights.scales, weights.lengthscales, points.embed]
    cotangent = torch.ones(600, 600, dtype=torch.float64)
    fitted = OAKRegressor(max_order=3).fit(X, y)
    many = np.random.default_rng(1).uniform(-1.0, 1.0, (20_000, FEATURES))

    def kernel() -> object:
        return torch.autograd.grad(ops.additive_kernel(layout, weights, points), leaves, cotangent)

    def sobol() -> object:
        return replace(fitted.model_).sobol  # a new model: nothing is kept from the last call

    return {
        "kernel, value and gradient": kernel,
        "fit, exact, order 3": lambda: OAKRegressor(max_order=3, max_iter=20).fit(X, y),
        "fit, sparse, order 2": lambda: OAKRegressor(
            max_order=2, engine="sparse", n_inducing=50, max_iter=20
        ).fit(X, y),
        "fit, labels, order 2": lambda: OAKClassifier(max_order=2, max_iter=10).fit(X, labels),
        "predict 20,000 rows with deviations": lambda: fitted.predict(many, return_std=True),
        "Sobol tables": sobol,
    }


def cpu(call: Callable[[], object]) -> float:
    """Return the processor's seconds of a call."""
    gc.collect()
    begin = time.process_time()
    call()
    return time.process_time() - begin


def measure(rounds: int) -> dict[str, float]:
    """Return each case's time in units of the reference's, both the smallest of some rounds."""
    plain, calls = unit(), cases()
    for call in (plain, *calls.values()):  # compiles, warms up
        call()
    units: list[float] = []
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            units.append(cpu(plain))
            times[name].append(cpu(call))
    return {name: min(values) / min(units) for name, values in times.items()}


def history_file(folder: Path, threads: int) -> Path:
    """Return the file of this kind of machine."""
    kind = re.sub(r"[^a-z0-9]+", "-", processor().lower()).strip("-")
    return folder / f"{kind}-{threads}-threads.jsonl"


def slower(new: dict[str, float], records: list[dict[str, Any]]) -> list[str]:
    """Print the ratios beside the history's and return the cases that got slower."""
    found = []
    for name, ratio in new.items():
        before = [r["ratios"][name] for r in records[-LAST:] if name in r["ratios"]]
        line = f"{name:38s} {ratio:8.2f} references"
        if before:
            usual = statistics.median(before)
            line += f", usually {usual:8.2f}"
            if ratio > usual * SLOWER:
                line += "  SLOWER"
                found.append(name)
        print(line)
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", action="store_true", help="add the ratios to the history")
    parser.add_argument("--history", type=Path, default=HISTORY)
    arguments = parser.parse_args(argv)
    path = history_file(arguments.history, torch.get_num_threads())
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if not records:
        print(f"No history of this kind of machine yet ({path.name}); --keep begins one.")
    ratios = measure(arguments.rounds)
    found = slower(ratios, records)
    if arguments.keep:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as out:
            out.write(json.dumps({"ratios": ratios, **circumstances()}) + "\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
