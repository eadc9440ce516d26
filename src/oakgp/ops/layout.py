"""What the fused kernel operation is told about the features: shapes, kinds and parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property

import torch
from torch import Tensor

#: Scaled coordinate of a missing value: so far from every other one that each radial kernel
#: vanishes there, while two missing values coincide (k(miss, miss) = 1, k(miss, x) = 0).
FAR = 1e9


class Kind(IntEnum):
    """Base kernel of a feature, as the compiled kernels number it."""

    SQUARED_EXPONENTIAL = 0
    MATERN12 = 1
    MATERN32 = 2
    MATERN52 = 3
    PERIODIC = 4
    TABLE = 5


@dataclass(frozen=True)
class Layout:
    """Static description of the features of one fused call.

    Parameters
    ----------
    kinds
        Base kernel of each feature.
    table_sizes
        Number of rows of each feature's table; 0 for features that have none.
    mandatory
        Whether the feature is part of every term (DESIGN: blocks of forced or forbidden terms).
    max_order
        Highest interaction order R.
    """

    kinds: tuple[Kind, ...]
    table_sizes: tuple[int, ...]
    mandatory: tuple[bool, ...]
    max_order: int

    @cached_property
    def table_offsets(self) -> tuple[int, ...]:
        """Start of each feature's table in the flat vector of table entries."""
        offsets, total = [], 0
        for size in self.table_sizes:
            offsets.append(total)
            total += size * size
        return tuple(offsets)

    @property
    def n_features(self) -> int:
        """Number of features of the call."""
        return len(self.kinds)


@dataclass(frozen=True)
class Points:
    """A set of rows as the fused operation reads them: one row of memory per feature.

    Parameters
    ----------
    x
        ``[d, n]`` coordinates (NaN = missing; periodic features in periods; categorical features
        hold the row number of their table).
    embed
        ``[d, n]`` values of t(x) = s(x) / sqrt(v): the rank-one correction that makes the
        kernel integrate to zero under the measure (DESIGN section 3).
    """

    x: Tensor
    embed: Tensor

    def take(self, rows: Tensor) -> Points:
        """Return the points of some rows only."""
        return Points(self.x[:, rows], self.embed[:, rows])

    def features(self, index: list[int]) -> Points:
        """Return the points seen through some features only."""
        return Points(self.x[index], self.embed[index])

    def detach(self) -> Points:
        """Return the points cut from the gradient tape."""
        return Points(self.x, self.embed.detach())

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.x.shape[1])


@dataclass(frozen=True)
class Weights:
    """Parameters of the fused operation, all differentiable.

    Parameters
    ----------
    order_variances
        ``[R + 1]`` prior variance sigma2_r of all terms of order r.
    scales
        ``[d]`` factor of each constrained kernel (the optional variance per feature).
    lengthscales
        ``[d]``; ignored for features with a table.
    tables
        Constrained tables of the categorical features, flattened one after another.
    """

    order_variances: Tensor
    scales: Tensor
    lengthscales: Tensor
    tables: Tensor

    def detach(self) -> Weights:
        """Return the same parameters cut from the gradient tape."""
        return Weights(
            self.order_variances.detach(),
            self.scales.detach(),
            self.lengthscales.detach(),
            self.tables.detach(),
        )

    def features(self, layout: Layout, index: list[int]) -> Weights:
        """Return the parameters of some features only."""
        pieces = [
            self.tables[
                layout.table_offsets[i] : layout.table_offsets[i] + layout.table_sizes[i] ** 2
            ]
            for i in index
        ]
        tables = torch.cat(pieces) if pieces else self.tables[:0]
        return replace(
            self, scales=self.scales[index], lengthscales=self.lengthscales[index], tables=tables
        )


def scaled_coordinates(layout: Layout, weights: Weights, x: Tensor) -> Tensor:
    """Return ``x / lengthscale`` with missing values at `FAR`; periods and codes stay as they are.

    ``[d, n] -> [d, n]``. Codes and phases are not distances, so they are not divided.
    """
    plain = torch.tensor(
        [kind in (Kind.PERIODIC, Kind.TABLE) for kind in layout.kinds], device=x.device
    )
    divisor = torch.where(plain, torch.ones_like(weights.lengthscales), weights.lengthscales)
    missing = torch.isnan(x)  # replaced before the division: NaN would poison the gradient
    scaled = torch.where(missing, torch.zeros_like(x), x) / divisor[:, None]
    return torch.where(missing, torch.full_like(x, FAR), scaled)
