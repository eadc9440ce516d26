"""The paper's regression table: ninety to ten, shuffled by ``numpy.random.seed(s)``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.data.base import Dataset, Family, read_csv, shuffled_tenth

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
HUGE = ("protein", "tamielectric", "kin40k")  # above 20,000 rows


class Regression(Family):
    """Nineteen sets; ``boston_paperparse`` is the set as the paper had it, misread."""

    name = "regression"
    protocol = "ten splits (three above 20,000 rows), nine tenths train"

    def sets(self) -> tuple[str, ...]:
        return SMALL + LARGE + HUGE

    def splits(self, name: str) -> int:
        return 3 if name in HUGE else 10

    def load(self, folder: Path, name: str) -> Dataset:
        frame = read_csv(folder / "regression", name)
        X = frame.iloc[:, :-1].astype(float)
        return Dataset(f"regression/{name}", "regression", X, frame.iloc[:, -1].to_numpy(float))

    def rows(self, n: int, number: int) -> tuple[Any, Any]:
        return shuffled_tenth(n, number)
