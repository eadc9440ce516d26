"""Learning the hyperparameters: cheap starts on few rows, then polishing on more.

The evidence of a few hundred rows already tells which basin of attraction is the good one; the
last iterations, on all rows (or through the sparse bound), place the optimum in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

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
from oakgp.ops.threads import threads_for
from oakgp.posterior import Posterior

Array = NDArray[np.float64]

_AHEAD = 1.0  # nats by which a further start must lead


@dataclass(frozen=True)
class Schedule:
    """How much work goes into which stage.

    Parameters
    ----------
    start_rows
        Rows on which transforms are compared.
    exact_rows
        Largest number of distinct rows for which ``engine="auto"`` means the exact engine, and for
        which the main run sees them all.
    middle_rows
        Rows of the main run when there are more.
    starts
        Lengthscale and noise variance of each start; transforms are compared from the first.
    trial_iterations
        Iterations of that comparison.
    race_iterations
        Iterations from each further start, which goes on only if it is ahead of the best so far
        at that iteration.
    max_iterations
        Iterations of the main run, and of the last one when that has more rows; no run has more.
    sparse_rows, sparse_iterations
        Rows and iterations of the sparse bound's first run, before inducing points are chosen anew.
    polish_rows
        Rows of its last run.
    tolerance
        A run ends when an iteration gains less than this many nats, or, beyond a thousand rows,
        this many per thousand rows.
    """

    start_rows: int = 300
    exact_rows: int = 2000
    middle_rows: int = 1000
    starts: tuple[tuple[float, float], ...] = ((0.5, 0.01), (1.0, 0.1), (2.0, 0.03))
    trial_iterations: int = 10
    race_iterations: int = 15
    max_iterations: int = 120
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
        Whether the last run ended by its tolerance.
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

        with threads_for(n):
            optimum = minimise(
                objective,
                start,
                space.limits(),
                max_iter=min(iters, self.schedule.max_iterations),
                tolerance=self.schedule.tolerance * max(n, 1000) / 1000.0,
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
        """Follow the first start for a few iterations on few rows: to compare transforms."""
        rows = _subset(self.data, self.schedule.start_rows, self.seed)
        start = self._start(self.schedule.starts[0])
        return self.run_exact(rows, start, self.schedule.trial_iterations)

    def _start(self, pair: tuple[float, float]) -> Array:
        length, noise = pair
        return self.space.start(length, noise, self.seed)

    def main_run(self, trial: Optimum | None = None) -> Optimum:
        """Converge from the first start, and from any other that gets ahead of it on the way.

        All starts are followed on the main run's rows: with fewer, a simple function that misses
        the finer structure has the better evidence, and the run would stay there.
        """
        rows = self._main_rows()
        first, *others = (self._start(pair) for pair in self.schedule.starts)
        if trial is None or rows.n > self.schedule.start_rows:
            best = self.run_exact(rows, first, self.schedule.max_iterations)
        else:  # the trial saw the same rows
            best = self._go_on(rows, trial)
        for start in others:
            end = self.run_exact(rows, start, self.schedule.race_iterations)
            if end.value < best.path[min(len(end.path), len(best.path)) - 1] - _AHEAD:
                end = self._go_on(rows, end)
            best = min(best, end, key=lambda optimum: optimum.value)
        return best

    def _main_rows(self) -> TrainingData:
        if self.data.n <= self.schedule.exact_rows:
            return self.data
        return _subset(self.data, self.schedule.middle_rows, self.seed + 1)

    def _go_on(self, rows: TrainingData, begun: Optimum) -> Optimum:
        rest = self.run_exact(rows, begun.theta, self.schedule.max_iterations)
        return replace(rest, path=begun.path + rest.path[1:])

    def learn(self, engine: str, n_inducing: int, trial: Optimum | None = None) -> Learned:
        """Run all stages and return the posterior given all rows.

        Parameters
        ----------
        engine
            ``"exact"``, ``"sparse"``, or ``"auto"`` by the number of distinct rows.
        n_inducing
            Inducing points of the sparse engine.
        trial
            Where `trial` ended, to go on from there.
        """
        optimum = self.main_run(trial)
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
        if data.n > self._main_rows().n:
            optimum = self.run_exact(data, optimum.theta, self.schedule.max_iterations)
        parameters = self._parameters(optimum.theta)
        posterior, jitter = exact.posterior(self.space.kernel, parameters, data)
        evidence = -optimum.value - float(self.space.log_prior(parameters))
        return Learned(
            posterior,
            "exact",
            evidence,
            data.n,
            optimum.converged,
            self.n_evaluations,
            jitter,
            0,
        )

    def _finish_sparse(self, optimum: Optimum, n_inducing: int) -> Learned:
        kernel, schedule, data = self.space.kernel, self.schedule, self.data
        few = _subset(data, schedule.sparse_rows, self.seed + 2)
        # What the exact evidence of some rows favours may be more than the inducing points can
        # carry, so plain starts compete with it under the bound.
        starts = [optimum.theta, *(self._start(pair) for pair in schedule.starts[:1])]
        ends = [
            self._sparse_stage(few, theta, n_inducing, schedule.trial_iterations)
            for theta in starts
        ]
        optimum = min(ends, key=lambda end: end.value)
        rows, stages = few, [schedule.sparse_iterations]
        if data.n > few.n:
            stages.append(schedule.max_iterations)
        for iterations in stages:  # inducing points follow the hyperparameters
            optimum = self._sparse_stage(rows, optimum.theta, n_inducing, iterations)
            rows = _subset(data, schedule.polish_rows, self.seed + 2)
        parameters = self._parameters(optimum.theta)
        inducing = greedy_inducing(kernel, parameters, data.x, n_inducing, self.seed)
        posterior, jitter = sparse.posterior(kernel, parameters, data, inducing)
        evidence = -optimum.value - float(self.space.log_prior(parameters))
        return Learned(
            posterior,
            "sparse",
            evidence,
            rows.n,
            optimum.converged,
            self.n_evaluations,
            jitter,
            len(inducing),
        )

    def _sparse_stage(
        self, rows: TrainingData, theta: Array, n_inducing: int, iterations: int
    ) -> Optimum:
        """Choose inducing points, set the noise they call for, and improve the vector."""
        kernel, space = self.space.kernel, self.space
        parameters = self._parameters(theta)
        inducing = greedy_inducing(kernel, parameters, rows.x, n_inducing, self.seed)
        noise = sparse.best_noise(kernel, parameters, rows, inducing, space.bounds.noise)
        start = space.pack(replace(parameters, noise=parameters.noise.new_tensor(noise)))
        return self.run_sparse(rows, inducing, start, iterations)
