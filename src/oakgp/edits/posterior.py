"""The posterior with some of its components changed on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from oakgp.edits.record import EditRecord
from oakgp.edits.shapley import shapley_covariance
from oakgp.edits.tables import ComponentGrid
from oakgp.edits.weighted import weighted_covariance, weighted_variance
from oakgp.kernels.terms import Term, TermSet
from oakgp.posterior import Posterior
from oakgp.response import as_array

if TYPE_CHECKING:
    from oakgp.sensitivity.variances import Variances


@dataclass(frozen=True, eq=False)
class TermEdit:
    """What became of a component: a multiple of what it was, or a table.

    Parameters
    ----------
    term
        Which component.
    factor
        What it is multiplied by; 0 drops it. Not used where there is a table.
    grid
        The table in its place.
    """

    term: Term
    factor: float = 1.0
    grid: ComponentGrid | None = None

    def scaled(self, factor: float) -> TermEdit:
        """Return the edit followed by a multiplication."""
        if self.grid is None:
            return replace(self, factor=factor * self.factor)
        return replace(self, grid=self.grid.scaled(factor))


@dataclass(frozen=True, eq=False)
class EditedPosterior(Posterior):
    """A posterior in which component u is mean_u(x) + factor_u(x) (f_u(x) - E f_u(x)).

    Edited components stay Gaussian, and their deviations keep their correlations with all others:
    bands, covariances and draws of the whole function count the edit.

    Parameters
    ----------
    base
        The posterior as the data left it.
    edits
        The changes, one for each edited term.
    records
        What was done, for people.
    """

    base: Posterior
    edits: tuple[TermEdit, ...]
    records: tuple[EditRecord, ...] = ()
    mean_weights: Tensor = field(init=False)
    noise: float = field(init=False)
    kept: tuple[Term, ...] | None = field(init=False)

    def __post_init__(self) -> None:
        for name in ("mean_weights", "noise", "kept"):
            object.__setattr__(self, name, getattr(self.base, name))

    @property
    def terms(self) -> TermSet:
        """The terms of the model, dropped ones too."""
        return self.base.terms

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.base.n_features

    @property
    def orthogonal(self) -> bool:
        """Whether components are orthogonal under the measures: edits leave that as it is."""
        return self.base.orthogonal

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.base.size

    def keep(self, terms: Sequence[Term] | None) -> EditedPosterior:
        """Return the posterior of the sum of some terms only (the constant always stays)."""
        return replace(self, base=self.base.keep(terms))

    def edit_of(self, term: Term) -> TermEdit | None:
        """Return the edit of a component; None if there is none."""
        return next((edit for edit in self.edits if edit.term == term), None)

    def _summed(self, term: Term | None) -> list[TermEdit]:
        """Return the edits that count in the whole function, or in one component."""
        if term is not None:
            edit = self.edit_of(term)
            return [] if edit is None else [edit]
        return [e for e in self.edits if self.kept is None or e.term in self.kept]

    def _tables(self, edit: TermEdit, x: Tensor) -> tuple[Tensor | None, Tensor]:
        """Return the table's mean (None for a plain factor) and the factor at rows, ``[n]``."""
        if edit.grid is None:
            return None, torch.full_like(x[0], edit.factor)
        mean, factor = edit.grid.at(as_array(x[list(edit.term)]))
        return torch.from_numpy(mean).to(x), torch.from_numpy(factor).to(x)

    def factor_at(self, x: Tensor, term: Term) -> Tensor:
        """Return what the deviations of a component are multiplied by at rows, ``[n]``."""
        edit = self.edit_of(term)
        return torch.ones_like(x[0]) if edit is None else self._tables(edit, x)[1]

    def _mean_shift(self, x: Tensor, edits: Sequence[TermEdit]) -> Tensor:
        total = x.new_zeros(x.shape[1])
        for edit in edits:
            before = self.base.mean(x, edit.term)
            mean, factor = self._tables(edit, x)
            total = total + ((factor - 1.0) * before if mean is None else mean - before)
        return total

    def mean(self, x: Tensor, term: Term | None = None) -> Tensor:
        """Return the posterior mean of f, or of one component, ``[d, n] -> [n]``."""
        return self.base.mean(x, term) + self._mean_shift(x, self._summed(term))

    def mean_and_variance(self, x: Tensor, term: Term | None = None) -> tuple[Tensor, Tensor]:
        """Return posterior mean and variance of f, or of one component, each ``[n]``."""
        edits = self._summed(term)
        if term is not None:
            mean, variance = self.base.mean_and_variance(x, term)
            for edit in edits:
                table, factor = self._tables(edit, x)
                mean = factor * mean if table is None else table
                variance = factor**2 * variance
            return mean, variance
        if not edits:
            return self.base.mean_and_variance(x)
        return self.mean(x), weighted_variance(self.base, x, self._weights(x, edits))

    def covariance(
        self, x: Tensor, other: Tensor | None = None, term: Term | None = None
    ) -> Tensor:
        """Return the posterior covariance of f, or of one component, between points ``[n, m]``."""
        edits = self._summed(term)
        if not edits:
            return self.base.covariance(x, other, term)
        right = x if other is None else other
        if term is not None:
            (edit,) = edits
            left_factor, right_factor = self._tables(edit, x)[1], self._tables(edit, right)[1]
            return left_factor[:, None] * self.base.covariance(x, other, term) * right_factor
        weights = [self._weights(rows, edits) for rows in (x, right)]
        return weighted_covariance(self.base, x, right, weights[0], weights[1])

    def _weights(self, x: Tensor, edits: Sequence[TermEdit]) -> dict[Term, Tensor]:
        return {edit.term: self._tables(edit, x)[1] - 1.0 for edit in edits}

    def component_moments(self, x: Tensor, terms: Sequence[Term]) -> tuple[Tensor, Tensor]:
        """Return posterior mean and variance of each of some components, both ``[k, n]``."""
        means, variances = self.base.component_moments(x, terms)
        for k, term in enumerate(terms):
            for edit in self._summed(term):
                table, factor = self._tables(edit, x)
                means[k] = factor * means[k] if table is None else table
                variances[k] = factor**2 * variances[k]
        return means, variances

    def rest_variance(self, x: Tensor, terms: Sequence[Term]) -> Tensor:
        """Return the variance of f less the constant and less some components, ``[n]``."""
        weights = self._weights(x, self._summed(None))
        summed = [u for u in ((), *terms) if self.kept is None or u in self.kept]
        weights |= {u: torch.full_like(x[0], -1.0) for u in summed}
        return weighted_variance(self.base, x, weights)

    def shapley(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance of the Shapley value of every feature, each ``[d, n]``."""
        mean, _ = self.base.shapley(x)
        for edit in self._summed(None):
            if edit.term:
                share = self._mean_shift(x, [edit]) / len(edit.term)
                mean[list(edit.term)] += share
        variance = torch.diagonal(self.shapley_covariance(x), dim1=1, dim2=2).T
        return mean, variance.clamp_min(0.0)

    def shapley_covariance(self, x: Tensor) -> Tensor:
        """Return the posterior covariance of the features' Shapley values, ``[n, d, d]``."""
        return shapley_covariance(self.base, x, self._weights(x, self._summed(None)))

    def variances(self, others: Sequence[Posterior] = ()) -> Variances:
        """Return the variances of the components over the inputs, edited ones as they are now."""
        from oakgp.edits.variances import EditedVariances

        everyone = [self, *(p for p in others if isinstance(p, EditedPosterior))]
        return EditedVariances(everyone)


def edited(posterior: Posterior, edit: TermEdit) -> EditedPosterior:
    """Return a posterior with one more edit, which replaces an earlier one of the same term."""
    if not isinstance(posterior, EditedPosterior):
        return EditedPosterior(posterior, (edit,))
    others = tuple(e for e in posterior.edits if e.term != edit.term)
    return replace(posterior, edits=(*others, edit))


def entry_rows(posterior: Posterior, term: Term, entries: np.ndarray, valid: np.ndarray) -> Tensor:
    """Return rows at coordinates of a term's features, all others at valid values, ``[d, n]``."""
    rows = np.repeat(valid[:, None], entries.shape[1], axis=1)
    rows[list(term)] = entries
    return posterior.mean_weights.new_tensor(rows)
