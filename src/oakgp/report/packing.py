"""Arrays as short text: base64 of their bytes, little endian, of whole numbers where these do."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_STEPS = 65_535


def pack(values: Array, kind: str = "f4") -> dict[str, Any]:
    """Return an array as ``f4`` or ``f8`` floats, or as ``u2``: steps between its extremes.

    ``u2`` needs 2 bytes a number and is off by at most 1/131,000 of the range.
    """
    shape = list(values.shape)
    if kind != "u2":
        return {"kind": kind, "shape": shape, "data": _text(values.astype(f"<{kind}"))}
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    step = (high - low) / _STEPS or 1.0
    numbers = np.round((values - low) / step).astype("<u2")
    return {"kind": kind, "shape": shape, "low": low, "step": step, "data": _text(numbers)}


def unpack(packed: dict[str, Any]) -> Array:
    """Return the array that the page sees."""
    raw = np.frombuffer(base64.b64decode(packed["data"]), dtype=f"<{packed['kind']}")
    values = raw.astype(np.float64).reshape(packed["shape"])
    if packed["kind"] == "u2":
        values = packed["low"] + packed["step"] * values
    return values


def _text(array: NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
