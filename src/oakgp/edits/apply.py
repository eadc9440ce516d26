"""Make the changes, and note what they did."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from numbers import Real
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from oakgp.edits.monotone import monotone_edits
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
_SMALL = 1e-4  # of the variance: pairs that are dropped in place of being made monotone
_MOST_TERMS = 500  # that are changed one by one


@dataclass(frozen=True)
class Change:
    """One change to be made.

    Parameters
    ----------
    name
        Of the component, or of the feature.
    terms
        What is changed.
    what
        In words, for the record.
    shape
        What the component is projected to; empty for a factor.
    factor
        What it is multiplied by.
    """

    name: str
    terms: tuple[Term, ...]
    what: str
    shape: str = ""
    factor: float = 1.0


def edit_model(
    model: Model,
    *,
    drop: Sequence[Any] = (),
    without: Sequence[Any] = (),
    scale: Mapping[Any, float] | None = None,
    monotone: Mapping[Any, str] | None = None,
    convex: Mapping[Any, str] | None = None,
    interactions: bool = True,
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
    without
        Features to take out: all terms that contain them are set to 0.
    scale
        Terms with what to multiply them by.
    monotone
        Features with ``"increasing"`` or ``"decreasing"``.
    convex
        Features whose main effect is to be ``"convex"`` or ``"concave"``.
    interactions
        Whether pairs with a monotone feature are made monotone with it.
    reason
        Why, for the record.
    seed
        Of the posterior draws that are projected.
    """
    factors = [
        *(Change(model.label(u), (u,), "dropped", factor=0.0) for u in _listed(model, drop)),
        *(_taken_out(model, spec) for spec in _as_list(without)),
        *_scaled(model, scale or {}),
    ]
    gone = {u for change in factors if change.factor == 0 for u in change.terms}
    shapes = [
        *(_monotone(model, spec, s, interactions, gone) for spec, s in (monotone or {}).items()),
        *(_convex(model, spec, s, gone) for spec, s in (convex or {}).items()),
    ]
    _check(model, factors)
    _check(model, shapes)
    changes = factors + shapes
    if not changes:
        raise ValueError("nothing to edit: give drop=, without=, scale=, monotone= or convex=")
    result = _each(model, changes, seed)
    records = [
        EditRecord(
            change=change.what,
            term=change.name,
            reason=reason,
            share_before=_share(model, change.terms),
            share_after=_share(result, change.terms),
            moved=_moved(model, result, change.terms),
        )
        for change in changes
    ]
    return with_records(result, [*records_of(model), *records])


def records_of(model: Model) -> tuple[EditRecord, ...]:
    """Return what was done to a model by hand, in order."""
    posterior = model.posterior
    return posterior.records if isinstance(posterior, EditedPosterior) else ()


def is_dropped(posterior: Posterior, term: Term) -> bool:
    """Whether a component was set to 0 by hand."""
    edit = posterior.edit_of(term) if _is_edited(posterior) else None
    return edit is not None and edit.grid is None and edit.factor == 0


def edit_in_words(posterior: Posterior, term: Term) -> str:
    """Return what became of a component, in a word or two; empty if nothing did."""
    edit = posterior.edit_of(term) if _is_edited(posterior) else None
    if edit is None:
        return ""
    if edit.grid is not None:
        return "given a shape"
    return f"scaled by {edit.factor:g}" if edit.factor else "dropped"


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


def _as_list(specs: Any) -> list[Any]:
    return [specs] if isinstance(specs, str) else list(specs)


def _listed(model: Model, specs: Any) -> list[Term]:
    return [model.term(spec) for spec in _as_list(specs)]


def _taken_out(model: Model, spec: Any) -> Change:
    """Return the change that takes a feature out of a model."""
    (i,) = _main(model, spec)
    return Change(model.names[i], tuple(terms_with(model, i)), "taken out", factor=0.0)


def terms_with(model: Model, i: int) -> list[Term]:
    """Return the kept terms that contain a feature, or say that there are too many."""
    posterior = model.posterior
    if posterior.kept is not None:
        return [u for u in posterior.kept if i in u]
    counts = [posterior.terms.max_order, posterior.n_features]
    others = [j for j in range(counts[1]) if j != i]
    if sum(comb(len(others), r) for r in range(counts[0])) > _MOST_TERMS:
        raise ValueError(
            f"{model.names[i]!r} is in too many terms to change them one by one: truncate the "
            "model first (truncate())"
        )
    found: list[Term] = [
        tuple(sorted((i, *rest))) for r in range(counts[0]) for rest in combinations(others, r)
    ]
    return [u for u in found if u in posterior.terms]


def _scaled(model: Model, scale: Mapping[Any, float]) -> list[Change]:
    found: list[Change] = []
    for spec, factor in scale.items():
        if not isinstance(factor, Real) or not np.isfinite(factor):
            raise ValueError(f"scale= holds {factor!r} for {spec!r}: give a number, such as 0.5")
        term = model.term(spec)
        found.append(
            Change(model.label(term), (term,), f"scaled by {factor:g}", factor=float(factor))
        )
    return found


def _main(model: Model, spec: Any) -> Term:
    term = model.term(spec)
    if len(term) != 1:
        raise ValueError(f"{model.label(term)!r} is no single feature")
    return term


def _monotone(
    model: Model, spec: Any, shape: str, interactions: bool, gone: Container[Term]
) -> Change:
    if shape not in SHAPES[:2]:
        raise ValueError(
            f"monotone= holds {shape!r} for {spec!r}: choose 'increasing' or 'decreasing'"
        )
    (i,) = _directed(model, spec, gone)
    name = model.names[i]
    terms = terms_with(model, i) if interactions else [(i,)]
    terms = [u for u in terms if u not in gone and not is_dropped(model.posterior, u)]
    terms = list(dict.fromkeys([(i,), *terms]))
    deep = [model.label(u) for u in terms if len(u) > 2]
    if deep:
        raise ValueError(
            f"{name!r} is part of {len(deep)} terms of three or more features, as {deep[0]!r}, "
            "which cannot be made monotone: fit with monotone=, truncate the model first, drop "
            "them, or change the main effect only (interactions=False)"
        )
    what = f"made {shape}" + (" with its interactions" if len(terms) > 1 else "")
    return Change(name, tuple(sorted(terms, key=len)), what, shape)


def _convex(model: Model, spec: Any, shape: str, gone: Container[Term]) -> Change:
    if shape not in SHAPES[2:]:
        raise ValueError(f"convex= holds {shape!r} for {spec!r}: choose 'convex' or 'concave'")
    term = _directed(model, spec, gone)
    return Change(model.label(term), (term,), f"made {shape}", shape)


def _directed(model: Model, spec: Any, gone: Container[Term]) -> Term:
    term = _main(model, spec)
    if term in gone:
        raise ValueError(f"{model.label(term)!r} is to be dropped: it has no shape then")
    if model.pooled:
        raise ValueError(
            "a shape needs one function, but each of three or more classes has its own, and only "
            "their differences count"
        )
    kernel = model.columns[term[0]].feature.kernel
    if isinstance(kernel, (CategoricalKernel, Periodic)):
        kind = "categories" if isinstance(kernel, CategoricalKernel) else "a cycle"
        raise ValueError(f"column {model.label(term)!r} holds {kind}, which have no direction")
    return term


def _check(model: Model, changes: Sequence[Change]) -> None:
    names = [term for change in changes for term in change.terms]
    kept = model.posterior.kept
    for term in names:
        if not term:
            raise ValueError("the constant cannot be edited; add what is wanted to the predictions")
        if names.count(term) > 1:
            raise ValueError(
                f"{model.label(term)!r} is to be changed twice; do one after the other"
            )
        if kept is not None and term not in kept:
            raise ValueError(f"{model.label(term)!r} was dropped by truncation already")


def _each(model: Model, changes: Sequence[Change], seed: int) -> Model:
    """Return the model with all changes made to it, and to its other classes."""
    posterior = model.posterior
    for change in changes:
        for edit in _edits(model, posterior, change, seed):
            posterior = edited(posterior, edit)
    others = model.others
    if model.pooled:
        others = tuple(_each(other, changes, seed) for other in model.others)
    return replace(model, posterior=posterior, others=others)


def _edits(model: Model, posterior: Posterior, change: Change, seed: int) -> list[TermEdit]:
    if not change.shape:
        old = [posterior.edit_of(u) for u in change.terms] if _is_edited(posterior) else []
        plain = old or [None] * len(change.terms)
        pairs = zip(change.terms, plain, strict=True)
        return [(edit or TermEdit(term)).scaled(change.factor) for term, edit in pairs]
    first, *pairs_of_it = change.terms
    if pairs_of_it:
        large, small = _split(posterior, pairs_of_it)
        gone = [TermEdit(u, 0.0) for u in small]
        if large:
            return [*monotone_edits(model, posterior, first[0], large, change.shape, seed), *gone]
        return [TermEdit(first, grid=shaped(model, posterior, first, change.shape, seed)), *gone]
    return [TermEdit(first, grid=shaped(model, posterior, first, change.shape, seed))]


def _split(posterior: Posterior, pairs: Sequence[Term]) -> tuple[list[Term], list[Term]]:
    """Return pairs with a share of the variance worth a projection, and all others."""
    if not posterior.orthogonal:
        return list(pairs), []
    variances = posterior.variances()
    floor = _SMALL * variances.totals().variance
    found = list(zip(pairs, variances.of(list(pairs)).tolist(), strict=True))
    return [u for u, v in found if v > floor], [u for u, v in found if v <= floor]


def _is_edited(posterior: Posterior) -> TypeGuard[EditedPosterior]:
    return isinstance(posterior, EditedPosterior)


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


def _share(model: Model, terms: Sequence[Term]) -> float:
    """Return the share of the variance; 0 where there are none, for NaN has no place in a file."""
    if not model.posterior.orthogonal:
        return 0.0
    variances = model.variances()
    whole = variances.totals().variance
    return float(variances.of(list(terms)).sum()) / whole if whole > 0 else 0.0


def _moved(before: Model, after: Model, terms: Sequence[Term]) -> float:
    """Return the root mean square change of the mean of some terms, in units of the response."""
    rng = np.random.default_rng(0)
    rows = np.repeat(_valid(before)[:, None], 512, axis=1)
    for i in sorted({i for term in terms for i in term}):
        z, p = axis_of(before.columns[i].feature, 512)
        rows[i] = z.coordinates[rng.choice(z.size, size=512, p=p / p.sum())]
    x = before.posterior.mean_weights.new_tensor(rows)
    change = x.new_zeros(512)
    for term in terms:
        change = change + after.posterior.mean(x, term) - before.posterior.mean(x, term)
    return before.scale * float(np.sqrt(np.mean(as_array(change) ** 2)))
