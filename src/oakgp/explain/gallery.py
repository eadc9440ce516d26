"""All plots of a model at once."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure, SubFigure
from numpy.typing import NDArray

from oakgp.explain.diagnostics import plot_coverage, plot_pit, plot_reliability, plot_residuals
from oakgp.explain.plots import fitted_model, plot_components
from oakgp.explain.shares import (
    plot_cumulative,
    plot_order_variances,
    plot_orders,
    plot_shapley_effects,
    plot_sobol,
    plot_truncation,
)
from oakgp.model import Label

Array = NDArray[np.float64]

_LEVELS = np.linspace(0.025, 0.975, 39)  # of predictive quantiles


def plot_all(
    estimator: Any,
    X: Any = None,
    y: Any = None,
    *,
    output: Label | None = None,
    directory: str | PathLike[str] | None = None,
    dpi: int = 150,
) -> dict[str, Figure | SubFigure]:
    """Draw everything there is to see of a fitted model.

    Parameters
    ----------
    estimator : fitted estimator
        An `oakgp.OAKRegressor` or `oakgp.OAKClassifier`.
    X, y : table and array, optional
        Rows that were not trained on, and their responses: without y the plots of how good
        predictions are, and the metric by number of terms, are left out.
    output : label, optional
        Whose components; of three or more classes the first when not given.
    directory : path, optional
        Where to write the figures as PNG files, under their names here; it is made if need be.
    dpi : int, default=150
        Dots per inch of these files.

    Returns
    -------
    dict
        Figures by name: ``components``, ``sobol``, ``shapley``, ``orders``, ``order_variances``,
        ``cumulative`` and, given y, ``truncation``, and ``reliability`` (a figure for each class
        but the first of two) or ``residuals``, ``coverage`` and ``pit``.
    """
    model = fitted_model(estimator)
    if output is None and model.pooled:
        output = model.outputs[0].name
    figures: dict[str, Figure | SubFigure] = {
        "components": plot_components(estimator, X, output=output),
        "order_variances": plot_order_variances(estimator, output=output),
    }
    if model.posterior.orthogonal:
        figures |= {
            "sobol": plot_sobol(estimator),
            "shapley": plot_shapley_effects(estimator),
            "orders": plot_orders(estimator),
            "cumulative": plot_cumulative(estimator),
        }
    if y is not None:
        if X is None:
            raise ValueError("y= is given without X=: the rows that it belongs to")
        figures |= _of_predictions(estimator, X, np.asarray(y))
        if model.posterior.orthogonal:
            terms = min(20, len(model.sobol.ranking.terms))
            curve = estimator.truncation_curve(X, y, n_terms=terms)
            label = "log loss" if hasattr(estimator, "classes_") else "error"
            figures["truncation"] = plot_truncation(curve, label=label)
    if directory is not None:
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        for name, figure in figures.items():
            if isinstance(figure, Figure):
                figure.savefig(folder / f"{name}.png", dpi=dpi)
    return figures


def _of_predictions(estimator: Any, X: Any, y: NDArray[Any]) -> dict[str, Figure | SubFigure]:
    """Return the plots of how predictions agree with responses."""
    if hasattr(estimator, "classes_"):
        chances, classes = estimator.predict_proba(X), estimator.classes_
        shown = range(1, 2) if len(classes) == 2 else range(len(classes))
        figures: dict[str, Figure | SubFigure] = {}
        for k in shown:
            name = "reliability" if len(classes) == 2 else f"reliability_{k}"
            figures[name] = plot_reliability(y == classes[k], chances[:, k], label=str(classes[k]))
        return figures
    response = y.astype(np.float64)
    mean, sd = estimator.predict(X, return_std=True)
    below = (response[:, None] > estimator.predict_quantiles(X, _LEVELS)).sum(axis=1)
    centre = len(_LEVELS) // 2
    nominal = _LEVELS[centre + 1 :] - _LEVELS[:centre][::-1]
    reach = np.abs(below - 0.5 * len(_LEVELS))  # quantiles between the response and the median
    held = [float(np.mean(reach < k + 1)) for k in range(centre)]
    pit = (below + 0.5) / (len(_LEVELS) + 1)
    return {
        "residuals": plot_residuals(mean, response, sd),
        "coverage": plot_coverage(nominal, held, n=len(response)),
        "pit": plot_pit(pit, bins=(len(_LEVELS) + 1) // 2),
    }
