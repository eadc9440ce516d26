"""Fitting an estimator to a table that is read in chunks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from oakgp.fitting import Options
from oakgp.model import Model

if TYPE_CHECKING:
    from oakgp.stream.chunk import TargetType
    from oakgp.stream.first_pass import FirstPass
    from oakgp.stream.fitting import Target
    from oakgp.stream.sketch import Check


class FitsStreams(ABC):
    """What makes an estimator read tables in chunks; it knows what its responses are."""

    categorical_features: Any
    _target_type: TargetType = "number"

    @abstractmethod
    def _options(self) -> Options:
        """Return the settings, checked."""

    @abstractmethod
    def _stream_target(self, found: FirstPass) -> Target:
        """Return what is fitted to the responses, and remember what they are."""

    @abstractmethod
    def _check_roles(self, exposure: Any, offset: Any) -> None:
        """Refuse exposures and offsets that the responses cannot have."""

    @abstractmethod
    def _stream_check(self) -> Check | None:
        """Return what refuses impossible responses."""

    def fit_stream(
        self,
        data: Any,
        target: Any = None,
        *,
        weight: Any = None,
        exposure: Any = None,
        offset: Any = None,
        columns: Sequence[str] | None = None,
        checkpoint: str | PathLike[str] | None = None,
        **reading: Any,
    ) -> Self:
        """Fit the model to a table that is read in chunks, and may be larger than memory.

        It is the basis engine that fits it, whatever the number of rows.

        Parameters
        ----------
        data : path, list of paths, table or callable
            Parquet or CSV files, a folder or a pattern, a table in memory, or a function that
            returns a new iterator over tables; see `oakgp.stream.open_source`.
        target : str or array
            Column of the response; for a table in memory also the responses.
        weight, exposure, offset : str, array or number, optional
            Columns (or arrays) of row weights, exposures and offsets.
        columns : sequence of str, optional
            Columns to use as features; by default all that have no other role.
        checkpoint : path, optional
            Folder in which the sums of the passes are kept while the fit runs: when it was
            interrupted, the same call goes on from there.
        **reading
            Further settings of `oakgp.stream.open_source`: ``chunk_rows``, ``delimiter``,
            ``names``, ``types``.

        Returns
        -------
        estimator
            The fitted estimator.
        """
        from oakgp.stream import open_source
        from oakgp.stream.fitting import fit_stream

        if target is None and not callable(data):
            raise ValueError("fit_stream needs a response: name its column with target=")
        self._check_roles(exposure, offset)
        source = open_source(
            data,
            target,
            weight=weight,
            exposure=exposure,
            offset=offset,
            columns=columns,
            target_type=self._target_type,
            **reading,
        )
        model = fit_stream(
            source,
            self._options(),
            self._stream_target,
            categorical_features=self.categorical_features,
            check=self._stream_check(),
            checkpoint=checkpoint,
        )
        return self._take(model)

    def _take(self, model: Model) -> Self:
        """Become fitted by a model that was fitted elsewhere."""
        self.model_ = model
        self.__dict__.pop("dropped_variance_", None)
        self.__dict__.pop("feature_names_in_", None)
        if model.schema.named:
            self.feature_names_in_ = np.array(model.schema.names, dtype=object)
        self.n_features_in_ = len(model.schema.columns)
        self.n_iter_ = model.facts.n_evaluations
        return self
