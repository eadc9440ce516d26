"""Schema and columns of a model file: read, and checked against each other."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np

from oakgp.export.entries import count, entry, number, present, require, texts
from oakgp.flows import Flow
from oakgp.kernels import CategoricalKernel, Periodic
from oakgp.measures import Categorical, Measure
from oakgp.model_columns import ModelColumn
from oakgp.schema import CategoricalColumn, Column, TableSchema


def read_columns(description: dict[str, Any]) -> tuple[TableSchema, tuple[ModelColumn, ...]]:
    """Return the schema and the model's columns, or say which of them cannot be."""
    schema = _schema(entry(description, "schema", dict))
    columns = tuple(_column(d) for d in entry(description, "columns", list))
    sources = [schema.columns[i] for i in schema.active]
    require(
        [column.feature.name for column in columns] == [source.name for source in sources],
        "the model's features are not the schema's active columns",
    )
    for column, source in zip(columns, sources, strict=True):
        fits = _is_level_column(column, source)
        if not isinstance(source, CategoricalColumn):
            fits = _is_number_column(column)
        require(fits, f"column {source.name!r} does not fit its kernel, measure or flow")
    return schema, columns


def _schema(d: dict[str, Any]) -> TableSchema:
    entry(d, "named", bool)
    count(d, "n_rows")
    texts(d, "notes")
    for column in entry(d, "columns", list):
        entry(column, "name", str)
        count(column, "n_missing")
        count(column, "n_distinct")
        if entry(column, "kind", str) == "categorical":
            n_levels = len(entry(column, "levels", list))
            counted = [type(n) is int and n >= 0 for n in entry(column, "counts", list)]
            levels = [*column["levels"], *entry(column, "pooled", list)]
            require(
                counted == [True] * n_levels
                and len({repr(level) for level in column["levels"]}) == n_levels
                and all(isinstance(level, (str, int, float)) for level in levels),
                f"the levels of column {column['name']!r} are not as they should be",
            )
            entry(column, "mixed", bool)
            entry(column, "identifier", bool)
    schema = TableSchema.from_dict(d)
    require(
        len(schema.columns) > 0 and len(set(schema.names)) == len(schema.columns),
        "the schema's columns have no names of their own",
    )
    return schema


def _column(d: dict[str, Any]) -> ModelColumn:
    name = entry(d, "name", str)
    for part in ("measure", "flow"):
        if present(d, part) is not None:
            _check_numbers(entry(d, part, dict), name)
    for key, values in (d["flow"] or {}).items():
        rising = not isinstance(values, list) or all(a < b for a, b in pairwise(values))
        require(rising, f"the flow of column {name!r} does not increase in {key}")
    column = ModelColumn.from_dict(d)
    kernel = column.feature.kernel
    expected = {"name", *(field.name for field in fields(type(kernel)))}
    require(set(d["kernel"]) == expected, f"the kernel of column {name!r} is incomplete")
    return column


def _check_numbers(d: dict[str, Any], name: str) -> None:
    """Refuse a measure or flow that holds anything but numbers and lists of them, equally long."""
    lists = []
    for key in d.keys() - {"kind"}:
        value = d[key]
        if isinstance(value, dict):
            _check_numbers(value, name)
        elif isinstance(value, list):
            lists.append(value)
            for each in value:
                if each is not None:  # "missing"
                    number({key: each}, key)
        else:
            number(d, key)
    require(len({len(v) for v in lists}) <= 1, f"lists of column {name!r} differ in length")


def _is_level_column(column: ModelColumn, source: Column) -> bool:
    kernel, measure = column.feature.kernel, column.feature.measure
    if not isinstance(kernel, CategoricalKernel) or not isinstance(source, CategoricalColumn):
        return False
    whole = type(kernel.n_levels) is int and type(kernel.rank) is int
    return (
        whole
        and type(kernel.has_missing) is bool
        and kernel.n_levels == len(source.levels)
        and kernel.rank >= 1
        and column.flow is None
        and isinstance(measure, Categorical)
        and len(measure.weights) == kernel.n_known
        and _is_distribution(measure)
    )


def _is_number_column(column: ModelColumn) -> bool:
    kernel, measure = column.feature.kernel, column.feature.measure
    if isinstance(kernel, CategoricalKernel) or isinstance(measure, Categorical):
        return False
    if isinstance(kernel, Periodic) != (column.flow is None):
        return False
    return _is_distribution(measure) and (column.flow is None or _is_increasing(column.flow))


def _is_distribution(measure: Measure) -> bool:
    """Whether the nodes are numbers, one "missing" at most, and the weights sum to 1."""
    with np.errstate(all="ignore"):
        nodes, weights = measure.atoms
    return (
        nodes.shape == weights.shape
        and nodes.ndim == 1
        and not bool(np.isinf(nodes).any())
        and int(np.isnan(nodes).sum()) <= 1
        and bool((weights >= 0).all())
        and abs(float(weights.sum()) - 1.0) < 1e-6
    )


def _is_increasing(flow: Flow) -> bool:
    """Whether a map keeps what every flow promises: finite, and increasing on the whole line."""
    with np.errstate(all="ignore"):
        inner = flow.inverse(np.linspace(-9.0, 9.0, 73))
        x = np.sort(np.r_[-1e300, -1e6, -1.0, 0.0, 1.0, 1e6, 1e300, inner])
        z = flow.forward(x)
    spread = float(z[-1] - z[0])
    return bool(np.isfinite(z).all()) and bool((np.diff(z) >= -1e-9 * spread).all()) and spread > 0
