"""Variances of the components of the kernel engine: quadratic forms over pairs of anchors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from oakgp.kernels.terms import Term
from oakgp.posterior.kernel import KernelPosterior
from oakgp.sensitivity.credible import posterior_variances, sample_variances
from oakgp.sensitivity.quadratic import PairBlocks
from oakgp.sensitivity.sobol import expected_totals, sobol_totals, term_variances, top_terms
from oakgp.sensitivity.variances import Totals, Variances


class KernelVariances(Variances):
    """Variances of one posterior, or averages over several with the same anchors.

    Parameters
    ----------
    posterior, others
        The posteriors.
    """

    def __init__(self, posterior: KernelPosterior, others: Sequence[KernelPosterior] = ()) -> None:
        self._posterior, self._others = posterior, tuple(others)

    @cached_property
    def _plain(self) -> PairBlocks:
        # What was made with the precision serves without it.
        made = self.__dict__.get("_with_precision")
        return made or PairBlocks(self._posterior, False, self._others)

    @cached_property
    def _with_precision(self) -> PairBlocks:
        return PairBlocks(self._posterior, True, self._others)

    @cached_property
    def _totals(self) -> Totals:
        return sobol_totals(self._posterior, self._plain)

    @cached_property
    def _expected_totals(self) -> Totals:
        return expected_totals(self._posterior, self._with_precision)

    def totals(self) -> Totals:
        """Return the sums of V_u of the posterior mean."""
        return self._totals

    def expected_totals(self) -> Totals:
        """Return the sums of E[V_u] under the posterior."""
        return self._expected_totals

    def of(self, terms: Sequence[Term]) -> Tensor:
        """Return V_u of the posterior mean for some terms, ``[k]``."""
        return term_variances(self._posterior, list(terms), self._plain)

    def expected_of(self, terms: Sequence[Term]) -> Tensor:
        """Return E[V_u] under the posterior for some terms, ``[k]``."""
        return posterior_variances(self._posterior, list(terms), self._with_precision)

    def largest(self, count: int, min_share: float = 0.0) -> list[tuple[Term, float]]:
        """Return the terms of largest V_u, largest first."""
        variance = self._totals.variance
        return top_terms(self._posterior, count, min_share, self._plain, variance)

    def draws(self, terms: Sequence[Term], n_samples: int, seed: int) -> Tensor:
        """Return joint posterior draws of V_u for some terms, ``[n_samples, k]``."""
        chosen = list(terms)
        if not self._others:
            expected = self.expected_of(chosen)
            return sample_variances(self._posterior, chosen, n_samples, seed, expected)
        everyone = (self._posterior, *self._others)
        each = [sample_variances(p, chosen, n_samples, seed + k) for k, p in enumerate(everyone)]
        return torch.stack(each).mean(dim=0)
