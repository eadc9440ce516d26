"""Explanations of a fitted model: plots of its components and of their shares."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("matplotlib") is None:
    raise ImportError('plots need matplotlib: pip install "oakgp[plots]"')

from oakgp.explain.plots import plot_components
from oakgp.explain.shares import plot_orders, plot_sobol, plot_truncation

__all__ = ["plot_components", "plot_orders", "plot_sobol", "plot_truncation"]
