"""The page: sections in order, style and scripts inlined, nothing fetched."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from oakgp.report.markup import json_block, script, tag, text
from oakgp.report.sections import SECTIONS

_SCRIPTS = ("core.js", "tables.js", "overview.js", "components.js", "whatif.js", "rows.js")


def render(found: dict[str, Any]) -> str:
    """Return the whole file from what `oakgp.report.collect.collect` found."""
    page, static = found["page"], found["static"]
    sections = [
        (name, title, content)
        for name, title, make in SECTIONS
        if (content := make(page, static)) is not None
    ]
    body = "".join(
        tag(
            "section",
            tag("h2", text(title), id=f"{name}-title"),
            content,
            id=name,
            aria_labelledby=f"{name}-title",
        )
        for name, title, content in sections
    )
    links = "".join(tag("a", text(title), href=f"#{name}") for name, title, _ in sections)
    library, library_hash = script(_plotly())
    assets = files("oakgp.report") / "assets"
    source = "\n".join((assets / name).read_text("utf-8") for name in _SCRIPTS)
    own, own_hash = script(source)
    # Scripts of this file only, and nothing from anywhere: neither scripts, images nor data.
    policy = (
        f"default-src 'none'; script-src {library_hash} {own_hash}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    head = (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{text(policy)}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        '<link rel="icon" href="data:,">'
        + tag("title", text(static["title"]))
        + tag("style", (assets / "report.css").read_text("utf-8"))
    )
    top = tag(
        "header",
        tag("h1", text(static["title"])),
        tag("p", text(static["lead"]), class_="lead"),
    )
    toggle = tag("button", "Dark colours", type="button", id="theme")
    without = tag("noscript", tag("p", "Charts and what-if need JavaScript; all else is here."))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head>'
        + head
        + "</head><body>"
        + tag("a", "Skip to the content", href="#content", class_="skip")
        + top
        + tag("nav", tag("div", links, toggle), aria_label="Sections")
        + tag("main", without, body, id="content", tabindex="-1")
        + tag("footer", tag("p", "Made by oakgp. This file is complete: it reads nothing else."))
        + json_block("page-data", page)
        + library
        + own
        + "</body></html>\n"
    )


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError('the report needs plotly: pip install "oakgp[report]"') from error
    source: str = get_plotlyjs()
    return source
