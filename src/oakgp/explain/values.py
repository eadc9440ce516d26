"""The values of features in words, for labels beside their effects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from oakgp.columns import as_text
from oakgp.kernels.terms import Term
from oakgp.model import JOINER, Model
from oakgp.schema import CategoricalColumn

Array = NDArray[np.float64]


def value_texts(model: Model, encoded: Array) -> NDArray[np.object_]:
    """Return encoded rows ``[n, d]`` as text: numbers with four digits or more, levels by name."""
    texts = np.empty(encoded.shape, dtype=object)
    for j, position in enumerate(model.schema.active):
        column = model.schema.columns[position]
        levels = column.levels if isinstance(column, CategoricalColumn) else None
        texts[:, j] = [_text(value, levels) for value in encoded[:, j]]
    return texts


def _text(value: float, levels: Sequence[object] | None) -> str:
    if np.isnan(value):
        return "missing"
    if levels is None:
        return f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"
    return as_text(levels[int(value)]) if 0 <= value < len(levels) else "unseen"


def term_with_values(model: Model, term: Term, texts: Sequence[str]) -> str:
    """Return a term and the values of its features: ``age × sex = 40, f``."""
    if not term:
        return model.label(term)
    names = JOINER.join(model.names[i] for i in term)
    return f"{names} = {', '.join(texts[i] for i in term)}"
