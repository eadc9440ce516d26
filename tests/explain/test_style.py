"""Text that matplotlib draws as it stands, and numbers as short as they can be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from oakgp.explain.style import (
    level_texts,
    literal,
    number_texts,
    percent,
    rounded,
    term_text,
    ticks,
)

MINUS = "\N{MINUS SIGN}"


@pytest.mark.parametrize(
    ("text", "limit", "drawn"),
    [
        ("price", None, "price"),
        ("in $ per $", None, r"in \$ per \$"),
        ("two\nlines\tor more", None, "two lines or more"),
        ("abcdefghij", 10, "abcdefghij"),
        ("abcdefghijk", 10, "abcdef…ijk"),
        (3.5, None, "3.5"),
    ],
)
def test_text_is_literal(text: object, limit: int | None, drawn: str) -> None:
    assert literal(text, limit) == drawn


@given(st.text(max_size=30), st.integers(4, 20))
def test_any_text_can_be_drawn(text: str, limit: int) -> None:
    drawn = literal(text, limit)
    assert len(drawn.replace(r"\$", "$")) <= limit
    assert "\n" not in drawn
    label = Figure().text(0.5, 0.5, drawn)
    assert label._preprocess_math(drawn)[1] is False  # matplotlib sees no formula


def test_levels_that_differ_in_the_middle_stay_apart() -> None:
    names = [f"occupation number {k} with a long description" for k in (1, 12)]
    assert level_texts([*names, "missing"], 14) == ["…number 1…", "…number 12…", "missing"]
    assert level_texts(names[:1], 14) == ["occupatio…tion"]
    prices = ["$" * 20 + f"{k}" + " " * 20 for k in (1, 2)]
    assert level_texts(prices, 6) == [r"…\$\$\$1…", r"…\$\$\$2…"]


@given(st.lists(st.text("ab$ ", min_size=1, max_size=40), min_size=1, max_size=8, unique=True))
def test_levels_are_cut_and_no_dollar_is_bare(names: list[str]) -> None:
    cut = level_texts(names, 12)
    assert len(cut) == len(names)
    for text in cut:
        assert len(text.replace(r"\$", "$")) <= 12
        assert "$" not in text.replace(r"\$", "")
    if all(len(name) <= 12 for name in names):
        assert len(set(cut)) == len(names)


def test_of_a_terms_names_the_longest_is_cut() -> None:
    assert term_text("age × sex", 36) == "age × sex"
    cut = term_text("a_very_long_name_of_a_column × sex", 20)
    assert cut.endswith(" × sex")
    assert len(cut) <= 20


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([0.0, 0.25, 0.5], ["0.00", "0.25", "0.50"]),
        ([-3.0, 0.0, 3.0], [f"{MINUS}3", "0", "3"]),
        ([0.0, 1e6, 2.5e6], ["0", "1e6", "2.5e6"]),
        ([2e-12, -1e-12], [f"2e{MINUS}12", f"{MINUS}1e{MINUS}12"]),
        ([1990.0, 2000.0], ["1990", "2000"]),
        ([1e300], ["1e300"]),
        ([], []),
    ],
)
def test_numbers_are_as_short_as_they_can_be_told_apart(
    values: list[float], drawn: list[str]
) -> None:
    assert number_texts(values) == drawn


def test_small_texts() -> None:
    assert rounded(-1234.5678) == f"{MINUS}1230"
    assert rounded(0.0123456) == "0.0123"
    assert [percent(s) for s in (0.0, 1e-9, 0.0321, 1.0)] == ["0.0%", "<0.1%", "3.2%", "100.0%"]
    assert list(ticks(0.3, 9.8, 4)) == [2.5, 5.0, 7.5]
