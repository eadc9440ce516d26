"""Explanations of a fitted model: of single rows, of its components, of their shares.

Plots need matplotlib, which is imported by the first of them only.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from oakgp.explain.attribution import Attribution
from oakgp.explain.explanation import Explanation

if TYPE_CHECKING:
    from oakgp.explain.diagnostics import plot_coverage, plot_pit, plot_reliability, plot_residuals
    from oakgp.explain.gallery import plot_all
    from oakgp.explain.plots import plot_components
    from oakgp.explain.shares import (
        plot_cumulative,
        plot_order_variances,
        plot_orders,
        plot_shapley_effects,
        plot_sobol,
        plot_truncation,
    )
    from oakgp.explain.waterfall import plot_waterfall

__all__ = [
    "Attribution",
    "Explanation",
    "plot_all",
    "plot_components",
    "plot_coverage",
    "plot_cumulative",
    "plot_order_variances",
    "plot_orders",
    "plot_pit",
    "plot_reliability",
    "plot_residuals",
    "plot_shapley_effects",
    "plot_sobol",
    "plot_truncation",
    "plot_waterfall",
]

_HOMES = {
    "plot_all": "gallery",
    "plot_components": "plots",
    "plot_coverage": "diagnostics",
    "plot_cumulative": "shares",
    "plot_order_variances": "shares",
    "plot_orders": "shares",
    "plot_pit": "diagnostics",
    "plot_reliability": "diagnostics",
    "plot_residuals": "diagnostics",
    "plot_shapley_effects": "shares",
    "plot_sobol": "shares",
    "plot_truncation": "shares",
    "plot_waterfall": "waterfall",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec("matplotlib") is None:
        raise ImportError('plots need matplotlib: pip install "oakgp[plots]"')
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
