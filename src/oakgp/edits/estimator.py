"""Edits of a fitted estimator, with what they cost."""

from __future__ import annotations

import copy
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np
from sklearn.metrics import log_loss

from oakgp.edits.apply import edit_model, records_of, with_records
from oakgp.edits.record import EditRecord
from oakgp.model import Model
from oakgp.table import Table
from oakgp.targets import read_labels, read_response
from oakgp.truncation import root_mean_squared_error

Estimator = TypeVar("Estimator", bound=Any)


def edit_estimator(
    estimator: Estimator, X_test: Any, y_test: Any, given: dict[str, Any], **changes: Any
) -> Estimator:
    """Return a copy whose model is edited, with what that costs on held-out rows.

    ``given`` are ``exposure`` and ``offset`` of these rows, ``changes`` the arguments of
    `oakgp.edits.edit_model`.
    """
    model: Model = estimator._fitted()
    if (X_test is None) != (y_test is None):
        raise ValueError("give X_test and y_test together: rows and their responses")
    known = len(records_of(model))
    changed = edit_model(model, **changes)
    other = copy.deepcopy(estimator, {id(model): model})
    other.model_ = changed
    if X_test is not None:
        name, before, n = _score(estimator, X_test, y_test, given)
        _, after, _ = _score(other, X_test, y_test, given)
        records = records_of(changed)
        told = [
            replace(r, metric=name, before=before, after=after, n_rows=n) for r in records[known:]
        ]
        other.model_ = with_records(changed, [*records[:known], *told])
    return other


def _score(estimator: Any, X: Any, y: Any, given: dict[str, Any]) -> tuple[str, float, int]:
    """Return name and value of a metric on held-out rows, and their number."""
    if hasattr(estimator, "classes_"):
        labels = read_labels(y)
        probabilities = estimator.predict_proba(X)
        return "log loss", float(log_loss(labels, probabilities, labels=estimator.classes_)), len(y)
    target = read_response(y)
    prediction = np.asarray(estimator.predict(X, **given))
    return "RMSE", root_mean_squared_error(target, prediction), len(target)


def edits_table(model: Model) -> Table:
    """Return the record of all edits, a row for each."""
    records = records_of(model)
    return Table({f.name: [getattr(r, f.name) for r in records] for f in fields(EditRecord)})
