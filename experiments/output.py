"""Where the experiments leave what they find."""

from __future__ import annotations

from pathlib import Path

from benchmarks.render import markdown

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
FIGURES = ROOT / "docs" / "img" / "experiments"

__all__ = ["FIGURES", "RESULTS", "ROOT", "markdown", "save_table"]


def save_table(name: str, *parts: str) -> None:
    """Print Markdown tables and keep them as ``results/name.md``."""
    text = "\n\n".join(parts)
    print(text)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text + "\n")
