"""A compiled model as one SQL query: tables as constants, cells by arithmetic, no joins on data.

The query runs in stages. Each numeric column becomes a position (nested CASE: a binary search over
the knots of its scale), each position a cell and four weights, and each term a sum of coefficients
times weights; levels and missing values are cells of weight one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oakgp.columns import Level
from oakgp.compiled.axes import Axis, LevelAxis, NumericAxis, Scale
from oakgp.compiled.links import inverse_link, outputs
from oakgp.compiled.model import CompiledModel
from oakgp.compiled.tables import ComponentTable
from oakgp.export.dialects import DIALECTS, Dialect
from oakgp.export.guides import Guide, guide
from oakgp.schema import CategoricalColumn

Array = NDArray[np.float64]


def to_sql(
    model: CompiledModel,
    dialect: str = "duckdb",
    table: str = "data",
    keep: Sequence[str] = (),
) -> str:
    """Return a query that scores the rows of a table.

    Its columns are those to keep, then ``link`` (the latent function) and ``prediction``: the
    expected response at it. For three or more classes there is a link and a probability of each
    class, and ``prediction`` is the likeliest one; for two, ``probability`` of the second.

    Parameters
    ----------
    model
        Compiled tables.
    dialect
        ``"duckdb"``, ``"postgresql"`` or ``"sqlite"``.
    table
        Name of the table or view of the rows; its columns have the names of training.
    keep
        Columns to hand through: identifiers. SQL promises no order of rows.
    """
    if dialect not in DIALECTS:
        raise ValueError(f"dialect={dialect!r}: choose one of {', '.join(map(repr, DIALECTS))}")
    return _Query(model, DIALECTS[dialect], table, tuple(keep)).text()


def padded(table: ComponentTable) -> Array:
    """Return the coefficients in a row, and zeros: beyond "missing" weights are 0, but are read."""
    stride = table.axes[1].n_coefficients if len(table.axes) == 2 else 1
    return np.append(table.coefficients.ravel(), np.zeros(3 * stride + 3))


def constant(value: float) -> str:
    """Return a number that every dialect reads as float64 (without e, DuckDB reads a decimal)."""
    text = repr(float(value))
    return text if "e" in text else f"{text}e0"


def tails(scale: Scale, x: str) -> list[tuple[str, str, str]]:
    """Return the side of each tail, where it begins, and what a value beyond stands for."""
    found = []
    if scale.lower is not None:
        end, width = constant(scale.lower.end), constant(scale.lower.width)
        found.append(("<", end, f"({end} - {width} * ln(1.0e0 + ({end} - {x}) / {width}))"))
    if scale.upper is not None:
        end, width = constant(scale.upper.end), constant(scale.upper.width)
        found.append((">", end, f"({end} + {width} * ln(1.0e0 + ({x} - {end}) / {width}))"))
    return found


@dataclass(frozen=True)
class _Query:
    """The parts of the query; names of its own begin with ``oak_``."""

    model: CompiledModel
    dialect: Dialect
    table: str
    keep: tuple[str, ...]

    def text(self) -> str:
        """Return the whole query."""
        chosen = [(name, self.model.functions[k]) for name, k in outputs(self.model)]
        tables = [t for _, function in chosen for t in function.sum.tables]
        axes = list(dict.fromkeys(axis for t in tables for axis in t.axes))
        features = list(dict.fromkeys(a.scale if isinstance(a, NumericAxis) else a for a in axes))
        kept = [f"{self.name(column)} AS oak_k{i}" for i, column in enumerate(self.keep)]
        hand = [f"oak_k{i}" for i in range(len(self.keep))]
        stages = [
            self.stage(
                "oak_x",
                [*kept, *(f"{self.value(f)} AS oak_x{i}" for i, f in enumerate(features))],
                self.name(self.table),
            ),
            *self.position_stages(features, hand),
            self.stage("oak_c", [*hand, *self.cells(axes, features)], "oak_p"),
            self.stage("oak_w", [*hand, *self.weights(axes)], "oak_c"),
        ]
        source = "oak_w"
        if tables:
            constants = [f"{self.dialect.array(padded(t))} AS a{k}" for k, t in enumerate(tables)]
            stages.append("oak_a AS (SELECT " + ",\n  ".join(constants) + ")")
            source = "oak_w CROSS JOIN oak_a"
        numbers = {id(t): k for k, t in enumerate(tables)}
        sums = []
        for k, (_, function) in enumerate(chosen):
            parts = [self.dialect.real(constant(function.sum.constant))]
            parts += [self.term(t, numbers[id(t)], axes) for t in function.sum.tables]
            sums.append("\n  + ".join(parts) + f" AS oak_f{k}")
        stages.append(self.stage("oak_s", [*hand, *sums], source))
        named = [f"{h} AS {self.name(c)}" for h, c in zip(hand, self.keep, strict=True)]
        last = ",\n  ".join([*named, *self.results([name for name, _ in chosen])])
        return f"{self.header()}WITH {(',' + chr(10)).join(stages)}\nSELECT {last}\nFROM oak_s\n"

    def header(self) -> str:
        """Return what the query is, as comments."""
        return (
            f"-- Scores rows with a model of {sum(len(f.sum.tables) for f in self.model.functions)}"
            f" component tables ({self.dialect.name}).\n"
            f"-- Largest error of the link: {self.model.bound:.2g} standard deviations of the "
            "target (or units of the link).\n"
        )

    def name(self, text: str) -> str:
        """Return a quoted identifier."""
        if "\0" in text:
            raise ValueError(f"{text!r} cannot be a name in SQL: it holds a null character")
        return '"' + text.replace('"', '""') + '"'

    def stage(self, name: str, columns: Sequence[str], source: str) -> str:
        """Return a common table expression whose columns are computed once."""
        inner = ",\n  ".join(columns or ["0 AS oak_none"])
        return f"{name} AS (SELECT {inner}\nFROM {source}{self.dialect.fence})"

    def value(self, feature: Scale | LevelAxis) -> str:
        """Return a column as a number (NULL where missing), or as the code of its level."""
        column = self.name(feature.name)
        if isinstance(feature, LevelAxis):
            return self.code(feature, column)
        return self.dialect.number(column)

    def code(self, feature: LevelAxis, column: str) -> str:
        """Return the code of a level: those seen, then missing, then unseen."""
        source = self.model.schema.columns[self.model.schema.active[feature.feature]]
        assert isinstance(source, CategoricalColumn)
        levels: list[tuple[Level, int]] = [(level, k) for k, level in enumerate(source.levels)]
        if source.pooled:
            rest = len(source.levels) - 1
            levels = levels[:-1] + [(level, rest) for level in source.pooled]
        n = len(source.levels)
        tests = [f"WHEN {self.dialect.missing_level(column, source.levels)} THEN {n}"]
        for level, k in levels:
            tests.append(f"WHEN {column} = {self.literal(level)} THEN {k}")
        return f"CASE {' '.join(tests)} ELSE {n + 1} END"

    def literal(self, level: Level) -> str:
        """Return a level as a constant."""
        if isinstance(level, bool):
            return self.dialect.true if level else self.dialect.false
        if isinstance(level, str):
            if "\0" in level:
                raise ValueError(f"level {level!r} holds a null character, which SQL cannot")
            return "'" + level.replace("'", "''") + "'"
        return repr(level)

    def position_stages(self, features: Sequence[Scale | LevelAxis], hand: list[str]) -> list[str]:
        """Return the stages from values to positions: by guides where the dialect likes them."""
        guides = {
            i: found
            for i, f in enumerate(features)
            if self.dialect.guides and isinstance(f, Scale) and (found := guide(f)) is not None
        }
        names = [f"oak_x{i}" for i in range(len(features))]
        if not guides:
            columns = [
                f"{self.position(f, x)} AS oak_p{x[5:]}"
                for f, x in zip(features, names, strict=True)
            ]
            return [self.stage("oak_p", [*hand, *columns], "oak_x")]
        columns = []
        for i, f in enumerate(features):
            drawn = self.drawn_in(f, names[i]) if i in guides and isinstance(f, Scale) else names[i]
            columns.append(f"{drawn} AS oak_x{i}")
        stages = [self.stage("oak_y", [*hand, *columns], "oak_x")]
        columns = [self.start(i, found) for i, found in guides.items()]
        stages.append(self.stage("oak_g0", [*hand, *names, *columns], "oak_y"))
        most = max(found.steps for found in guides.values())
        for k in range(most):
            columns = [
                self.step(i, features[i]) if found.steps > k else f"oak_j{i}"
                for i, found in guides.items()
            ]
            stages.append(self.stage(f"oak_g{k + 1}", [*hand, *names, *columns], f"oak_g{k}"))
        columns = [
            self.placed(i, f) if i in guides else f"{self.position(f, names[i])} AS oak_p{i}"
            for i, f in enumerate(features)
        ]
        return [*stages, self.stage("oak_p", [*hand, *columns], f"oak_g{most}")]

    def drawn_in(self, scale: Scale, x: str) -> str:
        """Return a value in its cycle, with the tails drawn in, held within the knots."""
        low, high = constant(scale.knots[0]), constant(scale.knots[-1])
        value = x
        if scale.period is not None:
            period = constant(scale.period)
            value = f"{x} - {period} * {self.dialect.floor(f'{x} / {period}')}"
        tests = [f"WHEN {x} {side} {end} THEN {drawn}" for side, end, drawn in tails(scale, x)]
        if tests:
            value = f"CASE {' '.join(tests)} ELSE {x} END"
        return f"CASE WHEN {x} IS NOT NULL THEN least(greatest({value}, {low}), {high}) END"

    def start(self, i: int, found: Guide) -> str:
        """Return the first cell of a value's bucket; 0 for missing values."""
        bucket = f"(oak_x{i} - {constant(found.low)}) * {constant(found.factor)}"
        bucket = f"coalesce({self.dialect.whole(bucket)}, 0)"
        starts = self.dialect.array(found.starts.astype(np.float64))
        return f"CAST({self.dialect.element(starts, bucket)} AS INTEGER) AS oak_j{i}"

    def step(self, i: int, scale: Scale | LevelAxis) -> str:
        """Return the cell, or the next one if the value lies beyond its end."""
        assert isinstance(scale, Scale)
        ends = np.append(np.array(scale.knots)[1:-1], np.finfo(np.float64).max)
        end = self.dialect.element(self.dialect.array(ends), f"oak_j{i}")
        return f"oak_j{i} + CASE WHEN oak_x{i} >= {end} THEN 1 ELSE 0 END AS oak_j{i}"

    def placed(self, i: int, scale: Scale | LevelAxis) -> str:
        """Return the position of a value whose cell is known."""
        assert isinstance(scale, Scale)
        knots, positions = np.array(scale.knots), np.array(scale.positions)
        slopes = np.diff(positions) / np.diff(knots)
        slope = self.dialect.element(self.dialect.array(slopes), f"oak_j{i}")
        begin = self.dialect.element(self.dialect.array(knots[:-1]), f"oak_j{i}")
        place = self.dialect.element(self.dialect.array(positions[:-1]), f"oak_j{i}")
        value = self.dialect.clamp(f"{place} + {slope} * (oak_x{i} - {begin})")
        return f"CASE WHEN oak_x{i} IS NOT NULL THEN {value} END AS oak_p{i}"

    def position(self, feature: Scale | LevelAxis, x: str) -> str:
        """Return the position of a value between 0 and 1 (NULL: missing); the code of a level."""
        if isinstance(feature, LevelAxis):
            return x
        value, tests = x, []
        if feature.period is not None:
            period = constant(feature.period)
            value = f"({x} - {period} * {self.dialect.floor(f'{x} / {period}')})"
        low, high = feature.knots[0], feature.knots[-1]
        for side, end, drawn in tails(feature, x):
            limit = {"below" if side == "<" else "above": float(end)}
            tests.append(f"WHEN {x} {side} {end} THEN {self.search(feature, drawn, **limit)}")
        if not tests:
            tests.append(f"WHEN {value} <= {constant(low)} THEN 0.0e0")
            tests.append(f"WHEN {value} >= {constant(high)} THEN 1.0e0")
        return (
            f"CASE WHEN {x} IS NULL THEN NULL {' '.join(tests)} "
            f"ELSE {self.search(feature, value)} END"
        )

    def search(
        self,
        scale: Scale,
        x: str,
        below: float = np.inf,
        above: float = -np.inf,
    ) -> str:
        """Return the linear interpolation over the knots that count on one side, held within."""
        knots, positions = np.array(scale.knots), np.array(scale.positions)
        first = max(int(np.searchsorted(knots, above, side="right")) - 1, 0)
        last = min(int(np.searchsorted(knots, below, side="left")), len(knots) - 1)
        outer = np.isfinite(below) or np.isfinite(above)
        if last <= first:  # the scale ends here
            return constant(positions[min(max(first, last), len(knots) - 1)])
        text = self.tree(x, knots, positions, first, last)
        if outer:
            return self.dialect.clamp(text)
        return text

    def tree(self, x: str, knots: Array, positions: Array, first: int, last: int) -> str:
        """Return nested CASEs over the cells first .. last - 1."""
        if last - first == 1:
            slope = float(positions[last] - positions[first]) / float(knots[last] - knots[first])
            begin, at = constant(positions[first]), constant(knots[first])
            return f"{begin} + {constant(slope)} * ({x} - {at})"
        middle = (first + last) // 2
        left = self.tree(x, knots, positions, first, middle)
        right = self.tree(x, knots, positions, middle, last)
        return f"CASE WHEN {x} < {constant(knots[middle])} THEN {left} ELSE {right} END"

    def cells(self, axes: Sequence[Axis], features: Sequence[Scale | LevelAxis]) -> list[str]:
        """Return first coefficient and place within the cell, of all axes."""
        columns = []
        for a, axis in enumerate(axes):
            own = axis.scale if isinstance(axis, NumericAxis) else axis
            p = f"oak_p{features.index(own)}"
            if isinstance(axis, LevelAxis):
                columns.append(f"{p} AS oak_c{a}")
                continue
            place = f"{p} * {axis.count - 1}.0e0"
            cell = self.dialect.least(self.dialect.whole(place), str(axis.count - 2))
            missing = axis.count + axis.degree - 1
            columns.append(f"CASE WHEN {p} IS NULL THEN {missing} ELSE {cell} END AS oak_c{a}")
            columns.append(f"{place} AS oak_t{a}")
        return columns

    def weights(self, axes: Sequence[Axis]) -> list[str]:
        """Return the weights of four coefficients, of all numeric axes."""
        columns = []
        for a, axis in enumerate(axes):
            c = f"oak_c{a}"
            columns.append(c)
            if isinstance(axis, LevelAxis):
                continue
            t = f"(oak_t{a} - {c})"
            s = f"(1.0e0 + {c} - oak_t{a})"
            forms: tuple[str, ...] = (
                f"{s} * {s} * {s} / 6.0e0",
                f"(4.0e0 - 3.0e0 * {t} * {t} * (1.0e0 + {s})) / 6.0e0",
                f"(4.0e0 - 3.0e0 * {s} * {s} * (1.0e0 + {t})) / 6.0e0",
                f"{t} * {t} * {t} / 6.0e0",
            )
            if axis.degree == 1:
                forms = (s, t)
            for k, form in enumerate(forms):
                missing = "1.0e0" if k == 0 else "0.0e0"
                columns.append(
                    f"CASE WHEN oak_t{a} IS NULL THEN {missing} ELSE {form} END AS oak_w{a}_{k}"
                )
        return columns

    def term(self, table: ComponentTable, number: int, axes: Sequence[Axis]) -> str:
        """Return the sum of coefficients times weights of one table."""
        own = [(axes.index(axis), axis) for axis in table.axes]
        stride = table.axes[1].n_coefficients if len(table.axes) == 2 else 1

        def along(rest: list[tuple[int, Axis]], at: str, scale: int) -> str:
            if not rest:
                return self.dialect.entry(f"a{number}", at)
            (a, axis), further = rest[0], rest[1:]
            inner = scale // stride if further else 1

            def step(k: int) -> str:
                index = f"oak_c{a} + {k}" if k else f"oak_c{a}"
                index = f"({index}) * {scale}" if scale != 1 else index
                return along(further, f"{at} + {index}" if at else index, inner)

            if isinstance(axis, LevelAxis):
                return step(0)
            return (
                "(" + " + ".join(f"oak_w{a}_{k} * {step(k)}" for k in range(axis.degree + 1)) + ")"
            )

        return along(own, "", stride)

    def results(self, names: Sequence[str]) -> list[str]:
        """Return the columns of the answer."""
        link = inverse_link(self.model)
        if link == "softmax":
            return self.class_results(names)
        columns = ["oak_f0 AS link"]
        if link == "identity":
            columns.append("oak_f0 AS prediction")
        elif link == "exp":
            columns.append("exp(oak_f0) AS prediction")
        elif link == "logistic":
            p = (
                "CASE WHEN oak_f0 >= 0 THEN 1.0e0 / (1.0e0 + exp(-oak_f0)) "
                "ELSE exp(oak_f0) / (1.0e0 + exp(oak_f0)) END"
            )
            columns.append(
                f"{p} AS {'prediction' if self.model.classes is None else 'probability'}"
            )
        if self.model.classes is not None:
            no, yes = map(self.literal, self.model.classes)
            columns.append(f"CASE WHEN oak_f0 > 0 THEN {yes} ELSE {no} END AS prediction")
        return columns

    def class_results(self, names: Sequence[str]) -> list[str]:
        """Return links, probabilities and the likeliest of three or more classes."""
        assert self.model.classes is not None
        n = len(names)
        columns = [f"oak_f{k} AS {self.name(name)}" for k, name in enumerate(names)]
        for k, label in enumerate(self.model.classes):
            # No exponent above 700: the largest double is e^709.
            powers = [self.dialect.exp_difference(f"oak_f{j}", f"oak_f{k}") for j in range(n)]
            column = self.name(f"probability_{label}")
            columns.append(f"1.0e0 / ({' + '.join(powers)}) AS {column}")
        tests = []
        for k, label in enumerate(self.model.classes):
            beaten = [f"oak_f{k} >= oak_f{j}" for j in range(n) if j != k]
            tests.append(f"WHEN {' AND '.join(beaten)} THEN {self.literal(label)}")
        columns.append(f"CASE {' '.join(tests)} END AS prediction")
        return columns
