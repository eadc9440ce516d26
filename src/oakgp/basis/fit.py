"""Fitting a basis model: which terms, which hyperparameters, and the posterior given all rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from oakgp.basis.functions import feature_basis
from oakgp.basis.layout import BasisLayout, TermColumns
from oakgp.basis.learn import BasisLearner, State, collect, laplace_evidence, solve
from oakgp.basis.passes import moments
from oakgp.basis.posterior import BasisPosterior
from oakgp.basis.rows import InMemory, Rows, RowSource
from oakgp.basis.screen import gains
from oakgp.basis.selection import (
    Budget,
    Screen,
    main_layout,
    refined,
    tail_shares,
    with_pairs,
    with_rough,
)
from oakgp.basis.working import LikelihoodWorking, Working
from oakgp.kernels.constrained import Feature
from oakgp.kernels.terms import Term
from oakgp.progress import step

_MANY = 3000  # candidates; more are screened on fewer rows
_ROWS_FOR_MANY = 5000
_SHORTLIST = 500  # pairs that are screened again


@dataclass(frozen=True)
class BasisSchedule:
    """How much work goes into what.

    Parameters
    ----------
    reference
        Lengthscale that the functions of numeric features are made with.
    learning_rows
        Rows on which terms and hyperparameters are found when there are more.
    screen_rows
        Rows on which candidates are screened.
    small_passes, passes
        Most passes over these and over all rows, where one is not enough.
    refinements
        How often terms are dropped, widened and added once pairs are in.
    stage_iterations, max_iterations
        Of the optimiser while terms are being found, and at the end.
    budget
        Numbers of columns.
    """

    reference: float = 0.5
    learning_rows: int = 50_000
    screen_rows: int = 20_000
    small_passes: int = 12
    passes: int = 6
    refinements: int = 3
    stage_iterations: int = 20
    max_iterations: int = 60
    budget: Budget = field(default_factory=Budget)

    def within(self, max_iter: int) -> BasisSchedule:
        """Return the schedule for the estimators' ``max_iter``: half of it at the end."""
        most = max(1, max_iter // 2)
        return replace(self, max_iterations=most, stage_iterations=min(self.stage_iterations, most))


@dataclass(frozen=True)
class BasisFit:
    """What fitting found.

    Parameters
    ----------
    posteriors
        One for each latent function.
    state
        The last state of the learning.
    sampled
        Rows on which terms and hyperparameters were found.
    log_evidence
        Of all rows, without the priors of the hyperparameters; Laplace's approximation of it where
        rows were expanded.
    jitter
        Relative jitter of the last factorisation.
    """

    posteriors: tuple[BasisPosterior, ...]
    state: State
    sampled: int
    log_evidence: float
    jitter: float


class BasisFitter:
    """Fits one model.

    Parameters
    ----------
    features
        Columns of the model.
    working
        How rows become regressions.
    allowed, forced
        Which terms may be in the model, and which interactions must.
    max_order
        Highest order: 1, 2 or 3.
    schedule
        Amounts of work.
    unit
        Variance of the latent function that the priors take for 1.
    seed
        Of the sample.
    device
        Where the sums are made.
    """

    def __init__(
        self,
        features: Sequence[Feature],
        working: Working,
        *,
        allowed: Callable[[Term], bool],
        forced: Sequence[Term],
        max_order: int,
        schedule: BasisSchedule,
        unit: float,
        seed: int,
        device: str,
    ) -> None:
        self.working, self.schedule, self.unit = working, schedule, unit
        self.allowed, self.forced, self.max_order = allowed, tuple(forced), max_order
        self.seed, self.device = seed, device
        self._pair_gains: dict[Term, float] = {}
        self.bases = tuple(
            feature_basis(
                f, schedule.reference, schedule.budget.main, schedule.budget.rough, device
            )
            for f in features
        )
        self.learner = BasisLearner(working, 3.0 / unit, schedule.max_iterations)

    def fit(self, source: RowSource) -> BasisFit:
        """Find the terms on a sample, and the posterior given all rows."""
        schedule, budget = self.schedule, self.schedule.budget
        few = source.sample(schedule.learning_rows, self.seed).to(self.device)
        small = InMemory(few)
        with step("main effects"):
            layout = main_layout(self.bases, self.allowed, self.forced, budget)
            state = self._stage(small, self.learner.begin(layout, None, self.unit))
            layout = with_rough(layout, self._screen(few, state), budget)
            if layout.size > state.layout.size:
                state = self._stage(small, self.learner.begin(layout, state, self.unit))
        if self.max_order > 1 and budget.interactions != 0:
            with step("interactions"):
                layout = with_pairs(layout, self.allowed, self._screen(few, state), budget)
                if layout.terms != state.layout.terms:
                    state = self._stage(small, self.learner.begin(layout, state, self.unit))
            for number in range(schedule.refinements):
                with step(f"refinement {number + 1}"):
                    layout = self._refined(few, state)
                    if _same(layout, state.layout):
                        break
                    state = self._stage(small, self.learner.begin(layout, state, self.unit))
        if source.n_rows > few.n:
            with step("all rows"):
                state = self.learner.run(source, state, schedule.passes)
                self._fit_likelihood(few, state)
        elif self.working.linear:
            state = self.learner.relearn(state, few.n)
        return self._finish(source, state, few.n)

    def _stage(self, small: InMemory, state: State) -> State:
        rows = small.sample(small.n_rows, 0)
        if isinstance(self.working, LikelihoodWorking) and len(self.working.parameters):
            state = self.learner.run(small, state, self.schedule.small_passes // 2)
            self._fit_likelihood(rows, state)
        iterations = self.schedule.stage_iterations if self.working.linear else None
        return self.learner.run(small, state, self.schedule.small_passes, iterations)

    def _fit_likelihood(self, rows: Rows, state: State) -> None:
        """Learn the likelihood's own parameters from the latent moments at some rows."""
        working = self.working
        if not isinstance(working, LikelihoodWorking) or not len(working.parameters):
            return
        rows = InMemory(rows).sample(self.schedule.screen_rows, self.seed + 1)
        solutions = solve(state.layout, state.data, state.parameters)
        parts = [
            moments(state.layout, rows.x, w[None], s.root)
            for w, s in zip(state.weights, solutions, strict=True)
        ]
        mean = torch.cat([m for m, _ in parts])
        variance = torch.stack([v for _, v in parts if v is not None])
        working.parameters = working.fitted_parameters(rows, mean, variance)

    def _screen(self, few: Rows, state: State) -> Screen:
        """Return the gains of candidates on the residual, summed over latent functions."""

        def screen(blocks: Sequence[TermColumns]) -> Tensor:
            # What is most of the work grows with both numbers.
            most = self.schedule.screen_rows if len(blocks) <= _MANY else _ROWS_FOR_MANY
            rows = InMemory(few).sample(most, self.seed + 1)
            latents = moments(state.layout, rows.x, state.weights, None)[0]
            made = self.working.regressions(rows, latents)
            share = few.n / rows.n
            total = torch.zeros(len(blocks), dtype=torch.float64)
            for k, parameters in enumerate(state.parameters):
                total = total + gains(
                    self.bases,
                    blocks,
                    rows.x,
                    made.z[k] - latents[k],
                    made.w[k] * share,
                    float(parameters.noise),
                    self.unit,
                )
            for block, gain in zip(blocks, total.tolist(), strict=True):
                if len(block.term) == 2:
                    self._pair_gains.setdefault(block.term, gain)
            return total

        return screen

    def _promising(self) -> Callable[[Term], bool]:
        """Return which terms later screens look at: of very many pairs, those that led the first.

        A pair that is far behind on the residual of the main effects is not looked at again.
        """
        if len(self._pair_gains) <= _SHORTLIST:
            return self.allowed
        leading = sorted(self._pair_gains, key=lambda u: -self._pair_gains[u])[:_SHORTLIST]
        chosen = set(leading)
        return lambda u: self.allowed(u) and (len(u) != 2 or u in chosen)

    def _refined(self, few: Rows, state: State) -> BasisLayout:
        squares = (state.weights**2).mean(dim=0).cpu()
        layout = state.layout
        sums = {u: float(squares[layout.slices[u]].sum()) for u in layout.terms if u}
        whole = max(sum(sums.values()), 1e-300)
        shares = {u: value / whole for u, value in sums.items()}
        tails = tail_shares(layout, squares)
        screen = self._screen(few, state)
        return refined(
            layout,
            shares,
            tails,
            self._promising(),
            self.forced,
            screen,
            self.schedule.budget,
            self.max_order,
        )

    def _finish(self, source: RowSource, state: State, sampled: int) -> BasisFit:
        data, density = state.data, 0.0
        if not self.working.linear:
            end = self.working.at_the_end()
            data, density = collect(source, state.layout, end, state.weights)
        solutions = solve(state.layout, data, state.parameters)
        if self.working.linear:
            evidence = sum(float(s.log_evidence) for s in solutions)
        else:
            evidence = laplace_evidence(density, solutions, state.weights)
        weights = self.working.stepped(state.weights, torch.stack([s.mean for s in solutions]))
        if isinstance(self.working, LikelihoodWorking) and self.working.bounding:
            weights = state.weights  # a step by the true curvature might go anywhere
        posteriors = tuple(
            BasisPosterior(
                state.layout,
                parameters,
                mean.clone(),
                solution.root,
                float(parameters.noise) if self.working.linear else 0.0,
            )
            for parameters, mean, solution in zip(state.parameters, weights, solutions, strict=True)
        )
        jitter = max(s.jitter for s in solutions)
        return BasisFit(posteriors, state, sampled, evidence, jitter)


def _same(left: BasisLayout, right: BasisLayout) -> bool:
    return left.terms == right.terms and left.size == right.size
