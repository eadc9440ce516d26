"""Write a golden model file and what it must answer: once for each version of the format.

Run `python tests/export/make_golden.py` with the release that writes the version for the first
time, and commit both files. They are never made again: that later releases read them is the point.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from oakgp import OAKRegressor
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
        "dropped_variance": estimator.dropped_variance_,
    }


def rows() -> pd.DataFrame:
    """Rows to ask: a level that training never saw, and numbers far outside, are among them."""
    frame = table(14, seed=2)
    frame.loc[1, "heat"] = "coal"
    frame.loc[2, "area"] = 1e6
    frame.loc[3, ["area", "income", "heat"]] = [np.nan, np.nan, None]
    return frame


def main() -> None:
    path = FOLDER / f"v{VERSION}.oakgp"
    if path.exists():
        raise SystemExit(f"{path} exists: a golden file is never made again")
    FOLDER.mkdir(exist_ok=True)
    estimator, asked = model(), rows()
    estimator.save(path)
    columns = asked.astype(object).where(asked.notna(), None).to_dict("list")
    expected = {"rows": columns, "terms": TERMS, **answers(estimator, asked)}
    path.with_suffix(".json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
