r"""Components on the scale of the response: probabilities, rates, amounts.

Components add up on the scale of the link only. On that of the response the effect of a term u is
told by

    r_u(x) = E[y | f = f_() + f_u(x_u)],

the expected response where all other components stand at 0, which is their mean. The expectation is
over the posterior of the constant and the component together, a Gaussian: exactly, or to the
accuracy of the likelihood's own quadrature. r_() is the *base rate*, and r_u - r_() the effect. Of
classes, the components that all of them have of the term move together.

r_u is the expected response of a typical row, not the average over the rows: where the link bends,
the two differ by what the other components' spread does to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor

from oakgp.kernels.terms import Term
from oakgp.likelihoods import quadrature
from oakgp.likelihoods.special import bounded_exp
from oakgp.model import Label, Model
from oakgp.response import as_array

Array = NDArray[np.float64]

_N_POINTS = 2048  # behind quantiles of class probabilities


@dataclass(frozen=True, eq=False)
class ComponentResponse:
    """Constant plus one component, and what they say of the response.

    Parameters
    ----------
    model
        The whole model, all latent functions.
    output
        Which of them; the class whose probability is meant.
    term
        The features u.
    constant_known
        Whether the constant counts as known, at its posterior mean: what is uncertain is the
        component alone then, as plots of differences from the base rate want it.
    """

    model: Model
    output: Label | None
    term: Term
    constant_known: bool = False

    def moments(self, x: Tensor) -> tuple[Array, Array]:
        """Return mean and standard deviation of the expected response, each ``[n]``.

        The deviation is the posterior's, of E[y | f]; the noise of a single response is not in it.

        Parameters
        ----------
        x
            ``[d, n]`` encoded rows.
        """
        mean, variance = self._latent(x)
        first = self._average(mean, variance, 1)
        second = self._average(mean, variance, 2)
        return first, np.sqrt(np.maximum(second - first**2, 0.0))

    def quantiles(self, x: Tensor, levels: Sequence[float]) -> Array:
        """Return posterior quantiles of the expected response, ``[n, levels]``.

        With one latent function they are those of the Gaussian, transformed; probabilities of
        three and more classes have them from 2,048 quasi-random draws.
        """
        mean, variance = self._latent(x)
        if not self.model.pooled:
            z = mean.new_tensor(ndtri(np.asarray(levels)))
            f = mean[0][:, None] + variance[0].sqrt()[:, None] * z
            return as_array(self._response(f[None]))
        points = mean.new_tensor(quadrature.gaussian_points(len(mean), _N_POINTS))
        share = mean.new_tensor(list(levels))
        parts = []
        for rows in quadrature.row_chunks(mean.shape[1], points.numel()):
            spread = variance[:, None, rows].sqrt() * points[:, :, None]
            p = self._response(mean[:, None, rows] + spread)
            parts.append(torch.quantile(p, share, dim=0).T)
        return as_array(torch.cat(parts))

    def _latent(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return moments of the latent values, ``[L, n]``: of all classes, or of the one output."""
        models = self.model.outputs if self.model.pooled else (self.model.of(self.output),)
        means, variances = [], []
        for model in models:
            mean, variance = model.posterior.keep([self.term]).mean_and_variance(x)
            if self.constant_known and self.term:
                variance = model.posterior.mean_and_variance(x, self.term)[1]
            elif self.constant_known:
                variance = torch.zeros_like(variance)
            means.append(model.center + model.scale * mean)
            variances.append(model.scale**2 * variance)
        return torch.stack(means), torch.stack(variances)

    def _response(self, f: Tensor) -> Tensor:
        """Return E[y | f] for latent values ``[L, ..., n]``."""
        response = self.model.response
        if response is None:
            return f[0]
        if response.shifts:  # the function is the mean itself, or the log variance of the noise
            return f[0] if self._is_mean else bounded_exp(0.5 * f[0])
        expected, _ = response.likelihood.conditional_moments(f, response.parameters)
        return expected[self._number] if self.model.pooled else expected

    def _average(self, mean: Tensor, variance: Tensor, power: int) -> Array:
        """Return E[E[y | f]^power] over the posterior, ``[n]``."""
        response = self.model.response
        if response is None or response.shifts:
            if self._is_mean:
                return as_array(mean[0] ** power + (power - 1) * variance[0])
            return as_array(bounded_exp(0.5 * power * mean[0] + 0.125 * power**2 * variance[0]))
        if response.likelihood.support in ("count", "positive"):  # the mean is e^f
            return as_array(bounded_exp(power * mean[0] + 0.5 * power**2 * variance[0]))
        if power == 1:
            found = response.likelihood.response_mean(mean, variance, response.parameters)
            return as_array(found[self._number] if self.model.pooled else found)
        return as_array(quadrature.average(lambda f, _: self._response(f) ** power, mean, variance))

    @property
    def _is_mean(self) -> bool:
        return self.model.response is None or self._number == 0

    @property
    def _number(self) -> int:
        """Which latent function is meant."""
        if self.output is None:
            self.model.of(None)  # of classes, one must be named
            return 0
        names = [model.name for model in self.model.outputs]
        self.model.of(self.output)
        return names.index(self.output)


def response_name(model: Model, output: Label | None) -> str:
    """Return what the response scale measures, in words."""
    response = model.response
    if response is None:
        return "expected response"
    if response.shifts:
        noise = model.of(output).name == "log noise"
        return "standard deviation of the noise" if noise else "expected response"
    if response.likelihood.support in ("binary", "classes"):
        return f"probability of {model.of(output).name}"
    return {"count": "rate", "positive": "mean", "unit": "mean"}[response.likelihood.support]
