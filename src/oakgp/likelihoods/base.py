r"""What every likelihood promises, with defaults by quadrature.

Inference hands over Gaussian marginals q(f_l(x_i)) = N(mean[l, i], variance[l, i]) of L latent
functions, independent across l. By the identities of Bonnet and Price,

    d/d mean E_q[log p(y | f)]     = E_q[d/df log p(y | f)],
    d/d variance E_q[log p(y | f)] = 1/2 E_q[d2/df2 log p(y | f)],

so nothing is divided by the variance, which may be 0. A new likelihood needs `log_density`,
`conditional_moments`, `cdf`, `sample`, `check` and `start`; it overrides `derivatives` and whatever
else it knows in closed form, and the law tests compare the two.

Shapes: n rows, L latent functions, p parameters. Latent values are ``[L, ..., n]``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp.likelihoods import quadrature, quantiles

Array = NDArray[np.float64]

# Below this, the root of a variance has no useful derivative: see `expected_value`.
_LEAST_VARIANCE = 1e-12


class Expected(NamedTuple):
    """Expected log density of each row, and its derivatives by the moments of q.

    Attributes
    ----------
    value : tensor of shape (n,)
        E_q[log p(y | f)].
    by_mean, by_variance : tensor of shape (L, n)
        Derivatives. The site precision of a row is -2 ``by_variance``.
    """

    value: Tensor
    by_mean: Tensor
    by_variance: Tensor


@dataclass(frozen=True)
class Likelihood(ABC):
    """Density of the response given latent values; subclasses are final and hold settings only.

    Attributes
    ----------
    name : str
        Key in the registry.
    parameter_names, parameter_bounds : tuple
        Positive parameters that are learned with the hyperparameters, and (low, high) of each. The
        bounds of noise and scales suit responses of about unit scale.
    support : str
        Where responses live: ``"real"``, ``"positive"``, ``"unit"`` (between 0 and 1),
        ``"count"``, ``"binary"`` or ``"classes"``.
    latent_scale : str
        What the components of the first latent function add up to, in words.
    latent_unit : float
        Variance of a latent function that the default priors take for 1: that of the noise with
        which the sign of the latent value would be the response, where there is such a noise.
    log_concave : bool
        Whether log p(y | f) is concave in each latent value: then no site precision is negative.
    """

    name: ClassVar[str]
    parameter_names: ClassVar[tuple[str, ...]] = ()
    parameter_bounds: ClassVar[tuple[tuple[float, float], ...]] = ()
    support: ClassVar[quantiles.Support]
    log_concave: ClassVar[bool]
    latent_scale: ClassVar[str] = "response"
    latent_unit: ClassVar[float] = 1.0

    @property
    def latent_names(self) -> tuple[str, ...]:
        """Names of the latent functions; a single one has the empty name."""
        return ("",)

    @property
    def n_latents(self) -> int:
        """Number L of latent functions."""
        return len(self.latent_names)

    # What a likelihood must say.

    @abstractmethod
    def check(self, y: Array) -> None:
        """Refuse impossible responses ``[n]``: how many, the first one, and the remedy."""

    @abstractmethod
    def start(self, y: Array, weights: Array, offset: Array) -> tuple[Tensor, Tensor]:
        """Return where to begin, always finite, from moments; tensors on the CPU.

        Parameters
        ----------
        y, weights, offset : array of shape (n,)
            Responses that passed `check`, row weights (not all 0), and what is added to the first
            latent function (0 without exposure).

        Returns
        -------
        levels : tensor of shape (L,)
            What the constant of each latent function should be centred on.
        parameters : tensor of shape (p,)
            Within ``parameter_bounds``.
        """

    @abstractmethod
    def log_density(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return log p(y | f), normalised: ``[n]`` and ``[L, ..., n]`` give ``[..., n]``."""

    @abstractmethod
    def conditional_moments(self, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance of y given ``f [L, ..., n]``, each ``[..., n]``."""

    @abstractmethod
    def cdf(self, y: Tensor, f: Tensor, parameters: Tensor) -> Tensor:
        """Return P(Y <= y | f), ``[..., n]``, for y in the support; no gradient is promised.

        ``y`` broadcasts against the latent values. Of counts, increasing between them too.
        """

    @abstractmethod
    def sample(self, f: Tensor, parameters: Tensor, generator: torch.Generator) -> Tensor:
        """Return a draw of y for each latent value: ``[L, ..., n]`` gives ``[..., n]``."""

    # What follows from it.

    def derivatives(self, y: Tensor, f: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return first and second derivative of log p(y | f) by each latent value, ``[L, ..., n]``.

        The default differentiates `log_density` twice.
        """
        with torch.enable_grad():
            f = f.detach().requires_grad_()
            density = self.log_density(y, f, parameters.detach())
            (first,) = torch.autograd.grad(density.sum(), f, create_graph=True)
            second = torch.stack(
                [
                    torch.autograd.grad(s.sum(), f, retain_graph=True)[0][i]
                    for i, s in enumerate(first)
                ]
            )
        return first.detach(), second.detach()

    def expected(self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor) -> Expected:
        """Return E_q[log p(y | f)] of each row and its derivatives by the moments of q.

        For gradients by the parameters, or through the moments, use `expected_value`.

        Parameters
        ----------
        y : tensor of shape (n,)
            Responses.
        mean, variance : tensor of shape (L, n)
            Moments of q, offsets included.
        parameters : tensor of shape (p,)
            The likelihood's own.
        """
        parts = []
        with torch.no_grad():
            for rows, f, weights in quadrature.latent_values(mean, variance):
                density = self.log_density(y[rows], f, parameters)
                slopes = self.derivatives(y[rows], f, parameters)
                averages = [
                    torch.einsum("s,lsn->ln", weights, values)
                    for values in (density[None], *slopes)
                ]
                parts.append(torch.cat(averages))
        value, by_mean, curvature = torch.cat(parts, dim=1).split(
            [1, self.n_latents, self.n_latents]
        )
        return Expected(value[0], by_mean, 0.5 * curvature)

    def expected_value(
        self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor
    ) -> Tensor:
        """Return E_q[log p(y | f)], ``[n]``, differentiable (once) in all arguments but ``y``.

        Its gradient is that of the quadrature sum, so that a line search finds value and slope in
        agreement; `expected` integrates the derivatives. Variances below 1e-12 count as 1e-12.
        """
        # The value is clamped and the gradient is not: d/dv of a clamped v would be 0.
        variance = variance + (variance.clamp(min=_LEAST_VARIANCE) - variance).detach()
        return quadrature.average(
            lambda f, rows: self.log_density(y[rows], f, parameters), mean, variance
        )

    def response_mean(self, mean: Tensor, variance: Tensor, parameters: Tensor) -> Tensor:
        """Return E[y] under q, ``[n]`` (class probabilities ``[K, n]`` for classes)."""
        return quadrature.average(
            lambda f, _: self.conditional_moments(f, parameters)[0], mean, variance
        )

    def response_variance(self, mean: Tensor, variance: Tensor, parameters: Tensor) -> Tensor:
        """Return Var[y] under q, shaped as `response_mean`: E[Var[y | f]] + Var[E[y | f]]."""
        centre = self.response_mean(mean, variance, parameters)

        def spread(f: Tensor, rows: slice) -> Tensor:
            inner_mean, inner_variance = self.conditional_moments(f, parameters)
            return inner_variance + (inner_mean - centre[..., None, rows]) ** 2

        return quadrature.average(spread, mean, variance)

    def response_quantiles(
        self, mean: Tensor, variance: Tensor, parameters: Tensor, levels: Sequence[float]
    ) -> Tensor:
        """Return quantiles of y under q, ``[n, levels]``: whole numbers for counts.

        Parameters
        ----------
        mean, variance : tensor of shape (L, n)
            Moments of q.
        parameters : tensor of shape (p,)
            The likelihood's own.
        levels
            Probabilities between 0 and 1, exclusive.
        """
        quantiles.check_levels(levels)
        step = variance[0].sqrt() + 1.0
        parts = []
        for rows in quadrature.row_chunks(mean.shape[1], quantiles.N_NODES * len(levels)):
            m, v = mean[:, rows], variance[:, rows]

            def cdf(y: Tensor, m: Tensor = m, v: Tensor = v) -> Tensor:
                return self.predictive_cdf(y, m, v, parameters)

            parts.append(quantiles.invert(cdf, self.support, m[0], step[rows], levels))
        return torch.cat(parts)

    def predictive_cdf(
        self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor
    ) -> Tensor:
        """Return P(Y <= y) under q, for responses ``[..., n]``; one latent function."""
        nodes, weights = quantiles.trapezoid_nodes(mean)
        f = mean[0] + variance[0].sqrt() * nodes[:, None]
        return torch.einsum(
            "s,...sn->...n", weights, self.cdf(y[..., None, :], f[None], parameters)
        )

    def log_predictive(
        self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor
    ) -> Tensor:
        """Return log E_q[p(y | f)], ``[n]``: the predictive log density."""
        with torch.no_grad():
            if self.n_latents == 1:
                width = len(quadrature.rule(1)[1])
                chunks = quadrature.row_chunks(len(y), width)
                parts = [
                    self._log_predictive(y[rows], mean[0, rows], variance[0, rows], parameters)
                    for rows in chunks
                ]
            else:
                parts = [
                    torch.logsumexp(self.log_density(y[rows], f, parameters) + w.log()[:, None], 0)
                    for rows, f, w in quadrature.latent_values(mean, variance)
                ]
        return torch.cat(parts)

    def _log_predictive(
        self, y: Tensor, mean: Tensor, variance: Tensor, parameters: Tensor
    ) -> Tensor:
        def slopes(f: Tensor) -> tuple[Tensor, Tensor]:
            first, second = self.derivatives(y, f[None], parameters)
            return first[0], second[0]

        return quadrature.log_mean_exp(
            lambda f: self.log_density(y, f[None], parameters), slopes, mean, variance
        )

    # Model files.

    def to_dict(self) -> dict[str, Any]:
        """Return the settings (not the learned parameters) as JSON-safe values."""
        return {"name": self.name, **asdict(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Restore a likelihood from the values that `to_dict` gave."""
        expected = {"name", *(field.name for field in fields(cls))}
        if set(values) != expected or values["name"] != cls.name:
            raise ValueError(
                f"Cannot restore {cls.__name__}: expected name {cls.name!r} with the fields "
                f"{sorted(expected)}, got name {values.get('name')!r} with {sorted(values)}. "
                "Pass what to_dict() gave, unchanged."
            )
        return cls(**{k: v for k, v in values.items() if k != "name"})
