"""From encoded rows to the latent functions of a basis model: what `fit_model` needs of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from oakgp.basis.fit import BasisFit, BasisFitter, BasisSchedule
from oakgp.basis.rows import RowSource
from oakgp.basis.selection import MAX_ORDER
from oakgp.basis.working import GaussianWorking, LikelihoodWorking, Working
from oakgp.kernels.constrained import Feature
from oakgp.kernels.terms import Term, term_set
from oakgp.likelihoods.base import Likelihood


@dataclass(frozen=True)
class BasisModel:
    """A basis fit and its response.

    Parameters
    ----------
    fit
        The fit.
    levels, likelihood_parameters
        ``[L]`` and ``[p]`` of the likelihood; None for Gaussian noise.
    """

    fit: BasisFit
    levels: Tensor | None
    likelihood_parameters: Tensor | None


def fit_basis(
    features: Sequence[Feature],
    source: RowSource,
    *,
    likelihood: Likelihood | None,
    start: tuple[Tensor, Tensor] | None,
    max_order: int | None,
    forbidden: Sequence[Term],
    forced: Sequence[Term],
    schedule: BasisSchedule,
    seed: int,
    device: str,
) -> BasisModel:
    """Fit a basis model to rows.

    Parameters
    ----------
    features
        Columns of the model.
    source
        The rows.
    likelihood, start
        Likelihood with its levels and first parameters; None for Gaussian noise.
    max_order
        Highest order; None for 3.
    forbidden, forced
        Sets of features that no term may contain together; interactions that must be in.
    schedule, seed, device
        Amounts of work, seed of the sample, where the sums are made.
    """
    d = len(features)
    terms = term_set(d, min(max_order or MAX_ORDER, d), forbidden=forbidden, forced=forced)
    working: Working = GaussianWorking()
    unit = 1.0
    if likelihood is not None:
        assert start is not None
        levels, parameters = start
        working = LikelihoodWorking(likelihood, levels.to(device), parameters.to(device))
        unit = likelihood.latent_unit
    fitter = BasisFitter(
        features,
        working,
        allowed=terms.__contains__,
        forced=forced,
        max_order=min(max_order or MAX_ORDER, MAX_ORDER),
        schedule=schedule,
        unit=unit,
        seed=seed,
        device=device,
    )
    fit = fitter.fit(source)
    if isinstance(working, LikelihoodWorking):
        return BasisModel(fit, working.levels, working.parameters)
    return BasisModel(fit, None, None)
