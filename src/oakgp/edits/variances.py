"""Variances of components over the inputs when some were edited."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from oakgp.edits.posterior import EditedPosterior, TermEdit, entry_rows
from oakgp.kernels.terms import Term
from oakgp.response import as_array
from oakgp.sensitivity.variances import Totals, Variances


class EditedVariances(Variances):
    """Those of the posterior as the data left it, but for the edited terms.

    Of tables, variances are sums over their entries; draws of a table do not depend on those of
    other terms.

    Parameters
    ----------
    posteriors
        One, or those of all classes, edited alike.
    """

    def __init__(self, posteriors: Sequence[EditedPosterior]) -> None:
        self._posteriors = list(posteriors)
        first, *others = [p.base for p in posteriors]
        self._base = first.variances(others)
        self._edited = {edit.term for p in posteriors for edit in p.edits}

    @cached_property
    def _changes(self) -> dict[Term, tuple[float, float, float, float]]:
        """V_u before and after, and E[V_u] before and after, of each edited term."""
        terms = sorted(self._edited)
        before = self._base.of(terms).tolist()
        expected = self._base.expected_of(terms).tolist()
        found = {}
        for u, v, e in zip(terms, before, expected, strict=True):
            each = [self._now(p, u) for p in self._posteriors]
            now, hoped = (float(np.mean(part)) for part in zip(*each, strict=True))
            found[u] = (v, now, e, hoped)
        return found

    def _now(self, posterior: EditedPosterior, term: Term) -> tuple[float, float]:
        """Return V_u of the mean, and E[V_u], of one posterior."""
        edit = posterior.edit_of(term)
        if edit is None or edit.grid is None:
            square = 1.0 if edit is None else edit.factor**2
            own = posterior.base.variances()
            return square * float(own.of([term])[0]), square * float(own.expected_of([term])[0])
        p, _, covariance = self._moments(posterior, edit)
        spread = float(p @ covariance.diagonal() - p @ covariance @ p)
        return edit.grid.variance, edit.grid.variance + max(0.0, spread)

    def _moments(
        self, posterior: EditedPosterior, edit: TermEdit
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return probability, mean and covariance of a table's entries that have probability."""
        assert edit.grid is not None
        p = edit.grid.probability.ravel()
        some = np.flatnonzero(p > 0)
        valid = np.zeros(posterior.n_features)
        rows = entry_rows(posterior, edit.term, edit.grid.entries[:, some], valid)
        covariance = as_array(posterior.covariance(rows, term=edit.term))
        return p[some], edit.grid.mean.ravel()[some], covariance

    def _shifted(self, totals: Totals, now: int) -> Totals:
        orders, main, total = totals.orders.clone(), totals.main.clone(), totals.total.clone()
        shapley = totals.shapley.clone()
        for u, change in self._changes.items():
            gain = change[now] - change[now - 1]
            orders[len(u)] += gain
            total[list(u)] += gain
            shapley[list(u)] += gain / len(u)
            if len(u) == 1:
                main[u[0]] += gain
        return Totals(*(part.clamp_min(0.0) for part in (orders, main, total, shapley)))

    def totals(self) -> Totals:
        """Return the sums of V_u of the posterior mean."""
        return self._shifted(self._base.totals(), 1)

    def expected_totals(self) -> Totals:
        """Return the sums of E[V_u] under the posterior."""
        return self._shifted(self._base.expected_totals(), 3)

    def _replaced(self, values: Tensor, terms: Sequence[Term], now: int) -> Tensor:
        found = values.clone()
        for k, u in enumerate(terms):
            if u in self._changes:
                found[k] = self._changes[u][now]
        return found

    def of(self, terms: Sequence[Term]) -> Tensor:
        """Return V_u of the posterior mean for some terms, ``[k]``."""
        return self._replaced(self._base.of(terms), terms, 1)

    def expected_of(self, terms: Sequence[Term]) -> Tensor:
        """Return E[V_u] under the posterior for some terms, ``[k]``."""
        return self._replaced(self._base.expected_of(terms), terms, 3)

    def largest(self, count: int, min_share: float = 0.0) -> list[tuple[Term, float]]:
        """Return the terms of largest V_u, largest first."""
        whole = self.totals().variance
        before = self._base.totals().variance
        share = min_share * min(1.0, whole / before) if before > 0 else min_share
        found = dict(self._base.largest(count + len(self._changes), share))
        found.update({u: change[1] for u, change in self._changes.items()})
        wanted = [(u, v) for u, v in found.items() if v > max(min_share * whole, 1e-300)]
        return sorted(wanted, key=lambda pair: (-pair[1], len(pair[0]), pair[0]))[:count]

    def draws(self, terms: Sequence[Term], n_samples: int, seed: int) -> Tensor:
        """Return posterior draws of V_u for some terms, ``[n_samples, k]``."""
        found = self._base.draws(terms, n_samples, seed).clone()
        for k, u in enumerate(terms):
            if u not in self._edited:
                continue
            each = [
                self._own_draws(p, u, n_samples, seed + j) for j, p in enumerate(self._posteriors)
            ]
            found[:, k] = torch.stack(each).mean(dim=0).to(found)
        return found

    def _own_draws(
        self, posterior: EditedPosterior, term: Term, n_samples: int, seed: int
    ) -> Tensor:
        edit = posterior.edit_of(term)
        if edit is None or edit.grid is None:
            square = 1.0 if edit is None else edit.factor**2
            return square * posterior.base.variances().draws([term], n_samples, seed)[:, 0]
        p, mean, covariance = self._moments(posterior, edit)
        draws = gaussian_draws(mean, covariance, n_samples, seed)
        return torch.from_numpy(draws**2 @ p - (draws @ p) ** 2)


def gaussian_draws(
    mean: np.ndarray, covariance: np.ndarray, n_samples: int, seed: int
) -> np.ndarray:
    """Return draws of a Gaussian whose covariance may be singular, ``[n_samples, n]``.

    They come in pairs that mirror each other at the mean, so that averages over them of what is
    nearly linear are nearly exact.
    """
    values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    white = np.random.default_rng(seed).standard_normal((-(-n_samples // 2), len(mean)))
    steps = white @ root.T
    return np.asarray((mean + np.concatenate([steps, -steps]))[:n_samples])
