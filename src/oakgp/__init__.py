"""Interpretable Gaussian processes for tables, with the orthogonal additive kernel (OAK)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oakgp.estimators import OAKClassifier, OAKRegressor
    from oakgp.export import load

__version__ = "0.1.0.dev0"

__all__ = ["OAKClassifier", "OAKRegressor", "__version__", "load"]

_HOMES = {
    "OAKClassifier": "oakgp.estimators",
    "OAKRegressor": "oakgp.estimators",
    "load": "oakgp.export",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used.

    scikit-learn imports pandas where it finds it, which takes longer than all of oakgp: whoever
    only asks for the version or for a submodule does not wait for that.
    """
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'oakgp' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
