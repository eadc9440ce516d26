r"""Whether predicted probabilities and intervals can be believed, measured on rows not fitted to.

Pure functions of arrays, and two small results: `ProbabilityCalibration` of a classifier and
`DistributionCalibration` of a regression. A predictive distribution is calibrated when, of all
rows that were given an event with probability p, a share p had it: classes predicted at 70% are
right 70 times in 100, and 90% intervals miss 10 responses in 100.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from oakgp.checks import check_choice, check_count
from oakgp.model import Label
from oakgp.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

#: Coverages of the central intervals that are looked at.
COVERAGES = (0.5, 0.8, 0.9, 0.95)

_LEAST = float(np.finfo(np.float64).tiny)
_BAND = 0.9  # probability of the intervals around observed shares


def class_log_likelihood(codes: Codes, probabilities: Array) -> float:
    """Return the mean log probability that the true classes were given.

    Parameters
    ----------
    codes
        ``[n]`` numbers of the true classes.
    probabilities
        ``[n, K]``.
    """
    given = probabilities[np.arange(len(codes)), codes]
    return float(np.mean(np.log(np.maximum(given, _LEAST))))


def brier_score(codes: Codes, probabilities: Array) -> float:
    """Return the mean squared error of the probabilities.

    Of two classes it is that of the second one, between 0 and 1; of more, the sum over classes,
    between 0 and 2 (Brier 1950).
    """
    hits = np.eye(probabilities.shape[1])[codes]
    squares = (probabilities - hits) ** 2
    return float(np.mean(squares[:, 1] if squares.shape[1] == 2 else squares.sum(axis=1)))


def reliability(hits: NDArray[np.bool_], p: Array, bins: int = 10, how: str = "width") -> Table:
    """Return predicted probabilities and observed shares by bins of the former.

    Parameters
    ----------
    hits, p
        ``[n]`` whether the event came, and its predicted probability.
    bins
        How many; empty ones are left out.
    how
        ``"width"`` for bins of equal width, ``"count"`` for bins of about equal numbers of rows.

    Returns
    -------
    Table
        ``low`` and ``high`` (edges of the bin), ``count``, ``predicted`` (mean), ``observed``
        (share), and the ends of its 90% interval (Jeffreys), ``observed_low``, ``observed_high``.
    """
    check_count("bins", bins, 1)
    check_choice("how", how, ("width", "count"))
    if how == "width":
        edges = np.linspace(0.0, 1.0, bins + 1)
    else:
        edges = np.unique(np.r_[0.0, np.quantile(p, np.linspace(0.0, 1.0, bins + 1)[1:-1]), 1.0])
    number = np.clip(np.searchsorted(edges, p, side="right") - 1, 0, len(edges) - 2)
    count = np.bincount(number, minlength=len(edges) - 1)
    used = np.flatnonzero(count)
    events = np.bincount(number, weights=hits, minlength=len(count))[used]
    sums = np.bincount(number, weights=p, minlength=len(count))[used]
    count = count[used]
    tail = 0.5 * (1.0 - _BAND)
    return Table(
        {
            "low": edges[used].tolist(),
            "high": edges[used + 1].tolist(),
            "count": count.tolist(),
            "predicted": (sums / count).tolist(),
            "observed": (events / count).tolist(),
            "observed_low": beta.ppf(tail, events + 0.5, count - events + 0.5).tolist(),
            "observed_high": beta.ppf(1.0 - tail, events + 0.5, count - events + 0.5).tolist(),
        }
    )


def expected_calibration_error(table: Table) -> float:
    """Return the mean of |observed - predicted| over the rows of a table of `reliability`."""
    count, gap = table["count"], np.abs(table["observed"] - table["predicted"])
    return float((count * gap).sum() / count.sum())


def top_reliability(codes: Codes, probabilities: Array, bins: int, how: str) -> Table:
    """Return `reliability` of the second of two classes, or of the likeliest of several."""
    if probabilities.shape[1] == 2:
        return reliability(codes == 1, probabilities[:, 1], bins, how)
    best = probabilities.argmax(axis=1)
    return reliability(codes == best, probabilities.max(axis=1), bins, how)


def coverage(y: Array, low: Array, high: Array, nominal: Sequence[float]) -> Table:
    """Return the share of responses within intervals, and their width.

    Parameters
    ----------
    y
        ``[n]`` responses.
    low, high
        ``[n, k]`` ends of the intervals.
    nominal
        The k probabilities that they were made for.

    Returns
    -------
    Table
        ``nominal``, ``observed`` with the ends of its 90% interval (``observed_low``,
        ``observed_high``), ``below`` and ``above`` (shares of responses outside), ``mean_width``.
    """
    n = len(y)
    below, above = (y[:, None] < low).sum(axis=0), (y[:, None] > high).sum(axis=0)
    inside = n - below - above
    tail = 0.5 * (1.0 - _BAND)
    return Table(
        {
            "nominal": list(nominal),
            "observed": inside / n,
            "observed_low": beta.ppf(tail, inside + 0.5, n - inside + 0.5),
            "observed_high": beta.ppf(1.0 - tail, inside + 0.5, n - inside + 0.5),
            "below": below / n,
            "above": above / n,
            "mean_width": np.mean(high - low, axis=0),
        }
    )


def randomised_pit(below: Array, at_most: Array, seed: int = 0) -> Array:
    """Return probability integral transforms, uniform on (0, 1) when all is calibrated, ``[n]``.

    Parameters
    ----------
    below, at_most
        ``[n]`` P(Y < y) and P(Y <= y); equal for continuous responses. Between the two the value is
        drawn, which makes those of counts uniform too (Czado, Gneiting and Held 2009).
    seed
        Of the draws.
    """
    # A stream of its own: else the draws would repeat those of a simulation with the same seed.
    draws = np.random.default_rng((seed, 11)).random(len(below))
    return below + draws * (at_most - below)


def pit_distance(pit: Array) -> float:
    """Return the largest distance of the distribution of PIT values from the uniform one."""
    x, n = np.sort(pit), len(pit)
    above = np.max(np.arange(1, n + 1) / n - x)
    return float(max(above, np.max(x - np.arange(n) / n)))


@dataclass(frozen=True, eq=False)
class ProbabilityCalibration:
    """Calibration of class probabilities.

    Parameters
    ----------
    scores
        ``score`` and ``value``: mean log-likelihood, Brier score, expected calibration error,
        accuracy.
    reliability
        Of the second of two classes, or of the likeliest of several; see `reliability`.
    by_class
        The same of each class against the rest, with a column ``class``.
    """

    scores: Table
    reliability: Table
    by_class: Table

    def __str__(self) -> str:
        """Return the scores."""
        return str(self.scores)

    def plot(self, figure: Figure | None = None) -> Figure:
        """Draw observed shares against predicted probabilities, with matplotlib."""
        ax, figure = _panel(figure, "predicted probability", "observed share")
        t = self.reliability
        reach = np.maximum(
            [t["observed"] - t["observed_low"], t["observed_high"] - t["observed"]], 0.0
        )
        ax.errorbar(t["predicted"], t["observed"], reach, fmt="o", markersize=4, capsize=2)
        return figure


@dataclass(frozen=True, eq=False)
class DistributionCalibration:
    """Calibration of predictive distributions of numbers.

    Parameters
    ----------
    scores
        ``score`` and ``value``: mean log-likelihood, mean |coverage - nominal|, distance of the PIT
        values from the uniform distribution.
    coverage
        Of central intervals; see `coverage`. Those of counts hold at least what they are for.
    pit
        ``[n]`` PIT values; see `randomised_pit`.
    """

    scores: Table
    coverage: Table
    pit: Array

    def __str__(self) -> str:
        """Return scores and coverage."""
        return f"{self.scores}\n\n{self.coverage}"

    def plot(self, figure: Figure | None = None) -> Figure:
        """Draw the coverage of all central intervals by the PIT values, with matplotlib."""
        ax, figure = _panel(figure, "nominal coverage", "observed coverage")
        nominal = np.linspace(0.0, 1.0, 101)
        within = 2.0 * np.abs(self.pit - 0.5)
        ax.plot(nominal, np.searchsorted(np.sort(within), nominal, side="right") / len(self.pit))
        t = self.coverage
        ax.plot(t["nominal"], t["observed"], "o", markersize=4)
        return figure


def _panel(figure: Figure | None, across: str, up: str) -> tuple[Any, Figure]:
    """Return axes over the unit square with its diagonal."""
    import matplotlib.pyplot as plt

    if figure is None:
        figure = plt.figure(figsize=(3.6, 3.6), layout="constrained")
    ax = figure.add_subplot()
    ax.plot([0, 1], [0, 1], color="0.7", linewidth=0.8)
    ax.set(xlabel=across, ylabel=up, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    return ax, figure


def probability_calibration(
    codes: Codes,
    probabilities: Array,
    classes: Sequence[Label],
    bins: int = 10,
    how: str = "width",
) -> ProbabilityCalibration:
    """Return the calibration of class probabilities.

    Parameters
    ----------
    codes, probabilities
        ``[n]`` numbers of the true classes and ``[n, K]``.
    classes
        Their K labels.
    bins, how
        As in `reliability`.
    """
    table = top_reliability(codes, probabilities, bins, how)
    each = [reliability(codes == k, p, bins, how) for k, p in enumerate(probabilities.T)]
    labels = [label for label, t in zip(classes, each, strict=True) for _ in range(len(t))]
    columns = {name: [v for t in each for v in t[name].tolist()] for name in table.columns}
    scores = {
        "log-likelihood": class_log_likelihood(codes, probabilities),
        "Brier score": brier_score(codes, probabilities),
        "calibration error": expected_calibration_error(table),
        "accuracy": float(np.mean(probabilities.argmax(axis=1) == codes)),
    }
    return ProbabilityCalibration(_scores(scores), table, Table({"class": labels, **columns}))


def distribution_calibration(
    y: Array, log_density: Array, low: Array, high: Array, pit: Array
) -> DistributionCalibration:
    """Return the calibration of predictive distributions.

    Parameters
    ----------
    y, log_density, pit
        ``[n]`` responses, their predictive log density, and their PIT values.
    low, high
        ``[n, 4]`` ends of the central intervals for `COVERAGES`.
    """
    table = coverage(y, low, high, COVERAGES)
    scores = {
        "log-likelihood": float(np.mean(log_density)),
        "coverage error": float(np.mean(np.abs(table["observed"] - table["nominal"]))),
        "PIT distance": pit_distance(pit),
    }
    return DistributionCalibration(_scores(scores), table, pit)


def _scores(values: dict[str, float]) -> Table:
    return Table({"score": list(values), "value": list(values.values())})
