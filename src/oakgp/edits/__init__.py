"""Changing a fitted model on purpose: drop, scale, or give a component the shape it must have."""

from __future__ import annotations

from oakgp.edits.apply import edit_model
from oakgp.edits.posterior import EditedPosterior, TermEdit
from oakgp.edits.record import EditRecord
from oakgp.edits.tables import ComponentGrid, GridAxis

__all__ = [
    "ComponentGrid",
    "EditRecord",
    "EditedPosterior",
    "GridAxis",
    "TermEdit",
    "edit_model",
]
