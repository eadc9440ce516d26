"""Variances of the components of a basis: squared lengths of their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from oakgp.kernels.terms import Term
from oakgp.sensitivity.variances import Totals, Variances

if TYPE_CHECKING:
    from oakgp.basis.posterior import BasisPosterior


class BasisVariances(Variances):
    """V_u = |a_u|^2, since the columns of a basis are orthonormal under the measures.

    Parameters
    ----------
    posteriors
        One, or those of all classes on the same basis: then all are averages.
    """

    def __init__(self, posteriors: Sequence[BasisPosterior]) -> None:
        self._posteriors = list(posteriors)
        self._layout = posteriors[0].layout

    def _by_term(self, squares: Callable[[BasisPosterior], Tensor]) -> Tensor:
        """Return sums of a quantity of the columns, for each term, averaged over posteriors."""
        each = torch.stack([squares(p) for p in self._posteriors]).mean(dim=0)
        return torch.stack([each[self._layout.slices[u]].sum() for u in self._layout.terms])

    @cached_property
    def _of_mean(self) -> Tensor:
        return self._by_term(lambda p: p.mean_weights**2)

    @cached_property
    def _expected(self) -> Tensor:
        return self._by_term(lambda p: p.mean_weights**2 + (p.root**2).sum(dim=0))

    def _sums(self, values: Tensor) -> Totals:
        d = self._layout.n_features
        orders = torch.zeros(self._layout.max_order + 1, dtype=torch.float64)
        main = torch.zeros(d, dtype=torch.float64)
        total = torch.zeros(d, dtype=torch.float64)
        shapley = torch.zeros(d, dtype=torch.float64)
        for u, value in zip(self._layout.terms, values.tolist(), strict=True):
            if not u:
                continue
            orders[len(u)] += value
            if len(u) == 1:
                main[u[0]] += value
            total[list(u)] += value
            shapley[list(u)] += value / len(u)
        return Totals(orders, main, total, shapley)

    def totals(self) -> Totals:
        """Return the sums of V_u of the posterior mean."""
        return self._sums(self._of_mean)

    def expected_totals(self) -> Totals:
        """Return the sums of E[V_u] under the posterior."""
        return self._sums(self._expected)

    def _chosen(self, values: Tensor, terms: Sequence[Term]) -> Tensor:
        known = {u: k for k, u in enumerate(self._layout.terms)}
        return values[torch.tensor([known[u] for u in terms], dtype=torch.long)].cpu()

    def of(self, terms: Sequence[Term]) -> Tensor:
        """Return V_u of the posterior mean for some terms, ``[k]``."""
        return self._chosen(self._of_mean, terms)

    def expected_of(self, terms: Sequence[Term]) -> Tensor:
        """Return E[V_u] under the posterior for some terms, ``[k]``."""
        return self._chosen(self._expected, terms)

    def largest(self, count: int, min_share: float = 0.0) -> list[tuple[Term, float]]:
        """Return the terms of largest V_u, largest first."""
        floor = min_share * self.totals().variance
        pairs = zip(self._layout.terms, self._of_mean.tolist(), strict=True)
        found = [(u, v) for u, v in pairs if u and v > floor]
        return sorted(found, key=lambda pair: (-pair[1], len(pair[0]), pair[0]))[:count]

    def draws(self, terms: Sequence[Term], n_samples: int, seed: int) -> Tensor:
        """Return joint posterior draws of V_u for some terms, ``[n_samples, k]``."""
        each = []
        for k, posterior in enumerate(self._posteriors):
            generator = torch.Generator().manual_seed(seed + k)
            root, mean = posterior.root, posterior.mean_weights
            white = torch.randn((n_samples, len(root)), generator=generator, dtype=torch.float64)
            squares = (mean + white.to(root) @ root) ** 2
            sums = [squares[:, self._layout.slices[u]].sum(dim=1) for u in terms]
            each.append(torch.stack(sums, dim=1) if sums else squares.new_zeros((n_samples, 0)))
        return torch.stack(each).mean(dim=0).cpu()
