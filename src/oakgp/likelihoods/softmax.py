"""One of several classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from oakgp.likelihoods import quantiles, responses
from oakgp.likelihoods.base import Array, Likelihood
from oakgp.likelihoods.quadrature import average
from oakgp.likelihoods.special import uniform


@dataclass(frozen=True)
class Softmax(Likelihood):
    """P(y = k) proportional to e^(f_k): K latent functions, y a class number 0 .. K-1.

    Expectations are averages over 256 fixed quasi-random points (K > 2) or a product grid (K = 2),
    good to about one percent at latent variances around 1.

    Parameters
    ----------
    n_classes
        K, at least 2.
    """

    n_classes: int
    name: ClassVar[str] = "softmax"
    latent_scale: ClassVar[str] = "class's score"
    latent_unit: ClassVar[float] = math.pi**2 / 6.0  # of the Gumbel distribution
    support: ClassVar[quantiles.Support] = "classes"
    log_concave: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.n_classes < 2:
            raise ValueError(f"n_classes={self.n_classes}: a choice needs at least 2 classes")

    @property
    def latent_names(self) -> tuple[str, ...]:
        """One latent function for each class."""
        return tuple(f"class {k}" for k in range(self.n_classes))

    def check(self, y: Array) -> None:
        """Refuse what is no class number."""
        responses.check_labels(y, self.n_classes)

    def start(self, y: Array, weights: Array, offset: Array) -> tuple[Tensor, Tensor]:
        """Return log shares, centred; a class without rows counts as half a row.

        An offset belongs to one latent function and a class has no exposure: it is ignored.
        """
        shares = [responses.share((y == k).astype(np.float64), weights) for k in self._classes]
        logs = np.log(shares)
        return responses.levels(*(logs - logs.mean())), responses.parameters_within([], ())

    @property
    def _classes(self) -> range:
        return range(self.n_classes)

    def log_density(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return f_y - log sum_k e^(f_k)."""
        index = y.long().expand(f.shape[1:])[None]
        return f.gather(0, index)[0] - torch.logsumexp(f, dim=0)

    def conditional_moments(self, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return p_k and p_k (1 - p_k): moments of the class indicators, ``[K, ..., n]``."""
        p = torch.softmax(f, dim=0)
        return p, p * (1.0 - p)

    def cdf(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Refuse: classes have no order."""
        raise ValueError(
            "a class has no distribution function and no quantiles, because classes have no order; "
            "use the class probabilities (response_mean)"
        )

    def sample(self, f: Tensor, parameters: Tensor, generator: torch.Generator) -> Tensor:
        """Return class numbers."""
        reached = torch.softmax(f, dim=0).cumsum(dim=0)[:-1]
        return (uniform(f[0], generator) > reached).sum(dim=0).to(f)

    def derivatives(self, y: Tensor, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return [y = k] - p_k and -p_k (1 - p_k)."""
        p = torch.softmax(f, dim=0)
        classes = torch.arange(self.n_classes, device=f.device)
        hit = y == classes.reshape(-1, *[1] * (f.ndim - 1))
        return hit.to(p) - p, -p * (1.0 - p)

    def response_variance(self, mean: Tensor, variance: Tensor, parameters: Tensor) -> Tensor:
        """Return p_k (1 - p_k) of the averaged p, ``[K, n]``: variances of the indicators."""
        p = average(lambda f, _: torch.softmax(f, dim=0), mean, variance)
        return p * (1.0 - p)
