"""The quality of a fitted estimator on test rows, ready for the page."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oakgp.report.quality import (
    Metric,
    Reliability,
    area_under_curve,
    brier_scores,
    coverage,
    log_losses,
    mean_metric,
    r_squared,
    reliability,
    root_mean_square,
    share_metric,
)
from oakgp.targets import read_labels, read_response

Array = NDArray[np.float64]

_LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
_DRAWN = 800  # rows of a scatter plot
_INTERVALS = 4000  # rows whose quantiles are computed


def score_rows(estimator: Any, X: Any, y: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return metrics and what their pictures need.

    Parameters
    ----------
    estimator
        A fitted estimator.
    X, y
        Test rows.
    given
        ``exposure`` and ``offset`` of the rows, where there are any.
    """
    if hasattr(estimator, "classes_"):
        return _classes(estimator, X, y)
    return _numbers(estimator, X, read_response(y), given)


def _numbers(estimator: Any, X: Any, y: Array, given: dict[str, Any]) -> dict[str, Any]:
    prediction, deviation = estimator.predict(X, return_std=True, **given)
    _same_length(len(prediction), len(y))
    tails = np.r_[0.5 - _LEVELS / 2, 0.5 + _LEVELS / 2]
    some = _spread(len(y), _INTERVALS)
    rows, parts = _take(X, some), {k: np.asarray(v)[some] for k, v in given.items()}
    quantiles = estimator.predict_quantiles(rows, tails, **parts)
    lower, upper = quantiles[:, : len(_LEVELS)], quantiles[:, len(_LEVELS) :]
    at = int(np.flatnonzero(_LEVELS == 0.9)[0])
    inside = (lower[:, at] <= y[some]) & (y[some] <= upper[:, at])
    errors = y - prediction
    density = estimator.predict_log_density(X, y, **given)
    metrics = [
        root_mean_square("RMSE", errors, "typical size of an error, in units of the response"),
        mean_metric("mean absolute error", np.abs(errors), "average size of an error"),
        r_squared(y, prediction),
        share_metric(
            "coverage of 90% intervals",
            inside.astype(np.float64),
            "share of rows within their interval: 0.90 is honest",
        ),
        mean_metric(
            "width of 90% intervals", upper[:, at] - lower[:, at], "narrower is more informative"
        ),
        mean_metric("log density", density, "what the model gave to what came; higher is better"),
    ]
    drawn = _spread(len(y), _DRAWN)
    return {
        "kind": "numbers",
        "n": len(y),
        "metrics": _plain(metrics),
        "reliability": _lists(coverage(_LEVELS, y[some], lower, upper)),
        "scatter": {
            "predicted": prediction[drawn].tolist(),
            "observed": y[drawn].tolist(),
            "rows": drawn.tolist(),
        },
        "arrays": {"prediction": prediction, "deviation": deviation, "observed": y},
    }


def _classes(estimator: Any, X: Any, y: Any) -> dict[str, Any]:
    labels = read_labels(y)
    probabilities = estimator.predict_proba(X)
    _same_length(len(probabilities), len(labels))
    classes = estimator.classes_
    codes = np.searchsorted(classes, labels).clip(0, len(classes) - 1).astype(np.intp)
    if not (classes[codes] == labels).all():
        strange = labels[classes[codes] != labels][0]
        raise ValueError(f"y_test holds the class {strange!r}, which training never saw")
    two = len(classes) == 2
    best = probabilities.argmax(axis=1)
    shares = np.bincount(codes, minlength=len(classes)) / len(codes)
    plain = log_losses(codes, np.broadcast_to(shares, probabilities.shape))
    metrics: list[Metric | None] = (
        [area_under_curve(codes == 1, probabilities[:, 1])]
        if two
        else [_average_area(codes, probabilities)]
    )
    metrics += [
        mean_metric(
            "log loss",
            log_losses(codes, probabilities),
            f"lower is better; the shares of the classes alone reach {plain.mean():.3f}",
        ),
        mean_metric(
            "Brier score", brier_scores(codes, probabilities), "squared error of the probabilities"
        ),
        share_metric(
            "accuracy",
            (best == codes).astype(np.float64),
            f"share of rows whose likeliest class came; the most frequent one: {shares.max():.3f}",
        ),
    ]
    said = probabilities[:, 1] if two else probabilities.max(axis=1)
    came = codes == 1 if two else best == codes
    edges = np.linspace(0.0, 1.0, 26)
    return {
        "kind": "classes",
        "n": len(codes),
        "metrics": _plain(metrics),
        "reliability": _lists(reliability(said, came)),
        "about": f"probability of {classes[1]}" if two else "probability of the likeliest class",
        "histogram": {
            "edges": edges.tolist(),
            "hit": np.histogram(said[came], edges)[0].tolist(),
            "other": np.histogram(said[~came], edges)[0].tolist(),
        },
        "arrays": {"prediction": probabilities, "observed": labels, "codes": codes},
    }


def _average_area(codes: NDArray[np.intp], probabilities: Array) -> Metric | None:
    """Return the mean over classes of each one's area against all others."""
    each = [area_under_curve(codes == k, p) for k, p in enumerate(probabilities.T)]
    found = [metric for metric in each if metric is not None]
    if not found:
        return None
    value = float(np.mean([m.value for m in found]))
    # The areas share rows: as if all of them were off together.
    low = float(np.mean([m.low for m in found]))
    high = float(np.mean([m.high for m in found]))
    return Metric("AUC", value, low, high, "average over classes, each against all others")


def _same_length(rows: int, responses: int) -> None:
    if rows != responses:
        raise ValueError(
            f"X_test has {rows} rows but y_test has {responses}: they must be of equal length"
        )


def _spread(n: int, count: int) -> NDArray[np.intp]:
    """Return up to so many row numbers, evenly spread."""
    if n <= count:
        return np.arange(n)
    return np.unique(np.linspace(0, n - 1, count).astype(np.intp))


def _take(X: Any, rows: NDArray[np.intp]) -> Any:
    from oakgp.columns import take_rows

    return take_rows(X, rows)


def _plain(metrics: list[Metric | None]) -> list[dict[str, Any]]:
    return [asdict(metric) for metric in metrics if metric is not None]


def _lists(groups: Reliability) -> dict[str, list[float]]:
    return {name: values.tolist() for name, values in vars(groups).items()}
