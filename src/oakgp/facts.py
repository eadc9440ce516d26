"""What a fit notes about its data and its outcome, for the verdict."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from oakgp.basis.fit import BasisFit
from oakgp.basis.prior import Bounds as BasisBounds
from oakgp.inference.engines import Engine
from oakgp.inference.learn import Learned
from oakgp.inference.space import ParameterSpace
from oakgp.kernels.additive import Parameters
from oakgp.likelihoods.base import Likelihood
from oakgp.model import Facts

Array = NDArray[np.float64]

_CORRELATED = 0.9


def gather_facts(
    engine: Engine,
    space: ParameterSpace,
    learned: Learned,
    y: Array,
    likelihood: Likelihood | None,
    *,
    flow: str,
    names: list[str],
    n_rows: int,
    seconds: float,
    reason: str = "",
) -> Facts:
    """Return how a fit went, with what a user should know of the data and the hyperparameters.

    Parameters
    ----------
    engine, space, learned
        Of the fit.
    y, likelihood
        Distinct responses, and their likelihood (None for Gaussian noise).
    flow, names, n_rows, seconds, reason
        Chosen flow, names of the features, training rows of positive weight, wall time, and why
        this engine.
    """
    constant = bool((y == y[0]).all())
    notes = _correlations(engine.x, names)
    if constant and likelihood is None:
        notes.append(
            "y is the same in every row, so there is nothing to learn: every prediction is that "
            "value, and the deviations are those of the noise's lower bound"
        )
    elif constant:
        notes.append("y is the same in every row, so there is little to learn")
    at_bound: list[str] = []
    if not constant:
        seen: list[Parameters] = []
        for posterior in learned.fitted.posteriors:
            if not any(posterior.parameters is p for p in seen):
                seen.append(posterior.parameters)
                at_bound += _at_bound(posterior.parameters, space, names)
        if likelihood is not None:
            at_bound += _likelihood_at_bound(likelihood, learned.fitted.likelihood_parameters)
    return Facts(
        engine=learned.engine,
        n_rows=n_rows,
        n_distinct=engine.n,
        log_evidence=learned.log_evidence,
        evidence_rows=learned.evidence_rows,
        converged=learned.converged,
        n_evaluations=learned.n_evaluations,
        jitter=learned.fitted.jitter,
        n_inducing=learned.n_inducing,
        flow=flow,
        at_bound=tuple(dict.fromkeys(at_bound)),
        notes=tuple(notes),
        seconds=seconds,
        reason=reason,
    )


def basis_facts(
    fit: BasisFit,
    x: Tensor,
    y: Array,
    likelihood: Likelihood | None,
    likelihood_parameters: Tensor | None,
    *,
    flow: str,
    names: list[str],
    n_rows: int,
    seconds: float,
    reason: str,
) -> Facts:
    """Return how a fit of the basis engine went.

    Parameters
    ----------
    fit
        The fit.
    x, y
        Some encoded rows, and their responses.
    likelihood, likelihood_parameters
        Likelihood of the response and its parameters; None for Gaussian noise.
    flow, names, n_rows, seconds, reason
        Transform, names of the features, training rows, wall time, why this engine.
    """
    notes = _correlations(x, names)
    constant = bool((y == y[0]).all())
    if constant:
        notes.append("y is the same in every row, so there is nothing to learn")
    if fit.sampled < n_rows:
        notes.append(
            f"terms were found on {fit.sampled:,} of {n_rows:,} rows, weights and variances on all"
        )
    at_bound: list[str] = []
    if likelihood is not None and likelihood_parameters is not None:
        at_bound += _likelihood_at_bound(likelihood, likelihood_parameters)
    elif not constant:
        at_bound += _noise_at_bound(fit.posteriors[0].noise, BasisBounds().noise)
    return Facts(
        engine="basis",
        n_rows=n_rows,
        n_distinct=n_rows,
        log_evidence=fit.log_evidence,
        evidence_rows=n_rows,
        converged=fit.state.converged,
        n_evaluations=fit.state.evaluations,
        jitter=fit.jitter,
        n_inducing=0,
        flow=flow,
        at_bound=tuple(dict.fromkeys(at_bound)),
        notes=tuple(notes),
        seconds=seconds,
        n_columns=fit.state.layout.size,
        reason=reason,
    )


def _at_bound(parameters: Parameters, space: ParameterSpace, names: list[str]) -> list[str]:
    """Return, in words, the hyperparameters at a bound that a user should know of."""
    found = []
    lengthscales = parameters.lengthscales.tolist()
    for i in space.numeric:
        if lengthscales[i] <= space.bounds.lengthscale[0] * 1.001:
            found.append(f"the lengthscale of {names[i]} is at its lower bound (very rough)")
    if not space.learn_noise:
        return found
    return found + _noise_at_bound(float(parameters.noise), space.bounds.noise)


def _noise_at_bound(noise: float, bounds: tuple[float, float]) -> list[str]:
    low, high = bounds
    if noise <= low * 1.001:
        return ["the noise is at its lower bound: the data are interpolated"]
    if noise >= high * 0.999:
        return ["the noise is at its upper bound: no signal was found"]
    return []


def _likelihood_at_bound(likelihood: Likelihood, parameters: Tensor) -> list[str]:
    found = []
    triples = zip(
        likelihood.parameter_names,
        likelihood.parameter_bounds,
        parameters.tolist(),
        strict=True,
    )
    for name, (low, high), value in triples:
        if value <= low * 1.001:
            found.append(f"the {name} of the {likelihood.name} likelihood is at its lower bound")
        if value >= high * 0.999:
            found.append(f"the {name} of the {likelihood.name} likelihood is at its upper bound")
    return found


def _correlations(x: Tensor, names: list[str]) -> list[str]:
    """Return a sentence on strongly correlated pairs of numeric features."""
    rows = x[:, :2000].cpu().numpy()
    if rows.shape[1] < 10:
        return []
    counts = np.maximum((~np.isnan(rows)).sum(axis=1, keepdims=True), 1)
    centred = np.nan_to_num(rows - np.nansum(rows, axis=1, keepdims=True) / counts)
    length = np.sqrt((centred**2).sum(axis=1))
    usable = length > 0
    unit = centred / np.where(usable, length, 1.0)[:, None]
    r = np.triu(unit @ unit.T, k=1)
    pairs = [
        (abs(r[i, j]), f"{names[i]} and {names[j]} ({r[i, j]:+.2f})")
        for i, j in zip(*np.nonzero(np.abs(r) > _CORRELATED), strict=True)
    ]
    if not pairs:
        return []
    pairs.sort(reverse=True)
    more = f" and {len(pairs) - 3} more pairs" if len(pairs) > 3 else ""
    return [
        "strongly correlated features share their effect between them, so read their components "
        "together: " + ", ".join(text for _, text in pairs[:3]) + more + "; Sobol indices take "
        "features for independent, and dependence(X) says how far off they are"
    ]
