"""Tables as Markdown and HTML, ranks as a picture."""

from __future__ import annotations

import html
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.summary import Change, Grid, critical_difference, ranks, wins

DIGITS = {"wall_s": 1, "cpu_s": 1, "peak_mb": 0, "total_s": 1}
TITLES = {
    "rmse": "RMSE (of the response divided by its deviation)",
    "loglik": "Log-likelihood a row",
    "auc": "Area under the ROC curve",
    "accuracy": "Accuracy",
    "brier": "Brier score",
    "ece": "Expected calibration error",
    "deviance": "Poisson deviance a row",
    "wall_s": "Fit, seconds on the clock",
    "cpu_s": "Fit, seconds of the processor",
    "peak_mb": "Peak memory, MB",
    "coverage50": "Coverage of 50% intervals",
    "coverage80": "Coverage of 80% intervals",
    "coverage90": "Coverage of 90% intervals",
    "coverage95": "Coverage of 95% intervals",
}

Rows = list[list[str]]


def in_a_sentence(metric: str) -> str:
    """Return what a metric is called within a sentence."""
    title = TITLES.get(metric, metric)
    return title if title[:2].isupper() else title[0].lower() + title[1:]


def _short(name: str) -> str:
    return name.partition("/")[2] or name


def rows_of(table: Grid, deviations: bool = False) -> Rows:
    """Return header and body of a grid: a line a set, then means, medians, ranks and wins."""
    digits = DIGITS.get(table.metric, 3)

    def number(value: float, sd: float = np.nan) -> str:
        if np.isnan(value):
            return ""
        extra = f" ({sd:.{digits}f})" if deviations and not np.isnan(sd) else ""
        return f"{value:.{digits}f}{extra}"

    body: Rows = [["set", "splits", *table.models]]
    for i, name in enumerate(table.sets):
        cells = [number(m, s) for m, s in zip(table.mean[i], table.sd[i], strict=True)]
        ranked = table.sign * table.mean[i]
        if table.metric in TITLES and not table.metric.startswith("coverage"):
            best = np.nanmin(ranked) if not np.isnan(ranked).all() else np.nan
            cells = [f"**{c}**" if r == best else c for c, r in zip(cells, ranked, strict=True)]
        body.append([_short(name), str(table.splits[i]), *cells])
    whole = table.complete()
    if not len(whole.sets):
        return body
    count = str(len(whole.sets))
    body.append([f"mean of {count} sets", "", *map(number, whole.mean.mean(axis=0))])
    body.append([f"median of {count} sets", "", *map(number, np.median(whole.mean, axis=0))])
    if not table.metric.startswith("coverage"):
        body.append(["mean rank", "", *(f"{r:.2f}" for r in ranks(whole).mean(axis=0))])
        body.append(["best in", "", *(str(w) for w in wins(whole))])
    return body


def markdown(rows: Rows) -> str:
    """Return a Markdown table."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)


def as_html(sections: Iterable[tuple[str, Rows]], title: str, pictures: Iterable[str] = ()) -> str:
    """Return a page of tables; it needs nothing from elsewhere."""
    parts = [f"<h1>{html.escape(title)}</h1>"]
    for heading, rows in sections:
        parts.append(f"<h2>{html.escape(heading)}</h2><div class=wide><table><thead><tr>")
        parts += [f"<th>{html.escape(cell)}</th>" for cell in rows[0]]
        parts.append("</tr></thead><tbody>")
        for row in rows[1:]:
            cells = "".join(_cell(cell) for cell in row)
            kind = " class=sum" if row[1] == "" else ""
            parts.append(f"<tr{kind}>{cells}</tr>")
        parts.append("</tbody></table></div>")
    parts += list(pictures)
    style = (
        "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;"
        "color:#222}table{border-collapse:collapse}th,td{padding:.2rem .7rem;text-align:right;"
        "border-bottom:1px solid #ddd;white-space:nowrap}th:first-child,td:first-child"
        "{text-align:left}.wide{overflow-x:auto}.sum td{background:#f4f6f8}svg{max-width:100%;"
        "height:auto}"
    )
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{html.escape(title)}"
        f"</title><style>{style}</style></head><body>{''.join(parts)}</body></html>\n"
    )


def _cell(text: str) -> str:
    if text.startswith("**"):
        return f"<td><b>{html.escape(text.strip('*'))}</b></td>"
    return f"<td>{html.escape(text)}</td>"


def rank_picture(table: Grid, path: Path) -> None:
    """Draw mean ranks on a line; a bar joins models that are no further apart than chance.

    That is Demsar's diagram with Nemenyi's critical difference at 5%.
    """
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    whole = table.complete()
    if len(whole.sets) < 2 or len(whole.models) < 2:
        raise ValueError(
            "ranks need at least two models and two sets that both have; there are "
            f"{len(whole.models)} and {len(whole.sets)}"
        )
    mean = ranks(whole).mean(axis=0)
    order = np.argsort(mean)
    k = len(mean)
    difference = critical_difference(k, len(whole.sets))
    bars = _joined(mean[order], difference)
    half = (k + 1) // 2
    top = 0.5 + 0.22 * len(bars)
    figure, axes = plt.subplots(figsize=(7.5, 1.2 + 0.28 * (half + len(bars))))
    axes.set(xlim=(0.6, k + 0.4), ylim=(-top - 0.42 * half, 1.1))
    axes.axis("off")
    axes.hlines(0, 1, k, color="black", lw=1)
    for tick in range(1, k + 1):
        axes.vlines(tick, 0, 0.12, color="black", lw=1)
        axes.text(tick, 0.18, str(tick), ha="center", va="bottom", fontsize=9)
    for place, j in enumerate(order):
        left = place < half
        y = -top - 0.42 * (place if left else k - 1 - place)
        edge = 0.9 if left else k + 0.1
        axes.plot([mean[j], mean[j], edge], [0, y, y], color="#444", lw=0.9)
        label = f"{whole.models[j]} {mean[j]:.2f} " if left else f" {mean[j]:.2f} {whole.models[j]}"
        axes.text(edge, y, label, ha="right" if left else "left", va="center", fontsize=10)
    for level, (low, high) in enumerate(bars):
        y = -0.25 - 0.22 * level
        axes.hlines(y, low - 0.04, high + 0.04, color="#1f5fa8", lw=3.5)
    axes.hlines(0.85, 1, 1 + difference, color="#1f5fa8", lw=3.5)
    axes.text(
        1.1 + difference,
        0.85,
        f"critical difference {difference:.2f}, {len(whole.sets)} sets: "
        f"{in_a_sentence(whole.metric)}",
        va="center",
        fontsize=9,
    )
    figure.savefig(path, bbox_inches="tight", dpi=150)
    plt.close(figure)


def _joined(mean: Any, difference: float) -> list[tuple[float, float]]:
    """Return the longest stretches of sorted ranks that are within the difference."""
    found: list[tuple[float, float]] = []
    for i, low in enumerate(mean):
        high = max(m for m in mean[i:] if m - low <= difference)
        if high > low and not any(a <= low and high <= b for a, b in found):
            found.append((float(low), float(high)))
    return found


def change_lines(found: Iterable[Change]) -> Rows:
    """Return the rows of a comparison."""
    rows: Rows = [["set", "model", "metric", "splits", "before", "after", ""]]
    for c in found:
        before, after = f"{c.before:.4g}", f"{c.after:.4g}"
        row = [c.set, c.model, c.metric, str(c.splits), before, after]
        rows.append([*row, "WORSE" if c.worse else ""])
    return rows
