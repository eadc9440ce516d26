"""Check and time the CUDA backend on a machine with a GPU.

``PYTHONPATH=src python3 benchmarks/device_ops.py [checks] [timings] [big] [tune] [--shard K/N]``;
writes JSON to ``$OUT`` if set. A shard runs every N-th check only, so that several processes
compile the kernels side by side (``tune`` then compiles its share and times nothing).

Every check draws fresh inputs and fills the memory that the output will reuse with NaN first.
Floor: each double-precision operation counted in `operations`, at one fused multiply-add a cycle
for each of 64 units of each multiprocessor at the clock of `CLOCK` (H200: 132 x 64 x 1.98 GHz =
16.7 T/s); reading and writing the matrix takes less than that everywhere here.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor

from oakgp.ops import additive_kernel, cuda, reference
from oakgp.ops.layout import Kind, Layout, Points, Weights

DEVICE = torch.device("cuda")
CLOCK = 1.98e9
NAMES = ("orders", "scales", "lengthscales", "tables", "left", "right")
TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-4}
MIXED = tuple(Kind)


@dataclass(frozen=True)
class Case:
    """One problem: ``n x m`` (m = None: symmetric), kinds and order."""

    n: int
    m: int | None
    kinds: tuple[Kind, ...]
    order: int
    mandatory: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float64

    @property
    def layout(self) -> Layout:
        d = len(self.kinds)
        sizes = tuple(3 + i if kind == Kind.TABLE else 0 for i, kind in enumerate(self.kinds))
        return Layout(self.kinds, sizes, tuple(i in self.mandatory for i in range(d)), self.order)

    @property
    def pairs(self) -> float:
        """Pairs that have to be computed."""
        return self.n * (self.n + 1) / 2 if self.m is None else self.n * self.m

    def __str__(self) -> str:
        width = "sym" if self.m is None else self.m
        names = "".join(kind.name[0] if len(set(self.kinds)) > 1 else "" for kind in self.kinds)
        forced = f" mandatory {self.mandatory}" if self.mandatory else ""
        kind = names or self.kinds[0].name.lower()
        return (
            f"{self.n} x {width} x {len(self.kinds)} order {self.order} {kind}{forced} "
            f"{str(self.dtype)[6:]}"
        )


def make_points(layout: Layout, n: int, dtype: torch.dtype) -> Points:
    x = torch.randn(layout.n_features, n, device=DEVICE, dtype=torch.float64)
    x[:, ::7] = torch.nan
    for i, size in enumerate(layout.table_sizes):
        if size:
            x[i] = torch.randint(size, (n,), device=DEVICE).double()
    embed = torch.rand(layout.n_features, n, device=DEVICE, dtype=torch.float64)
    return Points(x.to(dtype), embed.to(dtype))


def make_problem(case: Case) -> tuple[Weights, Points, Points | None, Tensor]:
    layout, d = case.layout, len(case.kinds)

    def uniform(size: int) -> Tensor:
        return 0.3 + torch.rand(size, device=DEVICE, dtype=torch.float64)

    blocks = [uniform(size * size).view(size, size) - 0.8 for size in layout.table_sizes]
    tables = torch.cat([(block + block.T).flatten() for block in blocks])
    parts = (uniform(case.order + 1), uniform(d), uniform(d), tables)
    weights = Weights(*(part.to(case.dtype) for part in parts))
    left = make_points(layout, case.n, case.dtype)
    right = None if case.m is None else make_points(layout, case.m, case.dtype)
    cotangent = torch.randn(case.n, case.m or case.n, device=DEVICE, dtype=case.dtype)
    return weights, left, right, cotangent


def truth(
    case: Case, weights: Weights, left: Points, right: Points | None, cotangent: Tensor
) -> tuple[Tensor, ...]:
    """Value and gradient in float64 by the plain torch path, block by block of rows."""
    layout = case.layout

    def double(points: Points) -> Points:
        return Points(points.x.double(), points.embed.double())

    parts = (weights.order_variances, weights.scales, weights.lengthscales, weights.tables)
    copy, u = Weights(*(part.double() for part in parts)), double(left)
    v = None if right is None else double(right)
    value = cuda._plain_value(layout, copy, u, u if v is None else v)
    return value, *cuda._plain_gradient(layout, copy, u, v, cotangent.double())


def poison(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Leave NaN in the block of memory that the next tensor of this shape gets."""
    block = torch.full(shape, torch.nan, dtype=dtype, device=DEVICE)
    del block


def check(case: Case) -> dict[str, Any]:
    layout = case.layout
    weights, left, right, cotangent = make_problem(case)
    want = truth(case, weights, left, right, cotangent)
    poison((case.n, case.m or case.n), case.dtype)
    got = (
        cuda.value(layout, weights, left, right),
        *cuda.gradient(layout, weights, left, right, cotangent),
    )
    again = (
        cuda.value(layout, weights, left, right),
        *cuda.gradient(layout, weights, left, right, cotangent),
    )
    errors = {}
    for name, mine, theirs in zip(("value", *NAMES), got, want, strict=True):
        if theirs.numel():
            size = theirs.abs().max().clamp_min(1e-300)
            errors[name] = float((mine.double() - theirs).abs().max() / size)
    equal = all(torch.equal(a, b) for a, b in zip(got, again, strict=True))
    worst = max(errors.values(), key=lambda e: math.inf if math.isnan(e) else e)
    passed = equal and worst < TOLERANCE[case.dtype]
    print(
        f"{'ok  ' if passed else 'FAIL'} {case}: worst {worst:.1e}, bit-equal {equal}", flush=True
    )
    if not passed:
        print("    ", errors, flush=True)
    return {"case": str(case), "errors": errors, "bit_equal": equal, "passed": passed}


def check_autograd() -> dict[str, Any]:
    """Check the public function: the dispatch, and the double rows of the symmetric case."""
    case = Case(500, None, MIXED, 3)
    weights, left, _, cotangent = make_problem(case)
    scales = weights.scales.requires_grad_()
    matrix = additive_kernel(case.layout, weights, left)
    (got,) = torch.autograd.grad(matrix, scales, cotangent)
    want = truth(case, weights, left, None, cotangent)[2]
    error = float((got - want).abs().max() / want.abs().max())
    print(f"autograd through ops.additive_kernel: {error:.1e}", flush=True)
    return {"case": "autograd", "errors": {"scales": error}, "passed": error < 1e-11}


def median_ms(call: Callable[[], object], budget_s: float = 3.0, most: int = 30) -> float:
    """Median over events around single calls, after two that warm up."""
    call()
    call()
    torch.cuda.synchronize()
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < 3 or (time.perf_counter() - begin < budget_s and len(times) < most):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return statistics.median(times)


def operations(d: int, order: int) -> tuple[int, int]:
    """Double-precision instructions of a pair: value; value and gradient.

    A squared exponential takes 25: gap, power (2), exponential (18), embedding, scale (3). The
    value adds its absorptions. The gradient computes the kernels again and adds the slope (3 a
    feature), the polynomials e_r, the tree's absorptions, 5 a feature for w and the sums, and
    the orders' sums. Recomputing kernels in several launches (more than 9 features) is overhead.
    """
    kernels = 25 * d
    forward = sum(min(k + 1, order) for k in range(d))

    def tree(size: int) -> int:
        if size == 1:
            return 0
        low, high = size // 2, size - size // 2
        steps = sum(min(size - k - 1, order) for absorbed in (low, high) for k in range(absorbed))
        return steps + tree(low) + tree(high)

    gradient = kernels + 3 * d + forward + tree(d) + 5 * d + order + 1
    return kernels + forward, kernels + forward + gradient


def floor_ms(case: Case) -> tuple[float, float]:
    units = 64 * torch.cuda.get_device_properties(0).multi_processor_count
    return tuple(
        1e3 * case.pairs * count / (units * CLOCK)
        for count in operations(len(case.kinds), min(case.order, len(case.kinds)))
    )


def plain_ms(case: Case, rows: int) -> tuple[float, float]:
    """Time the plain torch reference on a block of rows and scale it to the whole matrix."""
    part = Case(rows, case.m or case.n, case.kinds, case.order, case.mandatory, case.dtype)
    weights, left, right, cotangent = make_problem(part)
    assert right is not None

    def value() -> None:
        with torch.no_grad():
            reference.additive_kernel(part.layout, weights, left, right)

    def both() -> None:
        leaves = (weights.scales, weights.lengthscales, weights.order_variances)
        points = (left.embed, right.embed)
        for tensor in (*leaves, *points):
            tensor.requires_grad_()
        matrix = reference.additive_kernel(part.layout, weights, left, right)
        torch.autograd.grad(matrix, (*leaves, *points), cotangent)

    share = case.n / rows
    return median_ms(value, 1.0, 5) * share, median_ms(both, 1.0, 5) * share


def timing(case: Case) -> dict[str, Any]:
    layout = case.layout
    weights, left, right, cotangent = make_problem(case)

    def value() -> Tensor:
        return cuda.value(layout, weights, left, right)

    def both() -> tuple[Tensor, ...]:
        return value(), *cuda.gradient(layout, weights, left, right, cotangent)

    got = (median_ms(value), median_ms(both))
    again = (median_ms(value), median_ms(both))
    peak = torch.cuda.max_memory_allocated()
    width = case.m or case.n
    rows = min(case.n, max(1, 2**29 // (width * len(case.kinds) * (case.order + 4))))
    plain = plain_ms(case, rows)
    result: dict[str, Any] = {"case": str(case), "peak_bytes": peak, "plain_rows": rows}
    for k, what in enumerate(("value", "value+gradient")):
        result[what] = {
            "ms": got[k],
            "ms_again": again[k],
            "gpairs_per_s": case.pairs / got[k] / 1e6,
            "floor_ms": floor_ms(case)[k],
            "plain_ms": plain[k],
        }
    torch.cuda.empty_cache()
    return result


SIZES = (
    {"_VALUE_TILE": 16, "_VALUE_WARPS": 1},
    {"_VALUE_TILE": 16, "_VALUE_WARPS": 2},
    {"_VALUE_TILE": 32, "_VALUE_WARPS": 8},
    {"_FEATURES": 8},
    {"_FEATURES": 9},
    {"_FEATURES": 8, "_TILE_ROWS": 2},
    {"_FEATURES": 8, "_PROGRAMS": 4224},
    {"_FEATURES": 8, "_PROGRAMS": 16896},
    {"_FEATURES": 8, "_SPAN": 256},
)


def tune(case: Case, shard: int | None, shards: int) -> list[dict[str, Any]]:
    """Time tile sizes on one problem; a shard compiles its share on a small one."""
    if shard is not None:
        case = smooth(64, 64, len(case.kinds), case.order)
    layout = case.layout
    weights, left, right, cotangent = make_problem(case)
    results = []
    for k, sizes in enumerate(SIZES):
        if shard is not None and k % shards != shard:
            continue
        kept = {name: getattr(cuda, name) for name in sizes}
        for name, size in sizes.items():
            setattr(cuda, name, size)
        cuda._launches.cache_clear()
        cuda._meta.cache_clear()
        if "_VALUE_TILE" in sizes:
            call = functools.partial(cuda.value, layout, weights, left, right)
        else:
            call = functools.partial(cuda.gradient, layout, weights, left, right, cotangent)
        if shard is None:
            ms = median_ms(call, 0.4, 9)
            results.append({"case": str(case), "sizes": sizes, "ms": ms})
            print(f"  {case}: {sizes} {ms:.3f} ms", flush=True)
        else:
            call()
        for name, size in kept.items():
            setattr(cuda, name, size)
    cuda._launches.cache_clear()
    cuda._meta.cache_clear()
    torch.cuda.synchronize()
    return results


def smooth(n: int, m: int | None, d: int, order: int) -> Case:
    return Case(n, m, (Kind.SQUARED_EXPONENTIAL,) * d, order)


def checks() -> list[Case]:
    cases = [
        Case(n, m, (kind,) * 4, 3, (), dtype)
        for n, m in ((301, None), (129, 257))
        for dtype in TOLERANCE
        for kind in Kind
    ]
    cases += [
        Case(n, m, MIXED * 2, 4, forced, dtype)
        for forced in ((), (2, 11))
        for dtype in TOLERANCE
        for n, m in ((301, None), (1, 300), (300, 1), (417, 203))
    ]
    cases += [
        Case(1000, None, MIXED, 6),
        Case(700, 1300, MIXED, 0),
        Case(700, 1300, (Kind.SQUARED_EXPONENTIAL,) * 18, 16),
        Case(130, 70, (Kind.MATERN52, Kind.TABLE) * 10, 20),
        Case(1000, None, (Kind.SQUARED_EXPONENTIAL,) * 8, 8),
        Case(5000, 3000, MIXED, 3, (1,)),
        Case(3000, None, MIXED * 3, 2, (4,)),
        Case(3001, 2999, (Kind.SQUARED_EXPONENTIAL,) * 18, 2),
        Case(2999, None, (Kind.MATERN32,) * 8, 4),
    ]
    return cases


def print_timings(entries: list[dict[str, Any]]) -> None:
    print(
        f"{'case':54s} {'':14s} {'ms':>9s} {'again':>9s} {'Gp/s':>7s} {'/floor':>7s} {'torch/':>7s}"
    )
    for entry in entries:
        for what in ("value", "value+gradient"):
            t = entry[what]
            print(
                f"{entry['case']:54s} {what:14s} {t['ms']:9.3f} {t['ms_again']:9.3f} "
                f"{t['gpairs_per_s']:7.2f} {t['ms'] / t['floor_ms']:7.2f} "
                f"{t['plain_ms'] / t['ms']:7.1f}"
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["checks", "timings", "big"])
    parser.add_argument("--shard", default="")
    arguments = parser.parse_args()
    shard, shards = None, 1
    if arguments.shard:
        shard, shards = (int(number) for number in arguments.shard.split("/"))
    seed = int.from_bytes(os.urandom(4), "little")
    torch.manual_seed(seed)
    report: dict[str, Any] = {
        "seed": seed,
        "gpu": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": platform.python_version(),
        "numba": importlib.util.find_spec("numba") is not None,
    }
    print(report, flush=True)
    outcomes: list[dict[str, Any]] = []
    if "checks" in arguments.parts:
        outcomes += [check(case) for case in checks()[shard or 0 :: shards]]
        if not shard:
            outcomes.append(check_autograd())
    if "big" in arguments.parts:
        outcomes.append(check_big())
    report["checks"] = outcomes
    if "tune" in arguments.parts:
        problems = [smooth(8192, 8192, 8, 8), smooth(20000, 2000, 18, 2)]
        report["tune"] = [entry for case in problems for entry in tune(case, shard, shards)]
    if "timings" in arguments.parts:
        problems = [
            smooth(1000, 1000, 8, 8),
            smooth(1000, None, 8, 8),
            smooth(8192, 8192, 8, 8),
            smooth(8192, None, 8, 8),
            smooth(20000, 2000, 18, 2),
            smooth(36000, 8192, 8, 4),
            Case(8192, 8192, MIXED, 6),
        ]
        report["timings"] = [timing(case) for case in problems]
        print_timings(report["timings"])
    failed = sum(not outcome["passed"] for outcome in outcomes)
    print(f"{len(outcomes)} checks, {failed} failed", flush=True)
    if os.environ.get("OUT"):
        name = f"device_ops{'' if shard is None else shard}.json"
        Path(os.environ["OUT"], name).write_text(json.dumps(report, indent=1))
    return 1 if failed else 0


def check_big() -> dict[str, Any]:
    """Run 50,000 x 50,000 (20 GB, 2.5e9 entries: beyond 32 bits) and compare its last rows."""
    case = smooth(50000, None, 8, 4)
    layout = case.layout
    weights, left, _, _ = make_problem(case)
    poison((case.n, case.n), case.dtype)
    matrix = cuda.value(layout, weights, left, None)
    unwritten = sum(int(torch.isnan(block).sum()) for block in matrix.split(1000))
    last = torch.arange(case.n - 64, case.n, device=DEVICE)
    want = reference.additive_kernel(layout, weights, left.take(last), left)
    error = float((matrix[last] - want).abs().max() / want.abs().max())
    mirrored = bool(torch.equal(matrix[last], matrix[:, last].T))
    value_ms = median_ms(lambda: cuda.value(layout, weights, left, None), 2.0, 5)
    del matrix
    # A cotangent that is 0 but for the last rows: the gradient is that of those rows alone.
    cotangent = torch.zeros(case.n, case.n, dtype=case.dtype, device=DEVICE)
    cotangent[last] = torch.randn(64, case.n, dtype=case.dtype, device=DEVICE)
    got = cuda.gradient(layout, weights, left, None, cotangent)
    part = cuda._plain_gradient(layout, weights, left.take(last), left, cotangent[last])
    want_left = part[5].clone()
    want_left[:, last] += part[4]
    wants = (*part[:3], want_left)
    gots = (*got[:3], got[4])
    errors = [float((a - b).abs().max() / b.abs().max()) for a, b in zip(gots, wants, strict=True)]
    gradient_ms = median_ms(lambda: cuda.gradient(layout, weights, left, None, cotangent), 2.0, 3)
    result = {
        "case": str(case),
        "value_error": error,
        "gradient_errors": errors,
        "unwritten": unwritten,
        "mirrored": mirrored,
        "value_ms": value_ms,
        "gradient_ms": gradient_ms,
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "passed": max(error, *errors) < 1e-11 and unwritten == 0 and mirrored,
    }
    print("big", result, flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
