"""Later passes: chunks in the coordinates of the model."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oakgp.columns import FloatArray
from oakgp.model_columns import ModelColumn
from oakgp.progress import step
from oakgp.schema import TableSchema
from oakgp.stream.chunk import Chunk
from oakgp.stream.place import Place
from oakgp.stream.source import Position, Source


@dataclass(frozen=True, eq=False)
class EncodedChunk:
    """Rows in the coordinates of the model.

    Parameters
    ----------
    z
        ``[n, d]`` float64, each column contiguous: transformed numbers and codes of levels, NaN
        where missing.
    y
        ``[n]`` responses: float64, or labels; None when the source has no target.
    weights
        ``[n]`` row weights.
    offset
        ``[n]`` offset + log exposure; None for 0.
    place
        Where the rows come from.
    position
        Where to begin again after this chunk; see `Source.chunks_from`.
    """

    z: FloatArray
    y: NDArray[Any] | None
    weights: FloatArray
    offset: FloatArray | None
    place: Place
    position: Position

    @property
    def n_rows(self) -> int:
        """Rows of the chunk."""
        return len(self.z)


def encode(
    chunk: Chunk, schema: TableSchema, columns: Sequence[ModelColumn], position: Position = (0, 0)
) -> EncodedChunk:
    """Bring one chunk into the coordinates of the model; a fault names the place it comes from."""
    n = chunk.n_rows
    z = np.empty((len(columns), n))
    with chunk.place.blamed():
        at = schema.positions(chunk.table) if n else ()
        for j, (column, i) in enumerate(zip(columns, schema.active, strict=True)):
            if n:
                z[j] = column.forward(schema.columns[i].encode(chunk.table.read(at[i])))
    weights = np.ones(n) if chunk.weights is None else chunk.weights
    return EncodedChunk(z.T, chunk.y, weights, chunk.offset, chunk.place, position)


def encoded_chunks(
    source: Source,
    schema: TableSchema,
    columns: Sequence[ModelColumn],
    *,
    start: Position = (0, 0),
    ahead: int = 2,
    name: str = "pass",
) -> Generator[EncodedChunk]:
    """Read a source once more, encoded.

    Parameters
    ----------
    source, schema, columns
        Where rows come from; what the first pass found.
    start
        Position from which to read; see `Source.chunks_from`.
    ahead
        Chunks read ahead by a thread.
    name
        Name of the pass for whoever listens to its progress.
    """
    with step(name, source.n_rows, "rows") as progress:
        for position, chunk in source.chunks_from(start, ahead=ahead):
            if chunk.n_rows:
                yield encode(chunk, schema, columns, position)
            progress.advance(chunk.n_read, chunk.place.label)
