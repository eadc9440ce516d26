"""Tables as people have them: categories, missing values, counts with exposure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.data.base import Dataset, Family, fold_of_five, read_csv, shuffled_tenth


class Churn(Family):
    """Bank customers who left: 10,000 rows, 10 features, two of them categories."""

    name = "churn"
    protocol = "five folds"

    def sets(self) -> tuple[str, ...]:
        return ("churn",)

    def load(self, folder: Path, name: str) -> Dataset:
        frame = read_csv(folder / "churn", "Churn_Modelling")
        X = frame.drop(columns=["RowNumber", "CustomerId", "Surname", "Exited"])
        return Dataset("churn/churn", "binary", X, frame["Exited"].to_numpy(int))

    def rows(self, n: int, number: int) -> tuple[Any, Any]:
        return fold_of_five(n, number)


class Susy(Family):
    """20,997 collision events, eight low-level features."""

    name = "susy"
    protocol = "ten splits, nine tenths train"

    def sets(self) -> tuple[str, ...]:
        return ("susy_low8_21k",)

    def splits(self, name: str) -> int:
        return 10

    def load(self, folder: Path, name: str) -> Dataset:
        frame = read_csv(folder / "susy", name)
        X = frame.iloc[:, :-1].astype(float)
        return Dataset(f"susy/{name}", "binary", X, frame.iloc[:, -1].to_numpy(int))

    def rows(self, n: int, number: int) -> tuple[Any, Any]:
        return shuffled_tenth(n, number)


class Mixed(Family):
    """Incomes above 50,000: 48,842 rows, categories and missing values; titanic: 891 rows."""

    name = "mixed"
    protocol = "five folds"

    def sets(self) -> tuple[str, ...]:
        return ("adult", "titanic")

    def load(self, folder: Path, name: str) -> Dataset:
        frame = read_csv(folder / "extra", name)
        X, y = frame.iloc[:, :-1], frame.iloc[:, -1]
        if name == "adult":
            X = X.replace("?", np.nan)
            classes = y.astype(str).str.contains(">50K").to_numpy(int)
        else:
            identifiers = [c for c in ("PassengerId", "Name", "Ticket", "Cabin") if c in X]
            X, classes = X.drop(columns=identifiers), y.to_numpy(int)
        return Dataset(f"mixed/{name}", "binary", X, classes)

    def rows(self, n: int, number: int) -> tuple[Any, Any]:
        return fold_of_five(n, number)


class Claims(Family):
    """Claims of French motor policies with their exposure; ``_50k``: 50,000 random policies."""

    name = "counts"
    protocol = "five folds"

    def sets(self) -> tuple[str, ...]:
        return ("fremtpl2freq_50k", "fremtpl2freq")

    def load(self, folder: Path, name: str) -> Dataset:
        frame = read_csv(folder / "extra", "fremtpl2freq")
        if name.endswith("_50k"):
            frame = frame.sample(50_000, random_state=0).reset_index(drop=True)
        X = frame.drop(columns=["IDpol", "Exposure", "ClaimNb"])
        return Dataset(
            f"counts/{name}",
            "count",
            X,
            frame["ClaimNb"].to_numpy(float),
            pd.to_numeric(frame["Exposure"]).to_numpy(float),
        )

    def rows(self, n: int, number: int) -> tuple[Any, Any]:
        return fold_of_five(n, number)
