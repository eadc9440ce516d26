"""What becomes of the variance when features depend on each other: measured over rows of data.

Sobol indices are those of independent features. Over dependent ones the variance of f still splits
exactly (Li and Rabitz 2010):

    Cov(f_u, f) / Var f  =  Var f_u / Var f  +  Cov(f_u, f - f_u) / Var f

a structural and a correlative share; they sum to 1 over all terms, but single ones may be negative.
Concurvity is the nonlinear kin of collinearity: how well a component, at the data, is explained by
the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.response import as_array
from oakgp.table import Table

Array = NDArray[np.float64]

_FAR = 0.1  # difference of a share from its Sobol index, or sum of correlative shares, to speak of
_CONCURVE = 0.8  # concurvity to speak of


@dataclass(frozen=True, eq=False)
class Dependence:
    """The variance of the function over some rows, and how far its features are from independent.

    Parameters
    ----------
    terms
        Table of ``structural``, ``correlative`` and ``total`` share of each listed term (the last
        row is that of all others together), with the ``sobol`` share beside them.
    concurvity
        Table of the share of each component's variance over the rows that the other components
        explain linearly (adjusted for their number), and the one most correlated with it.
    variance
        Variance of f over the rows, in units of the response squared.
    message
        What that means, in words.
    far
        Whether the Sobol indices are far from the shares over these rows.
    """

    terms: Table
    concurvity: Table
    variance: float
    message: str
    far: bool

    def __str__(self) -> str:
        """Return the table of terms and the message."""
        return f"{self.terms!r}\n{self.message}"

    __repr__ = __str__


def split_variance(parts: Array) -> tuple[Array, Array]:
    """Return structural and correlative shares of columns ``[n, k]`` in their sum, each ``[k]``."""
    centred = parts - parts.mean(axis=0)
    whole = centred.sum(axis=1)
    variance = float(np.mean(whole**2))
    if variance == 0:
        return np.zeros(parts.shape[1]), np.zeros(parts.shape[1])
    structural = np.mean(centred**2, axis=0) / variance
    total = np.mean(centred * whole[:, None], axis=0) / variance
    return structural, total - structural


def concurvity(parts: Array) -> tuple[Array, Array]:
    """Return how much of each column ``[n, k]`` the others explain, and all correlations.

    The first is the adjusted coefficient of determination of a linear regression on the others,
    0 for a constant column and NaN where there are too few rows.
    """
    n, k = parts.shape
    centred = parts - parts.mean(axis=0)
    length = np.sqrt((centred**2).sum(axis=0))
    live = np.flatnonzero(length > 1e-12 * max(float(length.max(initial=0.0)), 1e-300))
    unit = centred[:, live] / length[live]
    correlations = np.eye(k)
    correlations[np.ix_(live, live)] = unit.T @ unit
    explained = np.zeros(k)
    free = n - len(live)  # an intercept and all live columns but one
    if free < 1:
        explained[live] = np.nan
        return explained, correlations
    for place, j in enumerate(live):
        others = np.delete(unit, place, axis=1)
        if not others.shape[1]:
            continue
        coefficients = np.linalg.lstsq(others, unit[:, place], rcond=None)[0]
        left = float(((unit[:, place] - others @ coefficients) ** 2).sum())
        explained[j] = max(0.0, 1.0 - left * (n - 1) / free)
    return explained, correlations


def dependence(model: Model, output: Model, table: Any, terms: tuple[Term, ...]) -> Dependence:
    """Return how the variance of a function splits over the rows of a table.

    Parameters
    ----------
    model, output
        All latent functions, and the one that is meant.
    table
        The rows.
    terms
        The terms to list.
    """
    x = output.encode(table)
    if x.shape[1] < 3:
        raise ValueError(f"the table has {x.shape[1]} rows: a variance over rows needs at least 3")
    values = output.scale * as_array(output.posterior.component_moments(x, terms)[0].T)
    whole = output.scale * as_array(output.posterior.mean(x) - output.posterior.mean(x, ()))
    parts = np.column_stack([values, whole - values.sum(axis=1)])
    structural, correlative = split_variance(parts)
    variances = (model if model.pooled else output).variances()
    whole_variance = max(variances.totals().variance, np.finfo(np.float64).tiny)
    sobol = as_array(variances.of(terms)) / whole_variance
    sobol = np.r_[sobol, max(0.0, 1.0 - sobol.sum())]
    explained, correlations = concurvity(values)
    names = [output.label(term) for term in terms]
    message, far = _message(names, structural, correlative, sobol, explained)
    return Dependence(
        Table(
            {
                "term": [*names, "(other terms)"],
                "structural": structural.tolist(),
                "correlative": correlative.tolist(),
                "total": (structural + correlative).tolist(),
                "sobol": sobol.tolist(),
            }
        ),
        _concurvity_table(names, explained, correlations),
        float(whole.var()),
        message,
        far,
    )


def _concurvity_table(names: list[str], explained: Array, correlations: Array) -> Table:
    off = np.abs(correlations - np.eye(len(names)))
    closest = off.argmax(axis=1) if len(names) > 1 else np.zeros(len(names), dtype=int)
    single = len(names) < 2
    return Table(
        {
            "term": names,
            "concurvity": explained.tolist(),
            "closest": ["" if single else names[j] for j in closest],
            "correlation": [
                0.0 if single else float(correlations[i, j]) for i, j in enumerate(closest)
            ],
        }
    )


def _message(
    names: list[str], structural: Array, correlative: Array, sobol: Array, explained: Array
) -> tuple[str, bool]:
    """Return in words how far the features are from independent, and whether that is far."""
    own = float(structural.sum())
    gap = np.abs(structural + correlative - sobol)[: len(names)]
    worst = int(gap.round(3).argmax()) if len(names) else 0  # of two alike, the larger term
    far = abs(own - 1.0) > _FAR or bool(len(names) and gap[worst] > _FAR)
    text = (
        f"over these rows the components' own variances add up to {100 * own:.0f}% of the "
        "variance of the function"
    )
    if not far:
        text += ": Sobol indices, which take the features for independent, are a fair summary"
    else:
        text += (
            ". The features depend on each other, and Sobol indices, which take them for "
            "independent, are far off"
        )
        if len(names):
            total = structural[worst] + correlative[worst]
            text += (
                f": {names[worst]} has a share of {100 * total:.0f}% here and an index of "
                f"{100 * sobol[worst]:.0f}%"
            )
    alike = [names[j] for j in np.flatnonzero(explained > _CONCURVE)]
    if alike:
        more = f" and {len(alike) - 4} more" if len(alike) > 4 else ""
        text += (
            f". The other components nearly explain {', '.join(alike[:4])}{more}: read them "
            "together, not one by one"
        )
    return text, far
