"""R's mgcv through Rscript: thin-plate splines of single features, smoothing by REML."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.adapters.base import Adapter, Fitted, Job, Prediction
from benchmarks.adapters.tables import dense

SCRIPT = r"""
suppressPackageStartupMessages(library(mgcv))
args <- commandArgs(TRUE)
folder <- args[1]; task <- args[2]; step <- args[3]; threads <- as.integer(args[4])
file <- function(name) file.path(folder, name)
if (step == "fit") {
  rows <- read.csv(file("train.csv"))
  names <- setdiff(names(rows), c("y", "exposure"))
  part <- function(name) {
    k <- min(10, length(unique(rows[[name]])))
    if (k < 4) name else sprintf("s(%s, k = %d)", name, k)
  }
  terms <- paste(sapply(names, part), collapse = " + ")
  if ("exposure" %in% names(rows)) terms <- paste(terms, "+ offset(log(exposure))")
  family <- switch(task, regression = gaussian(), binary = binomial(), count = poisson())
  big <- nrow(rows) > 10000
  fit <- if (big) bam(as.formula(paste("y ~", terms)), family, rows, discrete = TRUE,
                      nthreads = threads)
         else gam(as.formula(paste("y ~", terms)), family, rows, method = "REML")
  saveRDS(fit, file("fit.rds"))
} else {
  fit <- readRDS(file("fit.rds"))
  out <- predict(fit, read.csv(file("test.csv")), type = "response", se.fit = TRUE)
  write.csv(data.frame(mean = as.numeric(out$fit),
                       sd = sqrt(as.numeric(out$se.fit)^2 + fit$sig2)),
            file("out.csv"), row.names = FALSE)
}
"""


def call(folder: Path, job: Job, step: str) -> None:
    """Run one step of the script."""
    (folder / "script.R").write_text(SCRIPT)
    command = ["Rscript", str(folder / "script.R"), str(folder), job.task, step, str(job.threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"mgcv failed: {done.stderr.strip()[-400:]}")


@dataclass(frozen=True)
class FittedGAM(Fitted):
    """A folder that holds the model."""

    folder: Any
    columns: Any
    job: Job

    def predict(self, X: Any, exposure: Any = None) -> Prediction:
        path, task = Path(self.folder.name), self.job.task
        _frame(self.columns, X, exposure).to_csv(path / "test.csv", index=False)
        call(path, self.job, "predict")
        out = pd.read_csv(path / "out.csv")
        mean = out["mean"].to_numpy()
        if task == "binary":
            return Prediction(probabilities=np.column_stack([1.0 - mean, mean]))
        return Prediction(mean=mean, sd=out["sd"].to_numpy() if task == "regression" else None)


def _frame(columns: Any, X: Any, exposure: Any, y: Any = None) -> Any:
    rows = columns.transform(X)
    frame = pd.DataFrame(rows, columns=[f"x{k}" for k in range(rows.shape[1])])
    if exposure is not None:
        frame["exposure"] = np.asarray(exposure)
    if y is not None:
        frame["y"] = np.asarray(y)
    return frame


class Mgcv(Adapter):
    """``gam(..., method = "REML")``, beyond 10,000 rows ``bam``. The times count R's start.

    A processor's time of another process is not seen: its CPU time is that of the exchange only.
    """

    name = "mgcv"
    package = "mgcv"
    module = "mgcv"
    tasks = frozenset(("regression", "binary", "count"))

    def missing(self) -> str | None:
        if shutil.which("Rscript") is None:
            return "mgcv is not installed: it needs R (Rscript) with the package mgcv"
        return None

    def prepare(self, job: Job) -> None:
        return

    def version(self) -> str:
        command = ["Rscript", "-e", 'cat(as.character(packageVersion("mgcv")))']
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def fit(self, X: Any, y: Any, exposure: Any, job: Job) -> Fitted:
        folder = tempfile.TemporaryDirectory()
        columns = dense(None)[:-1].fit(X)
        _frame(columns, X, exposure, y).to_csv(Path(folder.name) / "train.csv", index=False)
        call(Path(folder.name), job, "fit")
        return FittedGAM(folder, columns, job)
