"""pyGAM: splines of single features, smoothing by its grid search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.adapters.base import Adapter, Fitted, Job, Prediction, Task
from benchmarks.adapters.tables import dense


@dataclass(frozen=True)
class FittedGAM(Fitted):
    """Columns as numbers, and the model."""

    columns: Any
    model: Any
    task: Task

    def predict(self, X: Any, exposure: Any = None) -> Prediction:
        rows = self.columns.transform(X)
        if self.task == "binary":
            one = np.asarray(self.model.predict_proba(rows))
            return Prediction(probabilities=np.column_stack([1.0 - one, one]))
        if self.task == "count":
            return Prediction(mean=self.model.predict(rows, exposure=exposure))
        # Half the width of the 68.27% interval of a new response is its deviation.
        low, high = self.model.prediction_intervals(rows, width=0.6826895).T
        return Prediction(mean=self.model.predict(rows), sd=0.5 * (high - low))


class PyGAM(Adapter):
    """``gridsearch`` over the smoothing, as its tutorial does; no interactions."""

    name = "pygam"
    package = "pygam"
    module = "pygam"
    tasks = frozenset(("regression", "binary", "count"))

    def fit(self, X: Any, y: Any, exposure: Any, job: Job) -> Fitted:
        from pygam import LinearGAM, LogisticGAM, PoissonGAM

        columns = dense(None)[:-1].fit(X)
        rows = columns.transform(X)
        kind = {"regression": LinearGAM, "binary": LogisticGAM, "count": PoissonGAM}[job.task]
        extra = {} if exposure is None else {"exposure": exposure}
        model = kind(**job.options).gridsearch(rows, y, progress=False, **extra)
        return FittedGAM(columns, model, job.task)
