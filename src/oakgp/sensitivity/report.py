"""Sobol indices under the names of the features, with credible intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.ops.threads import threads_for
from oakgp.posterior import Posterior
from oakgp.progress import step
from oakgp.sensitivity.credible import posterior_variances, sample_variances
from oakgp.sensitivity.quadratic import PairBlocks
from oakgp.sensitivity.selection import Ranking, rank_terms
from oakgp.sensitivity.sobol import Totals, expected_totals, sobol_totals
from oakgp.table import Table

Array = NDArray[np.float64]

_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class SobolIndices:
    """Shares of the explained variance.

    Each share comes in two versions. ``share`` (or ``first_order``, ``total``) is that of the
    posterior mean, the function that is predicted and drawn. ``mean_share`` is the expectation
    under the posterior, with its credible interval ``low`` to ``high``: it counts what the
    function may be besides its mean, so a small component that the data leave open has more of
    it, and may have an interval above its ``share``.

    Parameters
    ----------
    terms
        Table of the largest terms, with ``sd``, the standard deviation of the component over the
        data in units of the response.
    features
        Table of the first-order (main effect) and total shares of every feature.
    orders
        Table of the share of each interaction order.
    ranking
        The numbers behind ``terms``.
    totals
        The numbers behind ``features`` and ``orders``: of the posterior mean.
    expected
        The same as expectations under the posterior.
    """

    terms: Table
    features: Table
    orders: Table
    ranking: Ranking
    totals: Totals
    expected: Totals

    def __repr__(self) -> str:
        """Return the table of terms."""
        return repr(self.terms)


@dataclass(frozen=True)
class _Draws:
    """Posterior of sums of V_u as shares of the whole: of terms drawn, and of the small rest.

    Parameters
    ----------
    terms
        The terms that were drawn.
    expected
        ``[k]`` their E[V_u].
    draws
        ``[s, k]`` draws of V_u.
    rest
        Expectation of the sum over all other terms.
    tails
        Percentages between which the intervals lie.
    """

    terms: list[Term]
    expected: Array
    draws: Array
    rest: float
    tails: tuple[float, float]

    def shares(self, members: list[list[int]], rests: Array) -> dict[str, list[float]]:
        """Return mean, low and high of the shares of some sums.

        ``members`` are the numbers of each sum's drawn terms; ``rests [j]`` what its other terms
        add, at their expectation.
        """
        chosen = np.zeros((len(self.terms), len(members)))
        for j, numbers in enumerate(members):
            chosen[numbers, j] = 1.0
        whole = self.expected.sum() + self.rest
        mean = (self.expected @ chosen + rests) / max(whole, _TINY)
        sums = self.draws.sum(axis=1, keepdims=True) + self.rest
        low, high = np.percentile(
            (self.draws @ chosen + rests) / np.maximum(sums, _TINY), self.tails, axis=0
        )
        return {"mean_share": mean.tolist(), "low": low.tolist(), "high": high.tolist()}


def sobol_indices(
    model: Model,
    n_terms: int = 50,
    min_share: float = 1e-4,
    coverage: float = 0.9,
    n_samples: int = 400,
    seed: int = 0,
) -> SobolIndices:
    """Return the Sobol indices of a model.

    Of several classes, all variances are averages over these.

    Parameters
    ----------
    model
        The model.
    n_terms, min_share
        How many terms the table lists, and the smallest share it lists.
    coverage
        Of the credible intervals.
    n_samples, seed
        Of the posterior draws behind the intervals.
    """
    with threads_for(model.posterior.features.size), step("Sobol indices"):
        return _indices(model, n_terms, min_share, coverage, n_samples, seed)


def _indices(
    model: Model, n_terms: int, min_share: float, coverage: float, n_samples: int, seed: int
) -> SobolIndices:
    posterior = model.posterior
    blocks = model.blocks(with_precision=True)
    totals, expected = sobol_totals(posterior, blocks), expected_totals(posterior, blocks)
    ranking = rank_terms(posterior, n_terms, min_share, blocks, totals)
    listed: list[Term] = list(ranking.terms)
    d = posterior.kernel.n_features
    mains: list[Term] = [
        (i,) for i in range(d) if (i,) in posterior.kernel.terms and (i,) not in listed
    ]
    tails = (50 * (1 - coverage), 50 * (1 + coverage))
    pooled = model.posteriors if model.pooled else (posterior,)
    drawn = _draw(pooled, [*listed, *mains], expected, blocks, n_samples, seed, tails)

    terms = drawn.shares([[k] for k in range(len(listed))], np.zeros(len(listed)))
    variance = max(totals.variance, _TINY)
    features = {
        "feature": model.names,
        "first_order": (totals.main / variance).tolist(),
        **_renamed(drawn, [[(i,)] for i in range(d)], expected.main, "first_order"),
        "total": (totals.total / variance).tolist(),
        **_renamed(
            drawn, [[u for u in drawn.terms if i in u] for i in range(d)], expected.total, "total"
        ),
    }
    top = range(1, len(totals.orders))
    members = [[u for u in drawn.terms if len(u) == r] for r in top]
    return SobolIndices(
        Table(
            {
                "term": [model.label(u) for u in listed],
                "order": [len(u) for u in listed],
                "share": list(ranking.shares),
                **terms,
                "sd": [model.scale * v**0.5 for v in ranking.variances],
            }
        ),
        Table(features),
        Table(
            {
                "order": list(top),
                "share": (totals.orders[1:] / variance).tolist(),
                **_sums(drawn, members, expected.orders[1:]),
            }
        ),
        ranking,
        totals,
        expected,
    )


def _draw(
    posteriors: tuple[Posterior, ...],
    terms: list[Term],
    expected: Totals,
    blocks: PairBlocks,
    n_samples: int,
    seed: int,
    tails: tuple[float, float],
) -> _Draws:
    if not terms:
        return _Draws([], np.zeros(0), np.zeros((n_samples, 0)), expected.variance, tails)
    means = posterior_variances(posteriors[0], terms, blocks)
    if len(posteriors) == 1:
        draws = sample_variances(posteriors[0], terms, n_samples, seed, means)
    else:
        each = [sample_variances(p, terms, n_samples, seed + k) for k, p in enumerate(posteriors)]
        draws = torch.stack(each).mean(dim=0)
    rest = max(0.0, expected.variance - float(means.sum()))
    return _Draws(terms, means.cpu().numpy(), draws.cpu().numpy(), rest, tails)


def _sums(drawn: _Draws, members: list[list[Term]], whole: Tensor) -> dict[str, list[float]]:
    """Return the shares of sums over terms, of which some were drawn."""
    position = {u: k for k, u in enumerate(drawn.terms)}
    numbers = [[position[u] for u in group if u in position] for group in members]
    of_drawn = np.array([drawn.expected[group].sum() for group in numbers])
    return drawn.shares(numbers, np.maximum(0.0, whole.cpu().numpy() - of_drawn))


def _renamed(
    drawn: _Draws, members: list[list[Term]], whole: Tensor, name: str
) -> dict[str, list[float]]:
    shares = _sums(drawn, members, whole)
    return {
        f"mean_{name}": shares["mean_share"],
        f"{name}_low": shares["low"],
        f"{name}_high": shares["high"],
    }
