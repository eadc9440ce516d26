"""A compiled model as an ONNX graph, in float64: an input per column, links and responses out.

Numeric columns are inputs of type double (NaN where missing), text levels of type string (the empty
string where missing), all of shape [n, 1]; levels that are numbers or truth values come as double.
"""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oakgp.columns import Level, as_text
from oakgp.compiled.axes import Axis, LevelAxis, NumericAxis, Scale
from oakgp.compiled.links import inverse_link, outputs
from oakgp.compiled.model import CompiledModel
from oakgp.compiled.tables import ComponentTable
from oakgp.schema import CategoricalColumn

Array = NDArray[np.float64]

OPSET, OPSET_ML = 17, 3


def to_onnx(model: CompiledModel, path: str | PathLike[str]) -> None:
    """Write a graph that scores rows.

    Its outputs are ``link`` ``[n, L]`` (the latent functions) and ``prediction``: the expected
    response at them ``[n]``, or for classifiers the probability of each class ``[n, K]``.

    Parameters
    ----------
    model
        Compiled tables.
    path
        Where to write.
    """
    try:
        import onnx
    except ImportError as error:
        raise ImportError(
            'to export ONNX, install the package onnx: pip install "oakgp[onnx]"'
        ) from error
    graph = _Graph(model)
    onnx.checker.check_model(made := graph.made())
    onnx.save_model(made, str(path))


class _Graph:
    """A graph under construction; each method adds nodes and returns the name of a value."""

    def __init__(self, model: CompiledModel) -> None:
        from onnx import helper, numpy_helper

        self.model, self.helper, self.numpy_helper = model, helper, numpy_helper
        self.nodes: list[Any] = []
        self.constants: dict[tuple[str, bytes, tuple[int, ...]], str] = {}
        self.initializers: list[Any] = []
        self.count = 0

    def made(self) -> Any:
        """Return the whole model."""
        from onnx import TensorProto

        helper = self.helper
        chosen = [self.model.functions[k] for _, k in outputs(self.model)]
        tables = [t for function in chosen for t in function.sum.tables]
        axes = dict.fromkeys(axis for t in tables for axis in t.axes)
        features = dict.fromkeys(a.scale if isinstance(a, NumericAxis) else a for a in axes)
        inputs: list[Any] = []
        columns: dict[int, str] = {}
        for i in self.model.schema.active:
            column = self.model.schema.columns[i]
            text = isinstance(column, CategoricalColumn) and isinstance(column.levels[0], str)
            kind = TensorProto.STRING if text else TensorProto.DOUBLE
            inputs.append(helper.make_tensor_value_info(column.name, kind, ["n", 1]))
            columns[len(columns)] = column.name
        if not inputs:  # without columns nothing says how many rows there are
            raise ValueError("the model reads no column: ONNX would have no input")
        places = {f: self.feature(f, columns[f.feature]) for f in features}
        cells = {
            axis: self.axis(axis, places[axis.scale if isinstance(axis, NumericAxis) else axis])
            for axis in axes
        }
        rows = self.op("Gather", self.op("Shape", columns[0]), self.const(np.array([0])))
        links = []
        for function in chosen:
            total = self.op("Expand", self.const(np.array([function.sum.constant])), rows)
            for table in function.sum.tables:
                total = self.op("Add", total, self.table(table, cells))
            links.append(self.op("Unsqueeze", total, self.const(np.array([1]))))
        link = self.op("Concat", *links, output="link", axis=1)
        self.response(link)
        shape = ["n"] if self.model.classes is None else ["n", len(self.model.classes)]
        answers = [
            helper.make_tensor_value_info("link", TensorProto.DOUBLE, ["n", len(links)]),
            helper.make_tensor_value_info("prediction", TensorProto.DOUBLE, shape),
        ]
        graph = helper.make_graph(self.nodes, "oakgp", inputs, answers, self.initializers)
        versions = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", OPSET_ML)]
        made = helper.make_model(graph, opset_imports=versions, producer_name="oakgp")
        made.ir_version = 8
        described = {"bound": f"{self.model.bound!r} target standard deviations"}
        if self.model.classes is not None:
            described["classes"] = repr(list(self.model.classes))
        helper.set_model_props(made, described)
        return made

    def op(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Add a node; ``domain`` is one of its attributes."""
        self.count += 1
        name = output or f"oak_{self.count}"
        self.nodes.append(self.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def const(self, values: NDArray[Any]) -> str:
        """Return a constant, one for equal ones."""
        key = values.dtype.str, values.tobytes(), values.shape
        if key not in self.constants:
            name = f"oak_const_{len(self.constants)}"
            self.constants[key] = name
            self.initializers.append(self.numpy_helper.from_array(values, name))
        return self.constants[key]

    def number(self, value: float) -> str:
        """Return a scalar constant."""
        return self.const(np.array(value, dtype=np.float64))

    def feature(self, feature: Scale | LevelAxis, column: str) -> str:
        """Return the position (NaN where missing) or the code (int64) of each row, ``[n]``."""
        flat = self.op("Reshape", column, self.const(np.array([-1])))
        if isinstance(feature, LevelAxis):
            return self.code(feature, flat)
        return self.position(feature, flat)

    def code(self, feature: LevelAxis, x: str) -> str:
        source = self.model.schema.columns[self.model.schema.active[feature.feature]]
        assert isinstance(source, CategoricalColumn)
        levels: list[tuple[Level, int]] = [(level, k) for k, level in enumerate(source.levels)]
        if source.pooled:
            levels = levels[:-1] + [(level, len(source.levels) - 1) for level in source.pooled]
        n = len(source.levels)
        codes = [k for _, k in levels]
        if isinstance(source.levels[0], str):
            keys = [as_text(level) for level, _ in levels]
            if "" not in keys:
                keys, codes = [*keys, ""], [*codes, n]
            return self.op(
                "LabelEncoder",
                x,
                domain="ai.onnx.ml",
                keys_strings=keys,
                values_int64s=codes,
                default_int64=n + 1,
            )
        numbers = np.array([float(level) for level, _ in levels])
        column = self.op("Unsqueeze", x, self.const(np.array([1])))
        same = self.op("Cast", self.op("Equal", column, self.const(numbers)), to=7)
        # One more than the code, so that no match is 0.
        shifted = self.const(np.array(codes, dtype=np.int64) + 1)
        code = self.op("ReduceSum", self.op("Mul", same, shifted), self.const(np.array([1])),
                       keepdims=0)  # fmt: skip
        one = self.const(np.array(1, dtype=np.int64))
        unseen = self.const(np.array(n + 1, dtype=np.int64))
        none = self.op("Equal", code, self.const(np.array(0, dtype=np.int64)))
        code = self.op("Where", none, unseen, self.op("Sub", code, one))
        missing = self.const(np.array(n, dtype=np.int64))
        return self.op("Where", self.op("IsNaN", x), missing, code)

    def position(self, scale: Scale, x: str) -> str:
        value = x
        if scale.period is not None:
            period = self.number(scale.period)
            cycles = self.op("Floor", self.op("Div", x, period))
            value = self.op("Sub", x, self.op("Mul", period, cycles))
        for tail, sign in ((scale.upper, 1.0), (scale.lower, -1.0)):
            if tail is None:
                continue
            end, width = self.number(tail.end), self.number(sign * tail.width)
            beyond = self.op("Div", self.op("Sub", x, end), width)
            far = self.op("Max", beyond, self.number(0.0))
            drawn = self.op("Log", self.op("Add", far, self.number(1.0)))
            drawn = self.op("Add", end, self.op("Mul", width, drawn))
            outside = self.op("Greater", beyond, self.number(0.0))
            value = self.op("Where", outside, drawn, value)
        knots, positions = np.array(scale.knots), np.array(scale.positions)
        low, high = self.number(knots[0]), self.number(knots[-1])
        missing = self.op("IsNaN", x)
        value = self.op("Where", missing, low, value)
        value = self.op("Min", self.op("Max", value, low), high)
        column = self.op("Unsqueeze", value, self.const(np.array([1])))
        inner = self.const(knots[1:-1]) if len(knots) > 2 else None
        if inner is None:
            begin, at, slope = low, self.number(0.0), self.number(1.0 / (knots[-1] - knots[0]))
        else:
            reached = self.op("Cast", self.op("GreaterOrEqual", column, inner), to=7)
            cell = self.op("ReduceSum", reached, self.const(np.array([1])), keepdims=0)
            begin = self.op("Gather", self.const(knots), cell)
            at = self.op("Gather", self.const(positions), cell)
            slope = self.op("Gather", self.const(np.diff(positions) / np.diff(knots)), cell)
        placed = self.op("Add", at, self.op("Mul", slope, self.op("Sub", value, begin)))
        placed = self.op("Min", self.op("Max", placed, self.number(0.0)), self.number(1.0))
        return self.op("Where", missing, self.number(np.nan), placed)

    def axis(self, axis: Axis, place: str) -> tuple[str, list[str]]:
        """Return the first coefficient, and the weights of four: of one, for levels."""
        if isinstance(axis, LevelAxis):
            return place, []
        missing = self.op("IsNaN", place)
        along = self.op("Mul", place, self.number(axis.count - 1.0))
        along = self.op("Where", missing, self.number(0.0), along)
        whole = self.op("Min", self.op("Floor", along), self.number(axis.count - 2.0))
        t = self.op("Sub", along, whole)
        s = self.op("Sub", self.number(1.0), t)
        outer = [self.op("Mul", self.op("Mul", v, v), self.op("Mul", v, self.number(1.0 / 6.0)))
                 for v in (s, t)]  # fmt: skip
        inner = []
        for v, w in ((t, s), (s, t)):
            bend = self.op("Mul", self.op("Mul", v, v), self.op("Add", w, self.number(1.0)))
            bend = self.op("Mul", bend, self.number(0.5))
            inner.append(self.op("Sub", self.number(4.0 / 6.0), bend))
        cell = self.op("Cast", whole, to=7)
        last = self.const(np.array(axis.count + axis.degree - 1, dtype=np.int64))
        cell = self.op("Where", missing, last, cell)
        weights = [outer[0], inner[0], inner[1], outer[1]]
        if axis.degree == 1:
            weights = [s, t]
        alone = [1.0, 0.0, 0.0, 0.0][: len(weights)]
        return cell, [
            self.op("Where", missing, self.number(a), w)
            for a, w in zip(alone, weights, strict=True)
        ]

    def table(self, table: ComponentTable, cells: dict[Axis, tuple[str, list[str]]]) -> str:
        """Return the values of one table: coefficients times weights."""
        stride = table.axes[1].n_coefficients if len(table.axes) == 2 else 1
        flat = np.append(table.coefficients.ravel(), np.zeros(3 * stride + 3))
        values = self.const(flat)

        def along(axes: tuple[Axis, ...], at: str | None) -> str:
            if not axes:
                assert at is not None
                return self.op("Gather", values, at)
            cell, weights = cells[axes[0]]
            if len(axes) == 2:
                cell = self.op("Mul", cell, self.const(np.array(stride, dtype=np.int64)))
            begin = cell if at is None else self.op("Add", at, cell)
            step = stride if len(axes) == 2 else 1
            total = None
            for k, weight in enumerate(weights or [None]):
                place = begin
                if k:
                    place = self.op("Add", begin, self.const(np.array(k * step, dtype=np.int64)))
                value = along(axes[1:], place)
                value = value if weight is None else self.op("Mul", weight, value)
                total = value if total is None else self.op("Add", total, value)
            assert total is not None
            return total

        return along(table.axes, None)

    def response(self, link: str) -> None:
        """Add the output ``prediction``."""
        kind = inverse_link(self.model)
        flat = self.op("Squeeze", link, self.const(np.array([1]))) if kind != "softmax" else link
        if kind == "softmax":
            self.op("Softmax", link, output="prediction", axis=1)
        elif kind == "exp":
            self.op("Exp", flat, output="prediction")
        elif kind == "identity":
            self.op("Identity", flat, output="prediction")
        else:
            yes, no = self.probability(kind, flat), self.probability(kind, self.op("Neg", flat))
            if self.model.classes is None:
                self.op("Identity", yes, output="prediction")
                return
            one = self.const(np.array([1]))
            pair = [self.op("Unsqueeze", p, one) for p in (no, yes)]
            self.op("Concat", *pair, output="prediction", axis=1)

    def probability(self, kind: str, f: str) -> str:
        if kind == "logistic":
            return self.op("Sigmoid", f)
        scaled = self.op("Mul", f, self.number(float(np.sqrt(0.5))))
        single = self.op("Cast", self.op("Erf", self.op("Cast", scaled, to=1)), to=11)
        return self.op("Mul", self.op("Add", single, self.number(1.0)), self.number(0.5))
