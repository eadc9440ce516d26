"""What the page says of the data and of how the model was made."""

from __future__ import annotations

import platform
from datetime import datetime
from typing import Any

import numpy as np

from oakgp.columns import as_text
from oakgp.edits.apply import unedited
from oakgp.export.settings import plain
from oakgp.kernels import CategoricalKernel
from oakgp.kernels.additive import Parameters
from oakgp.model import Model
from oakgp.report.features import PageFeature
from oakgp.report.words import number, percent
from oakgp.schema import CategoricalColumn

_LEVELS = 12


def data_summary(model: Model, features: list[PageFeature]) -> list[dict[str, str]]:
    """Return a line for each column of the training table."""
    position = {i: j for j, i in enumerate(model.schema.active)}
    lines = []
    for i, column in enumerate(model.schema.columns):
        rows = max(1, model.schema.n_rows)
        line = {
            "name": column.name,
            "kind": "categories" if isinstance(column, CategoricalColumn) else "numbers",
            "distinct": f"{column.n_distinct:,}",
            "missing": percent(column.n_missing / rows) if column.n_missing else "none",
            "values": "",
            "used": "yes" if i in position else "no",
        }
        if isinstance(column, CategoricalColumn):
            line["values"] = _levels(column)
        elif i in position:
            axis = features[position[i]].axis
            line["values"] = _quantiles(axis.sample, axis.weights)  # type: ignore[union-attr]
        lines.append(line)
    return lines


def _levels(column: CategoricalColumn) -> str:
    if column.identifier:
        return "a name for every row"
    order = np.argsort(-np.array(column.counts), kind="stable")
    shown = [f"{as_text(column.levels[k])} ({column.counts[k]:,})" for k in order[:_LEVELS]]
    more = len(order) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def _quantiles(sample: Any, weights: Any) -> str:
    from oakgp.explain.feature_axis import weighted_quantiles

    levels = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    low, first, middle, third, high = weighted_quantiles(sample, weights, levels)
    return (
        f"{number(low)} to {number(high)}, median {number(middle)}, "
        f"middle half {number(first)} to {number(third)}"
    )


def how_made(estimator: Any, model: Model) -> list[tuple[str, str]]:
    """Return what there is to say of the making, as pairs of name and text."""
    import scipy
    import sklearn
    import torch

    from oakgp import __version__

    facts, terms = model.facts, model.posterior.terms
    when = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    lines = [
        ("report written", when),
        ("oakgp", __version__),
        (
            "with",
            f"Python {platform.python_version()}, torch {torch.__version__}, "
            f"NumPy {np.__version__}, SciPy {scipy.__version__}, "
            f"scikit-learn {sklearn.__version__}",
        ),
        ("estimator", type(estimator).__name__),
        ("seed", str(estimator.random_state)),
        ("engine", facts.engine),
        ("training rows", f"{facts.n_rows:,} ({facts.n_distinct:,} distinct)"),
        ("inducing points", f"{facts.n_inducing:,}" if facts.n_inducing else "none"),
        ("terms", f"{terms.count():,} up to order {terms.max_order}"),
        ("flow", facts.flow),
        ("log evidence", f"{facts.log_evidence:.4g} of {facts.evidence_rows:,} rows"),
        (
            "optimiser",
            f"{facts.n_evaluations:,} evaluations, "
            + ("converged" if facts.converged else "stopped at its limit"),
        ),
        ("jitter", f"{facts.jitter:g}"),
        ("time of the fit", f"{facts.seconds:.1f} s"),
    ]
    defaults = type(estimator)().get_params(deep=False)
    changed = {
        name: value
        for name, value in estimator.get_params(deep=False).items()
        if repr(value) != repr(defaults.get(name))
    }
    settings = ", ".join(f"{name}={_setting(value)}" for name, value in changed.items())
    lines.append(("settings", settings or "all at their defaults"))
    return lines


def _setting(value: Any) -> str:
    try:
        return repr(plain(value)) if not isinstance(value, str) else repr(value)
    except TypeError:
        return repr(value)


def hyperparameters(model: Model) -> list[dict[str, str]]:
    """Return a line for each feature: kernel, measure, flow, lengthscale, variance."""
    parameters = getattr(unedited(model).posterior, "parameters", None)
    if not isinstance(parameters, Parameters):
        return []
    lengths, scales = parameters.lengthscales.tolist(), parameters.scales.tolist()
    lines = []
    for j, column in enumerate(model.columns):
        kernel = column.feature.kernel
        table = isinstance(kernel, CategoricalKernel)
        lines.append(
            {
                "name": column.feature.name,
                "kernel": kernel.name.replace("_", " "),
                "measure": column.feature.measure.kind.replace("_", " "),
                "lengthscale": "a table of levels" if table else number(float(lengths[j])),
                "scale": number(float(scales[j])),
            }
        )
    return lines
