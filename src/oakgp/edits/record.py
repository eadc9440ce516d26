"""What was done to a model by hand, for people to read: in its file, and in reports."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EditRecord:
    """One change.

    Parameters
    ----------
    change
        What was done: ``"dropped"``, ``"scaled by 0.5"``, ``"made increasing"``.
    term
        To which component.
    reason
        Why, in the words of who did it.
    share_before, share_after
        The component's share of the variance.
    moved
        How far the component's mean moved: root mean square over the measure, in units of the
        response (or of its link).
    metric
        Name of what was measured on held-out rows; empty if there were none.
    before, after
        The metric without and with all changes that were made together.
    n_rows
        Held-out rows.
    """

    change: str
    term: str
    reason: str
    share_before: float
    share_after: float
    moved: float
    metric: str = ""
    before: float = 0.0
    after: float = 0.0
    n_rows: int = 0

    @property
    def cost(self) -> str:
        """What the change cost on held-out rows, in words."""
        if not self.metric:
            return "not measured: no held-out rows were given"
        return (
            f"{self.metric} {self.before:.4g} before, {self.after:.4g} after ({self.n_rows:,} rows)"
        )
