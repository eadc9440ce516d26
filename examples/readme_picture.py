"""Draw the picture of the README: four components of the demo's model and its Sobol indices.

Run `python examples/readme_picture.py`; it writes docs/img/components.png.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # writes a file, needs no screen

import matplotlib.pyplot as plt
from demo import TRAIN, houses, response

import oakgp
from oakgp.explain import plot_components, plot_sobol

TARGET = Path(__file__).parents[1] / "docs" / "img" / "components.png"
TERMS = [
    "floor area",
    "insulation",
    ("winter temperature", "heating"),
    ("floor area", "insulation"),
]


def main() -> None:
    """Fit the demo's model and write the picture."""
    train = houses(TRAIN, seed=1)
    model = oakgp.OAKRegressor().fit(train, response(train, houses(100_000, seed=0), seed=3))
    figure = plt.figure(figsize=(10.4, 5.0), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=(1.9, 1.0), wspace=0.04)
    plot_components(model, train, TERMS, columns=2, figure=left)
    plot_sobol(model, max_terms=9, figure=right)
    right.suptitle("share of the explained variance", fontsize=9)
    right.axes[0].set_xlabel("")
    figure.savefig(TARGET, dpi=120)


if __name__ == "__main__":
    main()
