"""Sobol indices under the names of the features, with credible intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.ops.threads import threads_for
from oakgp.progress import step
from oakgp.sensitivity.selection import Ranking, rank_terms
from oakgp.sensitivity.variances import Totals, Variances
from oakgp.table import Table

Array = NDArray[np.float64]

_TINY = float(np.finfo(np.float64).tiny)
LISTED = 50  # terms that the table lists at most
_RELEVANT = 0.01  # share above which a term counts (and is kept by `truncate`)


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
        data in units of the response, and ``prob_over_1pct``, the posterior probability that the
        term's share exceeds 1%.
    features
        Table of the first-order (main effect) and total shares of every feature, and its Shapley
        effect: the share with that of each interaction split equally among its features.
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

    def shares(self, chosen: Array, rests: Array) -> dict[str, list[float]]:
        """Return mean, low and high of the shares of some sums.

        ``chosen [k, j]`` says how much of each drawn term a sum holds; ``rests [j]`` what its
        other terms add, at their expectation.
        """
        whole = self.expected.sum() + self.rest
        mean = (self.expected @ chosen + rests) / max(whole, _TINY)
        low, high = np.percentile(self._drawn(chosen, rests), self.tails, axis=0)
        return {"mean_share": mean.tolist(), "low": low.tolist(), "high": high.tolist()}

    def probabilities(self, count: int, share: float) -> list[float]:
        """Return the probabilities that the shares of the first terms exceed a limit."""
        drawn = self._drawn(np.eye(len(self.terms), count), np.zeros(count))
        return [float(p) for p in (drawn > share).mean(axis=0)]

    def _drawn(self, chosen: Array, rests: Array) -> Array:
        sums = self.draws.sum(axis=1, keepdims=True) + self.rest
        return np.asarray((self.draws @ chosen + rests) / np.maximum(sums, _TINY))


def sobol_indices(
    model: Model,
    n_terms: int = LISTED,
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
    with threads_for(model.posterior.size), step("Sobol indices"):
        return _indices(model, n_terms, min_share, coverage, n_samples, seed)


def _indices(
    model: Model, n_terms: int, min_share: float, coverage: float, n_samples: int, seed: int
) -> SobolIndices:
    posterior, variances = model.posterior, model.variances()
    expected, totals = variances.expected_totals(), variances.totals()
    ranking = rank_terms(posterior, n_terms, min_share, variances)
    listed: list[Term] = list(ranking.terms)
    d = posterior.n_features
    mains: list[Term] = [(i,) for i in range(d) if (i,) in posterior.terms and (i,) not in listed]
    tails = (50 * (1 - coverage), 50 * (1 + coverage))
    drawn = _draw(variances, [*listed, *mains], expected, n_samples, seed, tails)

    terms = drawn.shares(np.eye(len(drawn.terms), len(listed)), np.zeros(len(listed)))
    variance = max(totals.variance, _TINY)
    within = np.array([[i in u for i in range(d)] for u in drawn.terms], dtype=np.float64)
    within = within.reshape(len(drawn.terms), d)
    sizes = np.array([[len(u)] for u in drawn.terms], dtype=np.float64).reshape(-1, 1)
    alone = within * (sizes == 1)
    features = {
        "feature": model.names,
        "first_order": (totals.main / variance).tolist(),
        **_renamed(drawn, alone, expected.main, "first_order"),
        "total": (totals.total / variance).tolist(),
        **_renamed(drawn, within, expected.total, "total"),
        "shapley": (totals.shapley / variance).tolist(),
        **_renamed(drawn, within / sizes, expected.shapley, "shapley"),
    }
    top = range(1, len(totals.orders))
    of_order = np.array([[len(u) == r for r in top] for u in drawn.terms], dtype=np.float64)
    return SobolIndices(
        Table(
            {
                "term": [model.label(u) for u in listed],
                "order": [len(u) for u in listed],
                "share": list(ranking.shares),
                **terms,
                "prob_over_1pct": drawn.probabilities(len(listed), _RELEVANT),
                "sd": [model.scale * v**0.5 for v in ranking.variances],
            }
        ),
        Table(features),
        Table(
            {
                "order": list(top),
                "share": (totals.orders[1:] / variance).tolist(),
                **_sums(drawn, of_order.reshape(len(drawn.terms), len(top)), expected.orders[1:]),
            }
        ),
        ranking,
        totals,
        expected,
    )


def _draw(
    variances: Variances,
    terms: list[Term],
    expected: Totals,
    n_samples: int,
    seed: int,
    tails: tuple[float, float],
) -> _Draws:
    if not terms:
        return _Draws([], np.zeros(0), np.zeros((n_samples, 0)), expected.variance, tails)
    means, draws = variances.expected_of(terms), variances.draws(terms, n_samples, seed)
    rest = max(0.0, expected.variance - float(means.sum()))
    return _Draws(terms, means.cpu().numpy(), draws.cpu().numpy(), rest, tails)


def _sums(drawn: _Draws, chosen: Array, whole: Tensor) -> dict[str, list[float]]:
    """Return the shares of sums over terms, of which some were drawn."""
    of_drawn = drawn.expected @ chosen
    return drawn.shares(chosen, np.maximum(0.0, whole.cpu().numpy() - of_drawn))


def _renamed(drawn: _Draws, chosen: Array, whole: Tensor, name: str) -> dict[str, list[float]]:
    shares = _sums(drawn, chosen, whole)
    return {
        f"mean_{name}": shares["mean_share"],
        f"{name}_low": shares["low"],
        f"{name}_high": shares["high"],
    }
