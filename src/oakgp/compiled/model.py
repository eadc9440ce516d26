"""A model as tables: quick to evaluate, easy to carry elsewhere, and with a stated error."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from oakgp.compiled.axes import LevelAxis, Scale
from oakgp.compiled.bands import Bands
from oakgp.compiled.tables import TableSum
from oakgp.model import Label
from oakgp.response import Response
from oakgp.schema import TableSchema
from oakgp.targets import read_offset

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CompiledFunction:
    """One latent function: the response itself of a Gaussian model.

    Parameters
    ----------
    name
        Class label, ``"mean"``, ``"log noise"``; empty for a single one.
    sum
        Its mean as a sum of tables, in units of the response or of the link.
    bands
        Its standard deviation; None if that was not compiled.
    level, center, scale
        The model's value v stands for ``center + scale * v``; the likelihood sees ``level + v``.
    bound
        Largest error of the sum: those of all tables together, in units of ``scale``.
    left_out
        Terms that are smaller than their share of the tolerance everywhere, with their largest
        absolute value.
    """

    name: Label
    sum: TableSum
    bands: Bands | None
    level: float
    center: float
    scale: float
    bound: float
    left_out: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, eq=False)
class CompiledModel:
    """A fitted model of order 1 and 2 as tables.

    Parameters
    ----------
    schema
        How tables of rows are read.
    functions
        Latent functions: one, or one for each class, or mean and log noise.
    noise
        Variance of a new response of a Gaussian model around the function, in its squared units.
    response
        How responses follow from the latent functions; None for a Gaussian model.
    classes
        Class labels of a classifier, in the order of `predict_proba`.
    tolerance
        What was asked for: the largest error, in standard deviations of the target (or in units
        of the link).
    """

    schema: TableSchema
    functions: tuple[CompiledFunction, ...]
    noise: float
    response: Response | None
    classes: tuple[Label, ...] | None
    tolerance: float

    @property
    def bound(self) -> float:
        """Largest error of the link-scale mean: measured per table, added up over tables.

        In standard deviations of the target; where there is a link, in its units.
        """
        return max(function.bound for function in self.functions)

    @property
    def band_bound(self) -> float | None:
        """Largest error of the standard deviation at the rows it was checked at, likewise."""
        errors = [f.bands.error for f in self.functions if f.bands is not None]
        return max(errors) if len(errors) == len(self.functions) else None

    @property
    def names(self) -> list[str]:
        """Names of the columns that the model reads."""
        return [self.schema.columns[i].name for i in self.schema.active]

    def encode(self, X: Any) -> Array:
        """Return rows as the tables read them: numbers, codes, NaN where missing, ``[n, d]``."""
        return self.schema.encode(X)

    def function(self, output: Label | None = None) -> CompiledFunction:
        """Return a latent function by its name; the first one for None."""
        if output is None:
            return self.functions[0]
        for function in self.functions:
            if function.name == output:
                return function
        names = ", ".join(repr(function.name) for function in self.functions)
        raise ValueError(f"there is no latent function {output!r}; there are {names}")

    def link(
        self, X: Any, return_std: bool = False, output: Label | None = None
    ) -> Array | tuple[Array, Array]:
        """Return a latent function on the scale of the link (its mean, and deviation), ``[n]``."""
        rows, function = self.encode(X), self.function(output)
        mean = function.sum(rows)
        return (mean, self._deviation(function, rows)) if return_std else mean

    def link_encoded(self, rows: Array, output: Label | None = None) -> Array:
        """Return a latent function at rows that are encoded already ``[n, d]``: the quickest way.

        ``rows`` holds the columns that the model reads, in the order of `names`: numbers, codes of
        levels, NaN where missing, -1 where unseen; C-contiguous float64.
        """
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.schema.active):
            raise ValueError(
                f"encoded rows have shape {rows.shape}; give one column for each of "
                f"{', '.join(map(repr, self.names))}"
            )
        return self.function(output).sum(rows)

    def components(self, X: Any, output: Label | None = None) -> dict[str, Array]:
        """Return each term's contribution to each row, by its name, each ``[n]``."""
        rows, function = self.encode(X), self.function(output)
        parts = function.sum.components(rows)
        return {t.label: parts[:, k] for k, t in enumerate(function.sum.tables)}

    def predict(
        self, X: Any, return_std: bool = False, *, exposure: Any = None, offset: Any = None
    ) -> Any:
        """Return the expected response, and with ``return_std`` the deviation of a new one.

        Of classifiers, the likeliest class.

        Parameters
        ----------
        X : table
            The rows.
        return_std : bool, default=False
            Whether to return deviations too; needs bands.
        exposure, offset : array of shape (n,), optional
            As for the estimator.
        """
        if self.classes is not None:
            if return_std:
                raise ValueError("classes have no standard deviation: use predict_proba")
            return np.array(self.classes)[self.predict_proba(X).argmax(axis=1)]
        rows = self.encode(X)
        shift = read_offset(exposure, offset, len(rows))
        if self.response is None:
            mean = self.functions[0].sum(rows) + (0.0 if shift is None else shift)
            if not return_std:
                return mean
            return mean, np.sqrt(self._deviation(self.functions[0], rows) ** 2 + self.noise)
        moments = self._latent(rows, shift)
        mean = self.response.mean(*moments, shift)
        return (mean, self.response.deviation(*moments)) if return_std else mean

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, averaged over the posterior, ``[n, classes]``."""
        if self.classes is None or self.response is None:
            raise ValueError("predict_proba is for classifiers: this is a model of numbers")
        mean, variance = self._latent(self.encode(X), None)
        p = self.response.mean(mean, variance)
        if len(self.classes) == 2:
            p = np.stack([self.response.mean(-mean, variance), p])
        return np.asarray((p / p.sum(axis=0)).T)

    def _deviation(self, function: CompiledFunction, rows: Array) -> Array:
        if function.bands is None:
            raise ValueError(
                "the tables hold no bands, which standard deviations and averages over the "
                "uncertainty need: compile(bands=True) adds them, unless the model was edited"
            )
        return function.scale * np.sqrt(function.bands.variance(rows))

    def _latent(self, rows: Array, shift: Array | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return moments of the latent values as the likelihood reads them, each ``[L, n]``."""
        assert self.response is not None
        means, variances = [], []
        for f in self.functions:
            means.append(f.level + (f.sum(rows) - f.center) / f.scale)
            variances.append((self._deviation(f, rows) / f.scale) ** 2)
        mean = torch.from_numpy(np.stack(means))
        if shift is not None and not self.response.shifts:
            mean[0] += torch.from_numpy(shift)
        return mean, torch.from_numpy(np.stack(variances))

    @property
    def features(self) -> list[Scale | LevelAxis]:
        """Scale or levels of each feature that a table depends on, in the order of features."""
        found: dict[Scale | LevelAxis, None] = {}
        for function in self.functions:
            for table in function.sum.tables:
                for axis in table.axes:
                    found.setdefault(axis if isinstance(axis, LevelAxis) else axis.scale)
        return sorted(found, key=lambda f: f.feature)

    def to_dict(self, bands: bool = True) -> dict[str, Any]:
        """Return all tables as JSON-safe values; see `oakgp.compiled.document`."""
        from oakgp.compiled.document import describe

        return describe(self, bands)

    def to_json(self, path: str | PathLike[str], bands: bool = True) -> None:
        """Write all tables to a JSON file; ``bands=False`` leaves the (large) bands out."""
        import json

        text = json.dumps(self.to_dict(bands), ensure_ascii=False, allow_nan=False)
        Path(path).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> CompiledModel:
        """Read back what `to_dict` returned."""
        from oakgp.compiled.document import restore

        return restore(document)

    @classmethod
    def from_json(cls, path: str | PathLike[str]) -> CompiledModel:
        """Read back what `to_json` wrote."""
        import json

        return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write all entries to a CSV file: a row for each value (or pair of values) and its effect.

        The columns are output, term, feature_1, value_1, feature_2, value_2 and effect.
        """
        from oakgp.compiled.document import write_csv

        write_csv(self, path)
