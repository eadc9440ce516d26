"""The ten baseline sets of the paper's appendix: five folds of rows permuted by seed 4."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.data.base import Dataset, Family, fold_of_five, read_csv

REGRESSION = ("autompg", "housing", "concrete", "pumadyn")
CLASSIFICATION = ("breast", "pima", "sonar", "ionosphere", "liver", "heart")


class Baseline(Family):
    """Four regression sets and six binary ones."""

    name = "baseline"
    protocol = "the paper's five folds"

    def sets(self) -> tuple[str, ...]:
        return REGRESSION + CLASSIFICATION

    def load(self, folder: Path, name: str) -> Dataset:
        frame = read_csv(folder / "baseline", name)
        X, y = frame.iloc[:, :-1].astype(float), frame.iloc[:, -1]
        if name in REGRESSION:
            return Dataset(f"baseline/{name}", "regression", X, y.to_numpy(float))
        return Dataset(f"baseline/{name}", "binary", X, y.to_numpy(int))

    def rows(self, n: int, number: int) -> tuple[Any, Any]:
        return fold_of_five(n, number)
