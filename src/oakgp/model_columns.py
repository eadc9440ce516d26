"""From table columns to model features: transform, base kernel and measure of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from oakgp.flows import FLOWS, Flow, flow_from_dict
from oakgp.kernels import KERNELS, CategoricalKernel, Periodic, RadialKernel
from oakgp.kernels.constrained import Feature
from oakgp.measures import MEASURES, Categorical, Measure, fit_measure, measure_from_dict
from oakgp.ops.threads import run_chunks
from oakgp.schema import CategoricalColumn, TableSchema

Array = NDArray[np.float64]
T = TypeVar("T")
MEASURE_NAMES = ("auto", "gaussian", *MEASURES)


@dataclass(frozen=True)
class ModelColumn:
    """One column of the model: how its values are transformed, and its feature.

    Parameters
    ----------
    feature
        Name, kernel and measure.
    flow
        Transform of the values; None for categorical and periodic columns.
    """

    feature: Feature
    flow: Flow | None

    def forward(self, values: Array) -> Array:
        """Return the kernel's coordinates of encoded values (NaN = missing)."""
        if isinstance(self.feature.kernel, Periodic):
            return self.feature.kernel.phase(values)
        return values if self.flow is None else self.flow.forward(values)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-safe description."""
        kernel = self.feature.kernel
        if isinstance(kernel, CategoricalKernel):
            what: dict[str, Any] = {
                "name": kernel.name,
                "n_levels": kernel.n_levels,
                "rank": kernel.rank,
                "has_missing": kernel.has_missing,
            }
        elif isinstance(kernel, Periodic):
            what = {"name": kernel.name, "period": kernel.period}
        else:
            what = {"name": kernel.name}
        return {
            "name": self.feature.name,
            "kernel": what,
            "measure": self.feature.measure.to_dict(),
            "flow": None if self.flow is None else self.flow.to_dict(),
        }

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> ModelColumn:
        """Read back what `to_dict` wrote."""
        what = dict(d["kernel"])
        name = what.pop("name")
        if name == CategoricalKernel.name:
            kernel: RadialKernel | CategoricalKernel = CategoricalKernel(**what)
        elif name in KERNELS:
            kernel = KERNELS[name](**what)
        else:
            raise ValueError(f"unknown kernel {name!r} in the model file")
        feature = Feature(d["name"], kernel, measure_from_dict(d["measure"]))
        return cls(feature, None if d["flow"] is None else flow_from_dict(d["flow"]))


def per_column(option: str, value: Any, schema: TableSchema, default: Any) -> list[Any]:
    """Return the setting of each active column from a single value or a mapping from names.

    A name of a column that was left out (constant in this training table, say) is let pass, so
    that one mapping serves all folds of a cross-validation.
    """
    active = [schema.columns[i] for i in schema.active]
    if not isinstance(value, Mapping):
        return [value] * len(active)
    unknown = [repr(key) for key in value if key not in schema.names]
    if unknown:
        raise ValueError(
            f"{option}= names columns that the table does not have: {', '.join(unknown)}; "
            f"it has {', '.join(map(repr, schema.names))}"
        )
    for column in active:
        if isinstance(column, CategoricalColumn) and column.name in value:
            raise ValueError(
                f"{option}= names column {column.name!r}, which holds categories: these have "
                f"their own kernel and measure, and no flow; leave the column out of {option}="
            )
    return [value.get(column.name, default) for column in active]


def _kernel(choice: str | RadialKernel, name: str) -> RadialKernel:
    if isinstance(choice, RadialKernel):
        return choice
    if choice == Periodic.name:
        raise ValueError(
            f"column {name!r}: the periodic kernel needs its period: "
            f"kernel={{{name!r}: oakgp.kernels.Periodic(period=...)}}"
        )
    if not isinstance(choice, str) or choice not in KERNELS:
        raise ValueError(f"kernel={choice!r} for column {name!r}: choose one of {list(KERNELS)}")
    return KERNELS[choice]()


def _measure(choice: str | Measure, name: str, z: Array, weights: Array) -> Measure:
    if isinstance(choice, Measure) and not isinstance(choice, Categorical):
        return choice
    if not isinstance(choice, str) or choice not in MEASURE_NAMES:
        raise ValueError(
            f"measure={choice!r} for column {name!r}: choose one of {list(MEASURE_NAMES)}"
        )
    return fit_measure("empirical" if choice == "auto" else choice, z, weights)


@dataclass(frozen=True)
class Distribution:
    """Values of one column as the schema encodes them (NaN = missing), and their masses.

    Parameters
    ----------
    values
        ``[k]`` rows, or distinct values.
    mass
        ``[k]`` weight of each.
    """

    values: Array
    mass: Array


def fit_columns(
    schema: TableSchema,
    encoded: Array,
    weights: Array,
    *,
    kernel: str | RadialKernel | Mapping[str, str | RadialKernel],
    measure: str | Measure | Mapping[str, str | Measure],
    flow: str | Mapping[str, str],
    rank: int,
) -> list[ModelColumn]:
    """Fit transform and measure of every active column, each on its own.

    Parameters
    ----------
    schema
        The table's schema.
    encoded
        ``[n, d]`` active columns as `TableSchema.encode` gives them.
    weights
        ``[n]`` row weights.
    kernel, measure, flow
        One setting for all numeric columns, or a mapping from column names (the others get the
        default).
    rank
        Rank of the categorical kernels.
    """
    distributions = [Distribution(values, weights) for values in encoded.T]
    return fit_distributions(
        schema, distributions, kernel=kernel, measure=measure, flow=flow, rank=rank
    )


def fit_distributions(
    schema: TableSchema,
    distributions: Sequence[Distribution],
    *,
    kernel: str | RadialKernel | Mapping[str, str | RadialKernel],
    measure: str | Measure | Mapping[str, str | Measure],
    flow: str | Mapping[str, str],
    rank: int,
) -> list[ModelColumn]:
    """Fit transform and measure of every active column from its distribution; see `fit_columns`.

    Equal distributions give equal columns, whether they list rows or distinct values.
    """
    columns = [schema.columns[i] for i in schema.active]
    kernels = per_column("kernel", kernel, schema, "squared_exponential")
    measures = per_column("measure", measure, schema, "auto")
    flows = per_column("flow", flow, schema, "normal_score")

    def fitted(j: int) -> ModelColumn:
        column, of = columns[j], distributions[j]
        if isinstance(column, CategoricalColumn):
            return _categorical(column, of.values, of.mass, rank)
        base = _kernel(kernels[j], column.name)
        if not isinstance(flows[j], str) or flows[j] not in FLOWS:
            raise ValueError(
                f"flow={flows[j]!r} for column {column.name!r}: choose one of {list(FLOWS)}"
            )
        transform: Flow | None = None
        if isinstance(base, Periodic):
            z = base.phase(of.values)
        else:
            present = ~np.isnan(of.values)
            transform = FLOWS[flows[j]].fit(of.values[present], of.mass[present])
            z = transform.forward(of.values)
        feature = Feature(column.name, base, _measure(measures[j], column.name, z, of.mass))
        return ModelColumn(feature, transform)

    return _each_column(fitted, len(columns), len(distributions[0].values) if columns else 0)


_FEW_ROWS = 20_000  # below, threads cost more than they save


def _each_column(task: Callable[[int], T], count: int, n_rows: int) -> list[T]:
    """Return the results of a task for every column, on several threads where it is worth it."""
    if n_rows < _FEW_ROWS:
        return [task(j) for j in range(count)]
    results: dict[int, T] = {}

    def run(j: int) -> None:
        results[j] = task(j)

    run_chunks(run, count)
    return [results[j] for j in range(count)]


def _categorical(column: CategoricalColumn, codes: Array, weights: Array, rank: int) -> ModelColumn:
    n_levels = len(column.levels)
    missing = np.isnan(codes)
    rows = np.where(missing, n_levels, codes).astype(np.int64)
    mass = np.bincount(rows, weights=weights, minlength=n_levels + 1)
    has_missing = bool(mass[n_levels] > 0)
    shares = mass[: n_levels + int(has_missing)] / mass.sum()
    kernel = CategoricalKernel(n_levels, min(rank, n_levels), has_missing)
    return ModelColumn(Feature(column.name, kernel, Categorical(tuple(shares.tolist()))), None)


def transform(columns: Sequence[ModelColumn], encoded: Array) -> Array:
    """Return the model's coordinates of encoded rows, ``[n, d] -> [n, d]``."""
    if not columns:
        return np.empty((len(encoded), 0))
    out = np.empty((len(encoded), len(columns)), order="F")  # columns are read one by one

    def forward(j: int) -> None:
        out[:, j] = columns[j].forward(encoded[:, j])

    _each_column(forward, len(columns), len(encoded))
    return out
