"""A data set, its splits, and one family of them to a file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold

Task = Literal["regression", "binary", "multiclass", "count"]


@dataclass(frozen=True)
class Dataset:
    """A table with a response.

    Parameters
    ----------
    name
        ``family/set``.
    task
        What the response is: numbers, 0 and 1, classes 0 to K - 1, or counts.
    X, y
        Features (a data frame; text and categories as they come) and response.
    exposure
        What counts are in proportion to; None for none.
    """

    name: str
    task: Task
    X: Any
    y: Any
    exposure: Any = None


@dataclass(frozen=True)
class Split:
    """One train/test split.

    Parameters
    ----------
    name, seed, task
        Of the set and the split.
    X, y, exposure
        What a model may see.
    X_test, y_test, exposure_test
        What it is scored on.
    unit
        Deviation of all responses: regression scores are in this unit, as the paper's are.
    n_classes
        Number of classes, of classification.
    """

    name: str
    seed: int
    X: Any
    y: Any
    X_test: Any
    y_test: Any
    task: Task = "regression"
    exposure: Any = None
    exposure_test: Any = None
    unit: float = 1.0
    n_classes: int = 0


class Family(ABC):
    """Data sets that come from one place and are split in one way."""

    name: ClassVar[str]
    protocol: ClassVar[str]  # how it is split, for the tables' captions

    @abstractmethod
    def sets(self) -> tuple[str, ...]:
        """Return the names of the sets, without the family's."""

    @abstractmethod
    def load(self, folder: Path, name: str) -> Dataset:
        """Read a set."""

    @abstractmethod
    def rows(self, n: int, number: int) -> tuple[Any, Any]:
        """Return the training and test rows of a split."""

    def splits(self, name: str) -> int:
        """Return how many splits the full protocol has."""
        return 5

    def split(self, folder: Path, name: str, number: int, inner: bool = False) -> Split:
        """Return a split; with ``inner`` its training rows alone are split, four to one.

        Defaults are chosen by inner splits, so that no test row ever has a say in them.
        """
        data = self.load(folder, name)
        train, test = self.rows(len(data.y), number)
        if inner:
            order = np.random.RandomState(1000 + number).permutation(train)
            cut = int(0.8 * len(order))
            train, test = order[:cut], order[cut:]
        exposure = data.exposure
        return Split(
            data.name,
            number,
            data.X.iloc[train],
            data.y[train],
            data.X.iloc[test],
            data.y[test],
            data.task,
            None if exposure is None else exposure[train],
            None if exposure is None else exposure[test],
            float(data.y.std()) if data.task == "regression" else 1.0,
            int(data.y.max()) + 1 if data.task in ("binary", "multiclass") else 0,
        )


def shuffled_tenth(n: int, seed: int) -> tuple[Any, Any]:
    """Return the split of the paper's additional benchmarks: nine tenths train."""
    order = np.arange(n)
    np.random.RandomState(seed).shuffle(order)
    cut = int(0.9 * n)
    return order[:cut], order[cut:]


def fold_of_five(n: int, fold: int) -> tuple[Any, Any]:
    """Return one of the five folds of the paper's appendix: rows permuted by seed 4."""
    order = np.random.RandomState(4).permutation(n)
    train, test = list(KFold(5).split(order))[fold]
    return order[train], order[test]


def read_csv(folder: Path, name: str) -> Any:
    """Read ``name.csv.gz`` of a folder, or say what is missing."""
    path = folder / f"{name}.csv.gz"
    if not path.exists():
        raise FileNotFoundError(
            f"{path} does not exist: give the folder of the data sets as --data, or take the sets "
            "of --suite bundled, which come with scikit-learn"
        )
    return pd.read_csv(path)
