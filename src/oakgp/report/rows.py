"""Rows to question: which ones, what the model says of them, and of what that is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oakgp.columns import as_text
from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.model_columns import transform
from oakgp.report.features import PageFeature
from oakgp.report.words import number
from oakgp.response import as_array
from oakgp.schema import UNSEEN, CategoricalColumn

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Chosen:
    """Rows of a table, and why each was chosen."""

    rows: NDArray[np.intp]
    reasons: list[str]


def choose(count: int, score: Array, errors: Array | None, seed: int) -> Chosen:
    """Return the rows with the largest errors, some over the range of predictions, and random ones.

    Parameters
    ----------
    count
        How many.
    score
        ``[n]`` by which rows are spread over their range: the prediction.
    errors
        ``[n]`` how wrong each prediction is; None where that is not known.
    seed
        Of the random ones.
    """
    n = len(score)
    count = min(count, n)
    found: dict[int, str] = {}
    if errors is not None:
        for k in np.argsort(-errors, kind="stable")[: count // 3]:
            found[int(k)] = "large error"
    order = np.argsort(score, kind="stable")
    places = np.unique(np.linspace(0, n - 1, max(1, count // 3)).astype(np.intp))
    for p in places:
        name = "lowest" if p == 0 else "highest" if p == n - 1 else "in between"
        found.setdefault(int(order[p]), f"{name} prediction" if p in (0, n - 1) else name)
    rest = np.setdiff1d(np.arange(n), list(found))
    extra = np.random.default_rng(seed).permutation(rest)[: max(0, count - len(found))]
    found.update({int(k): "random" for k in extra})
    chosen = list(found)[:count]
    return Chosen(np.array(chosen, dtype=np.intp), [found[k] for k in chosen])


def listed_contributions(
    model: Model, encoded: Array, terms: Sequence[Term]
) -> dict[str, list[list[float]]]:
    """Return mean and deviation of each listed component at some rows, ``[terms][rows]``."""
    like = model.posterior.mean_weights
    x = like.new_tensor(transform(model.columns, encoded).T.copy())
    means, deviations = [], []
    for term in terms:
        mean, variance = model.posterior.mean_and_variance(x, term)
        means.append((model.scale * as_array(mean)).tolist())
        deviations.append((model.scale * as_array(variance.sqrt())).tolist())
    return {"mean": means, "sd": deviations}


def shown_values(model: Model, encoded: Array) -> list[list[str]]:
    """Return the values of rows as text, ``[n][d]``."""
    texts = []
    for j, i in enumerate(model.schema.active):
        column = model.schema.columns[i]
        values = encoded[:, j]
        if isinstance(column, CategoricalColumn):
            texts.append([_level(column, v) for v in values])
        else:
            texts.append(["missing" if np.isnan(v) else number(v, 6) for v in values])
    return [list(row) for row in zip(*texts, strict=True)] if texts else [[] for _ in encoded]


def _level(column: CategoricalColumn, code: float) -> str:
    if np.isnan(code):
        return "missing"
    return "not seen in training" if code == UNSEEN else as_text(column.levels[int(code)])


def page_values(encoded: Array) -> list[list[float | None]]:
    """Return rows as the page reads them: None for a missing value."""
    return [[None if np.isnan(v) else float(v) for v in row] for row in encoded]


def typical_rows(features: Sequence[PageFeature], n_rows: int, seed: int) -> Array:
    """Return the middle of every feature as the first row, and random draws after it, ``[n, d]``.

    Features are drawn one by one from the distribution of training, as if independent.
    """
    from oakgp.explain.feature_axis import LevelAxis, weighted_quantiles

    rng = np.random.default_rng(seed)
    columns = []
    for feature in features:
        axis = feature.axis
        if isinstance(axis, LevelAxis):
            p = axis.shares / axis.shares.sum()
            best = axis.codes[int(np.argmax(axis.shares))]
            draws = rng.choice(axis.codes, size=n_rows - 1, p=p)
        else:
            best = weighted_quantiles(axis.sample, axis.weights, np.array([0.5]))[0]
            p = axis.weights / axis.weights.sum()
            draws = rng.choice(axis.sample, size=n_rows - 1, p=p)
        columns.append(np.r_[best, draws])
    return np.column_stack(columns) if columns else np.empty((n_rows, 0))
