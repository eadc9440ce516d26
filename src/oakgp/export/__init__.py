"""Models in files: one zip archive of JSON and safetensors, no pickle, nothing executed on load."""

from __future__ import annotations

from oakgp.export.archive import load, save
from oakgp.export.entries import ModelFileError

__all__ = ["ModelFileError", "load", "save"]
