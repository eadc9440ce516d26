"""From a fitted model to its tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from oakgp.compiled.bands import build_bands
from oakgp.compiled.build import build
from oakgp.compiled.model import CompiledFunction, CompiledModel
from oakgp.compiled.values import values_of
from oakgp.kernels.terms import Term
from oakgp.model import Label, Model

_MOST_TERMS = 2000
_REMEDY = (
    "tables hold one or two. Truncate the model first (truncate()), fit with max_order=2, or name "
    "the terms to take (terms=)."
)


def compile_model(
    model: Model,
    *,
    tolerance: float = 1e-3,
    terms: Sequence[Any] | None = None,
    bands: bool = True,
    classes: Sequence[Label] | None = None,
) -> CompiledModel:
    """Return a model's components as tables.

    Parameters
    ----------
    model
        A fitted model whose kept terms have one or two features.
    tolerance
        Largest error of the function: in standard deviations of the target, where there is a link
        in its units.
    terms
        Those to take: names as `oakgp.model.Model.term` reads them. All that the model's
        predictions sum over when not given.
    bands
        Whether to compile standard deviations too. Responses other than Gaussian need them.
    classes
        Class labels of a classifier.
    """
    if not 0.0 < tolerance < np.inf:
        raise ValueError(f"tol={tolerance!r}: give a positive number, such as 1e-3")
    functions = []
    for k, output in enumerate(model.outputs):
        chosen = _terms(output) if terms is None else [model.term(spec) for spec in terms]
        wanted = list(dict.fromkeys(u for u in chosen if u))
        too_high = [model.label(u) for u in wanted if len(u) > 2]
        if too_high:
            raise ValueError(
                f"{len(too_high)} of the {len(wanted)} terms have more than two features, as "
                f"{too_high[0]!r} has: {_REMEDY}"
            )
        level = 0.0 if model.response is None else float(model.response.levels[k])
        functions.append(_function(output, wanted, tolerance, bands, level))
    noise = model.scale**2 * model.posterior.noise if model.response is None else 0.0
    return CompiledModel(
        schema=model.schema,
        functions=tuple(functions),
        noise=noise,
        response=model.response,
        classes=None if classes is None else tuple(classes),
        tolerance=tolerance,
    )


def _function(
    model: Model, terms: Sequence[Term], tolerance: float, bands: bool, level: float
) -> CompiledFunction:
    values = values_of(model)
    built = build(model, values, terms, tolerance, straight=True)
    return CompiledFunction(
        name=model.name,
        sum=built.sum,
        bands=build_bands(model, values, terms, built.scales) if bands else None,
        level=level,
        center=model.center,
        scale=model.scale,
        bound=built.bound,
        left_out=built.left_out,
    )


def _terms(model: Model) -> list[Term]:
    """Return the terms that predictions sum over; one of a higher order, if there is any."""
    kept = model.posterior.kept
    if kept is not None:
        return list(kept)
    known = model.posterior.terms
    n = len(model.columns)
    found = [u for order in (1, 2) for u in combinations(range(n), order) if u in known]
    counts = known.counts()
    if sum(counts[3:]):
        raise ValueError(
            f"the model has {sum(counts[3:])} terms of more than two features: {_REMEDY}"
        )
    if len(found) > _MOST_TERMS:
        raise ValueError(
            f"the model has {len(found)} terms: truncate it first (truncate()), or name those to "
            "take (terms=)"
        )
    return found
