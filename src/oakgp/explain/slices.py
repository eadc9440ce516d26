"""Panels of components of order three and higher: two features, at slices of all others."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np

from oakgp.explain.component import Component
from oakgp.explain.feature_axis import FeatureAxis
from oakgp.explain.mains import Settings
from oakgp.explain.pairs import Pair, align, pair
from oakgp.explain.style import literal

N_SLICES = 3
_LABEL = 18  # characters of name and value above a slice
_COARSE = 12  # values of a feature when pairs are compared


def slices(
    component: Component, axes: dict[int, FeatureAxis], how: Settings
) -> list[tuple[str, Pair]]:
    """Return the pictures of a component at slices, each with the slice's description.

    The pair that is shown is the one whose values vary most over the slices; the other features
    stand at a low, a middle and a high value, or at their most frequent levels.
    """
    term = component.term
    pairs = list(combinations(term, 2))
    spreads = [_spread(component, i, j, axes) for i, j in pairs]
    i, j = pairs[int(np.argmax(spreads))]
    views = [
        (label, pair(replace(component, at=at), i, j, axes, how))
        for label, at in _fixed([k for k in term if k not in (i, j)], axes)
    ]
    align([view for _, view in views])
    return views


def _fixed(others: list[int], axes: dict[int, FeatureAxis]) -> list[tuple[str, dict[int, float]]]:
    """Return description and coordinates of each slice."""
    found = {k: axes[k].slices(N_SLICES) for k in others}
    count = max(len(options) for options in found.values())
    result = []
    for s in range(count):
        picks = {k: options[min(s, len(options) - 1)] for k, options in found.items()}
        parts = [_described(axes[k].name, value) for k, (value, _) in picks.items()]
        result.append(("\n".join(parts), {k: at for k, (_, at) in picks.items()}))
    return result


def _described(name: str, value: str) -> str:
    value = literal(value, 9)
    return f"{literal(name, _LABEL - len(value))} = {value}"


def _spread(component: Component, i: int, j: int, axes: dict[int, FeatureAxis]) -> float:
    """Return the variance over two features, summed over the slices of the others."""
    a, b = _values(axes[i]), _values(axes[j])
    others = [k for k in component.term if k not in (i, j)]
    total = 0.0
    for _, at in _fixed(others, axes):
        mean, _ = replace(component, at=at).grid(i, a, j, b)
        total += float(mean.var())
    return total


def _values(axis: FeatureAxis) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return some coordinates of a feature, each of about equal probability."""
    return np.array([at for _, at in axis.slices(_COARSE)])
