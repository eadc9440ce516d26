"""Fast prediction: the components of a fitted model as tables, evaluated by compiled loops."""

from oakgp.compiled.axes import LevelAxis, NumericAxis, Scale
from oakgp.compiled.compile import compile_model
from oakgp.compiled.model import CompiledFunction, CompiledModel
from oakgp.compiled.tables import ComponentTable, TableSum

__all__ = [
    "CompiledFunction",
    "CompiledModel",
    "ComponentTable",
    "LevelAxis",
    "NumericAxis",
    "Scale",
    "TableSum",
    "compile_model",
]
