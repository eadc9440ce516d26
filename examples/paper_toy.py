"""The paper's toy problem: y = x1^2 - 2 x2 + cos(3 x1) sin(5 x2), its components found and true.

Run `python examples/paper_toy.py`; it writes toy_orthogonal.png and toy_plain.png: with orthogonal
components, which are those of the functional ANOVA of the truth, and with the plain additive
kernel, whose components may hold parts of each other.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # writes files, needs no screen

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from oakgp import OAKRegressor
from oakgp.explain import plot_components

Array = NDArray[np.float64]


def function(a: Array, b: Array) -> Array:
    """Return the truth."""
    return a**2 - 2 * b + np.cos(3 * a) * np.sin(5 * b)


def true_effects(grid: Array) -> list[Array]:
    """Return the true main effects: averages over the other feature, uniform on [-1, 1]."""
    nodes = np.linspace(-1.0, 1.0, 2001)
    mean = float(function(nodes[:, None], nodes[None, ::20]).mean())
    first = function(grid[:, None], nodes[None, :]).mean(axis=1) - mean
    second = function(nodes[None, :], grid[:, None]).mean(axis=1) - mean
    return [first, second]


def main() -> None:
    """Fit both kernels and draw their components over the truth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(), help="where the pictures go")
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(-1.0, 1.0, (200, 2)), columns=["x1", "x2"])
    y = function(X["x1"].to_numpy(), X["x2"].to_numpy()) + 0.1 * rng.standard_normal(200)
    grid = np.linspace(-1.0, 1.0, 101)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, orthogonal in (("orthogonal", True), ("plain", False)):
        model = OAKRegressor(
            max_order=2, flow="none", measure="uniform", orthogonal=orthogonal
        ).fit(X, y)
        figure = plot_components(model, X, ["x1", "x2", ("x1", "x2")])
        for ax, truth in zip(figure.axes[:2], true_effects(grid), strict=True):
            ax.plot(grid, truth, color="#d55e00", linewidth=1.2, linestyle=(0, (4, 2)))
        figure.savefig(arguments.out / f"toy_{name}.png", dpi=150)
        found, _ = model.component(pd.DataFrame({"x1": grid, "x2": 0.0}), "x1")
        error = np.sqrt(np.mean((found - true_effects(grid)[0]) ** 2))
        print(f"{name}: the effect of x1 is off by {error:.3f} (root mean square)")


if __name__ == "__main__":
    main()
