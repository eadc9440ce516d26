"""The sections of the page, as HTML that can be read without scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oakgp.report.markup import items, table, tag, text
from oakgp.report.words import number, percent

Section = Callable[[dict[str, Any], dict[str, Any]], str | None]


def summary(page: dict[str, Any], static: dict[str, Any]) -> str:
    """What the model is, how good it is, and whether it can be trusted."""
    verdict = static["verdict"]
    figures = [_figure(m) for m in page["quality"]["metrics"][:4]] if page["quality"] else []
    figures += [_share_figure(page, static)]
    parts = [
        tag("p", text(_what(page, static))),
        tag("ul", *figures, class_="figures"),
        tag("h3", "Verdict"),
        items(verdict.lines, class_="verdict"),
    ]
    if static["dropped"] is not None:
        share = f"{percent(static['dropped'])} of the variance was dropped by truncation"
        parts.append(tag("p", text(share), class_="note"))
    if verdict.warnings:
        parts.append(
            tag(
                "div",
                tag("strong", "Look at these"),
                items(verdict.warnings),
                class_="warnings",
                role="note",
            )
        )
    else:
        parts.append(tag("p", "No warnings.", class_="note"))
    return "".join(parts)


def _what(page: dict[str, Any], static: dict[str, Any]) -> str:
    n = len(page["outputs"][0]["components"])
    what = static["effect"].removeprefix("effect on the ").removeprefix("effect on ")
    return (
        "A Gaussian process that is a sum: a constant, one function for each feature, and one for "
        "each interaction that matters. Each has an uncertainty band and a share of the variance, "
        f"and the page shows {n} of them. Effects are in units of the {what}; bands are two "
        "posterior standard deviations to either side."
    )


def _figure(metric: dict[str, Any]) -> str:
    ends = f"{number(metric['low'])} to {number(metric['high'])}"
    return tag(
        "li",
        tag("span", text(metric["name"])),
        tag("strong", text(number(metric["value"]))),
        tag("span", text(f"90% interval {ends}")),
    )


def _share_figure(page: dict[str, Any], static: dict[str, Any]) -> str:
    importance = page["importance"]
    if importance is None or not importance["terms"]:
        return tag("li", tag("span", "components"), tag("strong", "none"))
    top = importance["terms"][0]
    return tag(
        "li",
        tag("span", "most important"),
        tag("strong", text(top["label"])),
        tag("span", text(f"{percent(top['share'])} of the variance")),
    )


def quality(page: dict[str, Any], static: dict[str, Any]) -> str:
    """Return metrics with intervals, and what was promised against what came."""
    found = page["quality"]
    if found is None:
        return tag(
            "p",
            "No test rows with responses were given, so nothing is said here on how good the "
            "predictions are: write the report with X_test and y_test to see it.",
        )
    rows = [
        [
            text(m["name"]),
            text(number(m["value"], 4)),
            text(f"{number(m['low'], 4)} to {number(m['high'], 4)}"),
            text(m["about"]),
        ]
        for m in found["metrics"]
    ]
    numbers = found["kind"] == "numbers"
    first = "Predicted against observed" if numbers else "What was said, where it came and not"
    second = "Coverage of the intervals" if numbers else "Reliability of the probabilities"
    groups = found["reliability"]
    said = [
        [
            text(percent(p)),
            text(percent(s)),
            text(f"{percent(low)} to {percent(high)}"),
            text(f"{int(c):,}"),
        ]
        for p, s, low, high, c in zip(*groups.values(), strict=True)
    ]
    return (
        tag("p", text(f"On {found['n']:,} rows that were given as test rows; 90% intervals."))
        + tag(
            "div",
            table(["metric", "value", "interval", "what it says"], rows, numeric=(1, 2)),
            class_="scroll",
        )
        + tag("div", _chart("scatter", first), _chart("reliability", second), class_="two")
        + tag(
            "details",
            tag("summary", text(f"{second}, as a table")),
            table(["promised", "observed", "90% interval", "rows"], said, numeric=(1, 2, 3)),
        )
    )


def _chart(identifier: str, title: str, tall: bool = False) -> str:
    return tag(
        "div",
        tag("h3", text(title)),
        tag(
            "div",
            id=identifier,
            class_="chart tall" if tall else "chart",
            role="img",
            aria_label=title,
        ),
    )


def importance(page: dict[str, Any], static: dict[str, Any]) -> str | None:
    """Return shares of the variance with error bars."""
    found = page["importance"]
    if found is None:
        return tag("p", "The components are not orthogonal, so the variance has no shares.")
    if not found["terms"]:
        return None
    terms = [
        [text(t["label"]), text(percent(t["share"])), _ends(t["low"], t["high"])]
        for t in found["terms"]
    ]
    features = [
        [
            text(f["feature"]),
            text(percent(f["first_order"])),
            _ends(f["first_order_low"], f["first_order_high"]),
            text(percent(f["total"])),
            _ends(f["total_low"], f["total_high"]),
        ]
        for f in sorted(found["features"], key=lambda f: -f["total"])
    ]
    orders = ", ".join(f"order {o['order']}: {percent(o['share'])}" for o in found["orders"])
    return (
        tag(
            "p",
            "The Sobol index of a component is its share of the variance that the model explains, "
            "over rows whose features vary independently. Bars are the shares of the predicted "
            "function; dots and lines are expectation and 90% credible interval, which count what "
            "the function may be besides.",
        )
        + tag("p", text(f"By interaction {orders}."))
        + tag(
            "div",
            _chart("terms-chart", "Components", tall=True),
            _chart("features-chart", "Features, with all their interactions", tall=True),
            class_="two",
        )
        + tag(
            "details",
            tag("summary", "Components, as a table"),
            table(["component", "share", "90% interval"], terms, numeric=(1, 2)),
        )
        + tag(
            "details",
            tag("summary", "Features, as a table"),
            table(
                ["feature", "alone", "90% interval", "with interactions", "90% interval"],
                features,
                numeric=(1, 2, 3, 4),
            ),
        )
    )


def _ends(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else text(f"{percent(low)} to {percent(high)}")


def components(page: dict[str, Any], static: dict[str, Any]) -> str | None:
    """Return the place of the components, which scripts draw."""
    if not page["outputs"][0]["components"]:
        return tag("p", "The model has no features, only a constant.")
    tools = tag("label", "Find ", tag("input", type="search", id="component-search"))
    tools += _outputs(page, "component-output")
    tools += tag("span", id="component-count", class_="note", aria_live="polite")
    return (
        tag(
            "p",
            "Each picture is one term of the sum, centred on 0 over the training data. Below a "
            "curve is the distribution of the feature. A dotted line on a surface parts the places "
            "where the band includes 0 from those where it does not. Drag to zoom, double click to "
            "go back.",
        )
        + tag("div", tools, class_="tools")
        + tag("div", id="cards", class_="cards")
    )


def _outputs(page: dict[str, Any], identifier: str) -> str:
    if len(page["outputs"]) < 2:
        return ""
    options = [tag("option", text(o["name"]), value=k) for k, o in enumerate(page["outputs"])]
    label = "Class " if page["joint"] else "Function "
    return tag("label", label, tag("select", *options, id=identifier))


def rows(page: dict[str, Any], static: dict[str, Any]) -> str | None:
    """Return rows to question, with their waterfall and what-if."""
    if not page["features"]:
        return None
    lines = []
    for k, row in enumerate(page["rows"]):
        button = tag("button", text(row["name"]), type="button", data_row=k, aria_pressed="false")
        lines.append([button, text(row["why"]), *(text(v) for v in _said(page, row))])
    heads = ["row", "why it is here", "predicted", "observed"]
    return (
        tag(
            "p",
            "Choose a row to see of what its prediction is made; then change its values.",
        )
        + tag("div", _outputs(page, "row-output"), class_="tools")
        + tag(
            "div",
            table(heads, lines, numeric=(2, 3), id="row-list"),
            class_="scroll",
            tabindex="0",
            role="region",
            aria_label="Rows",
        )
        + tag("p", id="answer", class_="answer", aria_live="polite", tabindex="-1", role="status")
        + tag("h3", "Of what it is made")
        + tag("div", id="waterfall", class_="chart tall", role="img", aria_label="Contributions")
        + tag(
            "details",
            tag("summary", "Contributions, as a table"),
            tag("div", tag("table", id="contributions"), class_="scroll"),
        )
        + tag(
            "div",
            tag("h3", "What if?"),
            tag("p", text(_whatif_note(page)), class_="note"),
            tag("div", id="controls", class_="controls"),
            tag("button", "Back to the row's values", type="button", id="reset"),
            " ",
            tag("button", "All features", type="button", id="all-features", aria_pressed="false"),
            id="whatif-box",
        )
    )


def _said(page: dict[str, Any], row: dict[str, Any]) -> list[str]:
    response = row["response"]
    share = page["link"] in ("logit", "probit", "softmax")
    if len(response) > 1:
        best = max(range(len(response)), key=lambda k: response[k])
        said = f"{page['outputs'][best]['name']} ({percent(response[best])})"
    else:
        said = percent(response[0]) if share else number(response[0], 4)
        if share and page["outputs"][0]["name"] != "":
            said = f"{page['outputs'][0]['name']}: {said}"
    observed = row["observed"]
    if observed is None:
        return [said, "–"]
    return [said, number(observed, 4) if isinstance(observed, float) else str(observed)]


def _whatif_note(page: dict[str, Any]) -> str:
    error, held = page["whatif"]["error"], page["whatif"]["held"]
    share = page["link"] in ("logit", "probit", "softmax")
    parts = [
        "The page adds up tables of the components of one and two features that are shown above; "
        "all other terms keep the value that they have at the row."
    ]
    if held:
        parts.append(f"Held in this way though shown: {', '.join(held)}.")
    if error is not None:
        unit = " of probability" if share else ""
        bound = number(page["whatif"]["bound"], 2)
        parts.append(f"The tables together are within {bound} of the components.")
        parts.append(
            f"Compared with the model at {error['n']} rows with one to three values changed, the "
            f"answer was off by {number(error['median'], 2)}{unit} at the median and by "
            f"{number(error['largest'], 2)} at most."
        )
    return " ".join(parts)


def edits(page: dict[str, Any], static: dict[str, Any]) -> str | None:
    """Return the record of changes that were made by hand."""
    record = static.get("edits")
    if not record:
        return None
    heads = ["change", "component", "reason", "share before", "after", "moved by", "cost"]
    lines = [
        [
            text(e.change),
            text(e.term),
            text(e.reason or "–"),
            text(percent(e.share_before)),
            text(percent(e.share_after)),
            text(number(e.moved)),
            text(e.cost),
        ]
        for e in record
    ]
    return tag(
        "p",
        "These components are not as the data left them: somebody changed them on purpose. All "
        "numbers and pictures of this page count the changes. Components moved by so much at the "
        "root mean square, in units of the effect.",
    ) + tag(
        "div",
        table(heads, lines, numeric=(3, 4, 5)),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label="Edits",
    )


def data(page: dict[str, Any], static: dict[str, Any]) -> str:
    """Return a line for each column of the training table, and notes."""
    lines = [
        [text(c[key]) for key in ("name", "kind", "distinct", "missing", "values", "used")]
        for c in static["data"]
    ]
    heads = ["column", "holds", "distinct", "missing", "values in training", "used"]
    return tag("p", text(f"{static['n_train']:,} training rows.")) + tag(
        "div",
        table(heads, lines, numeric=(2, 3)),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label="Columns",
    )


def made(page: dict[str, Any], static: dict[str, Any]) -> str:
    """Return how the model came about."""
    facts = [[text(name), text(value)] for name, value in static["made"]]
    features = [
        [text(h[key]) for key in ("name", "kernel", "measure", "lengthscale", "scale")]
        for h in static["hyperparameters"]
    ]
    heads = ["feature", "kernel", "measure", "lengthscale", "variance"]
    return tag("div", table(["", ""], facts), class_="scroll") + tag(
        "details",
        tag("summary", "Hyperparameters"),
        table(heads, features, numeric=(3, 4)),
    )


#: Identifier, title and maker of each section, in order.
SECTIONS: tuple[tuple[str, str, Section], ...] = (
    ("summary", "Summary", summary),
    ("quality", "How good", quality),
    ("importance", "What matters", importance),
    ("components", "Components", components),
    ("rows", "Question a row", rows),
    ("edits", "Edits", edits),
    ("data", "Data", data),
    ("made", "How it was made", made),
)
