"""Adam (Kingma and Ba 2015) within bounds, for few hyperparameters and noisy gradients."""

from __future__ import annotations

import torch
from torch import Tensor

_DECAY_1, _DECAY_2, _TINY = 0.9, 0.99, 1e-12


class Adam:
    """Steps of about the same size whatever the scale of the gradient.

    The step from the t-th gradient is rate / sqrt(1 + t / patience) in each coordinate at most:
    nearly constant at first, then decaying as Robbins and Monro ask for.

    Parameters
    ----------
    limits
        Bounds of each entry of the vector.
    rate
        Length of the first step, in each coordinate.
    patience
        Steps after which the decay sets in.
    """

    def __init__(self, limits: list[tuple[float, float]], rate: float, patience: float) -> None:
        self.limits, self.rate, self.patience = limits, rate, patience
        self._first: Tensor | None = None
        self._second: Tensor | None = None
        self.n_steps = 0

    def step(self, theta: Tensor, gradient: Tensor) -> Tensor:
        """Return where to go from ``theta`` to raise what the gradient is of."""
        if self._first is None or self._second is None:
            self._first, self._second = torch.zeros_like(theta), torch.zeros_like(theta)
        self.n_steps += 1
        self._first = _DECAY_1 * self._first + (1.0 - _DECAY_1) * gradient
        self._second = _DECAY_2 * self._second + (1.0 - _DECAY_2) * gradient**2
        first = self._first / (1.0 - _DECAY_1**self.n_steps)
        second = self._second / (1.0 - _DECAY_2**self.n_steps)
        rate = self.rate / (1.0 + self.n_steps / self.patience) ** 0.5
        moved = theta + rate * first / (second.sqrt() + _TINY)
        low, high = theta.new_tensor(self.limits).T
        inside: Tensor = moved.clamp(low, high)
        return inside

    def restart(self, rate: float) -> None:
        """Forget the gradients seen and go on with another rate."""
        self._first = self._second = None
        self.n_steps, self.rate = 0, rate
