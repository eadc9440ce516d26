"""Sobol indices under the names of the features, with credible intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.sensitivity.credible import posterior_variances, sample_variances
from oakgp.sensitivity.quadratic import PairBlocks
from oakgp.sensitivity.selection import Ranking, rank_terms
from oakgp.sensitivity.sobol import Totals, sobol_totals
from oakgp.table import Table


@dataclass(frozen=True)
class SobolIndices:
    """Shares of the explained variance.

    Parameters
    ----------
    terms
        Table of the largest terms: ``share`` (of the posterior mean), ``low`` and ``high``
        (credible interval), ``mean_share`` (posterior expectation), ``sd`` (standard deviation of
        the component over the data, in units of the response).
    features
        Table of first-order (main effect) and total shares of every feature.
    orders
        Table of the share of each interaction order.
    ranking
        The numbers behind ``terms``.
    totals
        The numbers behind ``features`` and ``orders``.
    """

    terms: Table
    features: Table
    orders: Table
    ranking: Ranking
    totals: Totals

    def __repr__(self) -> str:
        """Return the table of terms."""
        return repr(self.terms)


def sobol_indices(
    model: Model,
    n_terms: int = 50,
    min_share: float = 1e-4,
    coverage: float = 0.9,
    n_samples: int = 400,
    seed: int = 0,
) -> SobolIndices:
    """Return the Sobol indices of a model.

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
    posterior = model.posterior
    blocks = PairBlocks(posterior, with_precision=True)
    totals = sobol_totals(posterior, blocks)
    ranking = rank_terms(posterior, n_terms, min_share, blocks, totals)
    terms: list[Term] = list(ranking.terms)
    variance = max(totals.variance, np.finfo(float).tiny)
    low = high = mean_share = np.zeros(0)
    if terms:
        expected = posterior_variances(posterior, terms, blocks)
        draws = sample_variances(posterior, terms, n_samples, seed, expected).cpu().numpy()
        # Terms that are not listed count with the variance of their posterior mean.
        rest = max(0.0, totals.variance - float(sum(ranking.variances)))
        shares = draws / (draws.sum(axis=1, keepdims=True) + rest)
        tails = [50 * (1 - coverage), 50 * (1 + coverage)]
        low, high = np.percentile(shares, tails, axis=0)
        mean_share = (expected / (expected.sum() + rest)).cpu().numpy()
    table = Table(
        {
            "term": [model.label(u) for u in terms],
            "order": [len(u) for u in terms],
            "share": list(ranking.shares),
            "low": low.tolist(),
            "high": high.tolist(),
            "mean_share": mean_share.tolist(),
            "sd": [model.scale * v**0.5 for v in ranking.variances],
        }
    )
    features = Table(
        {
            "feature": model.names,
            "first_order": (totals.main / variance).tolist(),
            "total": (totals.total / variance).tolist(),
        }
    )
    orders = Table(
        {
            "order": list(range(1, len(totals.orders))),
            "share": (totals.orders[1:] / torch.tensor(variance)).tolist(),
        }
    )
    return SobolIndices(table, features, orders, ranking, totals)
