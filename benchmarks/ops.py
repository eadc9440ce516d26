"""The fused kernel on the CPU beside the plain torch reference and ``numpy.exp``.

    python -m benchmarks.ops --out results.json

1000 x 1000 pairs, 8 features, all 8 orders, float64: value and gradient by every parameter. All
contestants but the reference take turns, so that a busy machine slows them alike; medians of CPU
time (all threads) over the rounds are compared. ``numpy.exp`` is given the 8 million numbers that
a straightforward kernel would exponentiate.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import torch

from benchmarks.records import circumstances, peak_mb, timed
from oakgp import ops
from oakgp.ops import reference
from oakgp.ops.layout import Kind, Layout, Points, Weights

N, D = 1000, 8
REST = 0.3  # seconds before each call: threads of the last one spin for a while and take a core


def problem(n: int, d: int, order: int) -> tuple[Layout, Weights, Points]:
    """Return a problem with every parameter asking for its gradient."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64)

    layout = Layout((Kind.SQUARED_EXPONENTIAL,) * d, (0,) * d, (False,) * d, order)
    weights = Weights(
        draw(order + 1).requires_grad_(),
        (0.5 + draw(d)).requires_grad_(),
        (0.5 + draw(d)).requires_grad_(),
        torch.zeros(0, dtype=torch.float64),
    )
    x = torch.randn(d, n, generator=generator, dtype=torch.float64)
    return layout, weights, Points(x, (0.5 * draw(d, n)).requires_grad_())


def contestants() -> dict[str, Callable[[], object]]:
    """Return what is timed."""
    layout, weights, points = problem(N, D, D)
    other = Points(points.x.clone(), points.embed.detach().clone().requires_grad_())
    leaves = [weights.order_variances, weights.scales, weights.lengthscales, points.embed]
    cotangent = torch.randn(N, N, dtype=torch.float64)
    numbers = -np.abs(np.random.default_rng(0).standard_normal(N * N * D))
    out = np.empty_like(numbers)

    def gradient(matrix: torch.Tensor) -> object:
        return torch.autograd.grad(matrix, leaves, cotangent)

    def value(right: Points | None) -> torch.Tensor:
        with torch.no_grad():
            return ops.additive_kernel(layout, weights, points, right)

    return {
        "numpy.exp": lambda: np.exp(numbers, out=out),
        "value": lambda: value(other),
        "value and gradient": lambda: gradient(ops.additive_kernel(layout, weights, points, other)),
        "value, symmetric": lambda: value(None),
        "value and gradient, symmetric": lambda: gradient(
            ops.additive_kernel(layout, weights, points)
        ),
        "reference, value and gradient": lambda: gradient(
            reference.additive_kernel(layout, weights, points, points)
        ),
    }


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Return median wall and CPU time of each contestant and its CPU time in ``numpy.exp``s."""
    calls = contestants()
    for call in reversed(calls.values()):  # compiles, warms up
        call()
    walls: dict[str, list[float]] = {name: [] for name in calls}
    cpus: dict[str, list[float]] = {name: [] for name in calls}
    # The reference by itself: the memory it leaves is given back at the cost of whoever frees next.
    last = [name for name in calls if name.startswith("reference")]
    for group in ([name for name in calls if name not in last], last):
        for _ in range(rounds):
            for name in group:
                gc.collect()
                sleep(REST)
                result, time = timed(calls[name])
                del result
                walls[name].append(time.wall)
                cpus[name].append(time.cpu)
    unit = statistics.median(cpus["numpy.exp"])
    return {
        name: {
            "wall_s": statistics.median(walls[name]),
            "cpu_s": statistics.median(cpus[name]),
            "cpu_in_exps": statistics.median(cpus[name]) / unit,
        }
        for name in calls
    }


def memory() -> dict[str, float]:
    """Return the growth of peak memory, in matrices of n x n, over one value and gradient."""
    n, d = 3000, 16
    layout, weights, points = problem(n, d, 4)
    before = peak_mb()
    matrix = ops.additive_kernel(layout, weights, points)
    torch.autograd.grad(matrix.sum(), [weights.lengthscales, points.embed])
    grown = (peak_mb() - before) * 2**20
    return {"rows": n, "features": d, "matrices": grown / (8 * n * n)}


def main() -> None:
    """Parse the command line, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    result: dict[str, Any] = {"memory": memory(), "times": measure(arguments.rounds)}
    times = result["times"]
    for name, row in times.items():
        print(
            f"{name:32s} wall {1e3 * row['wall_s']:7.1f} ms  CPU {1e3 * row['cpu_s']:7.1f} ms"
            f"  = {row['cpu_in_exps']:6.2f} numpy.exp"
        )
    slow = times["reference, value and gradient"]
    for name in ("value and gradient", "value and gradient, symmetric"):
        wall, cpu = (slow[key] / times[name][key] for key in ("wall_s", "cpu_s"))
        print(f"{name}: {wall:.1f} times faster than the reference (CPU time {cpu:.1f})")
    held = result["memory"]
    print(f"memory at {held['features']} features: {held['matrices']:.1f} matrices of n x n")
    if arguments.out:
        result |= circumstances()
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
