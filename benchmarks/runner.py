"""Which runs are left to do, and doing them: a process for each model and set."""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.adapters import parse_model
from benchmarks.data import FAMILIES
from benchmarks.records import ROOT, append, circumstances, read

LOG = logging.getLogger(__name__)
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "LOKY_MAX_CPU_COUNT",
)


@dataclass(frozen=True)
class Plan:
    """What to run.

    Parameters
    ----------
    models, sets
        Labels of models (``oakgp[max_order=2]``) and sets (``family/set``).
    splits
        Splits of each set; None for as many as its protocol has. No set has more than that.
    data
        Folder of the data sets.
    out
        Results file: one JSON line a run. What it holds is not run again.
    inner
        Whether to hold out training rows instead of the test rows.
    threads
        Threads of every library.
    seed
        Of the models.
    limit
        Seconds for one split.
    retry
        Whether runs that failed are tried again.
    """

    models: Sequence[str]
    sets: Sequence[str]
    splits: int | None
    data: Path
    out: Path
    inner: bool = False
    threads: int = 1
    seed: int = 0
    limit: float = 3600.0
    retry: bool = False


def key(record: dict[str, Any]) -> tuple[Any, ...]:
    """Return what makes a run the same run."""
    return record["set"], record["split"], record["model"], bool(record.get("inner"))


def work_of(plan: Plan) -> list[dict[str, Any]]:
    """Return what is left to do, a piece of work for each set and model."""
    done = {key(r) for r in read(plan.out) if not (plan.retry and "error" in r)}
    work = []
    for name in plan.sets:
        family, _, short = name.partition("/")
        most = FAMILIES[family].splits(short)
        count = most if plan.splits is None else min(plan.splits, most)
        for model in plan.models:
            missing = parse_model(model)[0].missing()
            if missing:
                LOG.warning("%s", missing)
                continue
            left = [k for k in range(count) if (name, k, model, plan.inner) not in done]
            if left:
                work.append(
                    {
                        "set": name,
                        "model": model,
                        "splits": left,
                        "data": str(plan.data.resolve()),
                        "inner": plan.inner,
                        "threads": plan.threads,
                        "seed": plan.seed,
                    }
                )
    return work


def _environment(threads: int) -> dict[str, str]:
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        **os.environ,
        **dict.fromkeys(THREAD_VARIABLES, str(threads)),
        "PYTHONPATH": os.pathsep.join(p for p in paths if p),
    }


def _lines(process: subprocess.Popen[str], limit: float) -> Iterator[str | None]:
    """Yield the lines of a process; None, once, when the next one takes too long."""
    lines: queue.Queue[str | None] = queue.Queue()

    def pump() -> None:
        assert process.stdout is not None
        with process.stdout as stream:
            for line in stream:
                lines.put(line)
        lines.put(None)

    threading.Thread(target=pump, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=limit)
        except queue.Empty:
            yield None
            return
        if line is None:
            return
        yield line


def _stop(process: subprocess.Popen[str]) -> None:
    """End the process and what it started: its own group, and no other."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_work(work: dict[str, Any], limit: float, report: Callable[[dict[str, Any]], None]) -> None:
    """Do a piece of work; a split that fails or takes too long does not end the others."""
    left = list(work["splits"])
    while left:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(work["threads"]),
            start_new_session=True,
        )
        assert process.stdin is not None
        process.stdin.write(json.dumps({**work, "splits": left}) + "\n")
        process.stdin.close()
        error = None
        try:
            for line in _lines(process, limit):
                if line is None:
                    error = f"took more than {limit:g} s"
                    break
                record = json.loads(line)
                left.remove(record["split"])
                report(record)
        finally:
            _stop(process)
        if left:  # it ended before its work was done
            error = error or f"the process ended with code {process.returncode}"
            failed = {k: work[k] for k in ("set", "model", "inner")} | {"split": left.pop(0)}
            report({**failed, "error": error, **circumstances(work["seed"])})


def describe(record: dict[str, Any]) -> str:
    """Return one line on a run."""
    head = f"{record['set']:40s} {record['split']}  {record['model']:14s}"
    if "error" in record:
        return f"{head} FAILED: {record['error']}"
    keys = ("rmse", "auc", "accuracy", "loglik", "deviance")
    scores = "  ".join(f"{k} {record[k]:.4f}" for k in keys if k in record)
    return f"{head} {scores}  {record['wall_s']:.1f} s, {record['peak_mb']:.0f} MB"


def run(plan: Plan, jobs: int = 1) -> int:
    """Run what is left of a plan and return how many runs failed."""
    lock, failures = threading.Lock(), 0

    def report(record: dict[str, Any]) -> None:
        nonlocal failures
        with lock:
            append(plan.out, record)
            failures += "error" in record
            print(describe(record), flush=True)

    with ThreadPoolExecutor(max(1, jobs)) as pool:
        for future in [pool.submit(run_work, w, plan.limit, report) for w in work_of(plan)]:
            future.result()
    return failures
