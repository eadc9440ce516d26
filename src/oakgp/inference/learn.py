"""Learning the hyperparameters: cheap starts on few rows, then polishing on more.

The evidence of a few hundred rows already tells which basin of attraction is the good one; the
last iterations, on all rows (or through the sparse bound), place the optimum in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp.inference.engines import Engine, Fitted, Objective, Variational
from oakgp.inference.optimize import Optimum, minimise
from oakgp.inference.stochastic.hyperparameters import Pace
from oakgp.ops.threads import threads_for
from oakgp.progress import step

Array = NDArray[np.float64]
E = TypeVar("E", bound=Engine)

_AHEAD = 1.0  # nats by which a further start must lead
_BATCHES = 2  # of the stochastic engine, for each iteration that is allowed


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
    finish_races
        Whether a further start that ends its race ahead, but not by enough to go on at once, goes
        on after all others have had their turn.
    full_batch_rows
        Largest number of rows for which ``engine="auto"`` means the sparse engine where sites are
        iterated, and not minibatches.
    pace
        How minibatches are followed.
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
    finish_races: bool = False
    full_batch_rows: int = 50_000
    pace: Pace = field(default_factory=Pace)

    def for_latents(self, count: int) -> Schedule:
        """Return the schedule for a likelihood with so many latent functions.

        Where sites are iterated, an evaluation takes several factorisations for each of them.
        """
        rows = 1000 if count == 1 else 700
        return replace(
            self,
            exact_rows=min(self.exact_rows, rows),
            middle_rows=min(self.middle_rows, rows),
            sparse_rows=min(self.sparse_rows, 3000),
            polish_rows=min(self.polish_rows, 10_000),
            finish_races=True,
        )


@dataclass(frozen=True)
class Learned:
    """What learning found.

    Parameters
    ----------
    fitted
        Posterior given all rows, and the likelihood's parameters.
    engine
        ``"exact"``, ``"sparse"`` or ``"stochastic"``.
    log_evidence
        Log evidence (exact) or its bound (else) of the rows of the last stage, without priors.
    evidence_rows
        How many rows that was.
    converged
        Whether the last run ended by its tolerance, and the posterior was found.
    n_evaluations
        Value-and-gradient calls over all stages.
    n_inducing
        Inducing points; 0 for the exact engine.
    """

    fitted: Fitted
    engine: str
    log_evidence: float
    evidence_rows: int
    converged: bool
    n_evaluations: int
    n_inducing: int


def _subset(engine: E, count: int, seed: int) -> E:
    """Return the engine of so many random rows, or the engine itself when it has no more."""
    if engine.n <= count:
        return engine
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(engine.n, generator=generator)[:count].sort().values
    return engine.take(rows.to(engine.x.device))


@dataclass(frozen=True, eq=False)
class Run:
    """A run of the optimiser and the objective it left behind.

    Parameters
    ----------
    optimum
        Where it ended.
    objective
        What it minimised; a run that goes on over the same rows can begin with its state.
    """

    optimum: Optimum
    objective: Objective


class Learner(Generic[E]):
    """Runs the stages for one model and one data set.

    Parameters
    ----------
    engine
        Model and all rows.
    schedule
        Amounts of work.
    seed
        Of subsets and random starts.
    """

    def __init__(self, engine: E, schedule: Schedule, seed: int) -> None:
        self.engine, self.schedule, self.seed = engine, schedule, seed
        self.n_evaluations = 0

    def _run(
        self,
        rows: E,
        start: Array,
        iters: int,
        inducing: Tensor | None = None,
        after: Objective | None = None,
    ) -> Run:
        """Improve a vector by the exact evidence, or the sparse bound, of some rows."""
        objective = rows.objective(inducing, after)
        with threads_for(rows.n):
            optimum = minimise(
                objective,
                start,
                rows.limits(),
                max_iter=min(iters, self.schedule.max_iterations),
                tolerance=self.schedule.tolerance * max(rows.n, 1000) / 1000.0,
                device=rows.x.device,
                dtype=rows.x.dtype,
            )
        self.n_evaluations += optimum.n_evaluations
        return Run(optimum, objective)

    def trial(self) -> Run:
        """Follow the first start for a few iterations on few rows: to compare transforms."""
        rows = _subset(self.engine, self.schedule.start_rows, self.seed)
        start = self._start(self.schedule.starts[0])
        with step("trying a transform"):
            return self._run(rows, start, self.schedule.trial_iterations)

    def _start(self, pair: tuple[float, float]) -> Array:
        length, noise = pair
        return self.engine.start(length, noise, self.seed)

    def main_run(self, trial: Run | None = None) -> Run:
        """Converge from the first start, and from any other that gets ahead of it on the way.

        All starts are followed on the main run's rows: with fewer, a simple function that misses
        the finer structure has the better evidence, and the run would stay there.
        """
        rows = self.main_rows()
        first, *others = (self._start(pair) for pair in self.schedule.starts)
        if trial is None or rows.n > self.schedule.start_rows:
            best = self._run(rows, first, self.schedule.max_iterations)
        else:  # the trial saw the same rows
            best = self._go_on(rows, trial)
        for start in others:
            end = self._run(rows, start, self.schedule.race_iterations)
            path, other = end.optimum.path, best.optimum.path
            if end.optimum.value < other[min(len(path), len(other)) - 1] - _AHEAD:
                end = self._go_on(rows, end)
            best = min(best, end, key=lambda run: run.optimum.value)
        short = (
            not best.optimum.converged
            and len(best.optimum.path) <= self.schedule.race_iterations + 1
        )
        if self.schedule.finish_races and short:
            best = self._go_on(rows, best)
        return best

    def main_rows(self) -> E:
        """Return the rows of the main run."""
        if self.engine.n <= self.schedule.exact_rows:
            return self.engine
        return _subset(self.engine, self.schedule.middle_rows, self.seed + 1)

    def _go_on(self, rows: E, begun: Run) -> Run:
        rest = self._run(
            rows, begun.optimum.theta, self.schedule.max_iterations, after=begun.objective
        )
        path = begun.optimum.path + rest.optimum.path[1:]
        return replace(rest, optimum=replace(rest.optimum, path=path))

    def learn(self, engine: str, n_inducing: int, trial: Run | None = None) -> Learned:
        """Run all stages and return the posterior given all rows.

        Parameters
        ----------
        engine
            ``"exact"``, ``"sparse"``, ``"stochastic"`` (of `Variational`), or ``"auto"`` by the
            number of distinct rows.
        n_inducing
            Inducing points of the last two.
        trial
            Where `trial` ended, to go on from there.
        """
        with step("learning hyperparameters"):
            run = self.main_run(trial)
        if engine == "auto":
            engine = self._engine()
        if engine == "exact":
            with step("conditioning on all rows"):
                return self._finish_exact(run)
        if engine == "stochastic":
            with step("learning from minibatches"):
                return self._finish_stochastic(run.optimum, n_inducing)
        with step("learning with inducing points"):
            return self._finish_sparse(run.optimum, n_inducing)

    def _engine(self) -> str:
        """Return what ``"auto"`` stands for."""
        if self.engine.n <= self.schedule.exact_rows:
            return "exact"
        iterated = isinstance(self.engine, Variational)
        return (
            "stochastic" if iterated and self.engine.n > self.schedule.full_batch_rows else "sparse"
        )

    def _finish_exact(self, run: Run) -> Learned:
        if self.engine.n > self.main_rows().n:
            run = self._run(self.engine, run.optimum.theta, self.schedule.max_iterations)
        return self._learned(run, "exact", self.engine.n, None)

    def _finish_sparse(self, optimum: Optimum, n_inducing: int) -> Learned:
        schedule = self.schedule
        few, run = self._first_sparse(optimum, n_inducing)
        rows, stages = few, [schedule.sparse_iterations]
        if self.engine.n > few.n:
            stages.append(schedule.max_iterations)
        for iterations in stages:  # inducing points follow the hyperparameters
            run = self._sparse_stage(rows, run.optimum.theta, n_inducing, iterations, run.objective)
            rows = _subset(self.engine, schedule.polish_rows, self.seed + 2)
        inducing = self.engine.choose_inducing(run.optimum.theta, n_inducing, self.seed)
        return self._learned(run, "sparse", rows.n, inducing)

    def _finish_stochastic(self, optimum: Optimum, n_inducing: int) -> Learned:
        """Learn under the sparse bound of few rows, then from minibatches of all."""
        if not isinstance(self.engine, Variational):
            raise TypeError("minibatches need the variational engine, whose rows have sites")
        few, run = self._first_sparse(optimum, n_inducing)
        run = self._sparse_stage(
            few, run.optimum.theta, n_inducing, self.schedule.sparse_iterations, run.objective
        )
        fitted, found = self.engine.learn_in_batches(
            run.optimum.theta,
            n_inducing,
            tolerance=self.schedule.tolerance,
            seed=self.seed,
            pace=replace(self.schedule.pace, max_steps=_BATCHES * self.schedule.max_iterations),
        )
        return Learned(
            fitted,
            "stochastic",
            found.conditioned.bound,
            self.engine.n,
            found.course.converged and fitted.converged,
            self.n_evaluations + found.course.n_steps,
            found.n_inducing,
        )

    def _first_sparse(self, optimum: Optimum, n_inducing: int) -> tuple[E, Run]:
        """Return few rows and the start that the sparse bound of these prefers."""
        schedule = self.schedule
        few = _subset(self.engine, schedule.sparse_rows, self.seed + 2)
        # What the exact evidence of some rows favours may be more than the inducing points can
        # carry, so plain starts compete with it under the bound.
        starts = [optimum.theta, *(self._start(pair) for pair in schedule.starts[:1])]
        ends = [
            self._sparse_stage(few, theta, n_inducing, schedule.trial_iterations)
            for theta in starts
        ]
        return few, min(ends, key=lambda end: end.optimum.value)

    def _sparse_stage(
        self,
        rows: E,
        theta: Array,
        n_inducing: int,
        iterations: int,
        after: Objective | None = None,
    ) -> Run:
        """Choose inducing points, make the vector fit for them, and improve it."""
        inducing = rows.choose_inducing(theta, n_inducing, self.seed)
        start = rows.before_sparse(theta, inducing)
        return self._run(rows, start, iterations, inducing, after)

    def _learned(
        self, run: Run, engine: str, evidence_rows: int, inducing: Tensor | None
    ) -> Learned:
        optimum = run.optimum
        fitted = self.engine.finish(optimum.theta, inducing, run.objective)
        return Learned(
            fitted,
            engine,
            -optimum.value - self.engine.log_prior(optimum.theta),
            evidence_rows,
            optimum.converged and fitted.converged,
            self.n_evaluations,
            0 if inducing is None else len(inducing),
        )
