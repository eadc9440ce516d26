"""Write golden model files and what they must answer: once for each version of the format.

One is of the kernel engine, one of the basis engine.

Run `python tests/export/make_golden.py` with the release that writes the version for the first
time, and commit all files. They are never made again: that later releases read them is the point.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from oakgp import OAKRegressor
from oakgp.basis.fit import BasisSchedule
from oakgp.basis.selection import Budget
from oakgp.export.archive import VERSION
from oakgp.kernels import Periodic

FOLDER = Path(__file__).parent / "golden"
TERMS = [[], ["area"], ["hour"], ["heat"], ["area", "heat"], ["age", "income", "hour"]]


def table(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "area": rng.lognormal(4.0, 0.5, n),
            "income": rng.gamma(2.0, 10.0, n),
            "age": rng.uniform(0.0, 60.0, n),
            "hour": rng.integers(0, 24, n).astype(float),
            "heat": rng.choice(["gas", "oil", "wood"], n),
            "new": rng.random(n) < 0.4,
        }
    )
    frame.loc[rng.random(n) < 0.2, "area"] = np.nan
    frame.loc[rng.random(n) < 0.2, "income"] = np.nan
    frame.loc[rng.random(n) < 0.2, "heat"] = None
    return frame


def response(frame: pd.DataFrame, seed: int) -> np.ndarray:
    warm = (frame["heat"] == "gas").to_numpy(dtype=float)
    area = np.log(frame["area"].fillna(30.0).to_numpy())
    waves = np.sin(2 * np.pi * frame["hour"].to_numpy() / 24)
    noise = 0.3 * np.random.default_rng(seed).normal(size=len(frame))
    return area * (1 + warm) + waves + 0.02 * frame["age"].to_numpy() + noise


def model() -> OAKRegressor:
    """All measures, flows and sorts of kernels in one model."""
    frame = table(60, seed=0)
    estimator = OAKRegressor(
        max_order=2,
        kernel={"hour": Periodic(period=24.0), "income": "matern52"},
        measure={"income": "gaussian_mixture", "age": "uniform"},
        flow={"income": "sinh_arcsinh", "age": "none"},
        forced_terms=[("age", "income", "hour")],
        max_iter=40,
    )
    return estimator.fit(frame, response(frame, seed=1)).truncate(n_terms=6)


def basis_model() -> OAKRegressor:
    """The basis engine on the same table, with rough functions and terms of all orders."""
    frame = table(150, seed=0)
    schedule = BasisSchedule(budget=Budget(columns=60, main=4, rough=6, pair=4, triple=4))
    estimator = OAKRegressor(
        engine="basis",
        kernel={"hour": Periodic(period=24.0), "income": "matern52"},
        measure={"income": "gaussian_mixture", "age": "uniform"},
        flow={"income": "sinh_arcsinh", "age": "none"},
        forced_terms=[("area", "heat"), ("age", "income", "hour")],
        interactions=4,
        max_iter=40,
    )
    y = response(frame, seed=1) + 2.0 * (frame["age"] > 30.0).to_numpy()
    with patch.object(BasisSchedule, "within", lambda self, max_iter: schedule):
        return estimator.fit(frame, y)


#: Models by what their files are called after the version.
MODELS = {"": model, "_basis": basis_model}


def answers(estimator: OAKRegressor, rows: pd.DataFrame) -> dict[str, Any]:
    mean, sd = estimator.predict(rows, return_std=True)
    sobol = estimator.sobol_
    return {
        "mean": mean.tolist(),
        "sd": sd.tolist(),
        "components": [estimator.component(rows, tuple(u))[0].tolist() for u in TERMS],
        "deviations": [estimator.component(rows, tuple(u))[1].tolist() for u in TERMS],
        "features": sobol.features["total"].tolist(),
        "orders": sobol.orders["share"].tolist(),
        "names_out": estimator.get_feature_names_out().tolist(),
        "dropped_variance": getattr(estimator, "dropped_variance_", None) or 0.0,
    }


def rows() -> pd.DataFrame:
    """Rows to ask: a level that training never saw, and numbers far outside, are among them."""
    frame = table(14, seed=2)
    frame.loc[1, "heat"] = "coal"
    frame.loc[2, "area"] = 1e6
    frame.loc[3, ["area", "income", "heat"]] = [np.nan, np.nan, None]
    return frame


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, make in MODELS.items():
        path = FOLDER / f"v{VERSION}{name}.oakgp"
        if path.exists():
            sys.stderr.write(f"{path} exists: a golden file is never made again\n")
            continue
        estimator, asked = make(), rows()
        estimator.save(path)
        columns = asked.astype(object).where(asked.notna(), None).to_dict("list")
        expected = {"rows": columns, "terms": TERMS, **answers(estimator, asked)}
        text = json.dumps(expected, indent=1) + "\n"
        path.with_suffix(".json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
