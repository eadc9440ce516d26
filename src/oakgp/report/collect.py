"""Everything that a report says, as one plain dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oakgp.columns import take_rows
from oakgp.edits.apply import edit_in_words, records_of
from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.progress import step
from oakgp.report.features import PageFeature, page_features
from oakgp.report.listing import Listed, indices, listed_terms
from oakgp.report.making import data_summary, how_made, hyperparameters
from oakgp.report.packing import pack
from oakgp.report.rows import (
    Chosen,
    choose,
    listed_contributions,
    page_values,
    shown_values,
    typical_rows,
)
from oakgp.report.scoring import score_rows
from oakgp.report.tables import PageTable, PageTables, describe_scale, page_tables, slices
from oakgp.report.whatif import exact, hermite, link_of, measure_error, normal_points
from oakgp.report.words import describe_main, describe_pair
from oakgp.sensitivity.report import SobolIndices

Array = NDArray[np.float64]

_TOLERANCE, _COARSEST = 3e-3, 0.1  # of all tables together, in deviations of the response
_ENTRIES = 180_000  # of all tables: of 3 characters each
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
        found: list[tuple[SobolIndices | None, list[Listed]]] = []
        for output in model.outputs:
            sobol = indices(model if model.pooled else output)
            found.append((sobol, listed_terms(output, sobol, None, max_interactions)))
        tables = _tables(model, [[each.term for each in t] for _, t in found])
        features = page_features(model)
        outputs = [
            _output(output, features, listed, own)
            for output, (_, listed), own in zip(model.outputs, found, tables, strict=True)
        ]
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
        page["whatif"] = _whatif(model, page, pool, max(t.bound for t in tables))
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
        "edits": records_of(model),
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


def _tables(model: Model, terms: list[list[Term]]) -> list[PageTables]:
    """Return the tables of each latent function, as exact as the size of the page allows."""
    tolerance = _TOLERANCE
    while True:
        found = [
            page_tables(output, own, tolerance)
            for output, own in zip(model.outputs, terms, strict=True)
        ]
        size = sum(t.mean.size + t.sd.size for own in found for t in own.tables.values())
        if size <= _ENTRIES or tolerance > _COARSEST:
            return found
        tolerance *= min(10.0, 1.2 * (size / _ENTRIES) ** 2)


def _output(
    model: Model,
    features: Sequence[PageFeature],
    listed: Sequence[Listed],
    tables: PageTables,
) -> dict[str, Any]:
    """Return one latent function: its constant and its components."""
    mean, variance = model.posterior.constant()
    components = []
    for each in listed:
        table = tables.tables.get(each.term)
        components.append(
            {
                "term": list(each.term),
                "label": model.label(each.term),
                "share": each.share,
                "low": each.low,
                "high": each.high,
                "table": None if table is None else table.to_dict(),
                "slices": slices(model, each.term, features),
                "words": _words(each, features, table),
                "edited": edit_in_words(model.posterior, each.term),
            }
        )
    return {
        "name": str(model.name),
        "effect": model.effect,
        "constant": model.center + model.scale * mean,
        "constant_sd": model.scale * variance**0.5,
        "scales": [describe_scale(tables.scales.get(i)) for i in range(len(features))],
        "components": components,
    }


def _words(each: Listed, features: Sequence[PageFeature], table: PageTable | None) -> str:
    if table is None:
        return ""
    if len(each.term) == 1:
        return describe_main(features[each.term[0]], table)
    a, b = each.term
    return describe_pair(features[a], features[b], table)


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


def _whatif(model: Model, page: dict[str, Any], pool: Array, bound: float) -> dict[str, Any]:
    """Return how far the page's arithmetic is from the model, and what it leaves out."""
    held = [c["label"] for c in page["outputs"][0]["components"] if c["table"] is None]
    error = measure_error(model, page, pool) if model.columns else None
    return {"error": error, "held": held, "bound": bound}
