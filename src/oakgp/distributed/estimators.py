"""Estimators that are fitted, and answer, on a Dask cluster."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Self

import numpy as np

from oakgp.distributed.passes import first_pass
from oakgp.distributed.reduction import import_dask, map_reduce
from oakgp.distributed.rows import DistributedRows
from oakgp.distributed.source import blocks, open_distributed, partitions
from oakgp.estimators import OAKClassifier, OAKRegressor
from oakgp.estimators.base import BaseOAK
from oakgp.model_columns import ModelColumn
from oakgp.stream.fitting import fit_found
from oakgp.stream.rows import ResponseUnit


def fit_on_cluster(
    estimator: BaseOAK,
    client: Any,
    data: Any,
    target: Any,
    *,
    weight: Any = None,
    exposure: Any = None,
    offset: Any = None,
    **reading: Any,
) -> None:
    """Fit an estimator to data on a cluster.

    Parameters
    ----------
    estimator
        It becomes fitted.
    client : dask.distributed.Client
        Of the cluster; None for the current one.
    data, target, weight, exposure, offset, **reading
        As of `oakgp.distributed.open_distributed`.
    """
    begin = time.perf_counter()
    client = current_client(client)
    estimator._check_roles(exposure, offset)
    options = estimator._options()
    if target is None:
        raise ValueError("a response is needed: name its column, or give a Dask Series or Array")
    source = open_distributed(
        data,
        target,
        weight=weight,
        exposure=exposure,
        offset=offset,
        target_type=estimator._target_type,
        **reading,
    )
    found = first_pass(
        client,
        source,
        categorical_features=estimator.categorical_features,
        max_levels=options.max_levels,
        check=estimator._stream_check(),
    )

    def make(columns: Sequence[ModelColumn], unit: ResponseUnit) -> DistributedRows:
        return DistributedRows(client, source, found, columns, unit)

    estimator._take(fit_found(found, make, options, estimator._stream_target(found), begin))


def current_client(client: Any) -> Any:
    """Return a client, or the current one, or say that there is none."""
    import_dask()
    from distributed import get_client

    if client is not None:
        return client
    try:
        return get_client()
    except ValueError as error:
        raise ValueError(
            "there is no Dask client: connect to a cluster with dask.distributed.Client(...), or "
            "pass client="
        ) from error


def map_rows(estimator: BaseOAK, method: str, X: Any, width: int | None, dtype: Any) -> Any:
    """Apply a method of an estimator to the partitions of a collection, lazily.

    Parameters
    ----------
    estimator, method
        Fitted; the name of the method.
    X
        Dask DataFrame or Array.
    width
        Columns of the answer; None for a vector.
    dtype
        Of the answer.

    Returns
    -------
    dask.array.Array
        The answers, in chunks of as many rows as the partitions have.
    """
    dask = import_dask()
    da: Any = importlib.import_module("dask.array")
    plain = dask.delayed(local_copy(estimator), pure=False)
    tables, _, named = partitions(X)
    sizes = [np.nan] * len(tables) if named else X.chunks[0]
    answer = dask.delayed(_answer, pure=False)
    parts = [
        da.from_delayed(
            answer(plain, method, table, width, dtype),
            shape=(size,) if width is None else (size, width),
            dtype=dtype,
            meta=np.empty((0,) if width is None else (0, width), dtype=dtype),
        )
        for table, size in zip(tables, sizes, strict=True)
    ]
    return da.concatenate(parts, axis=0, allow_unknown_chunksizes=True)


def local_copy(estimator: BaseOAK) -> BaseOAK:
    """Return the same fitted estimator without its ties to a cluster: to save, to send."""
    kind = next(k for k in (OAKRegressor, OAKClassifier) if isinstance(estimator, k))
    plain: BaseOAK = kind(**estimator.get_params(deep=False))
    for name, value in vars(estimator).items():
        if name.endswith("_"):
            setattr(plain, name, value)
    return plain


def is_collection(X: Any) -> bool:
    """Tell whether a table is a Dask collection."""
    return bool(import_dask().is_dask_collection(X))


def _answer(estimator: BaseOAK, method: str, X: Any, width: int | None, dtype: Any) -> Any:
    if len(X) == 0:
        return np.empty((0,) if width is None else (0, width), dtype=dtype)
    return np.asarray(getattr(estimator, method)(X), dtype=dtype)


def score_collection(
    estimator: BaseOAK,
    client: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    sums: Callable[[BaseOAK, Any, Any, Any], Any],
) -> Any:
    """Sum what a score is made of where the partitions are.

    Parameters
    ----------
    estimator, client
        Fitted; of the cluster, None for the current one.
    X, y, sample_weight
        Collections of as many partitions, or names of columns of X.
    sums
        From the estimator, rows, responses and weights to an array.
    """
    dask = import_dask()
    tables, _, _ = partitions(X)
    columns = [
        [values] * len(tables) if isinstance(values, str) else blocks(role, values, len(tables))
        for role, values in (("y", y), ("sample_weight", sample_weight))
    ]
    together = dask.delayed(_together, pure=False)
    parts = [together(*part) for part in zip(tables, *columns, strict=True)]
    shared = [local_copy(estimator), sums]
    return map_reduce(current_client(client), parts, _sums_of, sum, shared=shared, name="scoring")


def _together(table: Any, y: Any, weights: Any) -> tuple[Any, Any, Any]:
    y, weights = (table[v] if isinstance(v, str) else v for v in (y, weights))
    weights = np.ones(len(table)) if weights is None else np.asarray(weights)
    return table, np.asarray(y), weights


def _sums_of(part: tuple[Any, Any, Any], estimator: BaseOAK, sums: Any) -> Any:
    return sums(estimator, *part) if len(part[0]) else 0.0


def _squares(estimator: Any, X: Any, y: Any, weights: Any) -> Any:
    centered = y - estimator.model_.center
    residual = y - estimator.predict(X)
    return np.array(
        [weights.sum(), weights @ centered, weights @ centered**2, weights @ residual**2]
    )


def _hits(estimator: Any, X: Any, y: Any, weights: Any) -> Any:
    return np.array([weights.sum(), weights[estimator.predict(X) == y].sum()])


class DaskOAKRegressor(OAKRegressor):
    """`oakgp.OAKRegressor`, fitted by the basis engine where the data lie.

    The parameters are those of `oakgp.OAKRegressor`. Once fitted it is an ordinary model: on
    tables in memory it answers as `oakgp.OAKRegressor` does; on Dask collections `predict`
    answers with a Dask Array, computed where the partitions are.
    """

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        exposure: Any = None,
        offset: Any = None,
        client: Any = None,
        **reading: Any,
    ) -> Self:
        """Fit the model on a cluster.

        Parameters
        ----------
        X : dask.dataframe.DataFrame, dask.array.Array, path or list of paths
            The table; see `oakgp.distributed.open_distributed`.
        y, sample_weight, exposure, offset : str, Dask Series or Dask Array
            Column names, or collections of as many partitions as X.
        client : dask.distributed.Client, optional
            Of the cluster; the current one when not given.
        **reading
            Further settings of `oakgp.distributed.open_distributed`.
        """
        fit_on_cluster(
            self,
            client,
            X,
            y,
            weight=sample_weight,
            exposure=exposure,
            offset=offset,
            **reading,
        )
        return self

    def predict(
        self, X: Any, return_std: bool = False, *, exposure: Any = None, offset: Any = None
    ) -> Any:
        """Return the expected response; of a collection, a Dask Array (without deviations)."""
        if not is_collection(X):
            return super().predict(X, return_std, exposure=exposure, offset=offset)
        if return_std or exposure is not None or offset is not None:
            raise ValueError(
                "of a Dask collection only the expected response is predicted, without exposure "
                "and offset; use X.map_partitions(estimator.local().predict, ...) for the rest"
            )
        self._fitted()
        return map_rows(self, "predict", X, None, np.float64)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, client: Any = None) -> float:
        """Return R^2; of a Dask collection, summed where its partitions are."""
        if not is_collection(X):
            return float(super().score(X, y, sample_weight))
        total, first, second, residual = score_collection(
            self, client, X, y, sample_weight, _squares
        )
        return float(1.0 - residual / (second - first**2 / total))

    def local(self) -> OAKRegressor:
        """Return the same fitted model as a plain `oakgp.OAKRegressor`."""
        plain = local_copy(self)
        assert isinstance(plain, OAKRegressor)
        return plain

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to one file; `oakgp.load` reads it back as an OAKRegressor."""
        self.local().save(path)


class DaskOAKClassifier(OAKClassifier):
    """`oakgp.OAKClassifier`, fitted by the basis engine where the data lie.

    The parameters are those of `oakgp.OAKClassifier`; see `DaskOAKRegressor`.
    """

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        client: Any = None,
        **reading: Any,
    ) -> Self:
        """Fit the model on a cluster; see `DaskOAKRegressor.fit`."""
        fit_on_cluster(self, client, X, y, weight=sample_weight, **reading)
        return self

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class; of a collection, a Dask Array."""
        if not is_collection(X):
            return super().predict_proba(X)
        self._fitted()
        return map_rows(self, "predict_proba", X, len(self.classes_), np.float64)

    def predict(self, X: Any) -> Any:
        """Return the likeliest class of each row; of a collection, a Dask Array."""
        if not is_collection(X):
            return super().predict(X)
        self._fitted()
        return map_rows(self, "predict", X, None, self.classes_.dtype)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, client: Any = None) -> float:
        """Return the accuracy; of a Dask collection, summed where its partitions are."""
        if not is_collection(X):
            return float(super().score(X, y, sample_weight))
        total, hits = score_collection(self, client, X, y, sample_weight, _hits)
        return float(hits / total)

    def local(self) -> OAKClassifier:
        """Return the same fitted model as a plain `oakgp.OAKClassifier`."""
        plain = local_copy(self)
        assert isinstance(plain, OAKClassifier)
        return plain

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to one file; `oakgp.load` reads it back as an OAKClassifier."""
        self.local().save(path)
