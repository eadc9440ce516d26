"""Rows on a cluster as the basis engine reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from oakgp.basis.rows import Rows, SummedRows, Sums
from oakgp.distributed.reduction import map_reduce
from oakgp.distributed.source import DistributedSource
from oakgp.model_columns import ModelColumn
from oakgp.schema import TableSchema
from oakgp.stream.encoding import encode
from oakgp.stream.first_pass import FirstPass
from oakgp.stream.rows import ResponseUnit, rows_of, sampled_rows
from oakgp.stream.source import Part
from oakgp.stream.sums import add


class DistributedRows(SummedRows):
    """Rows that stay on the workers of a cluster; sums of them travel.

    Parameters
    ----------
    client : dask.distributed.Client
        Of the cluster.
    source, found, columns
        Where rows come from; what the first pass found.
    unit
        Scale of the responses.
    """

    def __init__(
        self,
        client: Any,
        source: DistributedSource,
        found: FirstPass,
        columns: Sequence[ModelColumn],
        unit: ResponseUnit,
    ) -> None:
        self.client, self.source, self.found = client, source, found
        self.columns, self.unit = tuple(columns), unit

    @property
    def n_rows(self) -> int:
        """Rows with a positive weight."""
        return self.found.n_rows

    def __iter__(self) -> Iterator[Rows]:
        """Refuse: rows that went through one machine would not need a cluster."""
        raise TypeError("the rows of a cluster are summed where they lie, not gone through")

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
        del key
        shared = [self.found.schema, self.columns, self.unit, statistic]
        sums, _ = map_reduce(
            self.client,
            self.source.parts,
            _sums_of_part,
            _added,
            shared=shared,
            rows=_rows_read,
            advance=advance,
        )
        result: Sums = sums
        return result


def _sums_of_part(
    part: Part,
    schema: TableSchema,
    columns: Sequence[ModelColumn],
    unit: ResponseUnit,
    statistic: Callable[[Iterable[Rows]], Sums],
) -> tuple[Sums, int]:
    seen = 0

    def rows() -> Iterator[Rows]:
        nonlocal seen
        for chunk in part.chunks():
            if chunk.n_rows:
                seen += chunk.n_rows
                yield rows_of(encode(chunk, schema, columns), unit)

    return statistic(rows()), seen


def _added(results: list[tuple[Sums, int]]) -> tuple[Sums, int]:
    total: Sums | None = None
    for sums, _ in results:
        total = add(total, sums)
    assert total is not None
    return total, sum(seen for _, seen in results)


def _rows_read(result: tuple[Sums, int]) -> int:
    return result[1]
