"""Checks of settings name the setting, what was given and what is wanted."""

from __future__ import annotations

import re

import numpy as np
import pytest

from oakgp.checks import check_choice, check_count, check_flag, check_terms


@pytest.mark.parametrize("value", [0, -3, 1.0, 2.5, True, "3", None, np.float64(3), [3]])
def test_what_is_no_count_is_refused(value: object) -> None:
    message = f"rank={value!r}: give a whole number of at least 1"
    with pytest.raises(ValueError, match=re.escape(message)):
        check_count("rank", value, 1)


@pytest.mark.parametrize("value", [1, 10**30, np.int8(1), np.uint64(7)])
def test_counts_of_any_integer_type(value: object) -> None:
    check_count("rank", value, 1)
    with pytest.raises(ValueError, match="at least 10"):
        check_count("rank", 9, 10)


@pytest.mark.parametrize("value", [1, 0, "True", None, np.array([True])])
def test_what_is_no_flag_is_refused(value: object) -> None:
    check_flag("orthogonal", np.True_)
    with pytest.raises(ValueError, match=r"orthogonal=.*: give True or False"):
        check_flag("orthogonal", value)


@pytest.mark.parametrize("value", ["Exact", "", None, 1, ("exact",)])
def test_what_is_no_choice_is_refused(value: object) -> None:
    check_choice("engine", "exact", ("exact", "sparse"))
    with pytest.raises(ValueError, match=r"engine=.*: choose one of 'exact', 'sparse'"):
        check_choice("engine", value, ("exact", "sparse"))


@pytest.mark.parametrize("terms", [(), ["a", 0, ("a", "b")], [("a",), [np.int64(2), "b"]], [()]])
def test_terms_are_names_numbers_or_tuples_of_these(terms: object) -> None:
    check_terms("forced_terms", terms)


@pytest.mark.parametrize("terms", ["ab", 3, None])
def test_what_is_no_list_of_terms_is_refused(terms: object) -> None:
    with pytest.raises(ValueError, match=r"forced_terms=.*: give a list of terms, such as"):
        check_terms("forced_terms", terms)


@pytest.mark.parametrize("term", [1.5, None, True, ("a", 0.5), (("a", "b"), "c")])
def test_what_is_no_term_is_refused(term: object) -> None:
    with pytest.raises(ValueError, match=r"forced_terms= holds .*: a term is a column's name or"):
        check_terms("forced_terms", ["a", term])
