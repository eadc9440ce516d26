"""Tables of results: as text, as HTML, and as data frames."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from oakgp.table import Table

TABLE = Table({"term": ["a", "a × b"], "order": [1, 2], "share": [0.123456, 1e-9]})


def test_columns_are_arrays_of_their_kind() -> None:
    assert TABLE["term"].dtype == object
    assert TABLE["order"].dtype.kind == "i"
    assert TABLE["share"].dtype == np.float64
    assert len(TABLE) == 2
    with pytest.raises(KeyError, match="nothing"):
        TABLE["nothing"]


def test_rows_are_dictionaries() -> None:
    assert list(TABLE.rows())[1] == {"term": "a × b", "order": 2, "share": 1e-9}


def test_text_is_aligned_words_left_and_numbers_right() -> None:
    assert repr(TABLE).splitlines() == [
        "term   order   share",
        "a          1  0.1235",
        "a × b      2   1e-09",
    ]


def test_html_escapes_names_and_cells() -> None:
    html = Table({"<b>": ["<script>", "x & y"]})._repr_html_()
    assert html.count("<tr>") == 3
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "<th>&lt;b&gt;</th>" in html
    assert "x &amp; y" in html


def test_frames_hold_the_same() -> None:
    frame, other = TABLE.to_pandas(), TABLE.to_polars()
    assert isinstance(frame, pd.DataFrame)
    assert isinstance(other, pl.DataFrame)
    assert frame.to_dict("list") == TABLE.to_dict() == other.to_dict(as_series=False)
    assert other.schema["order"] == pl.Int64


def test_tables_without_rows() -> None:
    empty = Table({"term": [], "share": []})
    assert len(empty) == 0
    assert repr(empty) == "term  share"
    assert list(empty.rows()) == []
    assert empty.to_pandas().shape == (0, 2)
    assert len(Table({})) == 0


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"columns of unequal length: \[1, 2\]"):
        Table({"a": [1], "b": [1, 2]})


def test_sequences_as_cells_stay_whole() -> None:
    table = Table({"pair": [("a", "b"), ("c", "d")]})
    assert table["pair"].shape == (2,)
    assert table["pair"][1] == ("c", "d")
