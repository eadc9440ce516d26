"""Passes over tables on a Dask cluster: sketches and sums are made where the data lie."""

from __future__ import annotations

from oakgp.distributed.estimators import DaskOAKClassifier, DaskOAKRegressor
from oakgp.distributed.passes import first_pass, sum_over
from oakgp.distributed.reduction import map_reduce
from oakgp.distributed.source import DistributedSource, open_distributed

__all__ = [
    "DaskOAKClassifier",
    "DaskOAKRegressor",
    "DistributedSource",
    "first_pass",
    "map_reduce",
    "open_distributed",
    "sum_over",
]
