"""By how much two rows, or two values of a feature, differ; with deviation and interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oakgp.checks import check_choice, check_count
from oakgp.columns import read_table
from oakgp.explain.explanation import SCALES, listed_terms, refuse_without_response
from oakgp.explain.response_scale import expected_response
from oakgp.kernels.terms import Term
from oakgp.model import Label, Model
from oakgp.table import Table


def contrast(
    model: Model,
    a: Any,
    b: Any,
    feature: str | int | None = None,
    *,
    terms: Any = None,
    max_terms: int = 20,
    scale: str = "link",
    coverage: float = 0.9,
    output: Label | None = None,
    n_samples: int = 4000,
    seed: int = 0,
) -> Table:
    """Return by how much b exceeds a; see ``estimator.contrast``."""
    check_choice("scale", scale, SCALES)
    check_count("n_samples", n_samples, 2)
    if not isinstance(coverage, Real) or not 0 < coverage < 1:
        raise ValueError(f"coverage={coverage!r}: give a number strictly between 0 and 1")
    chosen = model.of(output)
    on_response = scale == "response" and model.response is not None
    if feature is not None and on_response:
        raise ValueError(
            "on the response scale two values of a feature differ by an amount that depends on all "
            "other features: give two rows as a and b, or use scale='link'"
        )
    if feature is not None:
        return value_contrast(chosen, feature, a, b, float(coverage))
    if on_response:
        refuse_without_response(model, chosen)
        return response_contrast(model, chosen, a, b, float(coverage), n_samples, seed)
    listed = listed_terms(model, chosen, terms, max_terms)
    return row_contrast(chosen, a, b, listed, float(coverage), all_of_them=terms is not None)


def row_contrast(
    output: Model,
    a: Any,
    b: Any,
    terms: Sequence[Term],
    coverage: float = 0.9,
    *,
    all_of_them: bool = True,
) -> Table:
    """Return f(b) - f(a) of a latent function, in all and by term.

    Parameters
    ----------
    output
        The latent function.
    a, b
        A row each: a table of one row, or a mapping from columns to values.
    terms
        The terms to list, after the whole.
    coverage
        Of the intervals.
    all_of_them
        Whether terms are listed as they come; else those that differ, by the size of the
        difference.
    """
    x = output.encode(two_rows(output, a, b))
    parts = [(output.label(term), difference(output, x, term)) for term in terms]
    if not all_of_them:
        parts = [part for part in parts if part[1] != (0.0, 0.0)]
        parts.sort(key=lambda part: -abs(part[1][0]))
    whole = difference(output, x, None)
    names = ["(prediction)", *(name for name, _ in parts)]
    return _table(names, [whole, *(found for _, found in parts)], coverage)


def response_contrast(
    model: Model, output: Model, a: Any, b: Any, coverage: float, n_samples: int, seed: int
) -> Table:
    """Return by how much the mean response of row b exceeds that of row a, from posterior draws.

    Of classes, the probability of the output's class. The interval holds a share ``coverage`` of
    the draws.
    """
    assert model.response is not None
    x = output.encode(two_rows(output, a, b))
    draws = [p.sample(x, n_samples, seed + k) for k, p in enumerate(model.posteriors)]
    f = torch.stack(draws) + model.response.levels[:, None, None]
    flat = f.reshape(len(f), -1)
    values = expected_response(model, output, flat, torch.zeros_like(flat)).reshape(-1, 2)
    gain = values[:, 1] - values[:, 0]
    low, high = np.quantile(gain, [0.5 - coverage / 2, 0.5 + coverage / 2])
    return Table(
        {
            "term": ["(response)"],
            "difference": [float(gain.mean())],
            "sd": [float(gain.std())],
            "low": [float(low)],
            "high": [float(high)],
        }
    )


def value_contrast(output: Model, feature: str | int, a: Any, b: Any, coverage: float) -> Table:
    """Return f_i(b) - f_i(a) of a main effect: the others averaged over their measures."""
    (i,) = output.term(feature)
    position = output.schema.active[i]
    rows: list[list[Any]] = [[None] * len(output.schema.columns) for _ in range(2)]
    rows[0][position], rows[1][position] = a, b
    x = output.encode(np.array(rows, dtype=object))
    return _table([output.names[i]], [difference(output, x, (i,))], coverage)


def difference(output: Model, x: Tensor, term: Term | None) -> tuple[float, float]:
    """Return mean and deviation of f(second) - f(first), or of a component's, ``x [d, 2]``."""
    used = x if term is None else x[list(term)]
    if bool(((used[:, 0] == used[:, 1]) | used.isnan().all(dim=1)).all()):
        return 0.0, 0.0  # the same point: no rounding shall suggest otherwise
    posterior = output.posterior
    mean = posterior.mean(x, term)
    covariance = posterior.covariance(x, term=term)
    variance = covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1]
    sd = max(0.0, float(variance)) ** 0.5
    return output.scale * float(mean[1] - mean[0]), output.scale * sd


def two_rows(output: Model, a: Any, b: Any) -> Any:
    """Return a table of two rows of which each is given in any form."""
    rows = np.empty((2, len(output.schema.columns)), dtype=object)
    for k, (name, each) in enumerate((("a", a), ("b", b))):
        rows[k] = _one_row(output, name, each)
    return rows


def _one_row(output: Model, argument: str, row: Any) -> list[Any]:
    """Return the values of a row in the order of the training table."""
    names = output.schema.names
    if hasattr(row, "to_dict") and getattr(row, "ndim", 2) == 1:
        row = row.to_dict()  # a row of a pandas frame
    if isinstance(row, Mapping):
        unknown = [str(key) for key in row if key not in names]
        absent = [name for name in names if name not in row]
        if absent:
            raise ValueError(
                f"{argument}= has no value for {', '.join(map(repr, absent))}; give None for what "
                "is not known" + (f" (it names {', '.join(unknown)})" if unknown else "")
            )
        return [row[name] for name in names]
    source = read_table([row] if _is_flat(row) else row)
    if source.n_rows != 1:
        raise ValueError(f"{argument}= has {source.n_rows} rows: give a single row")
    where = list(range(len(source.names)))
    if source.named and output.schema.named:
        absent = [name for name in names if name not in source.names]
        if absent:
            raise ValueError(f"{argument}= has no column {', '.join(map(repr, absent))}")
        where = [source.names.index(name) for name in names]
    elif len(source.names) != len(names):
        raise ValueError(
            f"{argument}= has {len(source.names)} values, but the model has {len(names)} columns"
        )
    return [source.read(k).labels()[0] for k in where]


def _is_flat(row: Any) -> bool:
    return isinstance(row, (list, tuple, np.ndarray)) and np.ndim(np.asarray(row, object)) == 1


def _table(names: list[str], found: list[tuple[float, float]], coverage: float) -> Table:
    half = NormalDist().inv_cdf(0.5 + coverage / 2)
    return Table(
        {
            "term": names,
            "difference": [mean for mean, _ in found],
            "sd": [sd for _, sd in found],
            "low": [mean - half * sd for mean, sd in found],
            "high": [mean + half * sd for mean, sd in found],
        }
    )
