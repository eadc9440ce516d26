"""What the harness needs of a model: fit some rows, predict others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, ClassVar

from benchmarks.data.base import Task

ALL: frozenset[Task] = frozenset(("regression", "binary", "multiclass", "count"))
NO_COUNTS: frozenset[Task] = frozenset(("regression", "binary", "multiclass"))


@dataclass(frozen=True)
class Job:
    """How to fit.

    Parameters
    ----------
    task
        What the response is.
    threads
        Threads of every library.
    seed
        Of the model.
    options
        What differs from the library's defaults.
    """

    task: Task
    threads: int = 1
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Prediction:
    """What a model says of some rows.

    Parameters
    ----------
    mean
        Regression: the response; counts: the expected count.
    sd
        Deviation of the response, of models that give one.
    probabilities
        ``[n, classes]`` of classification.
    """

    mean: Any = None
    sd: Any = None
    probabilities: Any = None


class Fitted(ABC):
    """A fitted model."""

    @abstractmethod
    def predict(self, X: Any, exposure: Any = None) -> Prediction:
        """Predict rows."""

    def facts(self) -> dict[str, Any]:
        """Return what the record should say of the fit."""
        return {}


class Adapter(ABC):
    """A model of some library."""

    name: ClassVar[str]
    package: ClassVar[str]  # what pip calls it
    module: ClassVar[str]  # what import calls it
    tasks: ClassVar[frozenset[Task]] = NO_COUNTS

    def missing(self) -> str | None:
        """Return why the model cannot run here, or None."""
        if find_spec(self.module) is None:
            return f"{self.name} is not installed: pip install {self.package}"
        return None

    def version(self) -> str:
        """Return the version of the library."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return "absent"

    def prepare(self, job: Job) -> None:
        """Import the library, so that no fit is timed with that."""
        import_module(self.module)

    @abstractmethod
    def fit(self, X: Any, y: Any, exposure: Any, job: Job) -> Fitted:
        """Fit training rows."""
