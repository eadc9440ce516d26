"""Edits in a model file: JSON values, checked when they come back."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np

from oakgp.edits.posterior import EditedPosterior, TermEdit
from oakgp.edits.record import EditRecord
from oakgp.edits.tables import ComponentGrid, GridAxis
from oakgp.export.entries import entry, number, present, require, term
from oakgp.model import Model
from oakgp.posterior import Posterior

_KEY = "edits"


def describe_edits(model: Model) -> list[dict[str, Any] | None] | None:
    """Return the edits of each latent function; None for a model as the data left it."""
    found = [_describe(output.posterior) for output in model.outputs]
    return found if any(each is not None for each in found) else None


def _describe(posterior: Posterior) -> dict[str, Any] | None:
    if not isinstance(posterior, EditedPosterior):
        return None
    return {
        "records": [asdict(record) for record in posterior.records],
        "terms": [
            {
                "term": list(edit.term),
                "factor": edit.factor,
                "grid": None if edit.grid is None else _describe_grid(edit.grid),
            }
            for edit in posterior.edits
        ],
    }


def _describe_grid(grid: ComponentGrid) -> dict[str, Any]:
    return {
        "axes": [
            {"nodes": [None if z != z else z for z in a.nodes], "levels": a.levels}
            for a in grid.axes
        ],
        "mean": grid.mean.tolist(),
        "factor": grid.factor.tolist(),
        "probability": grid.probability.tolist(),
    }


def restore_edits(model: Model, description: dict[str, Any]) -> Model:
    """Return a model with the edits of its file, once they are known to fit."""
    if description.get(_KEY) is None:
        return model
    found = entry(description, _KEY, list)
    outputs = (model, *model.others)
    require(len(found) == len(outputs), "there are not edits for each latent function")
    first, *others = (
        output if d is None else replace(output, posterior=_read(output.posterior, d))
        for output, d in zip(outputs, found, strict=True)
    )
    return replace(first, others=tuple(others))


def _read(posterior: Posterior, d: dict[str, Any]) -> EditedPosterior:
    records = tuple(_read_record(r) for r in entry(d, "records", list))
    edits = tuple(_read_edit(posterior, e) for e in entry(d, "terms", list))
    require(len({e.term for e in edits}) == len(edits), "a term is edited twice")
    return EditedPosterior(posterior, edits, records)


def _read_record(d: dict[str, Any]) -> EditRecord:
    kinds = {field.name: field.type for field in fields(EditRecord)}
    require(isinstance(d, dict) and set(d) == set(kinds), "a record of an edit is incomplete")
    values: dict[str, Any] = {}
    for name, kind in kinds.items():
        if kind == "float":
            values[name] = number(d, name)
        else:
            values[name] = entry(d, name, str if kind == "str" else int)
    return EditRecord(**values)


def _read_edit(posterior: Posterior, d: dict[str, Any]) -> TermEdit:
    found = term(present(d, "term"), "term", posterior.n_features)
    require(bool(found) and found in posterior.terms, "an edit is of a term that is not there")
    grid = present(d, "grid")
    return TermEdit(found, number(d, "factor"), None if grid is None else _read_grid(grid, found))


def _read_grid(d: dict[str, Any], found: tuple[int, ...]) -> ComponentGrid:
    axes = []
    for axis in entry(d, "axes", list):
        nodes = entry(axis, "nodes", list)
        levels = entry(axis, "levels", bool)
        numbers = [z for z in nodes if z is not None]
        require(
            len(numbers) > 0
            and all(type(z) in (int, float) for z in numbers)
            and numbers == sorted(set(numbers))
            and (None not in nodes or (levels and nodes[-1] is None)),
            "the axis of an edit does not increase",
        )
        axes.append(GridAxis(tuple(float("nan") if z is None else float(z) for z in nodes), levels))
    require(len(axes) == len(found) <= 2, "an edit has not one axis for each feature")
    shape = tuple(axis.size for axis in axes)
    tables = {}
    for name in ("mean", "factor", "probability"):
        values = np.array(entry(d, name, list), dtype=np.float64)
        require(
            values.shape == shape and bool(np.isfinite(values).all()),
            f"the {name} of an edit has another shape, or holds what is no number",
        )
        tables[name] = values
    require(bool((tables["probability"] >= 0).all()), "the probabilities of an edit are negative")
    return ComponentGrid(tuple(axes), **tables)
