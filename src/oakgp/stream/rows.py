"""Streams as the basis engine reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from oakgp.basis.rows import Rows, SummedRows, Sums
from oakgp.columns import FloatArray
from oakgp.model_columns import ModelColumn, transform
from oakgp.stream.encoding import EncodedChunk, encode
from oakgp.stream.first_pass import FirstPass
from oakgp.stream.prefetch import prefetched
from oakgp.stream.source import Position, Source
from oakgp.stream.sum_memory import SumMemory


@dataclass(frozen=True)
class ResponseUnit:
    """From responses as they are given to the scale of the likelihood.

    Parameters
    ----------
    center, scale
        A real response is (y - center) / scale there.
    shifts
        Whether an offset is taken from the response itself, not added to a link of its mean.
    classes
        Labels, in the order of their codes; None for a response of numbers.
    class_weights
        What the weights of a class's rows are multiplied by; None for 1.
    """

    center: float = 0.0
    scale: float = 1.0
    shifts: bool = False
    classes: tuple[Any, ...] | None = None
    class_weights: tuple[float, ...] | None = None

    @classmethod
    def of(
        cls, found: FirstPass, *, real: bool, class_weights: Sequence[float] | None = None
    ) -> ResponseUnit:
        """Return the unit of a response: mean 0 and deviation 1 when it is real, else as it is.

        Parameters
        ----------
        found
            What the first pass found.
        real
            Whether the likelihood is one of real numbers.
        class_weights
            Of the classes in sorted order.
        """
        if found.response.classes:
            weights = None if class_weights is None else tuple(map(float, class_weights))
            return cls(classes=tuple(sorted(found.response.classes)), class_weights=weights)
        if not real:
            return cls()
        moments = found.response.shifted
        largest = max(abs(moments.low), abs(moments.high), np.finfo(float).tiny)
        constant = moments.deviation <= 1e-13 * largest
        return cls(moments.mean, 1.0 if constant else moments.deviation, shifts=True)

    def read(self, y: NDArray[Any], offset: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Return responses on the likelihood's scale and offsets of the latent function."""
        none = np.zeros(len(y))
        if self.classes is not None:
            codes = np.searchsorted(np.array(self.classes), y)
            known = np.take(self.classes, np.minimum(codes, len(self.classes) - 1)) == y
            if not known.all():
                other = y[~known][:1].tolist()[0]
                raise ValueError(f"y holds the label {other!r}, which the first pass did not see")
            return codes.astype(np.float64), none if offset is None else offset
        if self.shifts:
            y = y if offset is None else y - offset
            return (y - self.center) / self.scale, none
        return y, none if offset is None else offset

    def weigh(self, y: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the weights of rows whose responses were read."""
        if self.class_weights is None:
            return weights
        return np.asarray(weights * np.take(self.class_weights, y.astype(np.intp)))


def rows_of(chunk: EncodedChunk, unit: ResponseUnit) -> Rows:
    """Return a chunk as tensors, without a copy where that can be."""
    if chunk.y is None:
        raise ValueError("the source has no target: open it with target=")
    with chunk.place.blamed():
        y, offset = unit.read(chunk.y, chunk.offset)
    arrays = (np.ascontiguousarray(chunk.z.T), y, unit.weigh(y, chunk.weights), offset)
    return Rows(*(torch.from_numpy(np.require(a, requirements="W")) for a in arrays))


class StreamedRows(SummedRows):
    """The rows of a source, read anew in every pass.

    Parameters
    ----------
    source, found, columns
        Where rows come from; what the first pass found.
    unit
        Scale of the responses.
    ahead
        Chunks that a thread reads and encodes ahead.
    memory
        Where sums are kept, so that an interrupted fit need not make them again; None for nowhere.
    """

    def __init__(
        self,
        source: Source,
        found: FirstPass,
        columns: Sequence[ModelColumn],
        unit: ResponseUnit,
        *,
        ahead: int = 2,
        memory: SumMemory | None = None,
    ) -> None:
        self.source, self.found, self.unit, self.ahead = source, found, unit, ahead
        self.columns, self.memory = tuple(columns), memory

    @property
    def n_rows(self) -> int:
        """Rows with a positive weight."""
        return self.found.n_rows

    def __iter__(self) -> Iterator[Rows]:
        """Go through all rows, chunk by chunk."""
        return (rows for _, rows in self.rows_from((0, 0)))

    def rows_from(self, position: Position) -> Iterator[tuple[Position, Rows]]:
        """Go through the rows from a position on, each chunk with the position after it."""
        rows = self._rows_from(position)
        return prefetched(rows, self.ahead) if self.ahead else rows

    def _rows_from(self, position: Position) -> Iterator[tuple[Position, Rows]]:
        for after, chunk in self.source.chunks_from(position, ahead=0):
            if chunk.n_rows:
                yield after, rows_of(encode(chunk, self.found.schema, self.columns), self.unit)

    def sample(self, count: int, seed: int) -> Rows:
        """Return so many distinct rows of the first pass's sample, or all that it has."""
        del seed  # the rows themselves decide, whatever their order
        return sampled_rows(self.found, self.columns, self.unit, count)

    def sums(
        self,
        statistic: Callable[[Iterable[Rows]], Sums],
        key: bytes,
        advance: Callable[[float], None],
    ) -> Sums:
        """Return the sums of a statistic over all rows; see `SummedRows.sums`."""
        if self.memory is not None:
            return self.memory.sums(self.rows_from, statistic, key, advance)
        return statistic(counted(self, advance))


def counted(rows: Iterable[Rows], advance: Callable[[float], None]) -> Iterator[Rows]:
    """Yield the same rows, and tell how many once they were used."""
    for some in rows:
        yield some
        advance(some.n)


def sampled_rows(
    found: FirstPass, columns: Sequence[ModelColumn], unit: ResponseUnit, count: int
) -> Rows:
    """Return rows of the first pass's sample, weighted by how often they occur."""
    sample = found.sample.first(count)
    if sample.y is None:
        raise ValueError("the source has no target: open it with target=")
    y, offset = unit.read(sample.y, sample.offset)
    x = transform(columns, sample.encoded)
    arrays = (x.T, y, unit.weigh(y, sample.weights), offset)
    return Rows(*(torch.from_numpy(np.array(a, order="C")) for a in arrays))
