"""Between the optimiser's vector and the model's hyperparameters: logs, bounds, priors, starts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp.inference.priors import DEFAULT, Priors
from oakgp.kernels.additive import AdditiveKernel, Parameters
from oakgp.kernels.categorical import CategoricalKernel

Array = NDArray[np.float64]

# Where effects still have a slope; see `ParameterSpace.awake`.
_AWAKE_LENGTHSCALE, _AWAKE_SCALE, _AWAKE_ORDER = 1.5, 0.3, 0.1


@dataclass(frozen=True)
class Bounds:
    """Limits of the hyperparameters, for a response of unit variance and unit-scale inputs."""

    lengthscale: tuple[float, float] = (2e-2, 1e2)
    scale: tuple[float, float] = (1e-4, 1e2)
    order_variance: tuple[float, float] = (1e-13, 1e3)
    noise: tuple[float, float] = (1e-7, 1e1)
    mixing: tuple[float, float] = (-10.0, 10.0)
    diagonal: tuple[float, float] = (1e-4, 1e2)


@dataclass(frozen=True)
class ParameterSpace:
    """The hyperparameters that are learned and how they are laid out in one vector.

    Parameters
    ----------
    kernel
        The model's structure.
    learn_scales
        Whether each feature has a variance of its own.
    tied
        Whether all order variances are one number (the product kernel prod_d (1 + k~_d)).
    bounds
        Limits.
    priors
        What hyperparameters are likely.
    learn_noise
        Whether there is a noise variance; latent functions of other likelihoods have none.
    """

    kernel: AdditiveKernel
    learn_scales: bool = False
    tied: bool = False
    bounds: Bounds = field(default_factory=Bounds)
    priors: Priors = DEFAULT
    learn_noise: bool = True

    @property
    def numeric(self) -> list[int]:
        """Numbers of the features that have a lengthscale."""
        return [i for i, f in enumerate(self.kernel.features) if not f.is_categorical]

    @property
    def _sizes(self) -> tuple[int, int, int, int]:
        n_scales = self.kernel.n_features if self.learn_scales else 0
        n_orders = 1 if self.tied else self.kernel.max_order + 1
        return len(self.numeric), n_scales, n_orders, int(self.learn_noise)

    def _categorical(self) -> list[CategoricalKernel]:
        return [f.kernel for f in self.kernel.features if isinstance(f.kernel, CategoricalKernel)]

    def unpack(self, theta: Tensor) -> Parameters:
        """Return the hyperparameters of a vector, differentiable."""
        n_length, n_scales, n_orders, n_noise = self._sizes
        d = self.kernel.n_features
        lengthscales = theta.new_ones(d)
        position = n_length
        if n_length:
            index = torch.tensor(self.numeric, device=theta.device)
            lengthscales = lengthscales.index_put((index,), torch.exp(theta[:n_length]))
        scales = theta.new_ones(d)
        if n_scales:
            scales = torch.exp(theta[position : position + n_scales])
            position += n_scales
        orders = torch.exp(theta[position : position + n_orders])
        position += n_orders
        if self.tied:
            orders = orders.expand(self.kernel.max_order + 1)
        noise = theta.new_ones(())
        if n_noise:
            noise = torch.exp(theta[position])
            position += 1
        mixing, diagonal = [], []
        for kernel in self._categorical():
            count = kernel.n_levels * kernel.rank
            block = theta[position : position + count]
            mixing.append(block.reshape(kernel.n_levels, kernel.rank))
            position += count
            diagonal.append(torch.exp(theta[position : position + kernel.n_levels]))
            position += kernel.n_levels
        return Parameters(lengthscales, scales, orders, noise, tuple(mixing), tuple(diagonal))

    def pack(self, parameters: Parameters) -> Array:
        """Return the vector of some hyperparameters (clipped to the bounds)."""
        p = parameters.detach().to("cpu", torch.float64)
        pieces = [np.log(p.lengthscales.numpy()[self.numeric])]
        if self.learn_scales:
            pieces.append(np.log(p.scales.numpy()))
        orders = np.log(p.order_variances.numpy())
        pieces.append(orders[:1] if self.tied else orders)
        if self.learn_noise:
            pieces.append(np.log(p.noise.numpy()).reshape(1))
        for w, kappa in zip(p.mixing, p.diagonal, strict=True):
            pieces += [w.numpy().reshape(-1), np.log(kappa.numpy())]
        low, high = np.array(self.limits()).T
        return np.asarray(np.clip(np.concatenate(pieces), low, high))

    def limits(self) -> list[tuple[float, float]]:
        """Return the bounds of each entry of the vector."""
        b = self.bounds
        pairs = (b.lengthscale, b.scale, b.order_variance, b.noise)
        limits = [
            tuple(np.log(pair))
            for pair, count in zip(pairs, self._sizes, strict=True)
            for _ in range(count)
        ]
        for kernel in self._categorical():
            limits += [b.mixing] * (kernel.n_levels * kernel.rank)
            limits += [tuple(np.log(b.diagonal))] * kernel.n_levels
        return [(float(low), float(high)) for low, high in limits]

    def start(self, lengthscale: float, noise: float, seed: int) -> Array:
        """Return a starting vector.

        All components of an order together start with half the variance of the order before:
        what the lower orders can explain, they should.
        """
        rng = np.random.default_rng(seed)
        d, counts = self.kernel.n_features, self.kernel.terms.counts()
        orders = [1.0, *(0.5 ** (r - 1) / max(1, c) for r, c in enumerate(counts[1:], start=1))]
        mixing = tuple(
            torch.from_numpy(0.3 * rng.standard_normal((k.n_levels, k.rank)))
            for k in self._categorical()
        )
        diagonal = tuple(torch.ones(k.n_levels, dtype=torch.float64) for k in self._categorical())
        return self.pack(
            Parameters(
                torch.full((d,), lengthscale, dtype=torch.float64),
                torch.ones(d, dtype=torch.float64),
                torch.tensor(orders, dtype=torch.float64),
                torch.tensor(noise, dtype=torch.float64),
                mixing,
                diagonal,
            )
        )

    def awake(self, theta: Array) -> Array:
        """Return the vector with effects that have faded brought back to where they have a slope.

        What few rows do not show ends at long lengthscales and tiny variances, where the bound is
        flat: many rows could not bring it back. What they do not show either fades again.
        """
        parameters = self.unpack(torch.from_numpy(theta))
        counts = torch.tensor([max(1, c) for c in self.kernel.terms.counts()])
        orders = parameters.order_variances
        least = _AWAKE_ORDER / counts.to(orders)
        least[0] = 0.0
        moved = self.pack(
            replace(
                parameters,
                lengthscales=parameters.lengthscales.clamp(max=_AWAKE_LENGTHSCALE),
                scales=parameters.scales.clamp(min=_AWAKE_SCALE),
                order_variances=orders if self.tied else torch.maximum(orders, least),
            )
        )
        return moved

    def log_prior(self, parameters: Parameters) -> Tensor:
        """Return the log density of the priors, up to a constant."""
        return self.priors.log_density(
            self.kernel,
            parameters,
            scales=self.learn_scales,
            tied=self.tied,
            noise=self.learn_noise,
        )
