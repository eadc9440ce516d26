"""The classification collection of the paper's table, without the row number, or with it.

The paper had the row number as a first feature, which tells the label where rows are sorted by it.
`Classification` leaves it out; `Leaking` has it, to compare with the printed columns only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data.base import Dataset, Family, read_csv, shuffled_tenth

#: Rows of the train and the test file of sets that had two: each numbered its rows from 1.
TWO_FILES = {
    "hill-valley": (606, 606),
    "horse-colic": (300, 68),
    "monks-1": (124, 432),
    "monks-2": (169, 432),
    "monks-3": (122, 432),
}
SETS = (
    "acute-inflammation",
    "acute-nephritis",
    "blood",
    "chess-krvkp",
    "congressional-voting",
    "conn-bench-sonar-mines-rocks",
    "credit-approval",
    "cylinder-bands",
    "echocardiogram",
    "fertility",
    "heart-hungarian",
    "hill-valley",
    "horse-colic",
    "molec-biol-promoter",
    "monks-1",
    "monks-2",
    "mushroom",
    "musk-1",
    "musk-2",
    "oocytes_merluccius_nucleus_4d",
    "parkinsons",
)


class Classification(Family):
    """Binary sets, 100 to 8,124 rows."""

    name = "classification"
    protocol = "ten splits, nine tenths train; without the row number"

    def sets(self) -> tuple[str, ...]:
        return SETS

    def splits(self, name: str) -> int:
        return 10

    def load(self, folder: Path, name: str) -> Dataset:
        frame = read_csv(folder / "classification", name)
        X = frame.iloc[:, :-1].astype(float)
        return Dataset(f"{self.name}/{name}", "binary", X, frame.iloc[:, -1].to_numpy(int))

    def rows(self, n: int, number: int) -> tuple[Any, Any]:
        return shuffled_tenth(n, number)


class Leaking(Classification):
    """The same with the row number, which the paper's figures were obtained with."""

    name = "leaking"
    protocol = "ten splits, nine tenths train; WITH the row number, as in the paper"

    def load(self, folder: Path, name: str) -> Dataset:
        data = super().load(folder, name)
        parts = TWO_FILES.get(name, (len(data.y),))
        number = np.concatenate([np.arange(1, count + 1) for count in parts])
        X = data.X.copy()
        X.insert(0, "row_number", number.astype(float))
        return Dataset(data.name, data.task, X, data.y)
