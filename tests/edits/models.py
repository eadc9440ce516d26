"""Small fitted models to edit: a wiggly rising effect, a bowl, categories and an interaction."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from oakgp import OAKClassifier, OAKRegressor


def frame(n: int = 70, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "rise": rng.uniform(-1.0, 1.0, n),
            "bowl": rng.lognormal(0.0, 0.5, n),
            "kind": rng.choice(["x", "y", "z"], n),
        }
    )
    table.loc[rng.random(n) < 0.15, "bowl"] = np.nan
    return table


def response(table: pd.DataFrame, seed: int = 1) -> np.ndarray:
    rise, bowl = table["rise"].to_numpy(), table["bowl"].fillna(1.0).to_numpy()
    wave = 2.0 * rise + 0.7 * np.sin(6.0 * rise)
    kind = (table["kind"] == "x").to_numpy(dtype=float)
    noise = 0.3 * np.random.default_rng(seed).standard_normal(len(table))
    return 5.0 + wave + (np.log(bowl)) ** 2 + kind + 0.8 * kind * rise + noise


@cache
def regressor(**options: Any) -> OAKRegressor:
    options = {"max_iter": 8, "max_order": 2, "flow": "normal_score", **options}
    return OAKRegressor(**options).fit(frame(), response(frame()))


@cache
def classifier(n_classes: int) -> OAKClassifier:
    y = response(frame())
    codes = np.searchsorted(np.quantile(y, np.arange(1, n_classes) / n_classes), y)
    model = OAKClassifier(max_iter=3, max_order=2, flow="normal_score")
    return model.fit(frame(), np.array(["low", "mid", "top"])[codes])


def rows(n: int = 40) -> pd.DataFrame:
    """Rows to predict, a level that training never saw among them."""
    table = frame(n, seed=3)
    table.loc[1, "kind"] = "new"
    return table
