"""What a model file holds: an estimator as JSON and tensors, and back.

Floats are written so that they read back to the bit. Everything that comes back is checked before
a model is built of it: types, shapes, and that the parts fit each other.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from oakgp.edits.apply import unedited
from oakgp.export.columns import read_columns
from oakgp.export.edits import describe_edits, restore_edits
from oakgp.export.engines import format_of, read_format
from oakgp.export.entries import count, entry, number, present, require, terms, texts
from oakgp.export.response import (
    describe_classes,
    describe_response,
    read_classes,
    read_response,
    response_tensors,
    split_tensors,
)
from oakgp.export.settings import plain, restored
from oakgp.model import Facts, Model

if TYPE_CHECKING:
    from oakgp.estimators.base import BaseOAK

#: Estimators that a file can hold.
ESTIMATORS = ("OAKRegressor", "OAKClassifier")


def describe(estimator: BaseOAK) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return a fitted estimator as JSON-safe values and tensors."""
    name = type(estimator).__name__
    if name not in ESTIMATORS:
        raise TypeError(f"{name} cannot be saved; these can: {', '.join(ESTIMATORS)}")
    whole = estimator._fitted()
    model = unedited(whole)
    engine = format_of(model.posterior)
    names = getattr(estimator, "feature_names_in_", None)
    description = {
        "estimator": name,
        "settings": {k: plain(v) for k, v in estimator.get_params(deep=False).items()},
        "feature_names_in": None if names is None else [str(name) for name in names],
        "dropped_variance": getattr(estimator, "dropped_variance_", None),
        "schema": model.schema.to_dict(),
        "columns": [column.to_dict() for column in model.columns],
        engine.key: engine.describe(),
        "center": model.center,
        "scale": model.scale,
        "noise": model.posterior.noise,
        "kept": model.posterior.kept,
        "forced": model.forced,
        "facts": asdict(model.facts),
        "response": describe_response(model),
        "classes": describe_classes(getattr(estimator, "classes_", None)),
    }
    if (edits := describe_edits(whole)) is not None:
        description["edits"] = edits
    tensors = {**engine.tensors(model.posterior, None), **response_tensors(model)}
    return description, {name: t.detach().cpu().contiguous() for name, t in tensors.items()}


def restore(description: dict[str, Any], tensors: dict[str, Tensor]) -> BaseOAK:
    """Return the estimator that `describe` was given."""
    from oakgp import estimators

    name = entry(description, "estimator", str)
    require(name in ESTIMATORS, f"it holds the unknown estimator {name!r}; update oakgp")
    settings = entry(description, "settings", dict)
    schema, columns = read_columns(description)
    own, of_response = split_tensors(tensors)
    engine = read_format(description, columns, own)
    noise, scale = number(description, "noise"), number(description, "scale")
    has_response = present(description, "response") is not None
    require(scale > 0, "scale is not positive")
    require(noise == 0 if has_response else noise > 0, "the noise is not positive")
    estimator: BaseOAK = getattr(estimators, name)(**{k: restored(v) for k, v in settings.items()})
    model = Model(
        schema=schema,
        columns=columns,
        posterior=engine.read(own, noise, engine.read_kept(description), None),
        center=number(description, "center"),
        scale=scale,
        facts=_facts(entry(description, "facts", dict)),
        forced=terms(description, "forced", engine.terms.n_features, engine.terms),
    )
    classes = read_classes(present(description, "classes"))
    require((classes is not None) == (name == "OAKClassifier"), "the classes do not fit")
    require(has_response or not of_response, "there are tensors of a response, but no response")
    if has_response:
        own_response = entry(description, "response", dict)
        model = read_response(model, engine, own_response, of_response, classes)
    require(classes is None or has_response, "a classifier has no likelihood")
    if classes is not None:
        estimator.classes_ = classes
    estimator.model_ = restore_edits(model, description)
    estimator.n_iter_ = estimator.model_.facts.n_evaluations
    estimator.n_features_in_ = len(schema.columns)
    if present(description, "feature_names_in") is not None:
        names = texts(description, "feature_names_in")
        require(len(names) == len(schema.columns), "there is not one name for each column")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    if present(description, "dropped_variance") is not None:
        estimator.dropped_variance_ = number(description, "dropped_variance")
        require(0 <= estimator.dropped_variance_ <= 1, "the dropped variance is no share")
    return estimator


def _facts(d: dict[str, Any]) -> Facts:
    """Return how the fit went; a fact that the file lacks has the default, if there is one."""
    facts: dict[str, Any] = {}
    for name, kind in Facts.__annotations__.items():
        if name not in d:
            continue
        if kind == "float":
            facts[name] = number(d, name)
        elif kind == "int":
            facts[name] = count(d, name)
        elif kind in ("str", "bool"):
            facts[name] = entry(d, name, str if kind == "str" else bool)
        else:
            facts[name] = texts(d, name)
    return Facts(**{**d, **facts})
