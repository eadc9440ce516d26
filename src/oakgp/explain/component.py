"""One component of a model as a function of the features it depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr
from torch import Tensor

from oakgp.component_response import ComponentResponse, response_name
from oakgp.kernels.terms import Term
from oakgp.model import Model
from oakgp.response import as_array

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Component:
    """Mean and deviation of f_u, in units of the response, or of its effect there.

    Parameters
    ----------
    model
        The model.
    term
        The features u.
    at
        Coordinates (as the kernel sees them) of the features that are held fixed.
    response
        What the component says of the response: values are those less the base rate then.
    """

    model: Model
    term: Term
    at: Mapping[int, float]
    response: ComponentResponse | None = None

    def __call__(self, coordinates: Mapping[int, Array]) -> tuple[Array, Array]:
        """Return mean and standard deviation at rows of kernel coordinates, each ``[n]``."""
        x = self._rows(coordinates)
        if self.response is not None:
            centre, sd = self.response.moments(x)
            return centre - self._base, sd
        mean, variance = self.model.posterior.component_moments(x, [self.term])
        scale = self.model.scale
        return scale * as_array(mean[0]), scale * as_array(variance[0].sqrt())

    def simultaneous_factor(self, coordinates: Mapping[int, Array], coverage: float) -> float:
        """Return the half-width, in deviations, of a band that holds the whole curve.

        With probability ``coverage`` the component lies within that many of its posterior
        deviations of its mean at all rows at once: the quantile of the largest standardised
        difference over joint draws. A monotone link does not change that.
        """
        covariance = as_array(
            self.model.posterior.covariance(self._rows(coordinates), term=self.term)
        )
        return simultaneous_factor(covariance, coverage)

    def band(self, coordinates: Mapping[int, Array], width: float) -> tuple[Array, Array, Array]:
        """Return the mean and the band that is so many standard deviations wide, each ``[n]``.

        On the response scale its ends are the quantiles that belong to that many deviations of a
        Gaussian, so the band stays where responses are possible.
        """
        mean, sd = self(coordinates)
        if self.response is None:
            return mean, mean - width * sd, mean + width * sd
        tail = float(np.clip(ndtr(-width), 1e-12, 0.5))
        ends = self.response.quantiles(self._rows(coordinates), [tail, 1.0 - tail]) - self._base
        return mean, ends[:, 0], ends[:, 1]

    @property
    def effect(self) -> str:
        """What the values are, for the axes of plots."""
        if self.response is None:
            return self.model.effect
        name = response_name(self.response.model, self.response.output)
        return f"{name}, less {self._base:.3g}"

    @cached_property
    def _base(self) -> float:
        assert self.response is not None
        first = {
            i: column.feature.measure.atoms[0][:1] for i, column in enumerate(self.model.columns)
        }
        mean, _ = replace(self.response, term=()).moments(self._rows(first))
        return float(mean[0])

    def _rows(self, coordinates: Mapping[int, Array]) -> Tensor:
        """Return encoded rows.

        A component depends on its own features only, so the others stand at any valid value: the
        first node of their measures.
        """
        n = len(next(iter(coordinates.values())))
        rows = np.empty((len(self.model.columns), n))
        for i, column in enumerate(self.model.columns):
            if i in coordinates:
                rows[i] = coordinates[i]
            elif i in self.at:
                rows[i] = self.at[i]
            else:
                rows[i] = column.feature.measure.atoms[0][0]
        like = self.model.posterior.mean_weights
        return torch.tensor(rows, dtype=like.dtype, device=like.device)

    def grid(self, i: int, a: Array, j: int, b: Array) -> tuple[Array, Array]:
        """Return mean and deviation over a grid of two features, each ``[len(b), len(a)]``."""
        first, second = np.meshgrid(a, b)
        mean, sd = self({i: first.ravel(), j: second.ravel()})
        return mean.reshape(first.shape), sd.reshape(first.shape)


def simultaneous_factor(
    covariance: Array, coverage: float, n_samples: int = 4000, seed: int = 0
) -> float:
    """Return the quantile of the largest standardised value of a Gaussian vector.

    Never less than that of a single value, which it is for a vector of one.
    """
    sd = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
    live = np.flatnonzero(sd > 1e-9 * max(float(sd.max(initial=0.0)), 1e-300))
    pointwise = NormalDist().inv_cdf(0.5 + coverage / 2)
    if not len(live):
        return pointwise
    correlation = covariance[np.ix_(live, live)] / np.outer(sd[live], sd[live])
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    white = np.random.default_rng(seed).standard_normal((n_samples, len(live)))
    largest = np.abs(white @ root.T).max(axis=1)
    return max(pointwise, float(np.quantile(largest, coverage)))
