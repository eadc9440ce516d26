"""What the page computes when a row is changed, and how far it is from the model.

The page adds up tables of components; `Evaluator` does the same, from the same text. Terms that are
not tabulated keep the value that they have at the row. `measure_error` compares it with the model
at rows whose values were exchanged, so the page can say how far off it may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr
from scipy.stats import norm, qmc

from oakgp.compiled.axes import Axis, LevelAxis, NumericAxis, Scale, Tail
from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.model_columns import transform
from oakgp.report.packing import unpack
from oakgp.report.tables import PageTable

Array = NDArray[np.float64]

_HERMITE = 32
_POINTS = 128


def link_of(model: Model) -> str:
    """Return how the page turns latent values into responses."""
    if model.response is None:
        return "identity"
    likelihood = model.response.likelihood
    if likelihood.name == "bernoulli_probit":
        return "probit"
    by_support = {
        "binary": "logit",
        "unit": "logit",
        "classes": "softmax",
        "count": "log",
        "positive": "log",
    }
    return by_support.get(likelihood.support, "identity")


def normal_points(n_outputs: int) -> Array:
    """Return the points over which class probabilities are averaged, ``[p, n_outputs]``."""
    uniform = qmc.Sobol(n_outputs, seed=0).random(_POINTS)
    return np.asarray(norm.ppf(np.clip(uniform, 1e-6, 1 - 1e-6)))


def hermite() -> tuple[Array, Array]:
    """Return nodes and weights of averages over a standard normal."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_HERMITE)
    return nodes, weights / weights.sum()


def respond(link: str, mean: Array, variance: Array, points: Array) -> Array:
    """Return the expected response of latent moments ``[outputs]``: a number, or each class's."""
    if link == "identity":
        return np.array([mean[0]])
    if link == "log":
        return np.array([np.exp(min(300.0, mean[0] + variance[0] / 2))])
    if link == "probit":
        return np.array([ndtr(mean[0] / np.sqrt(1 + variance[0]))])
    if link == "logit":
        nodes, weights = hermite()
        return np.array([weights @ expit(mean[0] + np.sqrt(variance[0]) * nodes)])
    f = mean + np.sqrt(variance) * points
    p = np.exp(f - f.max(axis=1, keepdims=True))
    return np.asarray((p / p.sum(axis=1, keepdims=True)).mean(axis=0))


@dataclass(frozen=True)
class Evaluator:
    """The page's arithmetic on the page's data.

    Parameters
    ----------
    tables
        Of each output, those that the page adds up, by their terms.
    """

    tables: list[dict[Term, PageTable]]

    @classmethod
    def of(cls, page: dict[str, Any]) -> Evaluator:
        """Read the page's data."""
        found = []
        for output in page["outputs"]:
            both = zip(page["features"], output["scales"], strict=True)
            scales = [_scale(i, feature, scale) for i, (feature, scale) in enumerate(both)]
            listed = [c for c in output["components"] if c["table"] is not None]
            found.append({tuple(c["term"]): _table(c["term"], c["table"], scales) for c in listed})
        return cls(found)

    def sums(self, output: int, rows: Array) -> tuple[Array, Array]:
        """Return sums of tabulated means and of tabulated variances at rows ``[n, d]``."""
        total, variance = np.zeros(len(rows)), np.zeros(len(rows))
        for term, table in self.tables[output].items():
            mean, sd = table.along(*(rows[:, i] for i in term))
            total += mean
            variance += sd**2
        return total, variance

    def moments(
        self, output: int, base: Array, moments: tuple[Array, Array], rows: Array
    ) -> tuple[Array, Array]:
        """Return latent means and variances of changed rows from those of the rows they were."""
        before, spread = self.sums(output, base)
        after, new_spread = self.sums(output, rows)
        growth = np.divide(new_spread, spread, out=np.ones_like(spread), where=spread > 0)
        return moments[0] + after - before, moments[1] * growth


def _scale(
    i: int, feature: dict[str, Any], scale: dict[str, Any] | None
) -> Scale | LevelAxis | None:
    if feature["kind"] == "levels":
        return LevelAxis(i, feature["name"], tuple(feature["labels"]))
    if scale is None:
        return None
    lower, upper = (None if scale[e] is None else Tail(*scale[e]) for e in ("lower", "upper"))
    knots, positions = (tuple(unpack(scale[k]).tolist()) for k in ("knots", "positions"))
    return Scale(i, feature["name"], knots, positions, lower, upper, scale["period"])


def _table(
    term: Sequence[int], table: dict[str, Any], scales: Sequence[Scale | LevelAxis | None]
) -> PageTable:
    axes: list[tuple[Axis, ...]] = []
    for counts in (table["counts"], table["sd_counts"]):
        own: list[Axis] = []
        for i, count in zip(term, counts, strict=True):
            scale = scales[i]
            assert scale is not None
            own.append(scale if isinstance(scale, LevelAxis) else NumericAxis(scale, count))
        axes.append(tuple(own))
    return PageTable(axes[0], unpack(table["mean"]), axes[1], unpack(table["sd"]))


def exact(model: Model, encoded: Array) -> tuple[Array, Array, Array]:
    """Return latent means and variances ``[outputs, n]`` and responses ``[n, classes]``."""
    x_rows = transform(model.columns, encoded)
    like = model.posterior.mean_weights
    x = like.new_tensor(x_rows.T.copy())
    found = [m.posterior.mean_and_variance(x) for m in model.outputs]
    means = np.stack(
        [
            m.center + m.scale * mean.cpu().numpy()
            for m, (mean, _) in zip(model.outputs, found, strict=True)
        ]
    )
    variances = np.stack(
        [m.scale**2 * v.cpu().numpy() for m, (_, v) in zip(model.outputs, found, strict=True)]
    )
    if model.response is None:
        return means, variances, means[:1].T
    response = model.response.mean(*model.response.latent(model.posteriors, x, None))
    return means, variances, response.T if response.ndim > 1 else response[:, None]


def measure_error(
    model: Model, page: dict[str, Any], pool: Array, n_rows: int = 200, seed: int = 0
) -> dict[str, float]:
    """Return how far the page is from the model when rows are changed.

    Parameters
    ----------
    model
        The model.
    page
        The page's data.
    pool
        ``[n, d]`` encoded rows: some of them, with one to three values taken from others.
    n_rows, seed
        How many rows to compare.
    """
    rng = np.random.default_rng(seed)
    base = pool[rng.integers(len(pool), size=n_rows)]
    changed = base.copy()
    for k in range(n_rows):
        which = rng.choice(pool.shape[1], size=min(pool.shape[1], int(rng.integers(1, 4))))
        changed[k, which] = pool[rng.integers(len(pool)), which]
    means, variances, _ = exact(model, base)
    _, _, truth = exact(model, changed)
    evaluator, link = Evaluator.of(page), link_of(model)
    points = normal_points(len(model.outputs)) if link == "softmax" else np.empty((0, 0))
    pairs = [
        evaluator.moments(o, base, (means[o], variances[o]), changed)
        for o in range(len(model.outputs))
    ]
    mean, variance = (np.array(part) for part in zip(*pairs, strict=True))
    found = [respond(link, mean[:, k], variance[:, k], points) for k in range(n_rows)]
    errors = np.abs(np.stack(found) - truth).max(axis=1)
    return {
        "n": n_rows,
        "median": float(np.median(errors)),
        "p95": float(np.quantile(errors, 0.95)),
        "largest": float(errors.max()),
    }
