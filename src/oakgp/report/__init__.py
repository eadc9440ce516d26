"""One offline HTML file that says what a model is, how good it is, and why it says what it says."""

from __future__ import annotations

from oakgp.report.write import write_report

__all__ = ["write_report"]
