"""Data sets and splits of the paper: its regression table, and the first fold of its appendix.

A folder of gzip CSV files, features first, target last (``--data``, default ``../shared/data``).
Splits are the paper's: shuffle by ``numpy.random.seed(s)``, the first nine tenths train. The target
is normalised by mean and deviation of all rows, as the paper does, for comparable figures; nothing
else of the test rows reaches a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

SMALL = (
    "boston",
    "boston_paperparse",
    "energy",
    "winered",
    "yacht",
    "airfoil",
    "forest",
    "fertility",
    "machine",
    "servo",
    "wine",
    "gas",
)
LARGE = ("power", "pol", "elevators", "bike")
HUGE = ("protein", "tamielectric", "kin40k")
REGRESSION = SMALL + LARGE  # up to 20,000 rows


@dataclass(frozen=True)
class Split:
    """One train/test split."""

    name: str
    seed: int
    X: Any
    y: Any
    X_test: Any
    y_test: Any


def load_split(folder: Path, name: str, seed: int, inner: bool = False) -> Split:
    """Return split ``seed`` of a regression set.

    With ``inner`` the training rows alone are split once more, nine to one: what defaults are
    chosen by, so that no test row ever has a say in them.
    """
    frame = pd.read_csv(folder / "regression" / f"{name}.csv.gz")
    X = frame.iloc[:, :-1].astype(float)
    y = frame.iloc[:, -1].to_numpy(float)
    y = (y - y.mean()) / y.std()
    order = np.arange(len(y))
    np.random.RandomState(seed).shuffle(order)
    cut = int(0.9 * len(y))
    train, test = order[:cut], order[cut:]
    if inner:
        held = int(0.9 * len(train))
        train, test = train[:held], train[held:]
    return Split(name, seed, X.iloc[train], y[train], X.iloc[test], y[test])


def load_baseline(folder: Path, name: str, whole: bool = False) -> Split:
    """Return the first of the paper's five folds of a set of its appendix.

    With ``whole`` all rows train, and test: for timings.
    """
    frame = pd.read_csv(folder / "baseline" / f"{name}.csv.gz")
    X, y = frame.iloc[:, :-1].astype(float), frame.iloc[:, -1].to_numpy(float)
    order = np.random.RandomState(4).permutation(len(y))
    train, test = (order[part] for part in next(KFold(5).split(order)))
    if whole:
        train = test = order
    return Split(name, 4, X.iloc[train], y[train], X.iloc[test], y[test])
