"""Ranking and truncation: which terms to keep, and what the metric says along the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from oakgp.kernels.terms import Term
from oakgp.posterior import Posterior
from oakgp.sensitivity.variances import Variances


@dataclass(frozen=True)
class Ranking:
    """Terms by their share of the variance of the posterior mean.

    Parameters
    ----------
    terms
        Largest first.
    variances
        V_u of each.
    variance
        Variance of the whole posterior mean, all terms counted.
    """

    terms: tuple[Term, ...]
    variances: tuple[float, ...]
    variance: float

    @property
    def shares(self) -> tuple[float, ...]:
        """Normalised Sobol indices; all 0 when the function is constant."""
        return tuple(v / self.variance if self.variance > 0 else 0.0 for v in self.variances)


def rank_terms(
    posterior: Posterior,
    count: int,
    min_share: float = 0.0,
    variances: Variances | None = None,
) -> Ranking:
    """Return the largest terms of a posterior, at most ``count``, with their variances.

    ``variances`` spares their computation where they are at hand.
    """
    variances = variances or posterior.variances()
    found = variances.largest(count, min_share)
    whole = variances.totals().variance
    return Ranking(tuple(u for u, _ in found), tuple(v for _, v in found), whole)


def select(
    ranking: Ranking,
    threshold: float | None,
    n_terms: int | None,
    forced: Sequence[Term] = (),
) -> tuple[tuple[Term, ...], float]:
    """Return the terms to keep and the share of the variance that is dropped.

    Parameters
    ----------
    ranking
        Terms, largest first.
    threshold
        Keep terms with at least this share.
    n_terms
        Keep at most this many.
    forced
        Kept whatever their share.
    """
    kept: list[Term] = []
    for term, share in zip(ranking.terms, ranking.shares, strict=True):
        small = threshold is not None and share < threshold
        full = n_terms is not None and len(kept) >= n_terms
        if not (small or full):
            kept.append(term)
    kept += [term for term in forced if term not in kept]
    share_of = dict(zip(ranking.terms, ranking.shares, strict=True))
    dropped = 1.0 - sum(share_of.get(term, 0.0) for term in kept)
    return tuple(kept), max(0.0, dropped) if ranking.variance > 0 else 0.0


def metric_curve(
    posterior: Posterior,
    ranking: Ranking,
    x: Tensor,
    metric: Callable[[Tensor], float],
) -> list[tuple[int, float, float]]:
    """Return (number of terms, cumulative share, metric of the mean) as terms are added.

    The first entry is the constant alone. Each term's mean is computed once, O(n m) a term.
    """
    mean = posterior.mean(x, ())
    curve = [(0, 0.0, metric(mean))]
    cumulative = 0.0
    for k, (term, share) in enumerate(zip(ranking.terms, ranking.shares, strict=True), start=1):
        mean = mean + posterior.mean(x, term)
        cumulative += share
        curve.append((k, cumulative, metric(mean)))
    return curve
