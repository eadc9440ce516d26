"""Sets that need no folder: those inside scikit-learn, and those of OpenML over the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets

from benchmarks.data.base import Dataset, Family, Task, fold_of_five

LOADERS = {
    "iris": datasets.load_iris,
    "wine": datasets.load_wine,
    "digits": datasets.load_digits,
    "breast_cancer": datasets.load_breast_cancer,
    "diabetes": datasets.load_diabetes,
}


def task_of(y: Any) -> Task:
    """Return what kind of response numbers or labels are."""
    values = np.unique(y)
    if values.dtype.kind == "f" and (len(values) > 20 or (values % 1 != 0).any()):
        return "regression"
    return "binary" if len(values) == 2 else "multiclass"


class Bundled(Family):
    """Sets inside scikit-learn."""

    name = "bundled"
    protocol = "five folds"

    def sets(self) -> tuple[str, ...]:
        return tuple(LOADERS)

    def load(self, folder: Path, name: str) -> Dataset:
        frame = LOADERS[name](as_frame=True)
        y = frame.target.to_numpy()
        task = "regression" if name == "diabetes" else task_of(y)
        return Dataset(f"bundled/{name}", task, frame.data.astype(float), y)

    def rows(self, n: int, number: int) -> tuple[Any, Any]:
        return fold_of_five(n, number)


class OpenML(Family):
    """Any set of OpenML by its number, ``openml/40945``; scikit-learn fetches and keeps it."""

    name = "openml"
    protocol = "five folds"

    def sets(self) -> tuple[str, ...]:
        return ()

    def load(self, folder: Path, name: str) -> Dataset:
        if not name.isdigit():
            raise ValueError(f"openml/{name}: name a set of OpenML by its number, as openml/40945")
        frame = datasets.fetch_openml(data_id=int(name), as_frame=True, parser="auto")
        y = frame.target.to_numpy()
        task = task_of(y)
        if task == "regression":
            y = y.astype(float)
        else:
            y = np.unique(y.astype(str), return_inverse=True)[1]
        return Dataset(f"openml/{name}", task, frame.data, y)

    def rows(self, n: int, number: int) -> tuple[Any, Any]:
        return fold_of_five(n, number)
