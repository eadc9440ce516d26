"""Exact regression with as many rows as a GPU holds: kin40k, 36,000 training rows, order 8.

    PYTHONPATH=src python3 benchmarks/device_exact.py FOLDER [--rows 36000] [--iterations 12]

FOLDER holds kin40k.csv.gz. Learns on a subsample, polishes by the exact evidence of all rows in
float64, and reports times, peak memory and the test error; writes JSON to ``$OUT`` if set. Uses the
model's parts, not the estimator, so that it runs where scikit-learn or narwhals are missing.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import torch

from oakgp.flows import FLOWS
from oakgp.inference import exact
from oakgp.inference.data import TrainingData
from oakgp.inference.engines import Regression
from oakgp.inference.learn import Learner, Schedule
from oakgp.inference.optimize import minimise
from oakgp.inference.space import ParameterSpace
from oakgp.kernels import SquaredExponential
from oakgp.kernels.additive import AdditiveKernel
from oakgp.kernels.constrained import Feature
from oakgp.kernels.terms import term_set
from oakgp.measures import fit_measure
from oakgp.sensitivity import sobol_totals


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=36_000)
    parser.add_argument("--order", type=int, default=8)
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    values = np.loadtxt(arguments.folder / "kin40k.csv.gz", delimiter=",", skiprows=1)
    x, y = values[:, :-1], values[:, -1]
    y = (y - y.mean()) / y.std()
    order = np.arange(len(y))
    np.random.RandomState(0).shuffle(order)
    cut = int(0.9 * len(y))
    train, test = order[:cut][: arguments.rows], order[cut:]

    features, columns = [], []
    for j in range(x.shape[1]):
        flow = FLOWS["normal_score"].fit(x[train, j], np.ones(len(train)))
        columns.append(flow.forward(x[:, j]))
        measure = fit_measure("empirical", columns[-1][train])
        features.append(Feature(f"x{j}", SquaredExponential(), measure))
    kernel = AdditiveKernel(tuple(features), term_set(len(features), arguments.order))
    space = ParameterSpace(kernel, learn_scales=True)
    rows = torch.from_numpy(np.array(columns))
    data = TrainingData(
        rows[:, torch.from_numpy(train)].contiguous(),
        torch.from_numpy(y[train]),
        torch.ones(len(train), dtype=torch.float64),
        0.0,
    ).to(arguments.device, torch.float64)
    unseen = rows[:, torch.from_numpy(test)].to(arguments.device)

    def seconds(since: float) -> float:
        torch.cuda.synchronize()
        return time.perf_counter() - since

    result: dict[str, object] = {"rows": len(train), "gpu": torch.cuda.get_device_name(0)}
    engine = Regression(space, data)
    learner = Learner(engine, Schedule(middle_rows=4000), 0)
    begin = time.perf_counter()
    optimum = learner.main_run().optimum
    result["learn_s"] = seconds(begin)

    torch.cuda.reset_peak_memory_stats()
    theta = torch.tensor(optimum.theta, device=arguments.device, requires_grad=True)
    for name in ("first_evaluation_s", "evaluation_s"):
        begin = time.perf_counter()
        value = exact.negative_evidence(kernel, space.unpack(theta), data)
        torch.autograd.grad(value, theta)
        result[name] = seconds(begin)
    begin = time.perf_counter()
    optimum = minimise(
        engine.objective(),
        optimum.theta,
        engine.limits(),
        max_iter=arguments.iterations,
        tolerance=2e-2 * len(train) / 1000.0,
        device=data.y.device,
    )
    result["polish_s"] = seconds(begin)
    result["evidence_per_row"] = -optimum.value / len(train)

    begin = time.perf_counter()
    parameters = space.unpack(torch.tensor(optimum.theta, device=arguments.device))
    posterior, jitter = exact.posterior(kernel, parameters, data)
    result["posterior_s"] = seconds(begin)
    begin = time.perf_counter()
    mean, variance = posterior.mean_and_variance(unseen)
    result["predict_s"] = seconds(begin)
    residual = torch.from_numpy(y[test]).to(mean) - mean
    spread = variance + posterior.noise
    result["jitter"] = jitter
    result["rmse"] = float(residual.square().mean().sqrt())
    result["loglik"] = float(
        (-0.5 * (torch.log(2 * torch.pi * spread) + residual**2 / spread)).mean()
    )
    result["peak_gb"] = torch.cuda.max_memory_allocated() / 1e9
    begin = time.perf_counter()
    totals = sobol_totals(posterior)
    result["sobol_totals_s"] = seconds(begin)
    result["order_shares"] = (totals.orders / totals.orders.sum()).tolist()
    result["noise"] = posterior.noise
    result["lengthscales"] = parameters.lengthscales.tolist()
    print(json.dumps(result, indent=1))
    if os.environ.get("OUT"):
        Path(os.environ["OUT"], "device_exact.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
