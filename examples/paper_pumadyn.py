"""The paper's figure of components on a simulated robot arm (pumadyn, 8 features).

Run `python examples/paper_pumadyn.py --data FOLDER`; FOLDER holds baseline/pumadyn.csv.gz, features
first and the target last. It writes pumadyn_components.png and pumadyn_orders.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # writes files, needs no screen

import numpy as np
import pandas as pd

from oakgp import OAKRegressor
from oakgp.explain import plot_components, plot_orders


def main() -> None:
    """Fit to a part of the rows, print the largest components, draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--rows", type=int, default=2000, help="training rows")
    parser.add_argument("--out", type=Path, default=Path(), help="where the pictures go")
    arguments = parser.parse_args()

    table = pd.read_csv(arguments.data / "baseline" / "pumadyn.csv.gz")
    order = np.random.default_rng(0).permutation(len(table))
    train, test = table.iloc[order[: arguments.rows]], table.iloc[order[arguments.rows :]]
    X, y = train.drop(columns="target"), train["target"]
    model = OAKRegressor(engine="sparse", n_inducing=300, max_iter=60).fit(X, y)

    residual = model.predict(test.drop(columns="target")) - test["target"]
    print(f"test RMSE {np.sqrt(np.mean(residual**2)) / table['target'].std():.3f} of the deviation")
    print(model.components_.to_pandas()[["term", "share", "low", "high"]].head(6))
    arguments.out.mkdir(parents=True, exist_ok=True)
    plot_components(model, X, max_terms=6).savefig(
        arguments.out / "pumadyn_components.png", dpi=150
    )
    plot_orders(model).savefig(arguments.out / "pumadyn_orders.png", dpi=150)


if __name__ == "__main__":
    main()
