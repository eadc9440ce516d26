"""Everything that a report says, as one plain dictionary."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oakgp.columns import take_rows
from oakgp.model import Model
from oakgp.progress import step
from oakgp.report.features import PageFeature, page_feature
from oakgp.report.listing import Listed, indices, listed_terms
from oakgp.report.making import data_summary, how_made, hyperparameters
from oakgp.report.packing import pack, unpack
from oakgp.report.rows import (
    Chosen,
    choose,
    listed_contributions,
    page_values,
    shown_values,
    typical_rows,
)
from oakgp.report.scoring import score_rows
from oakgp.report.tables import component_table
from oakgp.report.whatif import exact, hermite, link_of, measure_error, normal_points
from oakgp.report.words import describe_main, describe_pair
from oakgp.sensitivity.report import SobolIndices

Array = NDArray[np.float64]

_TABLES = 900_000  # characters of tables; what comes after is listed, not drawn
_POOL = 2000  # test rows among which values are exchanged


def collect(
    estimator: Any,
    X_test: Any = None,
    y_test: Any = None,
    *,
    title: str | None = None,
    n_rows: int = 24,
    max_interactions: int = 30,
    rows: Sequence[int] | None = None,
    given: dict[str, Any] | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Return what a report says: ``"page"`` for its scripts, ``"static"`` for its text.

    The parameters are those of `oakgp.report.write_report`.
    """
    model: Model = estimator.model_
    given = {name: value for name, value in (given or {}).items() if value is not None}
    with step("report", 4, "parts") as progress:
        quality = None if y_test is None else score_rows(estimator, X_test, y_test, given)
        progress.advance(detail="quality")
        features = [page_feature(model, i) for i in range(len(model.columns))]
        outputs: list[dict[str, Any]] = []
        found: list[tuple[SobolIndices | None, list[Listed]]] = []
        budget = _TABLES
        for output in model.outputs:
            sobol = indices(model if model.pooled else output)
            listed = listed_terms(output, sobol, None, max_interactions)
            part = _output(output, features, listed, budget // (len(model.outputs) - len(outputs)))
            budget -= len(json.dumps(part))
            outputs.append(part)
            found.append((sobol, listed))
        progress.advance(detail="components")
        page = {
            "link": link_of(model),
            "joint": model.pooled,
            "features": [f.to_dict() for f in features],
            "outputs": outputs,
            "hermite": [values.tolist() for values in hermite()],
            "quality": None
            if quality is None
            else {k: v for k, v in quality.items() if k != "arrays"},
            "importance": _importance(model, *found[0]),
        }
        if page["link"] == "softmax":
            page["points"] = pack(normal_points(len(outputs)))
        page["rows"], pool = _rows(
            estimator, features, [t for _, t in found], X_test, quality, n_rows, rows, seed
        )
        progress.advance(detail="rows")
        page["whatif"] = _whatif(model, page, pool, outputs)
        progress.advance(detail="check of the page's arithmetic")
    static = {
        "lead": _lead(model, quality),
        "title": title or f"Report of an {type(estimator).__name__}",
        "verdict": estimator.verdict_,
        "dropped": getattr(estimator, "dropped_variance_", None),
        "constant": estimator.constant_,
        "effect": model.effect,
        "sobol": found[0][0],
        "listed": found[0][1],
        "data": data_summary(model, features),
        "made": how_made(estimator, model),
        "hyperparameters": hyperparameters(model),
        "n_train": model.schema.n_rows,
        "classes": [str(c) for c in getattr(estimator, "classes_", [])],
        "response": None if model.response is None else model.response.describe(),
    }
    return {"page": page, "static": static}


def _lead(model: Model, quality: dict[str, Any] | None) -> str:
    rows = f"{model.facts.n_rows:,} training rows, {len(model.columns)} features"
    return rows if quality is None else f"{rows}, {quality['n']:,} test rows"


def _output(
    model: Model, features: Sequence[PageFeature], listed: Sequence[Listed], budget: int
) -> dict[str, Any]:
    """Return one latent function: its constant and the tables of its components."""
    mean, variance = model.posterior.constant()
    components, used = [], 0
    with step("components", len(listed), "components") as progress:
        for each in listed:
            table = component_table(model, each.term, features) if used < budget else None
            used += 0 if table is None else len(json.dumps(table))
            components.append(
                {
                    "term": list(each.term),
                    "label": model.label(each.term),
                    "share": each.share,
                    "low": each.low,
                    "high": each.high,
                    "table": table,
                    "words": _words(each, features, table),
                }
            )
            progress.advance(detail=model.label(each.term))
    return {
        "name": str(model.name),
        "effect": model.effect,
        "constant": model.center + model.scale * mean,
        "constant_sd": model.scale * variance**0.5,
        "components": components,
    }


def _words(each: Listed, features: Sequence[PageFeature], table: dict[str, Any] | None) -> str:
    if table is None or len(each.term) > 2:
        return ""
    mean = unpack(table["mean"])
    if len(each.term) == 1:
        return describe_main(features[each.term[0]], mean, unpack(table["sd"]))
    a, b = each.term
    return describe_pair(features[a], features[b], mean)


def _importance(
    model: Model, sobol: SobolIndices | None, listed: Sequence[Listed]
) -> dict[str, Any] | None:
    if sobol is None:
        return None
    terms = sorted(listed, key=lambda each: -(each.share or 0.0))
    return {
        "terms": [
            {
                "label": model.label(each.term),
                "share": each.share,
                "mean": each.mean_share,
                "low": each.low,
                "high": each.high,
            }
            for each in terms[:20]
        ],
        "features": list(sobol.features.rows()),
        "orders": list(sobol.orders.rows()),
    }


def _rows(
    estimator: Any,
    features: list[PageFeature],
    listed: list[list[Listed]],
    X: Any,
    quality: dict[str, Any] | None,
    n_rows: int,
    wanted: Sequence[int] | None,
    seed: int,
) -> tuple[list[dict[str, Any]], Array]:
    """Return the rows to question, and rows from which values can be taken, ``[n, d]``."""
    model: Model = estimator.model_
    if X is None:
        encoded = typical_rows(features, 400, seed)
        return _described(estimator, encoded[:1], listed, ["typical values"], None, [""]), encoded
    encoded = model.schema.encode(X)
    score, errors = _score(estimator, X, quality)
    chosen = choose(n_rows, score, errors, seed)
    if wanted is not None:
        chosen = Chosen(np.asarray(wanted, dtype=np.intp), ["asked for"] * len(wanted))
    observed = None
    if quality is not None:
        observed = [_observed(v) for v in quality["arrays"]["observed"][chosen.rows].tolist()]
    names = [f"row {k}" for k in chosen.rows]
    parts = _described(estimator, encoded[chosen.rows], listed, names, observed, chosen.reasons)
    intervals = _intervals(estimator, take_rows(X, chosen.rows))
    for part, interval in zip(parts, intervals, strict=True):
        part["interval"] = interval
    step_size = max(1, len(encoded) // _POOL)
    return parts, encoded[::step_size]


def _observed(value: Any) -> Any:
    return (
        float(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool)
        else str(value)
    )


def _score(estimator: Any, X: Any, quality: dict[str, Any] | None) -> tuple[Array, Array | None]:
    """Return by what rows are spread, and how wrong each prediction is."""
    if quality is None:
        return estimator.model_.outputs[0].mean(X), None
    arrays = quality["arrays"]
    if quality["kind"] == "numbers":
        errors = np.abs(arrays["observed"] - arrays["prediction"])
        return arrays["prediction"], errors / np.maximum(arrays["deviation"], 1e-300)
    probabilities, codes = arrays["prediction"], arrays["codes"]
    return probabilities[:, -1], 1.0 - probabilities[np.arange(len(codes)), codes]


def _intervals(estimator: Any, X: Any) -> list[list[float] | None]:
    if hasattr(estimator, "classes_"):
        return [None] * len(estimator.predict(X))
    found: list[list[float] | None] = estimator.predict_interval(X, 0.9).tolist()
    return found


def _described(
    estimator: Any,
    encoded: Array,
    listed: list[list[Listed]],
    names: Sequence[str],
    observed: list[Any] | None,
    reasons: Sequence[str],
) -> list[dict[str, Any]]:
    model: Model = estimator.model_
    means, variances, responses = exact(model, encoded)
    parts = [
        listed_contributions(output, encoded, [each.term for each in terms])
        for output, terms in zip(model.outputs, listed, strict=True)
    ]
    texts, values = shown_values(model, encoded), page_values(encoded)
    return [
        {
            "name": names[k],
            "why": reasons[k],
            "observed": None if observed is None else observed[k],
            "response": responses[k].tolist(),
            "interval": None,
            "texts": texts[k],
            "values": values[k],
            "latent": [
                {
                    "mean": float(means[o, k]),
                    "variance": float(variances[o, k]),
                    "means": [column[k] for column in part["mean"]],
                    "sds": [column[k] for column in part["sd"]],
                }
                for o, part in enumerate(parts)
            ],
        }
        for k in range(len(encoded))
    ]


def _whatif(
    model: Model, page: dict[str, Any], pool: Array, outputs: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return how far the page's arithmetic is from the model, and what it leaves out."""
    held = [
        c["label"] for c in outputs[0]["components"] if c["table"] is None or len(c["term"]) > 2
    ]
    error = measure_error(model, page, pool) if model.columns else None
    return {"error": error, "held": held}
