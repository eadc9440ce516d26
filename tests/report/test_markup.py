from __future__ import annotations

import base64
import hashlib
import json
import re

import numpy as np
import pytest

from oakgp.report.markup import finite, items, json_block, script, table, tag, text
from oakgp.report.packing import pack, unpack

NASTY = ["</script>", "<!--", "]]>", "\"&<>'", "\u2028", "<b>", "\x00", "日本 é"]


@pytest.mark.parametrize("value", NASTY)
def test_text_holds_no_markup(value: str) -> None:
    for made in (
        text(value),
        tag("p", text(value)),
        items([value]),
        table([value], [[text(value)]]),
    ):
        without = re.sub(r"</?(p|ul|li|table|thead|tbody|tr|th|td)( scope=\"\w+\")?>", "", made)
        assert "<" not in without
        assert ">" not in without
    assert '"' not in text(value)


@pytest.mark.parametrize("value", NASTY)
def test_json_cannot_end_its_element_and_reads_back(value: str) -> None:
    block = json_block("x", {value: [value]})
    content = block.removeprefix('<script type="application/json" id="x">').removesuffix(
        "</script>"
    )
    assert not set(content) & set("<>&")
    assert json.loads(content) == {value: [value]}


def test_numbers_that_json_lacks_become_none() -> None:
    assert finite({"a": [np.nan, np.float64(np.inf), np.int64(2), True]}) == {
        "a": [None, None, 2, True]
    }


def test_attributes_are_escaped_and_named() -> None:
    assert tag("a", "x", href='"onclick=', class_="c", hidden=None) == (
        '<a href="&quot;onclick=" class="c">x</a>'
    )


def test_a_script_has_the_hash_that_browsers_compute() -> None:
    element, digest = script("a\r\nb\rc")
    content = element.removeprefix("<script>").removesuffix("</script>")
    assert content == "a\nb\nc"
    expected = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    assert digest == f"'sha256-{expected}'"
    with pytest.raises(ValueError, match="end its element"):
        script("'</SCRIPT>'")


@pytest.mark.parametrize(("kind", "error"), [("f8", 0.0), ("f4", 1e-6), ("u2", 1e-4)])
def test_packed_arrays_read_back(kind: str, error: float) -> None:
    values = np.random.default_rng(0).normal(size=(3, 5))
    assert np.abs(unpack(pack(values, kind)) - values).max() <= error
    constant = np.full(4, 2.5)
    assert (unpack(pack(constant, kind)) == constant).all()
