"""What predictions are worth."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln, ndtri, xlogy
from sklearn.metrics import roc_auc_score

from benchmarks.adapters.base import Prediction
from benchmarks.data.base import Split

CLIP = 1e-12  # probabilities are kept this far from 0 and 1 in log-likelihoods
LEVELS = (50, 80, 90, 95)  # of intervals, in percent
BINS = 10

#: Metric -> whether larger is better. Those of calibration have an aim instead and are not ranked.
LARGER_IS_BETTER = {
    "rmse": False,
    "loglik": True,
    "auc": True,
    "accuracy": True,
    "brier": False,
    "ece": False,
    "deviance": False,
    "wall_s": False,
    "cpu_s": False,
    "peak_mb": False,
}


def regression_scores(y: Any, mean: Any, sd: Any | None, unit: float = 1.0) -> dict[str, float]:
    """Return RMSE, and where there is a deviation log-likelihood and coverage of intervals.

    All are those of the response divided by ``unit``.
    """
    residual = (np.asarray(y) - mean) / unit
    found = {"rmse": float(np.sqrt(np.mean(residual**2)))}
    if sd is not None:
        sd = np.maximum(np.asarray(sd) / unit, 1e-9)
        z = residual / sd
        found["loglik"] = float(np.mean(-0.5 * np.log(2 * np.pi * sd**2) - 0.5 * z**2))
        for level in LEVELS:
            inside = np.abs(z) <= ndtri(0.5 + level / 200)
            found[f"coverage{level}"] = float(np.mean(inside))
        found["width90"] = float(np.mean(2 * ndtri(0.95) * sd))
    return found


def calibration_error(y: Any, p: Any) -> float:
    """Return the expected calibration error over ten bins of equal width."""
    bins = np.minimum((p * BINS).astype(int), BINS - 1)
    gaps = [
        (bins == k).mean() * abs(y[bins == k].mean() - p[bins == k].mean())
        for k in range(BINS)
        if (bins == k).any()
    ]
    return float(sum(gaps))


def class_scores(y: Any, probabilities: Any) -> dict[str, float]:
    """Return accuracy, log-likelihood, AUC, Brier score and calibration error.

    Of more than two classes AUC is the mean over classes of one against the rest, and the
    calibration error that of the most likely class. AUC is left out where a class is absent.
    """
    p = np.asarray(probabilities, float)
    y = np.asarray(y, int)
    binary = p.shape[1] == 2
    truth = np.eye(p.shape[1])[y]
    own = np.clip(p[np.arange(len(y)), y], CLIP, 1.0 - CLIP)
    top = p.argmax(axis=1)
    found = {
        "accuracy": float(np.mean(top == y)),
        "loglik": float(np.mean(np.log(own))),
        "brier": float(np.mean(((p - truth) ** 2).sum(axis=1)) / (2 if binary else 1)),
        "ece": calibration_error(y, p[:, 1])
        if binary
        else calibration_error(top == y, p[np.arange(len(y)), top]),
    }
    if (truth.sum(axis=0) > 0).all():
        classes = [1] if binary else range(p.shape[1])
        found["auc"] = float(np.mean([roc_auc_score(truth[:, k], p[:, k]) for k in classes]))
    return found


def count_scores(y: Any, mean: Any, exposure: Any | None) -> dict[str, float]:
    """Return the Poisson deviance a row, the Poisson log-likelihood and the RMSE of counts."""
    y, mean = np.asarray(y, float), np.maximum(np.asarray(mean, float), CLIP)
    found = {
        "deviance": float(2 * np.mean(xlogy(y, y / mean) - (y - mean))),
        "loglik": float(np.mean(xlogy(y, mean) - mean - gammaln(y + 1))),
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
    }
    if exposure is not None:  # of rates, each row counting by its exposure
        found["deviance_per_exposure"] = found["deviance"] / float(np.mean(exposure))
    return found


def score(split: Split, prediction: Prediction) -> dict[str, float]:
    """Return all metrics of a prediction of the test rows."""
    if split.task == "regression":
        return regression_scores(split.y_test, prediction.mean, prediction.sd, split.unit)
    if split.task == "count":
        return count_scores(split.y_test, prediction.mean, split.exposure_test)
    probabilities = np.asarray(prediction.probabilities)
    if probabilities.shape[1] != split.n_classes:
        raise ValueError(
            f"{split.name}, split {split.seed}: the training rows hold {probabilities.shape[1]} of "
            f"the {split.n_classes} classes"
        )
    return class_scores(split.y_test, probabilities)
