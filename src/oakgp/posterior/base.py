"""What is asked of a posterior, whichever engine made it.

Prediction, Sobol indices, truncation, plots and files speak to this interface only. An engine adds
its own final class: a Gaussian over finitely many weights with a feature map for every term.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from oakgp.inference.cholesky import cholesky
from oakgp.kernels.terms import Term, TermSet

if TYPE_CHECKING:
    from oakgp.sensitivity.variances import Variances


class Posterior(ABC):
    """Posterior over the latent function and all its components, on the model's scale.

    Rows are encoded, ``[d, n]``. A ``term`` of None stands for the whole function: the sum over
    the kept terms.
    """

    #: Posterior mean of the weights, ``[m]``; 0 throughout if nothing was learned.
    mean_weights: Tensor
    #: Noise variance of a row of weight 1.
    noise: float
    #: Terms that predictions sum over; None means all of the model's (no truncation).
    kept: tuple[Term, ...] | None

    @property
    @abstractmethod
    def terms(self) -> TermSet:
        """The terms of the model, kept or not."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of features."""

    @property
    @abstractmethod
    def orthogonal(self) -> bool:
        """Whether components are orthogonal under the measures, so that variances add up."""

    @property
    def size(self) -> int:
        """Number of weights."""
        return len(self.mean_weights)

    @abstractmethod
    def keep(self, terms: Sequence[Term] | None) -> Self:
        """Return the posterior of the sum of some terms only (the constant always stays)."""

    @abstractmethod
    def mean(self, x: Tensor, term: Term | None = None) -> Tensor:
        """Return the posterior mean of f, or of one component, ``[d, n] -> [n]``."""

    @abstractmethod
    def mean_and_variance(self, x: Tensor, term: Term | None = None) -> tuple[Tensor, Tensor]:
        """Return posterior mean and variance of f, or of one component, each ``[n]``."""

    @abstractmethod
    def covariance(
        self, x: Tensor, other: Tensor | None = None, term: Term | None = None
    ) -> Tensor:
        """Return the posterior covariance of f, or of one component, between points ``[n, m]``."""

    @abstractmethod
    def shapley(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance of the Shapley value of every feature, each ``[d, n]``.

        phi_i = sum of f_u / |u| over the (kept) terms u that contain i.
        """

    @abstractmethod
    def shapley_covariance(self, x: Tensor) -> Tensor:
        """Return the posterior covariance of the features' Shapley values, ``[n, d, d]``."""

    @abstractmethod
    def rest_variance(self, x: Tensor, terms: Sequence[Term]) -> Tensor:
        """Return the variance of f less the constant and less some components, ``[n]``."""

    def component_moments(self, x: Tensor, terms: Sequence[Term]) -> tuple[Tensor, Tensor]:
        """Return posterior mean and variance of each of some components, both ``[k, n]``."""
        mean, variance = x.new_zeros((2, len(terms), x.shape[1]))
        for k, term in enumerate(terms):
            mean[k], variance[k] = self.mean_and_variance(x, term)
        return mean, variance

    @abstractmethod
    def variances(self, others: Sequence[Posterior] = ()) -> Variances:
        """Return the variances of the components over the inputs, averaged with other posteriors.

        Parameters
        ----------
        others
            Posteriors of the same model for other latent functions: the classes of a softmax.
        """

    def constant(self) -> tuple[float, float]:
        """Return mean and variance of the constant component."""
        row = torch.zeros((self.n_features, 1)).to(self.mean_weights)
        mean, variance = self.mean_and_variance(row, ())
        return float(mean[0]), float(variance[0])

    def sample(self, x: Tensor, n_samples: int, seed: int, term: Term | None = None) -> Tensor:
        """Return joint draws of f, or of one component, ``[n_samples, n]``."""
        mean = self.mean(x, term)
        factor, _ = cholesky(self.covariance(x, term=term), "the posterior covariance", 1e-10)
        generator = torch.Generator().manual_seed(seed)
        white = torch.randn((n_samples, len(mean)), generator=generator, dtype=torch.float64)
        return mean + white.to(factor) @ factor.T


def with_constant(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Return terms sorted within, each once, the constant first."""
    return tuple(dict.fromkeys([(), *(tuple(sorted(t)) for t in terms)]))
