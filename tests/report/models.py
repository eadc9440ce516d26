"""Small fitted models with hostile names, and rows to report on."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from oakgp import OAKClassifier, OAKRegressor

SCRIPT = "<script>alert(1)</script>"
CLOSING = "</script><img src=x onerror=alert(2)>"
LEVELS = ["plain", CLOSING, 'quote " and & amp', "$x^2$ %{y}"]


def frame(n: int = 60, seed: int = 0) -> pd.DataFrame:
    """Numbers (one column with gaps), whole numbers, texts and booleans."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "a": rng.uniform(-1.0, 1.0, n),
            SCRIPT: rng.lognormal(0.0, 0.5, n),
            "<b>kind</b>": rng.choice(LEVELS, n),
            "flag": rng.random(n) < 0.4,
        }
    )
    table.loc[rng.random(n) < 0.2, SCRIPT] = np.nan
    return table


def response(table: pd.DataFrame, seed: int = 1) -> np.ndarray:
    a, b = table["a"].to_numpy(), table[SCRIPT].fillna(0.5).to_numpy()
    kind = (table["<b>kind</b>"] == CLOSING).to_numpy(dtype=float)
    noise = 0.1 * np.random.default_rng(seed).standard_normal(len(table))
    return 20.0 + 3.0 * a + 2.0 * np.log(b) * a + 2.0 * kind + kind * a + noise


@cache
def regressor(**options: Any) -> OAKRegressor:
    """A model of two features at most, so that the page can tabulate all of it."""
    options = {"max_iter": 6, "max_order": 2, "flow": "normal_score", **options}
    table = frame()
    y = response(table)
    if options.get("likelihood") == "poisson":
        y = np.random.default_rng(0).poisson(np.exp(0.05 * y))
    return OAKRegressor(**options).fit(table, y)


@cache
def classifier(n_classes: int = 2, **options: Any) -> OAKClassifier:
    options = {"max_iter": 3, "max_order": 2, "flow": "normal_score", **options}
    return OAKClassifier(**options).fit(frame(), labels(frame(), n_classes))


def labels(table: pd.DataFrame, n_classes: int = 2) -> np.ndarray:
    y = response(table)
    codes = np.searchsorted(np.quantile(y, np.arange(1, n_classes) / n_classes), y)
    return np.array([SCRIPT, "medium", "high"])[codes]


def new_rows(n: int = 80) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows the model has not seen, a level it has not seen among them."""
    table = frame(n, seed=5)
    table.loc[3, "<b>kind</b>"] = "never seen"
    return table, response(table, seed=6)
