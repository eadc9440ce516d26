r"""Anderson's acceleration of a fixed-point iteration (Anderson 1965; Walker and Ni 2011)."""

from __future__ import annotations

import torch
from torch import Tensor

_RIDGE = 1e-12  # relative: nearly parallel residuals must not give huge coefficients


class Anderson:
    """Extrapolates x <- x + r(x) from the last few points and residuals.

    With the differences dX, dR of successive points and residuals (one column each),

        x_next = x + r - (dX + dR) gamma,   gamma = argmin |scale (r - dR gamma)|,

    which is the secant method in the span of the history: slow and oscillating modes both go.

    Parameters
    ----------
    depth
        Number of differences kept.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._points: list[Tensor] = []
        self._residuals: list[Tensor] = []

    def clear(self) -> None:
        """Forget all points."""
        self._points.clear()
        self._residuals.clear()

    def add(self, point: Tensor, residual: Tensor) -> None:
        """Note a point and its residual, of any shape but always the same."""
        self._points = [*self._points, point][-self.depth - 1 :]
        self._residuals = [*self._residuals, residual][-self.depth - 1 :]

    @property
    def n_points(self) -> int:
        """Number of points in memory."""
        return len(self._points)

    def next(self, scale: Tensor) -> Tensor:
        """Return the extrapolated point; ``scale`` weighs the entries of the residual."""
        points, residuals = torch.stack(self._points), torch.stack(self._residuals)
        step = residuals[-1]
        if len(points) == 1:
            return points[-1] + step
        change = residuals.diff(dim=0)
        columns = (scale * change).flatten(start_dim=1)
        gram = columns @ columns.T
        gram.diagonal().add_(_RIDGE * gram.diagonal().mean() + 1e-300)
        gamma, _ = torch.linalg.solve_ex(gram, columns @ (scale * step).flatten())
        moved = points.diff(dim=0) + change
        extrapolated: Tensor = points[-1] + step - torch.tensordot(gamma, moved, dims=1)
        return extrapolated
