"""Where each panel of a figure goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """A panel's place: its row, its first column, and how many columns it covers."""

    row: int
    column: int
    span: int


def place(spans: Sequence[int], columns: int) -> list[Cell]:
    """Return a place for each panel in turn: the first gap that is wide enough.

    Parameters
    ----------
    spans
        Columns that each panel asks for; it gets no more than there are.
    columns
        Columns of the figure.
    """
    filled: list[int] = []  # columns taken in each row, from the left
    cells = []
    for wanted in spans:
        span = min(wanted, columns)
        row = next((r for r, used in enumerate(filled) if used + span <= columns), len(filled))
        if row == len(filled):
            filled.append(0)
        cells.append(Cell(row, filled[row], span))
        filled[row] += span
    return cells
