"""Compiled models as JSON, and their tables as CSV.

The JSON document (``format`` 1)::

    kind        "oakgp tables"
    format      1
    schema      how tables of rows are read: `oakgp.schema.TableSchema.to_dict`
    features    list: {"kind": "numeric", feature, name, knots, positions, lower, upper, period}
                or {"kind": "levels", feature, name, levels}
    functions   list: {name, constant, level, center, scale, bound, left_out, tables, bands}
      tables    list: {term, features: positions in the list above, counts, degrees, coefficients,
                error}
      bands     null or {constant, rank, tables, factor, rest, error, error_outside,
                extra: tables of variance on top}; vectors are
                float32 in base64
    noise, response, classes, tolerance

A value x of a numeric feature is first brought into its cycle (``x - period floor(x / period)``) or
its tails drawn in (``upper = [end, width]``: beyond the end, ``end + width log(1 + (x - end) /
width)``), then mapped to p in [0, 1] by linear interpolation of ``positions`` over ``knots``, flat
beyond. With n entries (``counts``), c = min(floor(p (n - 1)), n - 2) and t = p (n - 1) - c, the
coefficients c .. c + 3 have the weights (1 - t)^3 / 6, (3 t^3 - 6 t^2 + 4) / 6,
(-3 t^3 + 3 t^2 + 3 t + 1) / 6 and t^3 / 6; a missing value has the last coefficient, of weight 1.
So for degree 3; of degree 1 the coefficients c and c + 1 have the weights 1 - t and t.
Levels have one coefficient each, then "missing" and "unseen". The function is the constant plus all
tables.
"""

from __future__ import annotations

import base64
import csv
import math
from os import PathLike
from typing import Any

import numpy as np
import torch

from oakgp.compiled.axes import Axis, LevelAxis, NumericAxis, Scale, feature_from_dict
from oakgp.compiled.bands import Bands
from oakgp.compiled.model import CompiledFunction, CompiledModel
from oakgp.compiled.tables import ComponentTable, TableSum
from oakgp.likelihoods import likelihood_from_dict
from oakgp.model import JOINER
from oakgp.response import Response
from oakgp.schema import TableSchema

KIND, FORMAT = "oakgp tables", 1


def describe(model: CompiledModel, bands: bool) -> dict[str, Any]:
    """Return a compiled model as JSON-safe values."""
    features: dict[Scale | LevelAxis, int] = {}
    functions = [_describe_function(f, features, bands) for f in model.functions]
    response = model.response
    return {
        "kind": KIND,
        "format": FORMAT,
        "schema": model.schema.to_dict(),
        "features": [feature.to_dict() for feature in features],
        "functions": functions,
        "noise": model.noise,
        "response": None
        if response is None
        else {
            "likelihood": response.likelihood.to_dict(),
            "parameters": response.parameters.tolist(),
            "levels": response.levels.tolist(),
            "center": response.center,
            "scale": response.scale,
        },
        "classes": None if model.classes is None else list(model.classes),
        "tolerance": model.tolerance,
    }


def restore(d: dict[str, Any]) -> CompiledModel:
    """Return the compiled model that `describe` was given."""
    if not isinstance(d, dict) or d.get("kind") != KIND:
        raise ValueError(f"this is no document of {KIND}: its kind is missing or another")
    if d["format"] != FORMAT:
        raise ValueError(
            f"the tables have format {d['format']!r}, and this version of oakgp reads {FORMAT}: "
            "update oakgp, or compile the model again"
        )
    features = [feature_from_dict(feature) for feature in d["features"]]
    response = d["response"]
    return CompiledModel(
        schema=TableSchema.from_dict(d["schema"]),
        functions=tuple(_read_function(f, features) for f in d["functions"]),
        noise=float(d["noise"]),
        response=None
        if response is None
        else Response(
            likelihood_from_dict(response["likelihood"]),
            torch.tensor(response["parameters"], dtype=torch.float64),
            torch.tensor(response["levels"], dtype=torch.float64),
            float(response["center"]),
            float(response["scale"]),
        ),
        classes=None if d["classes"] is None else tuple(d["classes"]),
        tolerance=float(d["tolerance"]),
    )


def _describe_function(
    f: CompiledFunction, features: dict[Scale | LevelAxis, int], bands: bool
) -> dict[str, Any]:
    return {
        "name": f.name,
        "constant": f.sum.constant,
        "level": f.level,
        "center": f.center,
        "scale": f.scale,
        "bound": f.bound,
        "left_out": [list(each) for each in f.left_out],
        "tables": [_describe_table(table, features) for table in f.sum.tables],
        "bands": _describe_bands(f.bands, features) if bands and f.bands is not None else None,
    }


def _describe_table(
    table: ComponentTable, features: dict[Scale | LevelAxis, int]
) -> dict[str, Any]:
    return {
        "term": table.label,
        **_describe_axes(table.axes, features),
        "coefficients": table.coefficients.tolist(),
        "error": table.error,
    }


def _describe_axes(
    axes: tuple[Axis, ...], features: dict[Scale | LevelAxis, int]
) -> dict[str, Any]:
    own = [axis if isinstance(axis, LevelAxis) else axis.scale for axis in axes]
    return {
        "features": [features.setdefault(feature, len(features)) for feature in own],
        "degrees": [0 if isinstance(axis, LevelAxis) else axis.degree for axis in axes],
        "counts": [
            len(axis.levels) if isinstance(axis, LevelAxis) else axis.count for axis in axes
        ],
    }


def _describe_bands(bands: Bands, features: dict[Scale | LevelAxis, int]) -> dict[str, Any]:
    return {
        "constant": _packed(bands.constant),
        "rank": len(bands.constant),
        "tables": [
            {**_describe_axes(axes, features), "coefficients": _packed(spline)}
            for axes, spline in zip(bands.axes, bands.coefficients, strict=True)
        ],
        "factor": bands.factor,
        "rest": bands.rest,
        "error": bands.error,
        "error_outside": bands.error_outside,
        "extra": [_describe_table(table, features) for table in bands.extra.tables],
    }


def _packed(values: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode("ascii")


def _unpacked(text: str, shape: tuple[int, ...]) -> Any:
    values = np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4")
    if values.size != int(np.prod(shape)):
        raise ValueError(f"bands have {values.size} numbers where {shape} are expected")
    return values.reshape(shape).astype(np.float32)


def _read_function(d: dict[str, Any], features: list[Scale | LevelAxis]) -> CompiledFunction:
    tables = [_read_table(table, features) for table in d["tables"]]
    return CompiledFunction(
        name=d["name"],
        sum=TableSum(float(d["constant"]), tuple(tables)),
        bands=None if d["bands"] is None else _read_bands(d["bands"], features, d["scale"]),
        level=float(d["level"]),
        center=float(d["center"]),
        scale=float(d["scale"]),
        bound=float(d["bound"]),
        left_out=tuple((str(term), float(size)) for term, size in d["left_out"]),
    )


def _read_table(d: dict[str, Any], features: list[Scale | LevelAxis]) -> ComponentTable:
    axes = _read_axes(d, features)
    values = np.array(d["coefficients"], dtype=np.float64)
    shape = tuple(axis.n_coefficients for axis in axes)
    if values.shape != shape or not np.isfinite(values).all():
        raise ValueError(
            f"the table of {d['term']!r} has shape {values.shape}, not {shape}, or holds what is "
            "no finite number"
        )
    return ComponentTable(d["term"], axes, values, float(d["error"]))


def _read_axes(d: dict[str, Any], features: list[Scale | LevelAxis]) -> tuple[Axis, ...]:
    axes: list[Axis] = []
    for k, count, degree in zip(d["features"], d["counts"], d["degrees"], strict=True):
        feature = features[k]
        least = {1: 2, 3: 5}.get(degree, 0 if isinstance(feature, LevelAxis) else math.inf)
        if type(count) is not int or count < least:
            raise ValueError(f"a table has {count!r:.40} entries of {feature.name!r}")
        axes.append(
            feature if isinstance(feature, LevelAxis) else NumericAxis(feature, count, degree)
        )
    if len(axes) not in (1, 2):
        raise ValueError(f"a table has {len(axes)} axes; one or two can be")
    return tuple(axes)


def _read_bands(d: dict[str, Any], features: list[Scale | LevelAxis], scale: float) -> Bands:
    rank = int(d["rank"])
    axes = tuple(_read_axes(table, features) for table in d["tables"])
    splines = tuple(
        _unpacked(table["coefficients"], (*(axis.n_coefficients for axis in own), rank))
        for table, own in zip(d["tables"], axes, strict=True)
    )
    constant = _unpacked(d["constant"], (rank,))
    factor, rest = float(d["factor"]), float(d["rest"])
    errors = float(d["error"]), float(d["error_outside"])
    extra = TableSum(0.0, tuple(_read_table(table, features) for table in d["extra"]))
    return Bands(constant, axes, splines, factor, rest, float(scale), *errors, extra)


def write_csv(model: CompiledModel, path: str | PathLike[str]) -> None:
    """Write all entries of all tables as rows of a CSV file."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["output", "term", "feature_1", "value_1", "feature_2", "value_2", "effect"])
        for f in model.functions:
            out.writerow([f.name, "(constant)", "", "", "", "", repr(f.sum.constant)])
            for table in f.sum.tables:
                names = [axis.name for axis in table.axes]
                label = JOINER.join(names)
                for index in np.ndindex(table.values.shape):
                    at: list[str] = []
                    for axis, k in zip(table.axes, index, strict=True):
                        at += [axis.name, axis.labels[k]]
                    at += [""] * (4 - len(at))
                    out.writerow([f.name, label, *at, repr(float(table.values[index]))])
