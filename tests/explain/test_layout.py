"""Panels fill a figure from its top left corner and never lie on each other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oakgp.explain.layout import Cell, place


@given(st.lists(st.integers(1, 3), max_size=12), st.integers(1, 4))
def test_panels_have_room_and_do_not_overlap(spans: list[int], columns: int) -> None:
    cells = place(spans, columns)
    taken = [(c.row, k) for c in cells for k in range(c.column, c.column + c.span)]
    assert len(set(taken)) == len(taken)
    assert all(column < columns for _, column in taken)
    assert [c.span for c in cells] == [min(span, columns) for span in spans]
    used = {row for row, _ in taken}
    assert used == set(range(len(used)))
    assert all((row, 0) in taken for row in used)


def test_a_narrow_panel_fills_a_gap_above() -> None:
    assert place([2, 2, 1], 3) == [Cell(0, 0, 2), Cell(1, 0, 2), Cell(0, 2, 1)]
