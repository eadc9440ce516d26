"""The paper's curves: error and cumulative Sobol index by number of terms, and variance by order.

Run `python examples/paper_curves.py --data FOLDER`; FOLDER holds regression/NAME.csv.gz, features
first and the target last. It writes curve_NAME.png and orders_NAME.png for each name.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # writes files, needs no screen

import numpy as np
import pandas as pd

from oakgp import OAKRegressor
from oakgp.explain import plot_order_variances, plot_orders, plot_truncation


def main() -> None:
    """Fit each data set, and draw what its terms add one by one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--names", nargs="+", default=["airfoil", "energy", "yacht"])
    parser.add_argument("--terms", type=int, default=30, help="how many terms to add")
    parser.add_argument("--out", type=Path, default=Path(), help="where the pictures go")
    arguments = parser.parse_args()

    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.names:
        table = pd.read_csv(arguments.data / "regression" / f"{name}.csv.gz")
        X, y = table.iloc[:, :-1].astype(float), table.iloc[:, -1].to_numpy(float)
        y = (y - y.mean()) / y.std()
        order = np.random.default_rng(0).permutation(len(y))
        train, test = np.split(order, [int(0.9 * len(y))])
        model = OAKRegressor(max_iter=60).fit(X.iloc[train], y[train])
        curve = model.truncation_curve(X.iloc[test], y[test], n_terms=arguments.terms)
        print(f"{name}: test RMSE {curve['metric'][-1]:.3f} with {len(curve) - 1} terms;", end=" ")
        few = int(np.argmax(curve["cumulative_share"] >= 0.99))
        print(f"99% of the variance with {few}, RMSE {curve['metric'][few]:.3f}")
        figure = plot_truncation(curve, label="test RMSE")
        figure.savefig(arguments.out / f"curve_{name}.png", dpi=150)
        plot_orders(model).savefig(arguments.out / f"orders_{name}.png", dpi=150)
        figure = plot_order_variances(model)
        figure.savefig(arguments.out / f"order_variances_{name}.png", dpi=150)


if __name__ == "__main__":
    main()
