"""The first pass and later ones on a cluster: only sketches and sums travel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oakgp.distributed.reduction import map_reduce
from oakgp.distributed.source import DistributedSource
from oakgp.model_columns import ModelColumn
from oakgp.schema import TableSchema
from oakgp.stream.first_pass import SAMPLE_ROWS, FirstPass, SketchPlan, summary
from oakgp.stream.sketch import Check, TableSketch
from oakgp.stream.source import Part
from oakgp.stream.sums import Statistic, Sums, add, sum_over_part


def first_pass(
    client: Any,
    source: DistributedSource,
    *,
    categorical_features: str | Sequence[str | int] | Sequence[bool] = "auto",
    max_levels: int = 256,
    sample_rows: int = SAMPLE_ROWS,
    check: Check | None = None,
) -> FirstPass:
    """Find schema, distributions and a sample of the rows, as `oakgp.stream.first_pass` does.

    Parameters
    ----------
    client : dask.distributed.Client
        Of the cluster.
    source : DistributedSource
        From `oakgp.distributed.open_distributed`.
    categorical_features, max_levels, sample_rows, check
        As of `oakgp.stream.first_pass`.
    """
    plan = SketchPlan.of(
        source,
        categorical_features=categorical_features,
        max_levels=max_levels,
        sample_rows=sample_rows,
        check=check,
    )
    sketch = map_reduce(
        client,
        source.parts,
        _sketch,
        _merged,
        shared=[plan],
        rows=_rows_read,
        total=source.n_rows,
        name="first pass",
    )
    return summary(sketch, plan)


def sum_over(
    client: Any,
    source: DistributedSource,
    schema: TableSchema,
    columns: Sequence[ModelColumn],
    statistic: Statistic,
    *,
    name: str = "pass",
) -> Sums:
    """Sum a statistic of the chunks over a source; see `oakgp.stream.sums.sum_over`.

    Parameters
    ----------
    client : dask.distributed.Client
        Of the cluster.
    source, schema, columns
        Where rows come from; what the first pass found.
    statistic
        From an encoded chunk to arrays by name. It travels to the workers: a function of a
        module that they can import, or an object that can be pickled.
    name
        Name of the pass for whoever listens to its progress.
    """
    total = map_reduce(
        client,
        source.parts,
        sum_over_part,
        _added,
        shared=[schema, list(columns), statistic],
        name=name,
    )
    if total is None:
        raise ValueError("the source holds no row with a positive weight")
    sums: Sums = total
    return sums


def _sketch(part: Part, plan: SketchPlan) -> TableSketch:
    sketch = plan.sketch(part)
    sketch.settle()  # what travels is as small as it can be
    return sketch


def _merged(sketches: list[TableSketch]) -> TableSketch:
    # Into a new one: results of tasks may be asked for again, and must not change.
    merged = sketches[0].fresh()
    for sketch in sketches:
        merged.merge(sketch)
    return merged


def _rows_read(sketch: TableSketch) -> int:
    return sketch.n_read


def _added(results: list[Sums | None]) -> Sums | None:
    total: Sums | None = None
    for sums in results:
        total = total if sums is None else add(total, sums)
    return total
