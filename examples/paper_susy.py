"""The paper's figure of components of a classifier of particle collisions (SUSY).

Run `python examples/paper_susy.py --data FOLDER`; FOLDER holds susy/susy_low8_21k.csv.gz, features
first and the target last. It writes susy_components.png and susy_reliability.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # writes files, needs no screen

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from oakgp import OAKClassifier
from oakgp.explain import plot_components, plot_reliability


def main() -> None:
    """Fit to a part of the rows, score on the rest, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--rows", type=int, default=2000, help="training rows")
    parser.add_argument("--out", type=Path, default=Path(), help="where the pictures go")
    arguments = parser.parse_args()

    table = pd.read_csv(arguments.data / "susy" / "susy_low8_21k.csv.gz")
    order = np.random.default_rng(0).permutation(len(table))
    train, test = table.iloc[order[: arguments.rows]], table.iloc[order[arguments.rows :]]
    X = train.drop(columns="target")
    model = OAKClassifier(max_order=2, flow="none", n_inducing=200, max_iter=40)
    model.fit(X, train["target"])

    chance = model.predict_proba(test.drop(columns="target"))[:, 1]
    print(f"test AUC {roc_auc_score(test['target'], chance):.3f}")
    print(model.components_.to_pandas()[["term", "share", "low", "high"]].head(6))
    arguments.out.mkdir(parents=True, exist_ok=True)
    plot_components(model, X, max_terms=6).savefig(arguments.out / "susy_components.png", dpi=150)
    figure = plot_reliability(test["target"], chance, label="a signal")
    figure.savefig(arguments.out / "susy_reliability.png", dpi=150)


if __name__ == "__main__":
    main()
