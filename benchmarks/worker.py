"""One model on some splits of one set, in a process of its own: JSON in, a JSON line a split out.

What libraries print goes to the error stream. Peak memory is set back before each split, so that
it is that of the fit, on top of what the imports hold (``before_mb``).
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.adapters import Adapter, Job, Prediction, parse_model
from benchmarks.data import Split, load_split
from benchmarks.metrics import score
from benchmarks.records import PACKAGES, circumstances, peak_mb, timed

HELD = 0.2  # of the training rows, to learn the deviation of point predictions from


def reset_peak() -> None:
    """Set the process's peak memory back to what it holds now (Linux)."""
    path = Path("/proc/self/clear_refs")
    if path.exists():
        try:
            path.write_text("5")
        except OSError:  # not allowed in some containers: the peak is then that of all splits
            return


def held_out_deviation(adapter: Adapter, split: Split, job: Job) -> float:
    """Return the root mean squared error on training rows that a second fit did not see.

    Models that predict a number only get a Gaussian of this deviation around it.
    """
    order = np.random.RandomState(job.seed).permutation(len(split.y))
    cut = max(1, int(HELD * len(order)))
    held, rest = order[:cut], order[cut:]
    exposure = None if split.exposure is None else split.exposure[rest]
    fitted = adapter.fit(split.X.iloc[rest], split.y[rest], exposure, job)
    residual = split.y[held] - fitted.predict(split.X.iloc[held]).mean
    return float(np.sqrt(np.mean(residual**2)))


def evaluate(
    adapter: Adapter, options: dict[str, Any], split: Split, threads: int, seed: int, first: bool
) -> dict[str, Any]:
    """Fit a split and return what its record says of the result."""
    job = Job(split.task, threads, seed, options)
    if first:
        adapter.prepare(job)
    reset_peak()
    before = peak_mb()
    fitted, fit = timed(lambda: adapter.fit(split.X, split.y, split.exposure, job))
    prediction: Prediction
    prediction, predict = timed(lambda: fitted.predict(split.X_test, split.exposure_test))
    peak = peak_mb()
    density = "none" if split.task == "count" else "model"
    if split.task == "regression" and prediction.sd is None:
        deviation = held_out_deviation(adapter, split, job)
        prediction = replace(prediction, sd=np.full(len(split.y_test), deviation))
        density = "held out"
    return {
        "task": split.task,
        "rows": len(split.y),
        "features": split.X.shape[1],
        **score(split, prediction),
        "density": density,
        "wall_s": round(fit.wall, 4),
        "cpu_s": round(fit.cpu, 4),
        "predict_s": round(predict.wall, 4),
        "peak_mb": round(peak, 1),
        "before_mb": round(before, 1),
        **fitted.facts(),
    }


def run(work: dict[str, Any], say: Any) -> None:
    """Fit all splits of the work and report each as soon as it is there."""
    adapter, options = parse_model(work["model"])
    first = True
    for number in work["splits"]:
        begin = time.perf_counter()
        record = {
            "set": work["set"],
            "split": number,
            "model": work["model"],
            "inner": work["inner"],
        }
        try:
            split = load_split(Path(work["data"]), work["set"], number, work["inner"])
            record |= evaluate(adapter, options, split, work["threads"], work["seed"], first)
            first = False
        except Exception as error:
            traceback.print_exc()
            record["error"] = f"{type(error).__name__}: {error}"[:500]
        record["total_s"] = round(time.perf_counter() - begin, 3)
        packages = dict.fromkeys((*PACKAGES, adapter.package))
        say(record | circumstances(work["seed"], packages))


def end_with(parent: int) -> None:
    """End this process when the one that started it is gone: nobody reads its results."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    end_with(os.getppid())
    work = json.loads(sys.stdin.readline())
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")

    def say(record: dict[str, Any]) -> None:
        out.write(json.dumps(record) + "\n")
        out.flush()

    run(work, say)


if __name__ == "__main__":
    main()
