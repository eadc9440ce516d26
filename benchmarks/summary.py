"""Results files into means by set and model, ranks, and differences between two files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata, studentized_range

from benchmarks.metrics import LARGER_IS_BETTER
from benchmarks.records import read
from benchmarks.runner import key

Record = dict[str, Any]


def latest(paths: Iterable[Path]) -> list[Record]:
    """Return the records of some files: the newest of each run, failures only if nothing else."""
    newest: dict[Any, Record] = {}
    for path in paths:
        for record in read(path):
            if "error" in record and "error" not in newest.get(key(record), {"error": ""}):
                continue
            newest[key(record)] = record
    return list(newest.values())


@dataclass(frozen=True)
class Grid:
    """Means over splits of one metric.

    Parameters
    ----------
    metric
        Its name.
    sets, models
        Rows and columns.
    mean, sd
        ``[sets, models]``; NaN where there is nothing.
    splits
        ``[sets]`` how many splits the means are over: those that every model has.
    """

    metric: str
    sets: tuple[str, ...]
    models: tuple[str, ...]
    mean: Any
    sd: Any
    splits: Any

    @property
    def sign(self) -> float:
        """1 where smaller is better, -1 where larger is."""
        return -1.0 if LARGER_IS_BETTER.get(self.metric, False) else 1.0

    def complete(self) -> Grid:
        """Return the sets that all models have."""
        whole = ~np.isnan(self.mean).any(axis=1)
        return Grid(
            self.metric,
            tuple(name for name, keep in zip(self.sets, whole, strict=True) if keep),
            self.models,
            self.mean[whole],
            self.sd[whole],
            self.splits[whole],
        )


def grid(records: Iterable[Record], metric: str, models: Iterable[str] | None = None) -> Grid:
    """Return the means of a metric, of each set over the splits that all its models have."""
    values: dict[str, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        if metric in record:
            values[record["set"]][record["model"]][record["split"]] = record[metric]
    found = dict.fromkeys(name for by_model in values.values() for name in by_model)
    columns = tuple(models) if models else tuple(found)
    shape = len(values), len(columns)
    mean, sd, splits = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape[0], int)
    for i, by_model in enumerate(values.values()):
        present = [set(by_model[name]) for name in columns if by_model.get(name)]
        common = set.intersection(*present) if present else set()
        splits[i] = len(common)
        for j, name in enumerate(columns):
            if by_model.get(name) and common:
                numbers = [by_model[name][k] for k in sorted(common)]
                mean[i, j], sd[i, j] = np.mean(numbers), np.std(numbers)
    return Grid(metric, tuple(values), columns, mean, sd, splits)


def ranks(table: Grid) -> Any:
    """Return ``[sets, models]`` ranks, 1 the best, ties shared; of complete sets only."""
    return np.array([rankdata(table.sign * row) for row in table.mean]).reshape(table.mean.shape)


def critical_difference(models: int, sets: int, level: float = 0.05) -> float:
    """Return by how much mean ranks must differ (Nemenyi's test; Demsar 2006, section 3.2.2)."""
    q = studentized_range.ppf(1.0 - level, models, np.inf) / np.sqrt(2.0)
    return float(q * np.sqrt(models * (models + 1) / (6.0 * sets)))


def wins(table: Grid) -> Any:
    """Return in how many sets each model is best, ties counting for all of them."""
    best = (table.sign * table.mean).min(axis=1, keepdims=True)
    return (table.sign * table.mean <= best + 1e-12).sum(axis=0)


@dataclass(frozen=True)
class Change:
    """One metric of one model on one set, before and after, over the splits that both have."""

    set: str
    model: str
    metric: str
    before: float
    after: float
    splits: int
    worse: bool


#: By how much a mean may get worse: a factor, or (log-likelihood and the like) a difference.
FACTORS = {"rmse": 1.02, "deviance": 1.01, "cpu_s": 1.25, "peak_mb": 1.25, "brier": 1.03}
DIFFERENCES = {"loglik": 0.02, "auc": 0.005, "accuracy": 0.01}


def changes(after: list[Record], before: list[Record]) -> list[Change]:
    """Compare two sets of results run by run."""
    old = {key(r): r for r in before if "error" not in r}
    pairs: dict[tuple[str, str], list[tuple[Record, Record]]] = defaultdict(list)
    for record in after:
        if "error" not in record and key(record) in old:
            pairs[record["set"], record["model"]].append((old[key(record)], record))
    found = []
    for (name, model), both in pairs.items():
        for metric in (*FACTORS, *DIFFERENCES):
            shared = [(b[metric], a[metric]) for b, a in both if metric in b and metric in a]
            if not shared:
                continue
            was, now = (float(np.mean(column)) for column in zip(*shared, strict=True))
            if metric in FACTORS:
                worse = now > was * FACTORS[metric] + 1e-12
            else:
                worse = now < was - DIFFERENCES[metric]
            found.append(Change(name, model, metric, was, now, len(shared), worse))
    return found
