"""HTML from values: every text is escaped, and JSON and scripts cannot end their element early."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_VOID = ("input", "meta", "link", "br")


def text(value: object) -> str:
    """Return any value as HTML that shows it as it is."""
    line = "".join(
        c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in str(value)
    )
    return escape(line, quote=True)


def tag(name: str, *children: str, **attributes: object) -> str:
    """Return an element; children are HTML, attribute values are texts.

    ``class_`` and ``for_`` stand for the words that Python keeps; ``aria_label`` for aria-label.
    """
    parts = [name]
    end = "" if name in _VOID else f"</{name}>"
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        parts.append(key if value is True else f'{key}="{text(value)}"')
    return f"<{' '.join(parts)}>{''.join(children)}{end}"


def items(lines: Iterable[object], **attributes: object) -> str:
    """Return a list of texts."""
    return tag("ul", *(tag("li", text(line)) for line in lines), **attributes)


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    numeric: Sequence[int] = (),
    caption: str | None = None,
    **attributes: object,
) -> str:
    """Return a table of HTML cells; the first of each row is its heading.

    ``numeric`` are the numbers of the columns that are set to the right. Heads may all be empty.
    """

    def kind(k: int) -> str | None:
        return "n" if k in numeric else None

    head = "".join(tag("th", text(h), scope="col", class_=kind(k)) for k, h in enumerate(heads))
    body = ""
    for row in rows:
        first, *others = row
        cells = [tag("th", first, scope="row")]
        cells += [tag("td", cell, class_=kind(k)) for k, cell in enumerate(others, start=1)]
        body += tag("tr", *cells)
    above = "" if caption is None else tag("caption", text(caption))
    top = tag("thead", tag("tr", head)) if any(heads) else ""
    return tag("table", above, top, tag("tbody", body), **attributes)


def finite(value: Any) -> Any:
    """Return JSON-safe values: what is no finite number becomes None."""
    if isinstance(value, dict):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    if hasattr(value, "item"):  # a NumPy scalar
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def json_block(identifier: str, value: Any) -> str:
    """Return data for scripts to read. No text within can end the element or begin a comment."""
    content = json.dumps(finite(value), allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        content = content.replace(character, f"\\u{ord(character):04x}")
    return f'<script type="application/json" id="{text(identifier)}">{content}</script>'


def script(source: str) -> tuple[str, str]:
    """Return an inline script, and its hash for the content security policy."""
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    lowered = source.lower()
    if "</script" in lowered or "<!--" in lowered:
        raise ValueError("a script holds text that would end its element")
    digest = base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
    return f"<script>{source}</script>", f"'sha256-{digest}'"
