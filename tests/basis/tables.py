"""Small tables for whole fits of the basis engine."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from oakgp import OAKClassifier, OAKRegressor


def frame(n: int = 200, seed: int = 0) -> pd.DataFrame:
    """Numbers, numbers with holes, categories and booleans."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "a": rng.uniform(-1.0, 1.0, n),
            "b": rng.lognormal(0.0, 0.7, n),
            "c": rng.choice(["red", "green", "blue"], n),
            "d": rng.random(n) < 0.4,
        }
    )
    table.loc[rng.random(n) < 0.1, "b"] = np.nan
    return table


def signal(table: pd.DataFrame) -> np.ndarray:
    a, b = table["a"].to_numpy(), np.log(table["b"].fillna(2.0).to_numpy())
    return np.sin(3.0 * a) + 0.5 * b + a * b + (table["c"] == "red").to_numpy(dtype=float)


def response(table: pd.DataFrame, seed: int = 1) -> np.ndarray:
    return 2.0 + signal(table) + 0.1 * np.random.default_rng(seed).standard_normal(len(table))


def labels(table: pd.DataFrame, n_classes: int = 2) -> np.ndarray:
    y = response(table, 3)
    codes = np.searchsorted(np.quantile(y, np.arange(1, n_classes) / n_classes), y)
    return np.array(["low", "middle", "top"])[codes]


def rows(n: int = 12) -> pd.DataFrame:
    """Rows with what training never had: levels, missing values, numbers far outside."""
    table = frame(n, seed=5).astype({"c": object})
    table.loc[0, "c"], table.loc[1, "a"], table.loc[2, "b"], table.loc[3, "a"] = (
        "grey",
        np.nan,
        1e300,
        -1e9,
    )
    return table


def regressor(**options: Any) -> OAKRegressor:
    return OAKRegressor(**{"engine": "basis", "max_iter": 20, **options})


@cache
def regression(**options: Any) -> OAKRegressor:
    """A fitted model; callers must not change it."""
    return regressor(**options).fit(frame(), response(frame()))


@cache
def classification(n_classes: int = 2) -> OAKClassifier:
    model = OAKClassifier(engine="basis", max_iter=20, max_order=2)
    return model.fit(frame(), labels(frame(), n_classes))
