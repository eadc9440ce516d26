"""Which components the page shows, with their shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oakgp.edits.apply import is_dropped
from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.sensitivity.report import SobolIndices, sobol_indices

_TERMS = 50  # that the table of Sobol indices has anyway
_COLUMNS = ("share", "mean_share", "low", "high")


@dataclass(frozen=True)
class Listed:
    """A component of the page.

    Parameters
    ----------
    term
        Its features.
    share
        Of the variance; None for a model that is not orthogonal.
    mean_share, low, high
        Expectation under the posterior, and the ends of the 90% interval; None likewise, and for
        small main effects.
    """

    term: Term
    share: float | None = None
    mean_share: float | None = None
    low: float | None = None
    high: float | None = None


def indices(model: Model) -> SobolIndices | None:
    """Return the Sobol indices, of all kept terms at least; None if it is not orthogonal."""
    if not model.posterior.orthogonal or not model.columns:
        return None
    kept = model.posterior.kept
    if kept is None or len(kept) - 1 <= _TERMS:
        return model.sobol
    return sobol_indices(model, n_terms=len(kept) - 1, min_share=0.0)


def listed_terms(
    model: Model, found: SobolIndices | None, wanted: Sequence[Term] | None, limit: int
) -> list[Listed]:
    """Return what to show, largest first: kept terms, or the largest and all main effects.

    Parameters
    ----------
    model, found
        The model and its indices.
    wanted
        Terms to show whatever their share; None for the largest.
    limit
        How many interactions to show.
    """
    known = model.posterior.terms
    mains: list[Term] = [(i,) for i in range(len(model.columns)) if (i,) in known]
    kept = model.posterior.kept
    if found is None:
        return [Listed(term) for term in (mains if wanted is None else wanted)]
    shares = {
        term: Listed(term, *(float(found.terms[name][k]) for name in _COLUMNS))
        for k, term in enumerate(found.ranking.terms)
    }
    first = found.features
    for i in range(len(model.columns)):
        shares.setdefault(
            (i,),
            Listed(
                (i,),
                float(first["first_order"][i]),
                float(first["mean_first_order"][i]),
                float(first["first_order_low"][i]),
                float(first["first_order_high"][i]),
            ),
        )
    if wanted is not None:
        return [shares.get(term, Listed(term)) for term in wanted]
    if kept is not None:
        terms = [term for term in kept if term]
    else:
        terms = list(dict.fromkeys([*found.ranking.terms, *mains]))
    chosen = sorted(
        (shares.get(term, Listed(term, 0.0)) for term in terms),
        key=lambda each: -(each.share or 0.0),
    )
    chosen = [each for each in chosen if not is_dropped(model.posterior, each.term)]
    interactions = [each for each in chosen if len(each.term) > 1][:limit]
    return [each for each in chosen if len(each.term) == 1 or each in interactions]
