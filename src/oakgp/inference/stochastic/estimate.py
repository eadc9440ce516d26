r"""The bound and its gradients from some of the rows, scaled to all of them.

For a batch of n_b of n rows, with s = n / n_b, q(v_l) of each latent function and V of each kernel,

    s sum_(i in batch) w_i E_q[log p(y_i | f_i)] - sum_l KL(q(v_l) || N(0, I))

is the bound in expectation over batches, and so are its gradients: batches are drawn without
regard to the rows' weights, which count in the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from oakgp.inference.sites import Observations, Sites, expectation, parameter_gradient
from oakgp.inference.stochastic.inducing_gaussian import InducingGaussian
from oakgp.inference.stochastic.whitening import TapedView, View
from oakgp.inference.variational import LatentModel
from oakgp.likelihoods.base import Expected


@dataclass(frozen=True, eq=False)
class Estimate:
    """Some rows under q.

    Parameters
    ----------
    mean, variance
        ``[L, n]`` moments of q, as deviations from levels and offsets.
    expected
        Weighted expectations of the log density and their slopes.
    projected
        B^-1 V of each latent function, ``[m, n]``.
    """

    mean: Tensor
    variance: Tensor
    expected: Expected
    projected: tuple[Tensor, ...]

    @property
    def sites(self) -> Sites:
        """The sites that match."""
        return Sites.matching(self.expected, self.mean)


def estimate(
    model: LatentModel,
    observations: Observations,
    latents: Sequence[InducingGaussian],
    views: Sequence[View],
    held: Tensor | None = None,
) -> Estimate:
    """Return what q says of some rows.

    Parameters
    ----------
    model, observations
        Model and rows.
    latents
        q of each latent function.
    views
        The rows as each of the different kernels sees them.
    held
        ``[L, n]`` variances to take where they are not NaN.
    """
    parts = [q.moments(views[k]) for q, k in zip(latents, model.distinct[1], strict=True)]
    mean, variance = (torch.stack([part[k] for part in parts]) for k in (0, 1))
    if held is not None:
        variance = torch.where(held.isnan(), variance, held)
    expected = expectation(
        model.likelihood,
        model.likelihood_parameters,
        observations,
        observations.latent_mean(model.levels, mean),
        variance,
    )
    return Estimate(mean, variance, expected, tuple(part[2] for part in parts))


def cut_variances(model: LatentModel, current: Estimate) -> Tensor | None:
    """Return the variances of rows whose precision was cut at 0, else NaN; None without any.

    A step leaves those variances out of account, so its success is measured with them held.
    """
    if model.likelihood.log_concave:
        return None
    cut = current.expected.by_variance > 0.0
    if not bool(cut.any()):
        return None
    return torch.where(cut, current.variance, torch.nan)


def added(view: View, sites: Sites, latent: int) -> tuple[Tensor, Tensor]:
    """Return what the sites of a latent function add to its natural parameters: V l1, V S V^T."""
    v = view.whitened
    return v @ sites.first[latent], (v * sites.precision[latent]) @ v.T


def bound(current: Estimate, latents: Sequence[InducingGaussian], scale: float) -> float:
    """Return the estimate of the bound."""
    divergence = sum(float(q.divergence()) for q in latents)
    return scale * float(current.expected.value.sum()) - divergence


def gradient(
    model: LatentModel,
    observations: Observations,
    latents: Sequence[InducingGaussian],
    taped: Sequence[TapedView],
    current: Estimate,
    scale: float,
) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """Return kernel matrices, the bound's gradients by them, and that by the parameters.

    At fixed q(v), by V: b dE/dm^T + 2 (B^-1 - I) V diag(dE/dv), summed over the latent functions
    that share the kernel; by the diagonal of the kernel dE/dv.

    Parameters
    ----------
    model, observations, latents
        Model, rows of the batch and q.
    taped
        The rows as each of the different kernels sees them.
    current
        What q says of the rows.
    scale
        Rows of all batches for each row of this one.
    """
    matrices: list[Tensor] = []
    cotangents: list[Tensor] = []
    numbers = model.distinct[1]
    for k, view in enumerate(taped):
        by_whitened = torch.zeros_like(view.view.whitened)
        by_diagonal = torch.zeros_like(view.view.remainder)
        for row, (q, number) in enumerate(zip(latents, numbers, strict=True)):
            if number != k:
                continue
            by_mean = scale * current.expected.by_mean[row]
            by_variance = scale * current.expected.by_variance[row]
            by_whitened.addr_(q.mean, by_mean)
            change = current.projected[row] - view.view.whitened
            by_whitened.add_(change * (2.0 * by_variance))
            by_diagonal += by_variance
        matrices += view.matrices
        cotangents += view.cotangents(by_whitened, by_diagonal)
    by_parameters = scale * parameter_gradient(
        model.likelihood,
        model.likelihood_parameters,
        observations,
        observations.latent_mean(model.levels, current.mean),
        current.variance,
    )
    return matrices, cotangents, by_parameters
