"""What every benchmark shares: times, peak memory, circumstances, files of JSON lines."""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
ROOT = Path(__file__).parents[1]
PACKAGES = ("oakgp", "torch", "numpy", "scipy", "scikit-learn", "numba", "pandas")


class Timing(NamedTuple):
    """Seconds on the clock, and of all processors together."""

    wall: float
    cpu: float


def timed(call: Callable[[], T]) -> tuple[T, Timing]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, Timing(time.perf_counter() - wall, time.process_time() - cpu)


def peak_mb() -> float:
    """Return the peak of this process's resident memory, in MB of 2^20 bytes.

    Linux's ``ru_maxrss`` begins at the size of the process that started this one; ``VmHWM`` does
    not.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def threads() -> int:
    """Return how many threads the libraries may use."""
    if "torch" in sys.modules:
        return int(sys.modules["torch"].get_num_threads())
    return int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)


def processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def circumstances(seed: int | None = 0, packages: Iterable[str] = PACKAGES) -> dict[str, Any]:
    """Return where, when and with what a result was made."""
    versions = {"python": platform.python_version()}
    for name in packages:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "absent"
    return {
        "versions": versions,
        "machine": f"{processor()}, {os.cpu_count()} cores, {platform.system()}",
        "threads": threads(),
        "seed": seed,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def read(path: Path) -> list[dict[str, Any]]:
    """Return the records of a results file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def append(path: Path, record: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as out:
        out.write(json.dumps(record) + "\n")
