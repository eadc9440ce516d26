"""Each feature laid along an axis of a plot: its values in their own units, range and weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from oakgp.columns import as_text
from oakgp.explain.numbers import MISSING, rounded
from oakgp.kernels import CategoricalKernel, Periodic
from oakgp.model import Model
from oakgp.model_columns import ModelColumn
from oakgp.schema import CategoricalColumn

Array = NDArray[np.float64]

_TAIL = 0.005  # of the weight is left out at either end, unless it lies close
_REACH = 2.0  # how far the range goes beyond the middle 90%, in widths of these


@dataclass(frozen=True)
class NumericAxis:
    """A numeric feature.

    Parameters
    ----------
    name
        Of the feature.
    column
        Its transform and measure.
    sample, weights
        Its distribution: values in units of the column, missing ones left out, and their weights.
    low, high
        Range to draw.
    has_missing
        Whether "missing" is one of the feature's values.
    """

    name: str
    column: ModelColumn
    sample: Array
    weights: Array
    low: float
    high: float
    has_missing: bool

    @property
    def missing_at(self) -> float:
        """Where "missing" stands: a little beyond the upper end."""
        return self.high + 0.13 * (self.high - self.low)

    @property
    def limits(self) -> tuple[float, float]:
        """Ends of the axis, with room for "missing" where there is any."""
        span = self.high - self.low
        return self.low - 0.02 * span, self.high + (0.2 if self.has_missing else 0.02) * span

    def grid(self, count: int) -> Array:
        """Return values to draw at: even steps, and denser where the data are."""
        even = np.linspace(self.low, self.high, count - count // 3)
        levels = (np.arange(count // 3) + 0.5) / max(1, count // 3)
        dense = weighted_quantiles(self.sample, self.weights, levels)
        return np.unique(np.r_[even, np.clip(dense, self.low, self.high)])

    def coordinates(self, values: Array) -> Array:
        """Return the kernel's coordinates of values in units of the column."""
        kernel = self.column.feature.kernel
        if isinstance(kernel, Periodic):
            return values / kernel.period  # the phase, but the end of a cycle stays its end
        return self.column.forward(values)

    def slices(self, count: int) -> list[tuple[str, float]]:
        """Return label and coordinate of a low, a middle and a high value."""
        levels = np.linspace(0.1, 0.9, count)
        values = weighted_quantiles(self.sample, self.weights, levels)
        return list(
            zip([rounded(v) for v in values], self.coordinates(values).tolist(), strict=True)
        )


@dataclass(frozen=True)
class LevelAxis:
    """A categorical feature.

    Parameters
    ----------
    name
        Of the feature.
    labels
        Of its levels, in their order, "missing" last where there is any.
    codes
        Their coordinates; NaN for "missing".
    shares
        Their frequencies.
    counts
        How many rows they have.
    ordered
        Whether their order means something: of numbers, of booleans, or declared.
    """

    name: str
    labels: tuple[str, ...]
    codes: Array
    shares: Array
    counts: Array
    ordered: bool

    def slices(self, count: int) -> list[tuple[str, float]]:
        """Return label and coordinate of the most frequent levels."""
        frequent = np.argsort(-self.shares, kind="stable")[:count]
        return [(self.labels[k], float(self.codes[k])) for k in sorted(frequent)]

    def take(self, index: NDArray[np.intp]) -> LevelAxis:
        """Return the axis with some of the levels only."""
        labels = tuple(self.labels[k] for k in index)
        parts = self.codes[index], self.shares[index], self.counts[index]
        return LevelAxis(self.name, labels, *parts, self.ordered)


FeatureAxis: TypeAlias = NumericAxis | LevelAxis


def feature_axis(model: Model, i: int, values: Array | None) -> FeatureAxis:
    """Return the axis of one feature.

    Parameters
    ----------
    model
        The model.
    i
        Number of the feature.
    values
        Encoded column of a table whose distribution is to be shown; None for that of training, as
        the feature's measure holds it.
    """
    column = model.columns[i]
    source = model.schema.columns[model.schema.active[i]]
    if isinstance(source, CategoricalColumn):
        return _level_axis(column, source, values)
    return _numeric_axis(column, values)


def _level_axis(column: ModelColumn, source: CategoricalColumn, values: Array | None) -> LevelAxis:
    kernel = column.feature.kernel
    assert isinstance(kernel, CategoricalKernel)
    labels = [as_text(level) for level in source.levels]
    codes = np.arange(kernel.n_levels, dtype=np.float64)
    if kernel.has_missing:
        labels.append(MISSING)
        codes = np.r_[codes, np.nan]
    shares = column.feature.measure.atoms[1]
    counts = np.array([*source.counts, *[source.n_missing] * kernel.has_missing], dtype=np.float64)
    if values is not None:
        rows = np.where(np.isnan(values), kernel.n_levels, values)
        rows = rows[(rows >= 0) & (rows < kernel.n_known)].astype(np.intp)
        counts = np.bincount(rows, minlength=kernel.n_known).astype(np.float64)
        shares = counts / max(1, len(values))
    ordered = _in_an_order(source)
    return LevelAxis(column.feature.name, tuple(labels), codes, shares, counts, ordered)


def _in_an_order(source: CategoricalColumn) -> bool:
    """Whether the levels are no mere names: those are text in the order of the alphabet."""
    names = source.levels[:-1] if source.pooled else source.levels
    texts = [name for name in names if isinstance(name, str)]
    return len(texts) < len(names) or texts != sorted(texts)


def _numeric_axis(column: ModelColumn, values: Array | None) -> NumericAxis:
    nodes, weights = column.feature.measure.atoms
    has_missing = bool(np.isnan(nodes).any())
    sample, mass = _measure_sample(column, nodes, weights)
    if values is not None:
        shown = values[~np.isnan(values)]
        if len(np.unique(shown)) > 1:
            sample, mass = shown, np.full(len(shown), 1.0 / len(shown))
    kernel = column.feature.kernel
    if isinstance(kernel, Periodic):
        low, high = 0.0, kernel.period
        sample = np.mod(sample, kernel.period)
    else:
        low, high = _range(sample, mass)
    return NumericAxis(column.feature.name, column, sample, mass, low, high, has_missing)


def _measure_sample(column: ModelColumn, nodes: Array, weights: Array) -> tuple[Array, Array]:
    """Return a feature's measure in units of the column, the far tails of its nodes cut."""
    present = ~np.isnan(nodes)
    nodes, mass = nodes[present], weights[present]
    order = np.argsort(nodes, kind="stable")
    nodes, mass = nodes[order], mass[order]
    below = np.cumsum(mass) / mass.sum()
    inner = (below > 1e-4) & (below - mass / mass.sum() < 1.0 - 1e-4)
    nodes, mass = nodes[inner], mass[inner] / mass[inner].sum()
    kernel = column.feature.kernel
    if isinstance(kernel, Periodic):
        return nodes * kernel.period, mass
    return nodes if column.flow is None else column.flow.inverse(nodes), mass


def _range(sample: Array, weights: Array) -> tuple[float, float]:
    """Return the range that holds nearly all of the weight; all of it if that is hardly more.

    Values far beyond the middle 90% are left out, however many rows there are.
    """
    low, high = weighted_quantiles(sample, weights, np.array([_TAIL, 1.0 - _TAIL]))
    span = high - low
    least, most = sample.min(), sample.max()
    low = least if low - least <= 0.1 * span or span == 0 else low
    high = most if most - high <= 0.1 * span or span == 0 else high
    inner, outer = weighted_quantiles(sample, weights, np.array([0.05, 0.95]))
    reach = _REACH * (outer - inner)
    if reach > 0:  # one far value must not press all others into a line
        near = sample[(sample >= inner - reach) & (sample <= outer + reach)]
        low, high = max(low, near.min()), min(high, near.max())
    if not high > low:
        half = 0.5 * max(abs(low), 1.0)
        low, high = low - half, high + half
    return float(low), float(high)


def weighted_quantiles(sample: Array, weights: Array, levels: Array) -> Array:
    """Return quantiles that are values of the sample: no step toward an outlier."""
    order = np.argsort(sample, kind="stable")
    below = np.cumsum(weights[order])
    rows = np.searchsorted(below, levels * below[-1], side="left")
    return np.asarray(sample[order][np.minimum(rows, len(sample) - 1)])
