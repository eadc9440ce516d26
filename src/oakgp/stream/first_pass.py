"""The first pass over a source: schema, distributions, response and a sample of the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from oakgp.checks import check_count
from oakgp.columns import FloatArray, RawColumn, RawTable, as_text
from oakgp.kernels import RadialKernel
from oakgp.measures import Measure
from oakgp.model_columns import Distribution, ModelColumn, fit_distributions
from oakgp.progress import step
from oakgp.schema import (
    NOTHING_LEFT,
    CategoricalColumn,
    Column,
    NumericColumn,
    TableSchema,
    chosen_categorical,
)
from oakgp.schema_rules import (
    MIN_IDENTIFIER_ROWS,
    categorical_column,
    column_notes,
    named_as_identifier,
    twin_note,
)
from oakgp.stream.chunk import Roles
from oakgp.stream.columns import ColumnSketch
from oakgp.stream.response import ResponseSketch
from oakgp.stream.sketch import Check, Limits, TableSketch
from oakgp.stream.source import Part, Source

SAMPLE_ROWS = 50_000


class Described(Protocol):
    """What a plan needs to know of a source, wherever its parts are."""

    @property
    def names(self) -> tuple[str, ...]:
        """Feature columns."""

    @property
    def named(self) -> bool:
        """Whether the table has names of its own."""

    @property
    def labels(self) -> frozenset[str]:
        """Columns whose numbers are levels."""

    @property
    def roles(self) -> Roles:
        """Which columns mean what."""


@dataclass(frozen=True)
class SketchPlan:
    """What to sketch: the same for all parts of a source.

    Parameters
    ----------
    names
        Feature columns.
    as_labels
        Those whose numbers are levels.
    chosen
        Those that the user named as categories.
    max_levels
        Levels kept per column.
    limits
        Sizes of the sketch.
    classes
        Whether the responses are labels.
    named
        Whether the table has names of its own.
    check
        Refuses impossible responses ``[n]``.
    """

    names: tuple[str, ...]
    as_labels: frozenset[str]
    chosen: frozenset[str]
    max_levels: int
    limits: Limits
    classes: bool
    named: bool
    check: Check | None = None

    @classmethod
    def of(
        cls,
        source: Described,
        *,
        categorical_features: str | Sequence[str | int] | Sequence[bool] = "auto",
        max_levels: int = 256,
        sample_rows: int = SAMPLE_ROWS,
        check: Check | None = None,
    ) -> SketchPlan:
        """Plan the first pass over a source; see `first_pass`."""
        check_count("max_levels", max_levels, 1)
        check_count("sample_rows", sample_rows, 1)
        positions = chosen_categorical(categorical_features, source.names)
        chosen = frozenset(source.names[i] for i in positions)
        return cls(
            source.names,
            source.labels | chosen,
            chosen,
            max_levels,
            Limits.for_columns(len(source.names), sample_rows),
            source.roles.target_type == "label",
            source.named,
            check,
        )

    def empty(self) -> TableSketch:
        """Return a sketch that has seen nothing."""
        return TableSketch(self.names, self.as_labels, self.limits, self.classes, self.check)

    def sketch(self, part: Part) -> TableSketch:
        """Sketch one part."""
        sketch = self.empty()
        for chunk in part.chunks():
            sketch.update(chunk)
        return sketch


@dataclass(frozen=True, eq=False)
class Sample:
    """Some distinct rows of a source, encoded, with what belongs to them.

    Parameters
    ----------
    encoded
        ``[k, d]`` active columns, as `TableSchema.encode` gives them.
    y
        ``[k]`` responses; None when the source has none.
    weights
        ``[k]`` row weight, times how often the row occurs.
    offset
        ``[k]`` offset + log exposure; None for 0.
    whole
        Whether these are all rows, none left out.
    """

    encoded: FloatArray
    y: NDArray[Any] | None
    weights: FloatArray
    offset: FloatArray | None
    whole: bool

    def first(self, k: int) -> Sample:
        """Return a smaller sample: its rows are in random order, the same for the same data."""
        if k >= len(self.weights):
            return self
        y, offset = (None if a is None else a[:k] for a in (self.y, self.offset))
        return Sample(self.encoded[:k], y, self.weights[:k], offset, False)


@dataclass(frozen=True, eq=False)
class FirstPass:
    """What the first pass found.

    Parameters
    ----------
    schema
        Schema of the table, as `TableSchema.infer` finds it in memory.
    distributions
        Values and masses of each active column.
    response
        Moments and distribution of y, or its classes.
    sample
        A sample of the rows.
    n_rows
        Rows with a positive weight.
    mass
        Sum of their weights.
    approximate
        Active columns of more distinct numbers than were counted: their distributions are cells,
        of 1/1024 of the mass each at most (or divided as the sample is).
    """

    schema: TableSchema
    distributions: tuple[Distribution, ...]
    response: ResponseSketch
    sample: Sample
    n_rows: int
    mass: float
    approximate: tuple[str, ...]

    def fit_columns(
        self,
        *,
        kernel: str | RadialKernel | Mapping[str, str | RadialKernel] = "squared_exponential",
        measure: str | Measure | Mapping[str, str | Measure] = "auto",
        flow: str | Mapping[str, str] = "normal_score",
        rank: int = 2,
    ) -> list[ModelColumn]:
        """Fit flow and measure of every active column; see `oakgp.model_columns.fit_columns`."""
        return fit_distributions(
            self.schema, self.distributions, kernel=kernel, measure=measure, flow=flow, rank=rank
        )


def first_pass(
    source: Source,
    *,
    categorical_features: str | Sequence[str | int] | Sequence[bool] = "auto",
    max_levels: int = 256,
    sample_rows: int = SAMPLE_ROWS,
    check: Check | None = None,
) -> FirstPass:
    """Read a source once and find its schema, distributions and a sample of its rows.

    The result does not depend on the order of the rows, nor on chunks and parts, but for rounding
    (and for the note on columns that number the rows in order).

    Parameters
    ----------
    source : Source
        Where the rows come from.
    categorical_features, max_levels
        As of `oakgp.schema.TableSchema.infer`.
    sample_rows : int
        Distinct rows of the sample, at most.
    check : callable, optional
        Refuses impossible responses ``[n]``: that of a likelihood.

    Returns
    -------
    FirstPass
        What was found.
    """
    plan = SketchPlan.of(
        source,
        categorical_features=categorical_features,
        max_levels=max_levels,
        sample_rows=sample_rows,
        check=check,
    )
    sketch = plan.empty()
    with step("first pass", source.n_rows, "rows") as progress:
        for chunk in source.chunks():
            sketch.update(chunk)
            progress.advance(chunk.n_read, chunk.place.label)
    return summary(sketch, plan)


def summary(sketch: TableSketch, plan: SketchPlan) -> FirstPass:
    """Turn the sketch of all rows into schema, distributions and sample."""
    if sketch.n_rows == 0:
        raise ValueError(
            f"sample_weight is zero in all {sketch.n_read} rows: nothing is left to fit"
            if sketch.n_read
            else "the source holds no row; at least one is needed"
        )
    schema = _schema(sketch, plan)
    active = [(sketch.columns[i], schema.columns[i], i) for i in schema.active]
    best = sketch.sample.best
    weights = _sample_weights(sketch)
    distributions = []
    for column, decided, i in active:
        if isinstance(decided, CategoricalColumn):
            distributions.append(_level_distribution(column, decided))
            continue
        sampled = np.asarray(best.columns[i], dtype=np.float64)
        values, mass = column.numbers.distribution(
            sampled[~np.isnan(sampled)], weights[~np.isnan(sampled)]
        )
        distributions.append(_with_missing(values, mass, column.missing_mass))
    return FirstPass(
        schema=schema,
        distributions=tuple(distributions),
        response=sketch.response,
        sample=_sample(sketch, schema, weights),
        n_rows=sketch.n_rows,
        mass=sketch.mass,
        approximate=tuple(
            column.name
            for column, decided, _ in active
            if isinstance(decided, NumericColumn) and not column.numbers.exact
        ),
    )


def _schema(sketch: TableSketch, plan: SketchPlan) -> TableSchema:
    columns: list[Column] = []
    notes: list[str] = []
    first_with: dict[Any, str] = {}
    for column, twins in zip(sketch.columns, sketch.twins.classes, strict=True):
        decided = _decide(column, plan)
        columns.append(decided)
        notes += column_notes(
            decided,
            sketch.n_rows,
            plan.max_levels,
            numbers_rows=_numbers_rows(column, decided, sketch.n_rows),
        )
        if decided.active:
            meaning = decided.levels if isinstance(decided, CategoricalColumn) else None
            twin = first_with.setdefault((twins, meaning), decided.name)
            if twin != decided.name:
                notes.append(twin_note(twin, decided.name))
    if not any(column.active for column in columns):
        notes.append(NOTHING_LEFT)
    return TableSchema(tuple(columns), plan.named, tuple(notes), sketch.n_rows)


def _decide(column: ColumnSketch, plan: SketchPlan) -> Column:
    if column.is_number:
        return NumericColumn(column.name, column.n_missing, column.n_distinct)
    levels = column.levels
    if levels.overflowed:
        n_distinct = levels.distinct.count()
        return CategoricalColumn(column.name, (), (), column.n_missing, n_distinct, identifier=True)
    return categorical_column(
        column.name,
        levels.counted(),
        column.n_missing,
        levels.order,
        plan.max_levels,
        chosen=column.name in plan.chosen,
    )


def _numbers_rows(column: ColumnSketch, decided: Column, n_rows: int) -> bool:
    """Tell whether a column only counts or names the rows; see `schema_rules.numbers_rows`."""
    steps = column.steps
    if not isinstance(decided, NumericColumn) or not steps.whole or n_rows < MIN_IDENTIFIER_ROWS:
        return False
    if steps.up or steps.down:
        return True
    # An estimate has a standard error of 1.6%.
    least = n_rows if column.numbers.exact else 0.95 * n_rows
    return named_as_identifier(column.name) and decided.n_distinct >= least


def _level_distribution(column: ColumnSketch, decided: CategoricalColumn) -> Distribution:
    kept = decided.levels[:-1] if decided.pooled else decided.levels
    codes: dict[Any, int] = {level: code for code, level in enumerate(kept)}
    codes.update(dict.fromkeys(decided.pooled, len(kept)))
    mass = np.zeros(len(decided.levels))
    for level, total in sorted(column.levels.masses(), key=lambda pair: repr(pair)):
        mass[codes[as_text(level) if decided.mixed else level]] += total
    return _with_missing(np.arange(len(mass), dtype=np.float64), mass, column.missing_mass)


def _with_missing(values: FloatArray, mass: FloatArray, missing: float) -> Distribution:
    if missing > 0:
        values, mass = np.r_[values, np.nan], np.r_[mass, missing]
    return Distribution(values, mass)


def _sample_weights(sketch: TableSketch) -> FloatArray:
    best = sketch.sample.best
    best.settle()
    n_columns = len(sketch.columns) + sketch.has_response
    weights = best.count.astype(np.float64)
    return weights * best.columns[n_columns] if sketch.has_weights else weights


def _sample(sketch: TableSketch, schema: TableSchema, weights: FloatArray) -> Sample:
    best = sketch.sample.best
    k, d = len(weights), len(sketch.columns)
    read = [
        _column_of(column, decided, values)
        for column, decided, values in zip(
            sketch.columns, schema.columns, best.columns[:d], strict=True
        )
    ]
    table = RawTable(schema.names, schema.named, k, read.__getitem__, lambda i: best.columns[i])
    return Sample(
        encoded=schema.encode_columns(table),
        y=best.columns[d] if sketch.has_response else None,
        weights=weights,
        offset=best.columns[-1] if sketch.has_offset else None,
        whole=best.share == 1.0,
    )


def _column_of(column: ColumnSketch, decided: Column, values: NDArray[Any]) -> RawColumn:
    """Return a column of the sample as a table would give it."""
    if isinstance(decided, NumericColumn):
        numbers = np.asarray(values, dtype=np.float64)
        return RawColumn(column.name, "number", lambda: numbers, numbers.tolist)
    labels = [None if value != value else value for value in values.tolist()]
    return RawColumn(column.name, "label", lambda: np.empty(0), lambda: labels)
