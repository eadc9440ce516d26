"""Numbers in words, for axes and reports; without a drawing library."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MISSING = "missing"


def number_texts(values: Sequence[float] | Array) -> list[str]:
    """Return numbers as short as they can be told apart: ``0.25``, ``−3``, ``1.5e6``."""
    numbers = np.asarray(values, dtype=np.float64)
    distinct = np.unique(numbers)
    largest = float(np.abs(distinct).max(initial=0.0))
    step = float(np.diff(distinct).min(initial=largest))
    kind = "f" if largest == 0 or 1e-4 <= largest < 1e6 else "e"
    for digits in range(13):
        texts = [f"{v:.{digits}{kind}}" for v in numbers]
        if all(abs(float(t) - v) <= 1e-3 * step for t, v in zip(texts, numbers, strict=True)):
            break
    return [_tidy(text) for text in texts] if len(numbers) else []


def _tidy(text: str) -> str:
    mantissa, _, exponent = text.partition("e")
    if exponent:
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    tidy = f"{mantissa}e{int(exponent)}" if exponent else mantissa
    return "0" if float(text) == 0 and exponent else tidy.replace("-", "\N{MINUS SIGN}")


def rounded(value: float) -> str:
    """Return a number with three digits."""
    return number_texts([float(f"{value:.3g}")])[0]
