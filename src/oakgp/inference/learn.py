"""Learning the hyperparameters: cheap starts on few rows, then polishing on more.

The evidence of a few hundred rows already tells which basin of attraction is the good one; the
last iterations, on all rows (or through the sparse bound), place the optimum in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp.inference import exact, sparse
from oakgp.inference.data import TrainingData
from oakgp.inference.inducing import greedy_inducing
from oakgp.inference.optimize import Optimum, minimise
from oakgp.inference.space import ParameterSpace
from oakgp.kernels.additive import Parameters
from oakgp.posterior import Posterior

Array = NDArray[np.float64]
Objective = Callable[[TrainingData, Tensor], Tensor]


@dataclass(frozen=True)
class Schedule:
    """How much work goes into which stage.

    Parameters
    ----------
    start_rows
        Rows on which transforms are compared and the rival starts are followed.
    middle_rows
        Rows of the main run.
    exact_rows
        Largest number of distinct rows for which ``engine="auto"`` means the exact engine.
    start
        Starting lengthscale and noise variance of the main run.
    rivals
        The same for rival starts: rough and smooth.
    trial_iterations
        Iterations of a trial.
    rival_iterations
        Iterations of a rival on few rows.
    max_iterations
        Iterations of the main run.
    final_iterations
        Iterations on all rows when there are more than in the main run.
    sparse_rows, sparse_iterations
        Rows and iterations of the sparse bound's first run, before inducing points are chosen anew.
    polish_rows
        Rows of its last run, over ``final_iterations``.
    tolerance
        A run ends when an iteration gains less than this many nats per thousand rows.
    """

    start_rows: int = 300
    middle_rows: int = 1000
    exact_rows: int = 2000
    start: tuple[float, float] = (1.0, 0.1)
    rivals: tuple[tuple[float, float], ...] = ((0.5, 0.01), (2.0, 0.03))
    trial_iterations: int = 10
    rival_iterations: int = 50
    max_iterations: int = 120
    final_iterations: int = 8
    sparse_rows: int = 5000
    sparse_iterations: int = 25
    polish_rows: int = 20_000
    tolerance: float = 2e-2


@dataclass(frozen=True)
class Learned:
    """What learning found.

    Parameters
    ----------
    posterior
        Posterior given all rows.
    engine
        ``"exact"`` or ``"sparse"``.
    log_evidence
        Log evidence (exact) or its bound (sparse) of the rows of the last stage, without priors.
    evidence_rows
        How many rows that was.
    converged
        Whether the last run on at least the middle stage's rows ended by its tolerance.
    n_evaluations
        Value-and-gradient calls over all stages.
    jitter
        Relative jitter the final factorisation needed.
    n_inducing
        Inducing points; 0 for the exact engine.
    """

    posterior: Posterior
    engine: str
    log_evidence: float
    evidence_rows: int
    converged: bool
    n_evaluations: int
    jitter: float
    n_inducing: int


def _subset(data: TrainingData, count: int, seed: int) -> TrainingData:
    if data.n <= count:
        return data
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(data.n, generator=generator)[:count].sort().values
    return data.take(rows.to(data.y.device))


class Learner:
    """Runs the stages for one model and one data set.

    Parameters
    ----------
    space
        The hyperparameters and their priors.
    data
        All rows.
    schedule
        Amounts of work.
    seed
        Of subsets and random starts.
    """

    def __init__(
        self, space: ParameterSpace, data: TrainingData, schedule: Schedule, seed: int
    ) -> None:
        self.space, self.data, self.schedule, self.seed = space, data, schedule, seed
        self.n_evaluations = 0

    def _run(
        self, value: Callable[[Parameters], Tensor], start: Array, n: int, iters: int
    ) -> Optimum:
        space = self.space

        def objective(theta: Tensor) -> Tensor:
            parameters = space.unpack(theta)
            return value(parameters) - space.log_prior(parameters)

        optimum = minimise(
            objective,
            start,
            space.limits(),
            max_iter=iters,
            tolerance=self.schedule.tolerance * max(n, 50) / 1000.0,
            device=self.data.y.device,
            dtype=self.data.y.dtype,
        )
        self.n_evaluations += optimum.n_evaluations
        return optimum

    def run_exact(self, rows: TrainingData, start: Array, iterations: int) -> Optimum:
        """Improve a vector by the exact evidence of some rows."""
        kernel = self.space.kernel
        return self._run(
            lambda p: exact.negative_evidence(kernel, p, rows), start, rows.n, iterations
        )

    def run_sparse(
        self, rows: TrainingData, inducing: Tensor, start: Array, iterations: int
    ) -> Optimum:
        """Improve a vector by the sparse bound of some rows."""
        kernel = self.space.kernel
        return self._run(
            lambda p: sparse.negative_bound(kernel, p, rows, inducing), start, rows.n, iterations
        )

    def trial(self) -> Optimum:
        """Follow the main start for a few iterations on few rows: to compare transforms."""
        rows = _subset(self.data, self.schedule.start_rows, self.seed)
        return self.run_exact(
            rows, self._start(self.schedule.start), self.schedule.trial_iterations
        )

    def _start(self, pair: tuple[float, float]) -> Array:
        length, noise = pair
        return self.space.start(length, noise, self.seed)

    def main_run(self) -> Optimum:
        """Converge from the main start; restart from a rival's optimum if it promises more.

        Rivals are followed on few rows; one evaluation on the main run's rows tells whether the
        first optimum was a poor one.
        """
        few = _subset(self.data, self.schedule.start_rows, self.seed)
        rows = _subset(self.data, self.schedule.middle_rows, self.seed + 1)
        limit = self.schedule.max_iterations
        best = self.run_exact(rows, self._start(self.schedule.start), limit)
        for pair in self.schedule.rivals:
            rival = self.run_exact(few, self._start(pair), self.schedule.rival_iterations)
            promise = rival if rows.n == few.n else self.run_exact(rows, rival.theta, 1)
            if promise.value < best.value:
                rival = self.run_exact(rows, promise.theta, limit)
                best = min(best, rival, key=lambda optimum: optimum.value)
        return best

    def learn(self, engine: str, n_inducing: int) -> Learned:
        """Run all stages and return the posterior given all rows.

        Parameters
        ----------
        engine
            ``"exact"``, ``"sparse"``, or ``"auto"`` by the number of distinct rows.
        n_inducing
            Inducing points of the sparse engine.
        """
        optimum = self.main_run()
        if engine == "auto":
            engine = "exact" if self.data.n <= self.schedule.exact_rows else "sparse"
        if engine == "exact":
            return self._finish_exact(optimum)
        return self._finish_sparse(optimum, n_inducing)

    def _parameters(self, theta: Array) -> Parameters:
        data = self.data
        tensor = torch.tensor(theta, dtype=data.y.dtype, device=data.y.device)
        return self.space.unpack(tensor)

    def _finish_exact(self, optimum: Optimum) -> Learned:
        data = self.data
        converged = optimum.converged
        if data.n > self.schedule.middle_rows:
            optimum = self.run_exact(data, optimum.theta, self.schedule.final_iterations)
        parameters = self._parameters(optimum.theta)
        posterior, jitter = exact.posterior(self.space.kernel, parameters, data)
        evidence = -optimum.value - float(self.space.log_prior(parameters))
        return Learned(
            posterior, "exact", evidence, data.n, converged, self.n_evaluations, jitter, 0
        )

    def _finish_sparse(self, optimum: Optimum, n_inducing: int) -> Learned:
        kernel, schedule, data = self.space.kernel, self.schedule, self.data
        converged = optimum.converged
        stages = [(schedule.polish_rows, schedule.final_iterations)]
        if data.n > schedule.sparse_rows:
            stages.insert(0, (schedule.sparse_rows, schedule.sparse_iterations))
        for count, iterations in stages:  # inducing points follow the hyperparameters
            rows = _subset(data, count, self.seed + 2)
            inducing = greedy_inducing(
                kernel, self._parameters(optimum.theta), rows.x, n_inducing, self.seed
            )
            optimum = self.run_sparse(rows, inducing, optimum.theta, iterations)
        parameters = self._parameters(optimum.theta)
        inducing = greedy_inducing(kernel, parameters, data.x, n_inducing, self.seed)
        posterior, jitter = sparse.posterior(kernel, parameters, data, inducing)
        evidence = -optimum.value - float(self.space.log_prior(parameters))
        return Learned(
            posterior,
            "sparse",
            evidence,
            rows.n,
            converged,
            self.n_evaluations,
            jitter,
            len(inducing),
        )
