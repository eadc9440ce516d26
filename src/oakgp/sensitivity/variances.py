"""Variances of the components over the inputs: what Sobol indices are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from oakgp.kernels.terms import Term


@dataclass(frozen=True)
class Totals:
    """Variances over the inputs, summed by order and by feature.

    Parameters
    ----------
    orders
        ``[R + 1]`` sum over the terms of each order; entry 0 is 0 (a constant has no variance).
    main
        ``[d]`` variance of each main effect.
    total
        ``[d]`` sum over all terms that contain the feature.
    shapley
        ``[d]`` the same with each term's variance shared equally among its features: the Shapley
        effects (Owen 2014), between ``main`` and ``total``; they add up to the whole.
    """

    orders: Tensor
    main: Tensor
    total: Tensor
    shapley: Tensor

    @property
    def variance(self) -> float:
        """Variance of the whole function."""
        return float(self.orders.sum())


class Variances(ABC):
    """V_u = Var_x[f_u(x_u)] of the posterior mean, and what the posterior says of them.

    Of several posteriors (classes), all are averages over these.
    """

    @abstractmethod
    def totals(self) -> Totals:
        """Return the sums of V_u of the posterior mean; no term is listed for it."""

    @abstractmethod
    def expected_totals(self) -> Totals:
        """Return the sums of E[V_u] under the posterior."""

    @abstractmethod
    def of(self, terms: Sequence[Term]) -> Tensor:
        """Return V_u of the posterior mean for some terms, ``[k]``."""

    @abstractmethod
    def expected_of(self, terms: Sequence[Term]) -> Tensor:
        """Return E[V_u] under the posterior for some terms, ``[k]``."""

    @abstractmethod
    def largest(self, count: int, min_share: float = 0.0) -> list[tuple[Term, float]]:
        """Return the terms of largest V_u, largest first.

        Parameters
        ----------
        count
            How many at most.
        min_share
            Terms below this share of the whole variance are not wanted.
        """

    @abstractmethod
    def draws(self, terms: Sequence[Term], n_samples: int, seed: int) -> Tensor:
        """Return joint posterior draws of V_u for some terms, ``[n_samples, k]``."""
