"""Which terms a shorter model keeps, and how much of the variance it loses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.sensitivity import Ranking, rank_terms, select

Array = NDArray[np.float64]

_RANKED = 2000  # terms looked at; smaller ones together count as dropped


def important_terms(
    model: Model, threshold: float | None, n_terms: int | None
) -> tuple[tuple[Term, ...] | None, float]:
    """Return the terms to keep, largest first, and the share of the variance that is dropped.

    None stands for all terms, which a threshold of 0 keeps.

    Parameters
    ----------
    model
        A fitted model; terms that were dropped from it before are looked at again.
    threshold
        Keep terms with at least this share of the variance.
    n_terms
        Keep at most this many; forced terms stay besides.
    """
    if not threshold and n_terms is None:
        return None, 0.0
    posterior = model.posterior.keep(None)
    variances = model.variances()
    ranking = rank_terms(posterior, n_terms or _RANKED, threshold or 0.0, variances)
    small = tuple(term for term in model.forced if term not in ranking.terms)
    # Forced terms stay however small they are, so what they explain is not dropped.
    ranking = Ranking(
        ranking.terms + small,
        ranking.variances + tuple(variances.of(small).tolist()),
        ranking.variance,
    )
    return select(ranking, threshold, n_terms, model.forced)


def truncated(model: Model, threshold: float | None, n_terms: int | None) -> tuple[Model, float]:
    """Return the model of the important terms, and the share of the variance that is dropped.

    Classes keep the same terms, the noise of a response its own; the share is that of the first
    latent function, or of all classes together.
    """
    kept, dropped = important_terms(model, threshold, n_terms)
    short = model.keep(kept)
    if model.others and not model.pooled:
        others = tuple(o.keep(important_terms(o, threshold, n_terms)[0]) for o in model.others)
        short = replace(short, others=others)
    return short, dropped


def response_curve(
    model: Model, ranking: Ranking, score: Callable[[Model], float]
) -> list[tuple[int, float, float]]:
    """Return (number of terms, cumulative share, score of the model of these terms).

    As `oakgp.sensitivity.metric_curve` for responses that are no linear function of f: k terms
    take O(k) terms' work.
    """
    curve = []
    for k in range(len(ranking.terms) + 1):
        share = sum(ranking.shares[:k], start=0.0)
        curve.append((k, share, score(model.keep(ranking.terms[:k]))))
    return curve


def root_mean_squared_error(y: Array, prediction: Array) -> float:
    """Return the metric of `OAKRegressor.truncation_curve` when none is given."""
    error = y - prediction
    largest = float(np.abs(error).max())
    if largest == 0:
        return 0.0
    return largest * float(np.sqrt(np.mean((error / largest) ** 2)))  # 1e300 squared is infinite
