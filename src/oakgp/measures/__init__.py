"""Probability measures of single features, one a file, and how they are fitted and read back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from oakgp.measures.base import Array, Measure
from oakgp.measures.categorical import Categorical
from oakgp.measures.empirical import Empirical
from oakgp.measures.missing import MissingAtom
from oakgp.measures.mixture import GaussianMixture, gaussian
from oakgp.measures.uniform import Uniform

__all__ = [
    "MEASURES",
    "Categorical",
    "Empirical",
    "GaussianMixture",
    "Measure",
    "MissingAtom",
    "Uniform",
    "fit_measure",
    "gaussian",
    "measure_from_dict",
]

#: Measures by name: what ``measure=`` accepts and what the law tests run over.
MEASURES: dict[str, type[Empirical] | type[GaussianMixture] | type[Uniform]] = {
    "empirical": Empirical,
    "gaussian_mixture": GaussianMixture,
    "uniform": Uniform,
}


def fit_measure(name: str, x: Array, weights: Array | None = None) -> Measure:
    """Fit a named measure to a column (NaN = missing), with an atom for missing values.

    ``"gaussian"`` takes mean and variance of the column, the others their own fit.
    """
    if name == "empirical":
        return Empirical.fit(x, weights)
    absent = np.isnan(x)
    mass = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64)
    if name == "gaussian":
        base: Measure = GaussianMixture.fit(x, weights, n_components=1)
    else:
        base = MEASURES[name].fit(x, weights)
    share = float(mass[absent].sum() / mass.sum())
    return MissingAtom(base, share) if share > 0 else base


def measure_from_dict(d: dict[str, Any]) -> Measure:
    """Read back what ``to_dict`` wrote."""
    kind = d["kind"]
    if kind == Empirical.kind:
        nodes = tuple(math.nan if v is None else float(v) for v in d["nodes"])
        return Empirical(nodes, tuple(d["weights"]))
    if kind == GaussianMixture.kind:
        return GaussianMixture(tuple(d["weights"]), tuple(d["means"]), tuple(d["variances"]))
    if kind == Uniform.kind:
        return Uniform(d["low"], d["high"])
    if kind == MissingAtom.kind:
        return MissingAtom(measure_from_dict(d["base"]), d["share"])
    if kind == Categorical.kind:
        return Categorical(tuple(d["weights"]))
    raise ValueError(f"unknown measure kind {kind!r} in the model file")
