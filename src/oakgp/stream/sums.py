"""Sums over all rows of a source: what every model that is linear in its statistics needs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from oakgp.model_columns import ModelColumn
from oakgp.schema import TableSchema
from oakgp.stream.checkpoint import Checkpoint, State
from oakgp.stream.encoding import EncodedChunk, encode, encoded_chunks
from oakgp.stream.source import Part, Source

Sums: TypeAlias = dict[str, NDArray[Any]]
Statistic: TypeAlias = Callable[[EncodedChunk], Mapping[str, Any]]


def add(total: Mapping[str, Any] | None, more: Mapping[str, Any]) -> Sums:
    """Return the sums by name; a total of None is nothing yet."""
    if total is None:
        return {name: np.asarray(value) for name, value in more.items()}
    if total.keys() != more.keys():
        raise ValueError(
            f"the statistic gave {', '.join(more)} for one chunk and {', '.join(total)} for "
            "others: it must give the same names for all"
        )
    return {name: np.asarray(total[name] + more[name]) for name in total}


def sum_over(
    source: Source,
    schema: TableSchema,
    columns: Sequence[ModelColumn],
    statistic: Statistic,
    *,
    checkpoint: Checkpoint | None = None,
    seconds_between: float = 60.0,
    name: str = "pass",
) -> Sums:
    """Sum a statistic of the chunks over a source.

    Parameters
    ----------
    source, schema, columns
        Where rows come from; what the first pass found.
    statistic
        From a chunk to arrays by name.
    checkpoint
        File from which an interrupted sum goes on, and to which it is saved; it is removed at
        the end.
    seconds_between
        Time between two savings.
    name
        Name of the pass for whoever listens to its progress.
    """
    state = checkpoint.load() if checkpoint is not None else None
    total: Sums | None = None if state is None else dict(state.arrays)
    start = (0, 0) if state is None else state.position
    saved = time.monotonic()
    chunks = encoded_chunks(source, schema, columns, start=start, name=name)
    position = start
    try:
        for chunk in chunks:
            total, position = add(total, statistic(chunk)), chunk.position
            if checkpoint is not None and time.monotonic() - saved >= seconds_between:
                checkpoint.save(State(total, position, {}))
                saved = time.monotonic()
    except KeyboardInterrupt:
        if checkpoint is not None and total is not None:
            checkpoint.save(State(total, position, {}))
        raise
    finally:
        chunks.close()
    if total is None:
        raise ValueError("the source holds no row with a positive weight")
    if checkpoint is not None:
        checkpoint.remove()
    return total


def sum_over_part(
    part: Part, schema: TableSchema, columns: Sequence[ModelColumn], statistic: Statistic
) -> Sums | None:
    """Sum a statistic over one part; None where no row has a positive weight."""
    total: Sums | None = None
    for chunk in part.chunks():
        if chunk.n_rows:
            total = add(total, statistic(encode(chunk, schema, columns)))
    return total
