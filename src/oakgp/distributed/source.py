"""Sources whose parts are read by the workers of a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oakgp.columns import read_table
from oakgp.distributed.reduction import import_dask
from oakgp.stream.chunk import Beside, Roles, TargetType
from oakgp.stream.files import is_path
from oakgp.stream.memory import TablePart
from oakgp.stream.opening import chunk_rows_for, open_source
from oakgp.stream.place import Place
from oakgp.stream.source import Part


@dataclass(frozen=True, eq=False)
class DistributedSource:
    """A table whose parts lie on a cluster, or in files that its workers reach.

    Parameters
    ----------
    parts
        A `Part` each, or a `dask.delayed.Delayed` of one.
    roles
        Which columns mean what.
    names, named
        Feature columns; whether the table has names of its own.
    n_rows
        Rows of the whole, where known.
    labels
        Feature columns that hold labels even where a chunk of them holds numbers only.
    """

    parts: Sequence[Any]
    roles: Roles
    names: tuple[str, ...]
    named: bool
    n_rows: int | None
    labels: frozenset[str] = frozenset()


def open_distributed(
    data: Any,
    target: Any = None,
    *,
    weight: Any = None,
    exposure: Any = None,
    offset: Any = None,
    columns: Sequence[str] | None = None,
    target_type: TargetType = "number",
    chunk_rows: int | None = None,
    **csv_options: Any,
) -> DistributedSource:
    """Open a table for the workers of a cluster.

    Parameters
    ----------
    data : dask.dataframe.DataFrame, dask.array.Array, path or list of paths
        Partitions stay where they are computed. Files (Parquet, CSV) are read by the workers, so
        each of them must reach them under the same name: a shared disk, or a URL that fsspec
        knows (``s3://...``).
    target : str, dask.dataframe.Series or dask.array.Array, optional
        Column of the response, or the responses, in as many partitions as the data.
    weight, exposure, offset : str, dask.dataframe.Series, dask.array.Array, optional
        Likewise.
    columns, target_type, chunk_rows, **csv_options
        As of `oakgp.stream.open_source`.
    """
    if is_path(data):
        source = open_source(
            data,
            target,
            weight=weight,
            exposure=exposure,
            offset=offset,
            columns=columns,
            target_type=target_type,
            chunk_rows=chunk_rows,
            **csv_options,
        )
        return DistributedSource(
            source.parts, source.roles, source.names, True, source.n_rows, source.labels
        )
    if csv_options:
        raise TypeError(f"{', '.join(csv_options)}: only files of text have these settings")
    given = {"target": target, "weight": weight, "exposure": exposure, "offset": offset}
    by_name = {role: value for role, value in given.items() if isinstance(value, str)}
    beside = {role: value for role, value in given.items() if role not in by_name}
    roles = Roles(
        **by_name,
        columns=None if columns is None else tuple(columns),
        target_type=target_type,
    )
    return _open_collection(data, beside, roles, chunk_rows)


def _open_collection(
    data: Any, beside: Mapping[str, Any], roles: Roles, chunk_rows: int | None
) -> DistributedSource:
    dask = import_dask()
    if not dask.is_dask_collection(data):
        raise TypeError(
            f"{type(data).__name__} is neither a Dask DataFrame, a Dask Array nor the name of a "
            "file; make it one, for example by dask.dataframe.from_pandas"
        )
    tables, names, named = partitions(data)
    arrays = {role: blocks(role, values, len(tables)) for role, values in beside.items()}
    features = roles.features(names)
    rows = chunk_rows or chunk_rows_for(len(features))
    make = dask.delayed(_partition_part, pure=False)
    parts = [
        make(
            table,
            [arrays[role][i] if role in arrays else None for role in _ROLES],
            i,
            roles,
            rows,
        )
        for i, table in enumerate(tables)
    ]
    return DistributedSource(parts, roles, features, named, None)


_ROLES = ("target", "weight", "exposure", "offset")


def partitions(data: Any) -> tuple[list[Any], tuple[str, ...], bool]:
    """Return the partitions, the names of the columns and whether these are the table's own."""
    if hasattr(data, "divisions") and hasattr(data, "columns"):
        return data.to_delayed(), tuple(map(str, data.columns)), True
    if getattr(data, "ndim", 0) != 2:
        raise ValueError(
            f"{type(data).__name__} of {getattr(data, 'ndim', 0)} dimensions: a table has 2"
        )
    if data.numblocks[1] > 1:
        data = data.rechunk({1: -1})
    names = tuple(f"x{i}" for i in range(data.shape[1]))
    return data.to_delayed().ravel().tolist(), names, False


def blocks(role: str, values: Any, count: int) -> list[Any]:
    """Return the blocks of a vector that belongs to the rows."""
    if values is None:
        return [None] * count
    if not hasattr(values, "to_delayed"):
        raise TypeError(
            f"{role}= must be the name of a column, or a Dask Series or Array, not "
            f"{type(values).__name__}"
        )
    blocks = list(np.ravel(np.array(values.to_delayed(), dtype=object)))
    if len(blocks) != count:
        raise ValueError(
            f"{role} has {len(blocks)} partitions and the table {count}: rechunk one of them"
        )
    return blocks


def _partition_part(
    table: Any, beside: Sequence[Any], number: int, roles: Roles, chunk_rows: int
) -> Part:
    """Make a part of a computed partition: runs on the worker that holds it."""
    arrays = [None if values is None else np.asarray(values) for values in beside]
    n_rows = len(table)
    label = f"partition {number}"
    if n_rows:
        with Place(label, 0).blamed():
            read_table(table)
            for role, array in zip(_ROLES, arrays, strict=True):
                if array is not None and len(array) != n_rows:
                    raise ValueError(f"X has {n_rows} rows but {role} has {len(array)}")
    return TablePart(table, Beside(*arrays), roles, 0, n_rows, chunk_rows, label)
