"""Hyperparameters of a basis model: a variance per term, a lengthscale per feature, the noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp.basis.functions import FeatureBasis
from oakgp.basis.layout import BasisLayout, TermColumns
from oakgp.kernels.terms import Term

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Bounds:
    """Limits of the hyperparameters, for a response of unit variance.

    Parameters
    ----------
    variance
        Of a term.
    lengthscale
        In units of the reference lengthscale: much shorter ones need functions that the basis
        does not have.
    noise
        Noise variance.
    """

    variance: tuple[float, float] = (1e-8, 1e3)
    lengthscale: tuple[float, float] = (0.5, 50.0)
    noise: tuple[float, float] = (1e-7, 1e1)


@dataclass(frozen=True, eq=False)
class BasisParameters:
    """Hyperparameters, all tensors, all differentiable.

    Parameters
    ----------
    variances
        ``[T]`` of each term, the constant first.
    lengthscales
        ``[d]``; 1 for categorical features.
    noise
        Noise variance of a row of weight 1.
    rough
        ``[d]`` variance of the rough part of each main effect; 0 where it has none.
    """

    variances: Tensor
    lengthscales: Tensor
    noise: Tensor
    rough: Tensor

    def to(self, device: torch.device | str) -> BasisParameters:
        """Return the same values on another device."""
        return self._map(lambda t: t.to(device))

    def detach(self) -> BasisParameters:
        """Return the same values cut from the gradient tape."""
        return self._map(lambda t: t.detach())

    def _map(self, function: Callable[[Tensor], Tensor]) -> BasisParameters:
        return BasisParameters(
            function(self.variances),
            function(self.lengthscales),
            function(self.noise),
            function(self.rough),
        )


def prior_blocks(layout: BasisLayout, parameters: BasisParameters) -> list[Tensor]:
    """Return the prior covariance of each term's weights, the constant's first."""
    singles = [basis.prior(parameters.lengthscales[i]) for i, basis in enumerate(layout.bases)]
    blocks = [parameters.variances[0].reshape(1, 1)]
    for variance, columns in zip(parameters.variances[1:], layout.blocks, strict=True):
        block = variance.reshape(1, 1)
        smooth = columns.index[: columns.size - n_rough(layout, columns)].to(variance.device)
        for k, i in enumerate(columns.term):
            index = smooth[:, k]
            block = block * singles[i][index[:, None], index[None, :]]
        if len(smooth) < columns.size:
            (i,) = columns.term
            more = parameters.rough[i] * layout.bases[i].rough_values
            block = torch.block_diag(block, torch.diag(more))
        blocks.append(block)
    return blocks


def n_rough(layout: BasisLayout, columns: TermColumns) -> int:
    """Return how many of a term's columns, its last ones, are rough functions."""
    if len(columns.term) != 1:
        return 0
    return int((columns.index[:, 0] >= layout.bases[columns.term[0]].n_smooth).sum())


@dataclass(frozen=True)
class BasisSpace:
    """Between the optimiser's vector and the hyperparameters.

    Parameters
    ----------
    layout
        The basis.
    learn_noise
        Whether there is a noise variance.
    rate
        Rate of the exponential prior on the summed variances of the terms of each order.
    roughness
        c in the prior density exp(-c / lengthscale).
    noise_prior
        Median of the log-normal prior on the noise variance, and the deviation of its logarithm.
    bounds
        Limits.
    """

    layout: BasisLayout
    learn_noise: bool = True
    rate: float = 3.0
    roughness: float = 0.2
    noise_prior: tuple[float, float] = (0.3, 2.0)
    bounds: Bounds = Bounds()

    @cached_property
    def numeric(self) -> list[int]:
        """Numbers of the features that have a lengthscale."""
        return [i for i, b in enumerate(self.layout.bases) if not b.is_categorical]

    @cached_property
    def rough(self) -> list[int]:
        """Numbers of the features whose main effects have a rough part."""
        return [b.term[0] for b in self.layout.blocks if n_rough(self.layout, b)]

    @property
    def _bases(self) -> list[FeatureBasis]:
        return [self.layout.bases[i] for i in self.numeric]

    def unpack(self, theta: Tensor) -> BasisParameters:
        """Return the hyperparameters of a vector, differentiable."""
        count = len(self.layout.terms)
        variances = theta[:count].exp()
        lengthscales = theta.new_ones(self.layout.n_features)
        end = count + len(self.numeric)
        if self.numeric:
            index = torch.tensor(self.numeric, device=theta.device)
            lengthscales = lengthscales.index_put((index,), theta[count:end].exp())
        rough = theta.new_zeros(self.layout.n_features)
        if self.rough:
            index = torch.tensor(self.rough, device=theta.device)
            rough = rough.index_put((index,), theta[end : end + len(self.rough)].exp())
            end += len(self.rough)
        noise = theta[end].exp() if self.learn_noise else theta.new_ones(())
        return BasisParameters(variances, lengthscales, noise, rough)

    def pack(self, parameters: BasisParameters) -> Array:
        """Return the vector of some hyperparameters, clipped to the bounds."""
        p = parameters.detach()
        pieces = [p.variances.log(), p.lengthscales[self.numeric].log(), p.rough[self.rough].log()]
        if self.learn_noise:
            pieces.append(p.noise.log().reshape(1))
        low, high = np.array(self.limits()).T
        return np.asarray(np.clip(torch.cat(pieces).cpu().numpy(), low, high))

    def limits(self) -> list[tuple[float, float]]:
        """Return the bounds of each entry of the vector."""
        b = self.bounds
        pairs = [b.variance] * len(self.layout.terms)
        pairs += [
            (b.lengthscale[0] * basis.reference, b.lengthscale[1] * basis.reference)
            for basis in self._bases
        ]
        pairs += [b.variance] * len(self.rough)
        if self.learn_noise:
            pairs.append(b.noise)
        return [(float(np.log(low)), float(np.log(high))) for low, high in pairs]

    def start(self, noise: float = 0.1, lengthscale: float = 2.0) -> BasisParameters:
        """Return where to begin: each order has half the variance of the one before."""
        counts: dict[int, int] = {}
        for term in self.layout.terms:
            counts[len(term)] = counts.get(len(term), 0) + 1
        variances = [
            1.0 if not u else 0.5 ** (len(u) - 1) / counts[len(u)] for u in self.layout.terms
        ]
        lengths = [
            1.0 if b.is_categorical else lengthscale * b.reference for b in self.layout.bases
        ]
        like = torch.float64
        return BasisParameters(
            torch.tensor(variances, dtype=like),
            torch.tensor(lengths, dtype=like),
            torch.tensor(noise, dtype=like),
            self._rough_start(),
        )

    def _rough_start(self) -> Tensor:
        rough = torch.zeros(self.layout.n_features, dtype=torch.float64)
        rough[self.rough] = 0.1 / max(1, len(self.rough))
        return rough

    def carry(
        self, old: BasisParameters, terms: tuple[Term, ...], unit: float = 1.0
    ) -> BasisParameters:
        """Return hyperparameters learned with other terms; new terms start from `start`.

        ``unit`` is the variance of the latent function, of which new terms get their parts.
        """
        fresh = self.start()
        known = {term: k for k, term in enumerate(terms)}
        variances = [
            old.variances[known[u]].cpu() if u in known else unit * fresh.variances[k]
            for k, u in enumerate(self.layout.terms)
        ]
        # A feature without a main effect ends with a long lengthscale, under which its interactions
        # would have no variance either: they get a chance of their own.
        lengthscales = old.lengthscales.cpu().clone()
        for i in {i for u in self.layout.terms if u not in known for i in u}:
            lengthscales[i] = torch.minimum(lengthscales[i], fresh.lengthscales[i])
        rough = unit * self._rough_start()
        known_rough = (old.rough.cpu() > 0) & (rough > 0)
        rough = torch.where(known_rough, old.rough.cpu(), rough)
        return BasisParameters(torch.stack(variances), lengthscales, old.noise.cpu(), rough)

    def log_prior(self, parameters: BasisParameters) -> Tensor:
        """Return the log density of the priors, up to a constant."""
        total = -self.rate * (parameters.variances[1:].sum() + parameters.rough.sum())
        lengthscales = parameters.lengthscales[self.numeric]
        total = total - self.roughness * (1.0 / lengthscales).sum()
        if self.learn_noise:
            median, spread = self.noise_prior
            total = total - 0.5 * ((parameters.noise / median).log() / spread) ** 2
        return total
