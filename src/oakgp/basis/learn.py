"""Learning on a fixed basis: weights and hyperparameters from passes over the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from oakgp.basis.evidence import Solution, block_factors, log_evidence, on_device, spans_of
from oakgp.basis.layout import BasisLayout
from oakgp.basis.passes import GramSum, moments
from oakgp.basis.prior import BasisParameters, BasisSpace, prior_blocks
from oakgp.basis.rows import Rows, RowSource, SummedRows, Sums
from oakgp.basis.statistics import Statistics
from oakgp.basis.working import LikelihoodWorking, Working
from oakgp.inference.optimize import minimise
from oakgp.ops.threads import threads_for
from oakgp.progress import Step, step

_SETTLED = 0.05  # a step this small, in posterior standard deviations, is no step
_HALVINGS = 6


@dataclass(frozen=True, eq=False)
class State:
    """What is known at one moment of the learning.

    Parameters
    ----------
    layout
        The basis.
    parameters
        Hyperparameters of each latent function.
    weights
        ``[L, F]`` the weights around which rows are expanded.
    data
        Statistics of the rows at these weights, one for each latent function.
    value
        Log evidence of the regressions and log prior.
    passes, evaluations
        Passes over the rows, and evaluations of the evidence, so far.
    converged
        Whether the last learning ended by its tolerance.
    """

    layout: BasisLayout
    parameters: tuple[BasisParameters, ...]
    weights: Tensor
    data: tuple[Statistics, ...]
    value: float
    passes: int
    evaluations: int
    converged: bool


def collect(
    source: RowSource, layout: BasisLayout, working: Working, weights: Tensor
) -> tuple[tuple[Statistics, ...], float]:
    """Return the statistics of all rows around some weights, and the sum of log densities."""
    with step("summing rows", source.n_rows, "rows") as progress:
        if isinstance(source, SummedRows):
            statistic = partial(_sum_rows, layout, working, weights)
            summed = source.sums(statistic, _key(layout, working, weights), progress.advance)
            data, density = _statistics_of(summed, working.n_latents, _device(layout))
        else:
            data, density = _collected(source, layout, working, weights, progress)
    if not working.linear:  # log evidence of what stands for the rows: no noise, no constants
        data = tuple(replace(d, square=0.0 * d.square) for d in data)
    return data, density


def _collected(
    source: Iterable[Rows],
    layout: BasisLayout,
    working: Working,
    weights: Tensor,
    progress: Step | None = None,
) -> tuple[tuple[Statistics, ...], float]:
    sums = [GramSum(layout) for _ in range(working.n_latents)]
    density = 0.0
    device = _device(layout)
    for rows in source:
        rows = rows.to(device)
        if working.linear:
            latents = rows.y.new_zeros((1, 0))
        else:
            latents = moments(layout, rows.x, weights, None)[0]
        made = working.regressions(rows, latents)
        density += made.log_density
        for k, total in enumerate(sums):
            total.add(rows.x, made.z[k], made.w[k])
        if progress is not None:
            progress.advance(rows.n)
    return tuple(total.statistics() for total in sums), density


_FIELDS = ("gram", "moment", "square", "weight")


def _sum_rows(layout: BasisLayout, working: Working, weights: Tensor, rows: Iterable[Rows]) -> Sums:
    """Return what `_collected` returns as arrays by name, which add up over parts."""
    data, density = _collected(rows, layout, working, weights)
    arrays = {
        f"{name}_{k}": getattr(one, name).cpu().numpy()
        for k, one in enumerate(data)
        for name in _FIELDS
    }
    counts = {f"rows_{k}": np.array(float(one.rows)) for k, one in enumerate(data)}
    return {**arrays, **counts, "density": np.array(density)}


def _statistics_of(
    sums: Sums, n_latents: int, device: torch.device
) -> tuple[tuple[Statistics, ...], float]:
    data = tuple(
        Statistics(
            **{name: torch.tensor(sums[f"{name}_{k}"], device=device) for name in _FIELDS},
            rows=int(sums[f"rows_{k}"]),
        )
        for k in range(n_latents)
    )
    return data, float(sums["density"])


def _key(layout: BasisLayout, working: Working, weights: Tensor) -> bytes:
    """Return bytes that differ for other columns, other weights or another likelihood."""
    tensors = [weights]
    if isinstance(working, LikelihoodWorking):
        tensors += [working.levels, working.parameters, torch.tensor(working.bounding)]
    columns = repr((layout.terms, layout.factors.tolist())).encode()
    return b"".join([columns, *(t.detach().cpu().numpy().tobytes() for t in tensors)])


def solve(
    layout: BasisLayout, data: Sequence[Statistics], parameters: Sequence[BasisParameters]
) -> list[Solution]:
    """Return the solution of each latent function's regression."""
    factors = prior_factors(layout, parameters)
    return [
        Solution(d, f, float(p.noise)) for d, f, p in zip(data, factors, parameters, strict=True)
    ]


def prior_factors(layout: BasisLayout, parameters: Sequence[BasisParameters]) -> list[list[Tensor]]:
    """Return the factors of each latent function's prior; made once where they are shared."""
    device, home = _device(layout), layout.to("cpu")
    made: dict[int, list[Tensor]] = {}
    for p in parameters:
        if id(p) not in made:
            made[id(p)] = on_device(block_factors(prior_blocks(home, p)), device)
    return [made[id(p)] for p in parameters]


def learn(
    layout: BasisLayout,
    data: Sequence[Statistics],
    start: Sequence[BasisParameters],
    space: BasisSpace,
    *,
    shared: bool,
    max_iter: int,
    tolerance: float,
) -> tuple[tuple[BasisParameters, ...], float, int, bool]:
    """Return the hyperparameters of largest evidence for fixed statistics.

    Also the value, the number of evaluations, and whether it converged. Latent functions that
    share their hyperparameters are learned together.
    """
    groups = [list(range(len(data)))] if shared else [[k] for k in range(len(data))]
    found: list[BasisParameters] = list(start)
    total, evaluations, converged = 0.0, 0, True
    home = layout.to("cpu")
    for group in groups:
        members = [data[k] for k in group]

        def objective(theta: Tensor, members: list[Statistics] = members) -> Tensor:
            parameters = space.unpack(theta)
            blocks = prior_blocks(home, parameters)
            value = space.log_prior(parameters)
            for one in members:
                value = value + log_evidence(one, parameters.noise, blocks)
            return -value

        optimum = minimise(
            objective,
            space.pack(start[group[0]]),
            space.limits(),
            max_iter=max_iter,
            tolerance=tolerance,
        )
        # Sums of the same rows in another order differ by rounding, which an optimiser amplifies.
        # A step of 0.001 of a logarithm is nothing to the evidence, and such noise is lost in it.
        low, high = np.array(space.limits()).T
        theta = np.clip(np.round(optimum.theta, 3), low, high)
        learned = space.unpack(torch.tensor(theta)).detach()
        for k in group:
            found[k] = learned
        total -= optimum.value
        evaluations += optimum.n_evaluations
        converged = converged and optimum.converged
    return tuple(found), total, evaluations, converged


def penalty(factors: Sequence[Tensor], weights: Tensor) -> float:
    """Return 1/2 w^T Lambda^-1 w for weights ``[F]``; a term of variance 0 costs nothing."""
    total = 0.0
    for span, factor in zip(spans_of(factors), factors, strict=True):
        if float(factor.abs().max()) <= 0.0:
            continue
        white = torch.linalg.solve_triangular(factor, weights[span, None], upper=False)
        total += 0.5 * float((white * white).sum())
    return total


def laplace_evidence(density: float, solutions: Sequence[Solution], weights: Tensor) -> float:
    """Return log p(y | w) - 1/2 w^T Lambda^-1 w - 1/2 log|B| at weights ``[L, F]``.

    Laplace's approximation of the log evidence, where the weights are those of largest posterior
    density and ``density`` is their log likelihood.
    """
    total = density
    for solution, own in zip(solutions, weights, strict=True):
        total -= penalty(solution.factors, own) + float(solution.factor.diagonal().log().sum())
    return total


class BasisLearner:
    """Runs passes and learns between them.

    Parameters
    ----------
    working
        How rows become regressions.
    rate
        Of the prior on the terms' variances, in units of the latent function's variance.
    iterations
        Of the optimiser between passes.
    """

    def __init__(self, working: Working, rate: float, iterations: int = 60) -> None:
        self.working, self.rate, self.iterations = working, rate, iterations

    def space(self, layout: BasisLayout) -> BasisSpace:
        """Return the hyperparameters of a basis."""
        return BasisSpace(layout, learn_noise=self.working.linear, rate=self.rate)

    def begin(self, layout: BasisLayout, before: State | None, unit: float) -> State:
        """Return a state on a basis, with what is known from another one."""
        space, count = self.space(layout), self.working.n_latents
        if before is None:
            fresh = space.start()
            fresh = replace(fresh, variances=fresh.variances * unit, rough=fresh.rough * unit)
            if not self.working.linear:
                fresh = replace(fresh, noise=torch.ones((), dtype=torch.float64))
            parameters = (fresh,) * count
            weights = torch.zeros((count, layout.size), dtype=torch.float64)
            return State(layout, parameters, weights, (), 0.0, 0, 0, False)
        carried: dict[int, BasisParameters] = {}
        for p in before.parameters:
            carried.setdefault(id(p), space.carry(p, before.layout.terms, unit))
        parameters = tuple(carried[id(p)] for p in before.parameters)
        weights = torch.zeros((count, layout.size), dtype=torch.float64)
        known = {u: before.layout.slices[u] for u in before.layout.terms}
        for u in layout.terms:
            if u not in known:
                continue
            old = _column_keys(before.layout, u)
            place = {key: k for k, key in enumerate(old)}
            for k, key in enumerate(_column_keys(layout, u)):
                if key in place:
                    weights[:, layout.slices[u].start + k] = before.weights[
                        :, known[u].start + place[key]
                    ].cpu()
        return replace(
            before, layout=layout, parameters=parameters, weights=weights, data=(), converged=False
        )

    def run(
        self, source: RowSource, state: State, passes: int, max_iter: int | None = None
    ) -> State:
        """Go over the rows, learn, and so on until the weights settle, or so many times."""
        if self.working.linear:
            data, _ = collect(source, state.layout, self.working, state.weights)
            return self._learned(state, data, source.n_rows, max_iter or self.iterations)
        last = -torch.inf
        previous: Tensor | None = None
        halvings = 0
        for number in range(passes):
            device = _device(state.layout)
            state = replace(state, weights=state.weights.to(device))
            data, density = collect(source, state.layout, self.working, state.weights)
            value = density - _penalties(state, state.weights)
            if previous is not None and value < last - 1e-3 * abs(last) and halvings < _HALVINGS:
                halvings += 1
                state = replace(
                    state, weights=0.5 * (state.weights + previous), passes=state.passes + 1
                )
                continue
            halvings, previous = 0, state.weights
            iterations = max_iter or (self.iterations // 3 if number else self.iterations // 2)
            after = self._learned(state, data, source.n_rows, iterations)
            moved = after.weights - state.weights
            state = after
            last = density - _penalties(state, previous)
            if _size(moved, state) < _SETTLED and number > 0:
                return replace(state, converged=True)
        return replace(state, converged=False)

    def relearn(self, state: State, n: int) -> State:
        """Go on learning from the sums that there are, without another pass over the n rows."""
        after = self._learned(state, state.data, n, self.iterations)
        return replace(after, passes=state.passes)

    def _learned(self, state: State, data: tuple[Statistics, ...], n: int, max_iter: int) -> State:
        with threads_for(state.layout.size):
            return self._relearned(state, data, n, max_iter)

    def _relearned(
        self, state: State, data: tuple[Statistics, ...], n: int, max_iter: int
    ) -> State:
        parameters, value, evaluations, converged = learn(
            state.layout,
            data,
            state.parameters,
            self.space(state.layout),
            shared=self.working.shared,
            max_iter=max_iter,
            tolerance=2e-2 * max(n, 1000) / 1000.0,
        )
        solutions = solve(state.layout, data, parameters)
        target = torch.stack([s.mean for s in solutions])
        return State(
            state.layout,
            parameters,
            self.working.stepped(state.weights, target),
            data,
            value,
            state.passes + 1,
            state.evaluations + evaluations,
            converged,
        )


def _penalties(state: State, weights: Tensor) -> float:
    factors = prior_factors(state.layout, state.parameters)
    return sum(penalty(f, w) for f, w in zip(factors, weights, strict=True))


def _device(layout: BasisLayout) -> torch.device:
    return layout.bases[0].table.device if layout.bases else torch.device("cpu")


def _column_keys(layout: BasisLayout, term: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return what tells a term's columns from each other: the numbers of their functions."""
    if not term:
        return [()]
    block = next(b for b in layout.blocks if b.term == term)
    return [tuple(row) for row in block.index.tolist()]


def _size(moved: Tensor, state: State) -> float:
    """Return the length of a step in posterior standard deviations a column, at the root mean."""
    worst = 0.0
    for k, data in enumerate(state.data):
        quadratic = float(moved[k] @ (data.gram @ moved[k]))
        worst = max(worst, (quadratic / len(moved[k])) ** 0.5)
    return worst
