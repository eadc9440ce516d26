"""Updates of fitted estimators of the basis engine: rows added, rows taken back, models merged."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from oakgp.model import Model
from oakgp.posterior import Posterior

if TYPE_CHECKING:
    from oakgp.basis.posterior import BasisPosterior
    from oakgp.basis.rows import Rows
    from oakgp.basis.working import Working

Array = NDArray[np.float64]


class Updatable(ABC):
    """What a model of the basis engine can learn after its fit; each method returns a copy."""

    @abstractmethod
    def _fitted(self) -> Model:
        """Return the model, or say that there is none yet."""

    @abstractmethod
    def _new_rows(
        self, X: Any, y: Any, sample_weight: Any, given: dict[str, Any]
    ) -> tuple[Array, Array, Array]:
        """Return responses on the likelihood's scale, weights and offsets of new rows, checked."""

    def update(self, X: Any, y: Any, sample_weight: Any = None, **given: Any) -> Self:
        """Return a copy that has learned from new rows as well.

        Its terms, functions and hyperparameters stay as they are, and the old rows are not
        needed. For Gaussian noise the result is that of all rows together; for other likelihoods
        the old rows are summed up by a Gaussian.

        Parameters
        ----------
        X, y, sample_weight
            The rows, as for ``fit``.
        **given : array
            ``exposure=`` or ``offset=`` of these rows.
        """
        from oakgp.basis.update import with_rows

        model, posteriors = self._updatable()
        rows, working = self._read_rows(model, X, y, sample_weight, given)
        return self._with(with_rows(posteriors, working, rows), rows.n)

    def forget(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Return a copy as if these rows, which it learned from, had not been there.

        Exact, for Gaussian noise only. Terms, functions, their measures and the hyperparameters
        stay as they are.
        """
        from oakgp.basis.update import without_rows

        model, (first, *others) = self._updatable()
        if model.response is not None or others:
            raise ValueError(
                "rows can be taken back from models with Gaussian noise only; fit the others again"
            )
        rows, working = self._read_rows(model, X, y, sample_weight, {})
        return self._with((without_rows(first, working, rows),), -rows.n)

    def merge(self, *others: Self) -> Self:
        """Return a copy that knows what copies of this model learned from rows of their own.

        Send a fitted model to several machines, `update` it there with the rows they have, and
        merge what comes back into the model that was sent.
        """
        from oakgp.basis.update import joined

        model, posteriors = self._updatable()
        found = [other._updatable() for other in others]
        if any(len(p) != len(posteriors) for _, p in found):
            raise ValueError("these models have other numbers of latent functions")
        merged = [joined(p, [own[k] for _, own in found]) for k, p in enumerate(posteriors)]
        gained = sum(m.facts.n_rows - model.facts.n_rows for m, _ in found)
        return self._with(merged, gained)

    def _updatable(self) -> tuple[Model, list[BasisPosterior]]:
        from oakgp.basis.posterior import BasisPosterior

        model = self._fitted()
        posteriors = [p for p in model.posteriors if isinstance(p, BasisPosterior)]
        if len(posteriors) != len(model.posteriors):
            raise ValueError(
                "only models of the basis engine, without edits, can be updated; fit with "
                "engine='basis'"
            )
        return model, posteriors

    def _read_rows(
        self, model: Model, X: Any, y: Any, sample_weight: Any, given: dict[str, Any]
    ) -> tuple[Rows, Working]:
        from oakgp.basis.rows import Rows
        from oakgp.basis.working import GaussianWorking, LikelihoodWorking

        target, weights, offset = self._new_rows(X, y, sample_weight, given)
        x = model.encode(X)
        y_unit, w, shift = (torch.from_numpy(v.copy()).to(x) for v in (target, weights, offset))
        working: Working = GaussianWorking()
        if model.response is not None:
            r = model.response
            working = LikelihoodWorking(r.likelihood, r.levels, r.parameters)
        return Rows(x, y_unit, w, shift), working

    def _with(self, posteriors: Sequence[Posterior], gained: int) -> Self:
        model = self._fitted()
        facts = replace(model.facts, n_rows=model.facts.n_rows + gained)
        others = tuple(
            replace(own, posterior=p) for own, p in zip(model.others, posteriors[1:], strict=True)
        )
        other = copy.deepcopy(self, {id(model): model})  # a model never changes: share it
        other.__dict__["model_"] = replace(
            model, posterior=posteriors[0], others=others, facts=facts
        )
        return other
