"""An estimator's settings as JSON: kernels, measures, mappings and tuples become tagged objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from oakgp.export.entries import ModelFileError
from oakgp.kernels import KERNELS, RadialKernel
from oakgp.measures import Measure, measure_from_dict


def plain(value: Any) -> Any:
    """Return a setting as JSON.

    A random generator becomes None: its state is spent, and the fitted model does not need it.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, np.random.RandomState):
        return None
    if isinstance(value, RadialKernel):
        return {"__kernel__": value.name, **asdict(value)}
    if isinstance(value, Measure):
        return {"__measure__": value.to_dict()}
    if isinstance(value, Mapping):
        return {"__map__": [[plain(k), plain(v)] for k, v in value.items()]}
    if isinstance(value, tuple):
        return {"__tuple__": [plain(v) for v in value]}
    if isinstance(value, (set, frozenset)):
        return [plain(v) for v in sorted(value, key=str)]
    if isinstance(value, Iterable):
        return [plain(v) for v in value]
    raise TypeError(f"a setting holds {value!r}, which cannot be saved")


def restored(value: Any) -> Any:
    """Return what `plain` was given (a list for arrays and sets)."""
    if isinstance(value, list):
        return [restored(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "__kernel__" in value:
        name = value["__kernel__"]
        if name not in KERNELS:
            raise ModelFileError(f"a setting holds the unknown kernel {name!r}")
        return KERNELS[name](**{k: v for k, v in value.items() if k != "__kernel__"})
    if "__measure__" in value:
        return measure_from_dict(value["__measure__"])
    if "__tuple__" in value:
        return tuple(restored(v) for v in value["__tuple__"])
    if "__map__" in value:
        return {restored(k): restored(v) for k, v in value["__map__"]}
    raise ModelFileError(f"a setting holds an object with {sorted(value)}, which is no setting")
