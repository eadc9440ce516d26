"""Small tables with a known truth, and quick fits to them."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from oakgp import OAKRegressor

NOISE = 0.1
Term = tuple[str, ...]


def quick(**options: Any) -> OAKRegressor:
    """An estimator whose fit takes a fraction of a second."""
    return OAKRegressor(**{"max_iter": 5, "flow": "normal_score", **options})


def frame(n: int = 40, seed: int = 0) -> pd.DataFrame:
    """Two numeric columns and a categorical one."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "a": rng.uniform(-1.0, 1.0, n),
            "b": rng.lognormal(0.0, 0.7, n),
            "c": rng.choice(["red", "green", "blue"], n),
        }
    )


def response(table: pd.DataFrame, seed: int = 1) -> np.ndarray:
    """A sum of main effects and of the interaction of a and b, with noise."""
    a, b = table["a"].to_numpy(), np.log(table["b"].to_numpy())
    jump = (table["c"] == "red").to_numpy(dtype=float)
    noise = NOISE * np.random.default_rng(seed).standard_normal(len(table))
    return 2.0 + np.sin(3.0 * a) + 0.5 * b + a * b + jump + noise


@cache
def fitted(n: int = 40, **options: Any) -> OAKRegressor:
    """A model of `frame(n)`; callers must not change it."""
    table = frame(n)
    return quick(**options).fit(table, response(table))


def all_terms(model: OAKRegressor) -> list[Term]:
    """Names of all terms of a model but the constant."""
    names = model.model_.names
    top = model.model_.posterior.kernel.max_order
    return [term for r in range(1, top + 1) for term in combinations(names, r)]
