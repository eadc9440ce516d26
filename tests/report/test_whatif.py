"""The page's arithmetic, done here in Python on the page's own data, against the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.report.models import (
    CLOSING,
    SCRIPT,
    classifier,
    frame,
    labels,
    new_rows,
    regressor,
    response,
)

from oakgp.report.collect import collect
from oakgp.report.whatif import Evaluator, exact, link_of, measure_error, normal_points, respond


def page_of(model: Any, **options: Any) -> dict[str, Any]:
    table, y = new_rows()
    if hasattr(model, "classes_"):
        y = labels(table, len(model.classes_))
    elif model.likelihood == "poisson":
        y = np.round(y)
    return collect(model, table, y, **options)["page"]


def test_sums_of_tables_are_the_components() -> None:
    model = regressor()
    page = page_of(model)
    evaluator = Evaluator.of(page)
    table, _ = new_rows(30)
    encoded = model.model_.schema.encode(table)
    whole = model.model_
    terms = [tuple(c["term"]) for c in page["outputs"][0]["components"]]
    means = np.sum([whole.component(table, u)[0] for u in terms], axis=0)
    scale = np.std(model.predict(table))
    found, _ = evaluator.sums(0, encoded)
    assert np.abs(found - means).max() < 0.003 * scale


@pytest.mark.parametrize(
    "change",
    [
        {"a": 0.31},
        {SCRIPT: 1.7},
        {SCRIPT: np.nan},
        {"<b>kind</b>": CLOSING},
        {"<b>kind</b>": "never seen before"},
        {"a": -0.5, "flag": True, SCRIPT: 0.6},
    ],
)
def test_changed_rows_are_predicted_as_by_the_model(change: dict[str, Any]) -> None:
    model = regressor()
    page = page_of(model)
    row = page["rows"][0]
    k = int(row["name"].removeprefix("row "))
    table, _ = new_rows()
    other = table.iloc[[k]].copy()
    for name, value in change.items():
        other[name] = value
    base = np.array([np.nan if v is None else v for v in row["values"]])
    encoded = model.model_.schema.encode(other)
    latent = np.array(row["latent"][0]["mean"]), np.array(row["latent"][0]["variance"])
    mean, _ = Evaluator.of(page).moments(0, base[None], latent, encoded)
    assert mean[0] == pytest.approx(
        model.predict(other)[0], abs=0.003 * np.std(model.predict(table))
    )


@pytest.mark.parametrize(
    ("model", "bound"),
    [
        (lambda: regressor(), 0.005),
        (lambda: classifier(2), 0.03),
        (lambda: classifier(2, link="probit"), 0.03),
        (lambda: classifier(3), 0.05),
        (lambda: regressor(likelihood="poisson"), 0.2),
        (lambda: regressor(likelihood="heteroscedastic_gaussian"), 0.2),
    ],
    ids=["regression", "logit", "probit", "softmax", "poisson", "varying noise"],
)
def test_the_stated_error_is_small_for_every_response(model: Any, bound: float) -> None:
    fitted = model()
    page = page_of(fitted)
    error = page["whatif"]["error"]
    assert 0 < error["median"] <= error["p95"] <= error["largest"] < bound


def test_the_error_notices_a_wrong_table() -> None:
    model = regressor()
    page = page_of(model)
    table, _ = new_rows()
    pool = model.model_.schema.encode(table)
    before = measure_error(model.model_, page, pool)["largest"]
    feature = next(c for c in page["outputs"][0]["components"] if c["label"] == "a")
    mean = feature["table"]["mean"]
    feature["table"] = {**feature["table"], "mean": {**mean, "step": 1.1 * mean["step"]}}
    assert measure_error(model.model_, page, pool)["largest"] > 5 * before


@pytest.mark.parametrize("n_classes", [2, 3])
def test_responses_from_exact_moments_are_those_of_predict_proba(n_classes: int) -> None:
    model = classifier(n_classes)
    table, _ = new_rows(20)
    means, variances, truth = exact(model.model_, model.model_.schema.encode(table))
    link = link_of(model.model_)
    points = normal_points(n_classes) if n_classes > 2 else np.empty((0, 0))
    found = [respond(link, means[:, k], variances[:, k], points) for k in range(20)]
    expected = model.predict_proba(table)
    expected = expected if n_classes > 2 else expected[:, 1:]
    assert truth == pytest.approx(expected)
    assert np.abs(np.stack(found) - expected).max() < (0.03 if n_classes > 2 else 1e-6)


def test_terms_that_are_not_tabulated_are_named_and_held() -> None:
    table = frame()
    model = regressor(max_order=3)
    page = collect(model, *new_rows())["page"]
    triples = [c["label"] for c in page["outputs"][0]["components"] if len(c["term"]) == 3]
    assert set(triples) <= set(page["whatif"]["held"])
    row = page["rows"][0]
    whole = row["latent"][0]
    assert whole["mean"] == pytest.approx(row["response"][0])
    assert isinstance(table, pd.DataFrame)
    assert len(response(table)) == len(table)
