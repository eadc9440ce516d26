"""The paper's figure of components of a classifier of bank customers who leave (churn).

Run `python examples/paper_churn.py --data FOLDER`; FOLDER holds churn/Churn_Modelling.csv.gz. It
writes churn_components.png and, of the customer most at risk among 500, churn_customer.png.
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
from oakgp.explain import plot_components

IDENTIFIERS = ["RowNumber", "CustomerId", "Surname"]
CATEGORIES = ["HasCrCard", "IsActiveMember", "NumOfProducts"]


def main() -> None:
    """Fit to a part of the rows, score on the rest, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--rows", type=int, default=2000, help="training rows")
    parser.add_argument("--out", type=Path, default=Path(), help="where the pictures go")
    arguments = parser.parse_args()

    table = pd.read_csv(arguments.data / "churn" / "Churn_Modelling.csv.gz")
    table = table.drop(columns=IDENTIFIERS)
    order = np.random.default_rng(0).permutation(len(table))
    train, test = table.iloc[order[: arguments.rows]], table.iloc[order[arguments.rows :]]
    X, rest = train.drop(columns="Exited"), test.drop(columns="Exited")
    model = OAKClassifier(
        max_order=2, flow="none", categorical_features=CATEGORIES, n_inducing=200, max_iter=40
    )
    model.fit(X, train["Exited"])

    chance = model.predict_proba(rest)[:, 1]
    print(f"test AUC {roc_auc_score(test['Exited'], chance):.3f}")
    print(model.components_.to_pandas()[["term", "share", "low", "high"]].head(6))
    print(model.contrast(40, 60, "Age"))
    arguments.out.mkdir(parents=True, exist_ok=True)
    plot_components(model, X, max_terms=6).savefig(arguments.out / "churn_components.png", dpi=150)
    some = rest.iloc[:500]
    figure = model.explain(some, scale="response").plot(int(chance[:500].argmax()))
    figure.savefig(arguments.out / "churn_customer.png", dpi=150)


if __name__ == "__main__":
    main()
