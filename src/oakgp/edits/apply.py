"""Make the changes, and note what they did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oakgp.edits.posterior import EditedPosterior, TermEdit, edited, entry_rows
from oakgp.edits.projection import SHAPES, project
from oakgp.edits.record import EditRecord
from oakgp.edits.tables import ComponentGrid, axis_of
from oakgp.edits.variances import gaussian_draws
from oakgp.kernels import CategoricalKernel, Periodic
from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.posterior import Posterior
from oakgp.response import as_array

Array = NDArray[np.float64]

_NODES = {"increasing": 256, "decreasing": 256, "convex": 64, "concave": 64}
_DRAWS = 400


def edit_model(
    model: Model,
    *,
    drop: Sequence[Any] = (),
    scale: Mapping[Any, float] | None = None,
    shapes: Mapping[Any, str] | None = None,
    reason: str = "",
    seed: int = 0,
) -> Model:
    """Return a model some of whose components are changed, with the record of it.

    Classes are all edited alike; of other responses with several latent functions, the first is.

    Parameters
    ----------
    model
        The model; it may be edited already.
    drop
        Terms to set to 0.
    scale
        Terms with what to multiply them by.
    shapes
        Features whose main effect is projected to a shape: ``"increasing"``, ``"decreasing"``,
        ``"convex"`` or ``"concave"``.
    reason
        Why, for the record.
    seed
        Of the posterior draws that are projected.
    """
    changes = _changes(model, drop, scale or {}, shapes or {})
    before = _shares(model, [term for term, _, _ in changes])
    result = _each(model, changes, seed)
    after = _shares(result, [term for term, _, _ in changes])
    records = [
        EditRecord(
            change=_described(what, by),
            term=model.label(term),
            reason=reason,
            share_before=before[k],
            share_after=after[k],
            moved=_moved(model, result, term),
        )
        for k, (term, what, by) in enumerate(changes)
    ]
    return with_records(result, [*records_of(model), *records])


def records_of(model: Model) -> tuple[EditRecord, ...]:
    """Return what was done to a model by hand, in order."""
    posterior = model.posterior
    return posterior.records if isinstance(posterior, EditedPosterior) else ()


def with_records(model: Model, records: Sequence[EditRecord]) -> Model:
    """Return an edited model with another record."""
    assert isinstance(model.posterior, EditedPosterior)
    return replace(model, posterior=replace(model.posterior, records=tuple(records)))


def unedited(model: Model) -> Model:
    """Return a model as the data left it."""
    others = tuple(replace(o, posterior=base_of(o.posterior)) for o in model.others)
    return replace(model, posterior=base_of(model.posterior), others=others)


def base_of(posterior: Posterior) -> Posterior:
    """Return a posterior as the data left it."""
    return posterior.base if isinstance(posterior, EditedPosterior) else posterior


def _changes(
    model: Model, drop: Sequence[Any], scale: Mapping[Any, float], shapes: Mapping[Any, str]
) -> list[tuple[Term, str, float]]:
    """Return the wanted changes as term, kind and number, or say what is wrong with them."""
    if isinstance(drop, str):
        drop = [drop]
    found: list[tuple[Term, str, float]] = [(model.term(spec), "factor", 0.0) for spec in drop]
    for spec, factor in scale.items():
        if not isinstance(factor, Real) or not np.isfinite(factor):
            raise ValueError(f"scale= holds {factor!r} for {spec!r}: give a number, such as 0.5")
        found.append((model.term(spec), "factor", float(factor)))
    for spec, shape in shapes.items():
        if shape not in SHAPES:
            raise ValueError(f"{shape!r} is no shape: choose one of {', '.join(SHAPES)}")
        term = model.term(spec)
        _check_shape(model, term)
        found.append((term, shape, 1.0))
    if not found:
        raise ValueError("nothing to edit: give drop=, scale=, monotone= or convex=")
    names = [term for term, _, _ in found]
    for term in names:
        if not term:
            raise ValueError("the constant cannot be edited; add what is wanted to the predictions")
        if names.count(term) > 1:
            raise ValueError(
                f"{model.label(term)!r} is to be changed twice; do one after the other"
            )
        kept = model.posterior.kept
        if kept is not None and term not in kept:
            raise ValueError(f"{model.label(term)!r} was dropped by truncation already")
    return found


def _check_shape(model: Model, term: Term) -> None:
    if len(term) != 1:
        raise ValueError(f"{model.label(term)!r} is no main effect: only these can get a shape")
    kernel = model.columns[term[0]].feature.kernel
    if isinstance(kernel, (CategoricalKernel, Periodic)):
        kind = "categories" if isinstance(kernel, CategoricalKernel) else "a cycle"
        raise ValueError(f"column {model.label(term)!r} holds {kind}, which have no direction")


def _each(model: Model, changes: Sequence[tuple[Term, str, float]], seed: int) -> Model:
    """Return the model with all changes made to it, and to its other classes."""
    posterior = model.posterior
    for term, what, by in changes:
        posterior = edited(posterior, _edit(model, posterior, term, what, by, seed))
    others = model.others
    if model.pooled:
        others = tuple(_each(other, changes, seed) for other in model.others)
    return replace(model, posterior=posterior, others=others)


def _edit(
    model: Model, posterior: Posterior, term: Term, what: str, by: float, seed: int
) -> TermEdit:
    old = posterior.edit_of(term) if isinstance(posterior, EditedPosterior) else None
    if what == "factor":
        return (old or TermEdit(term)).scaled(by)
    return TermEdit(term, grid=shaped(model, posterior, term, what, seed))


def shaped(model: Model, posterior: Posterior, term: Term, shape: str, seed: int) -> ComponentGrid:
    """Return the projection of a main effect to a shape.

    Draws of the component at the nodes of its measure are projected one by one; their mean is the
    new mean, and their deviation, over what it is for the data alone, the new factor.
    """
    column = model.columns[term[0]]
    axis, probability = axis_of(column.feature, _NODES[shape])
    base = base_of(posterior)
    rows = entry_rows(posterior, term, axis.coordinates[None], _valid(model))
    mean, variance = (as_array(part) for part in posterior.mean_and_variance(rows, term))
    reference = np.sqrt(as_array(base.mean_and_variance(rows, term)[1]))
    deviation = np.sqrt(variance)
    inner = slice(0, len(axis.nodes))
    x = np.array(axis.nodes) if column.flow is None else column.flow.inverse(np.array(axis.nodes))
    covariance = as_array(posterior.covariance(rows[:, inner], term=term))
    draws = gaussian_draws(mean[inner], covariance, _DRAWS, seed)
    found = project(draws, x, probability[inner], shape)
    mean[inner], deviation[inner] = found.mean(axis=0), found.std(axis=0)
    factor = np.divide(deviation, reference, out=np.ones_like(mean), where=reference > 0)
    return ComponentGrid((axis,), mean, factor, probability)


def _valid(model: Model) -> Array:
    return np.array([column.feature.measure.atoms[0][0] for column in model.columns])


def _shares(model: Model, terms: Sequence[Term]) -> list[float]:
    """Return shares of the variance; NaN has no place in a file, so 0 where there are none."""
    if not model.posterior.orthogonal:
        return [0.0] * len(terms)
    variances = model.variances()
    whole = variances.totals().variance
    return [float(v) / whole if whole > 0 else 0.0 for v in variances.of(list(terms))]


def _moved(before: Model, after: Model, term: Term) -> float:
    """Return the root mean square change of a component's mean, in units of the response."""
    nodes = [before.columns[i].feature.measure.atoms for i in term]
    rng = np.random.default_rng(0)
    picks = [rng.choice(len(z), size=512, p=p / p.sum()) for z, p in nodes]
    rows = np.repeat(_valid(before)[:, None], 512, axis=1)
    for i, (z, _), pick in zip(term, nodes, picks, strict=True):
        rows[i] = z[pick]
    x = before.posterior.mean_weights.new_tensor(rows)
    change = as_array(after.posterior.mean(x, term) - before.posterior.mean(x, term))
    return before.scale * float(np.sqrt(np.mean(change**2)))


def _described(what: str, by: float) -> str:
    if what != "factor":
        return f"made {what}"
    return "dropped" if by == 0 else f"scaled by {by:g}"
