r"""q given all rows at fixed hyperparameters: passes over the batches that remember their sites.

Stochastic steps end in noise unless they shrink, and then they crawl. With the hyperparameters
fixed there is no need: q(v) is the prior times one Gaussian factor a batch, and visiting a batch
replaces its factor, V S V^T in the precision, by the one that its rows ask for under the present q.
The fixed point is that of the full batch whatever the size of the batches, no step size is to be
chosen, and the memory is two numbers a row. (Incremental inference: Neal and Hinton 1998, Hughes
and Sudderth 2013; each visit is the natural-gradient step of length 1 on the batch's own bound,

    sum_(i in batch) w_i E_q[log p(y_i | f_i)] - KL(q || cavity),    cavity = q without the batch,

and is halved until that bound rises.) Before its first visit, a batch has its share of what is
known already from learning the hyperparameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from oakgp.inference.cholesky import NotPositiveDefiniteError
from oakgp.inference.sites import Observations, Sites
from oakgp.inference.stochastic.batches import partition
from oakgp.inference.stochastic.estimate import Estimate, added, cut_variances, estimate
from oakgp.inference.stochastic.inducing_gaussian import InducingGaussian
from oakgp.inference.stochastic.whitening import View, Whitening
from oakgp.inference.variational import LatentModel
from oakgp.progress import step as progress_step

_SHORTEST = 2.0**-20  # length of a step, below which a batch keeps its factor
_ROUNDING = 1e-12  # of the terms of a batch's bound


@dataclass(frozen=True, eq=False)
class Conditioned:
    """q given all rows.

    Parameters
    ----------
    latents
        q of each latent function.
    bound
        The bound on the log marginal likelihood, as the last pass met it.
    converged
        Whether a pass gained less than the tolerance.
    n_passes
        Passes over the rows.
    """

    latents: tuple[InducingGaussian, ...]
    bound: float
    converged: bool
    n_passes: int


class Passes:
    """Batches with their factors.

    Parameters
    ----------
    model, observations
        Model, its hyperparameters fixed, and all rows.
    views
        The inducing points under each of the different kernels.
    start
        q to begin with.
    batch_rows, seed
        Size of the batches, and the seed by which rows are dealt out to them.
    """

    def __init__(
        self,
        model: LatentModel,
        observations: Observations,
        views: Sequence[Whitening],
        start: Sequence[InducingGaussian],
        batch_rows: int,
        seed: int,
    ) -> None:
        self.model, self.observations, self.whitenings = model, observations, views
        self.batches = partition(observations.n, batch_rows, seed)
        self.latents = tuple(start)
        # What q holds beyond the prior belongs to all rows alike, until they have been visited.
        self._shared = [
            (q.first, q.precision - torch.eye(len(q.first)).to(q.precision)) for q in start
        ]
        self._left = [len(rows) / observations.n for rows in self.batches]
        zero = observations.y.new_zeros((len(self.latents), observations.n))
        self.sites = Sites(zero, zero.clone())

    def run(self, tolerance: float, max_passes: int) -> Conditioned:
        """Visit all batches until a pass gains less than a tolerance, in nats."""
        value, converged, n_passes = 0.0, False, 0
        total = max_passes * len(self.batches)
        with progress_step("conditioning on all rows", total, "batches") as progress:
            while n_passes < max_passes and not converged:
                n_passes += 1
                value, gain, whole = 0.0, 0.0, True
                for k in range(len(self.batches)):
                    expected, raised, full = self._visit(k)
                    value, gain, whole = value + expected, gain + raised, whole and full
                    progress.advance(1)
                converged = gain < tolerance and whole
        value -= sum(float(q.divergence()) for q in self.latents)
        return Conditioned(self.latents, value, converged, n_passes)

    def _visit(self, k: int) -> tuple[float, float, bool]:
        """Renew a batch's factor.

        Returns its expected log density, by how much its own bound rose, and whether the step had
        its full length.
        """
        rows = self.batches[k].to(self.observations.x.device)
        observations = self.observations.take(rows)
        views = [w.view(observations.x) for w in self.whitenings]
        old, left = self.sites.take(rows), self._left[k]
        current = estimate(self.model, observations, self.latents, views)
        factors = [self._factor(views, old, left, row) for row in range(len(self.latents))]
        cavities = [
            (q.first - first, q.precision - precision)
            for q, (first, precision) in zip(self.latents, factors, strict=True)
        ]
        goal = current.sites
        held = cut_variances(self.model, current)
        before = _own_bound(current, self.latents, cavities)
        length = 1.0
        while length >= _SHORTEST:
            sites, rest = old.towards(goal, length), (1.0 - length) * left
            try:
                trial = tuple(
                    InducingGaussian.of(first + a, precision + b)
                    for (first, precision), (a, b) in zip(
                        cavities,
                        (self._factor(views, sites, rest, r) for r in range(len(cavities))),
                        strict=True,
                    )
                )
                seen = estimate(self.model, observations, trial, views, held)
                gain = _own_bound(seen, trial, cavities) - before
            except NotPositiveDefiniteError:  # sites that overflowed
                length *= 0.5
                continue
            if gain >= -_ROUNDING * (abs(before) + self.observations.n):
                self.latents, self._left[k] = trial, rest
                self.sites.first[:, rows], self.sites.precision[:, rows] = (
                    sites.first,
                    sites.precision,
                )
                return float(seen.expected.value.sum()), max(gain, 0.0), length == 1.0
            length *= 0.5
        return float(current.expected.value.sum()), 0.0, False

    def _factor(
        self, views: Sequence[View], sites: Sites, left: float, row: int
    ) -> tuple[Tensor, Tensor]:
        """Return the natural parameters of a batch's factor for one latent function."""
        first, precision = added(views[self.model.distinct[1][row]], sites, row)
        if left:
            shared_first, shared_precision = self._shared[row]
            first = first + left * shared_first
            precision = precision.add_(shared_precision, alpha=left)
        return first, precision


def _own_bound(
    seen: Estimate,
    latents: Sequence[InducingGaussian],
    cavities: Sequence[tuple[Tensor, Tensor]],
) -> float:
    """Return the batch's own bound, up to a constant."""
    rest = sum(
        float(q.entropy_and_energy(*cavity)) for q, cavity in zip(latents, cavities, strict=True)
    )
    return float(seen.expected.value.sum()) + rest
