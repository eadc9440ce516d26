r"""Variational inference for any likelihood: the bound, its gradient, and the posterior.

The latent functions f_l ~ level_l + GP(0, K_l) get independent Gaussians q(f_l) whose natural
parameters are those of the prior plus one Gaussian site a row (the dual parametrisation; Khan and
Lin 2017, Adam et al. 2021). At the optimum of the sites the bound

    sum_i w_i E_q[log p(y_i | f_i)] - sum_l KL(q(f_l) || p(f_l))

has, by each kernel matrix, the gradient of the evidence of a regression on the sites, because what
goes through the moments of q cancels. So one evaluation computes the kernel matrices once, improves
the sites by `oakgp.inference.matching`, and hands that gradient to the fused kernel operation. The
gradient by the likelihood's parameters is that of the expectations at fixed moments.

Rows whose sites would need a negative precision (outliers under Student's t) have precision 0
instead: the bound stays a bound, and its gradient misses how the other sites answer to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from oakgp.inference.conditioning import DensePrior, Prior, SparsePrior
from oakgp.inference.matching import Approximation, Matched, Target, match, surplus
from oakgp.inference.sites import Observations, Sites, parameter_gradient
from oakgp.kernels.additive import AdditiveKernel, Parameters
from oakgp.likelihoods.base import Likelihood
from oakgp.posterior import KernelMap, KernelPosterior

#: In nats for each thousand rows: far below what hyperparameters are learned to.
TOLERANCE = 1e-5
MAX_ITERATIONS = 200  # from new sites; most models take ten, varying noise a hundred
WARM_ITERATIONS = 50  # from sites nearby: where these do not do, a line search has gone too far


@dataclass(frozen=True, eq=False)
class LatentModel:
    """Latent functions and the likelihood that ties them to responses.

    Parameters
    ----------
    kernel
        Structure of the kernel of every latent function.
    parameters
        Hyperparameters of each latent function. Latent functions that share the same object share
        one kernel matrix. The noise in them is not used.
    levels
        ``[L]`` fixed values that the latent functions vary around.
    likelihood
        The likelihood.
    likelihood_parameters
        Its parameters, ``[p]``.
    """

    kernel: AdditiveKernel
    parameters: tuple[Parameters, ...]
    levels: Tensor
    likelihood: Likelihood
    likelihood_parameters: Tensor

    def __post_init__(self) -> None:
        """Refuse counts that do not fit together."""
        count = self.likelihood.n_latents
        if len(self.parameters) != count or len(self.levels) != count:
            raise ValueError(
                f"{self.likelihood.name} has {count} latent functions, but there are "
                f"{len(self.parameters)} sets of hyperparameters and {len(self.levels)} levels; "
                "give one of each for every latent function"
            )

    @property
    def distinct(self) -> tuple[tuple[Parameters, ...], tuple[int, ...]]:
        """The different sets of hyperparameters, and which of them each latent function has."""
        seen: dict[int, int] = {}
        numbers = tuple(seen.setdefault(id(p), len(seen)) for p in self.parameters)
        return tuple(self.parameters[numbers.index(k)] for k in range(len(seen))), numbers


def _matrices(
    kernel: AdditiveKernel, parameters: Parameters, x: Tensor, inducing: Tensor | None
) -> tuple[Tensor, ...]:
    """Return (K,), or with inducing points (K_uu, K_uf, diagonal of K_ff), differentiable."""
    weights = kernel.weights(parameters)
    points = kernel.points(parameters, x)
    if inducing is None:
        return (kernel.matrix(weights, points),)
    anchors = points.take(inducing)
    return (
        kernel.matrix(weights, anchors),
        kernel.matrix(weights, anchors, points),
        kernel.diagonal(weights, points),
    )


def _prior(matrices: Sequence[Tensor]) -> Prior:
    values = [matrix.detach() for matrix in matrices]
    return DensePrior(*values) if len(values) == 1 else SparsePrior(*values)


def _target(
    model: LatentModel, observations: Observations, matrices: Sequence[Sequence[Tensor]]
) -> Target:
    priors = [_prior(m) for m in matrices]
    return Target(
        tuple(priors[k] for k in model.distinct[1]),
        model.likelihood,
        model.likelihood_parameters.detach(),
        model.levels,
        observations,
    )


class _Bound(torch.autograd.Function):
    """Minus the bound at the optimum of the sites, with its gradients by hand."""

    @staticmethod
    def forward(
        ctx: Any,
        target: Target,
        approximation: Approximation,
        numbers: tuple[int, ...],
        parameters: Tensor,
        *matrices: Tensor,
    ) -> Tensor:
        ctx.call = target, approximation, numbers, len(matrices)
        return parameters.new_tensor(-approximation.bound)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Any, ...]:
        target, approximation, numbers, count = ctx.call
        by_parameters = None
        if ctx.needs_input_grad[3]:
            by_parameters = -cotangents[0] * parameter_gradient(
                target.likelihood,
                target.parameters,
                target.observations,
                target.observations.latent_mean(target.levels, approximation.mean),
                approximation.variance,
            )
        extra = surplus(target, approximation)
        totals: list[Tensor | None] = [None] * count
        for row, (number, q) in enumerate(zip(numbers, approximation.latents, strict=True)):
            parts = q.gradients(None if extra is None else extra[row])
            for k, part in enumerate(parts, start=number * len(parts)):
                total = totals[k]
                totals[k] = part if total is None else total.add_(part)
        by_matrices = [t if t is None else t.mul_(-cotangents[0]) for t in totals]
        return None, None, None, by_parameters, *by_matrices


def _bound(
    model: LatentModel,
    target: Target,
    approximation: Approximation,
    matrices: Sequence[Sequence[Tensor]],
) -> Tensor:
    flat = [matrix for group in matrices for matrix in group]
    value: Tensor = _Bound.apply(
        target, approximation, model.distinct[1], model.likelihood_parameters, *flat
    )
    return value


def _detached(model: LatentModel) -> LatentModel:
    different, numbers = model.distinct
    cut = [p.detach() for p in different]
    return replace(
        model,
        parameters=tuple(cut[k] for k in numbers),
        likelihood_parameters=model.likelihood_parameters.detach(),
    )


def update_sites(
    model: LatentModel,
    observations: Observations,
    sites: Sites | None = None,
    inducing: Tensor | None = None,
    *,
    tolerance: float = TOLERANCE,
    max_iterations: int = MAX_ITERATIONS,
) -> Matched:
    """Return the sites, and q, that are optimal for some hyperparameters (the E-step).

    Parameters
    ----------
    model, observations
        Model and rows.
    sites
        Where to begin; None begins anew.
    inducing
        ``[m]`` numbers of the rows that serve as inducing points; None takes all rows densely.
    tolerance
        Ends when a step gains less: nats for each thousand rows, and for fewer.
    max_iterations
        Largest number of steps.

    Returns
    -------
    Matched
        q with its sites and the bound, whether that converged, and the number of steps.
    """
    model = _detached(model)
    matrices = [_matrices(model.kernel, p, observations.x, inducing) for p in model.distinct[0]]
    target = _target(model, observations, matrices)
    return match(target, target.start() if sites is None else sites, tolerance, max_iterations)


def negative_bound(
    model: LatentModel, observations: Observations, sites: Sites, inducing: Tensor | None = None
) -> Tensor:
    """Return minus the bound at sites that are at their optimum, differentiable.

    The gradient by the hyperparameters and by the likelihood's parameters is that of the bound with
    the sites following them. O(n^3), or O(n m^2) with inducing points.

    Parameters
    ----------
    model, observations
        Model and rows.
    sites
        As `update_sites` leaves them.
    inducing
        ``[m]`` numbers of the rows that serve as inducing points; None takes all rows densely.
    """
    matrices = [_matrices(model.kernel, p, observations.x, inducing) for p in model.distinct[0]]
    target = _target(model, observations, matrices)
    return _bound(model, target, target.approximation(sites), matrices)


class VariationalObjective:
    """Minus the optimal bound as a function of the hyperparameters: what an optimiser minimises.

    Each call computes the kernel matrices once, and improves the sites from where the last call
    left them: one to five steps, when the hyperparameters moved little. Values therefore depend on
    earlier calls by about the tolerance, or by more where the bound has several optima.

    Parameters
    ----------
    model
        Kernel, levels and likelihood; the hyperparameters come with each call.
    observations
        The rows.
    inducing
        ``[m]`` numbers of the rows that serve as inducing points; None takes all rows densely.
    sites
        Where to begin; None begins anew.
    tolerance, max_iterations
        Of the E-step, as in `update_sites`; the first call may take four times as many steps.
    """

    def __init__(
        self,
        model: LatentModel,
        observations: Observations,
        inducing: Tensor | None = None,
        sites: Sites | None = None,
        *,
        tolerance: float = TOLERANCE,
        max_iterations: int = WARM_ITERATIONS,
    ) -> None:
        self.model, self.observations, self.inducing = model, observations, inducing
        self.sites = sites
        self.tolerance, self.max_iterations = tolerance, max_iterations
        self.n_iterations = 0
        self.converged = True

    def __call__(self, parameters: tuple[Parameters, ...], likelihood_parameters: Tensor) -> Tensor:
        """Return minus the bound, differentiable in all hyperparameters."""
        model = replace(
            self.model, parameters=parameters, likelihood_parameters=likelihood_parameters
        )
        x = self.observations.x
        matrices = [_matrices(model.kernel, p, x, self.inducing) for p in model.distinct[0]]
        target = _target(model, self.observations, matrices)
        limit = self.max_iterations * (4 if self.sites is None else 1)
        matched = match(target, self._begin(target), self.tolerance, limit)
        self.n_iterations += matched.n_iterations
        self.converged, self.sites = matched.converged, matched.approximation.sites
        return _bound(model, target, matched.approximation, matrices)

    def _begin(self, target: Target) -> Sites:
        """Return the last sites, or where a search that failed may have led astray, new ones."""
        if self.sites is None:
            return target.start()
        if self.converged:
            return self.sites
        old, new = (target.approximation(sites) for sites in (self.sites, target.start()))
        return new.sites if not old.bound >= new.bound else old.sites


def posterior(
    model: LatentModel, observations: Observations, sites: Sites, inducing: Tensor | None = None
) -> tuple[list[KernelPosterior], float]:
    """Return the posterior of each latent function and the largest relative jitter needed.

    Each is the posterior of the deviation from the level, without offset. Its ``noise`` is 0: what
    is random in the response is the likelihood's affair.

    Parameters
    ----------
    model, observations
        Model and rows.
    sites
        As `update_sites` leaves them, for the same rows and inducing points.
    inducing
        ``[m]`` numbers of the rows that serve as inducing points; None takes all rows densely.
    """
    model = _detached(model)
    x = observations.x
    anchors = x if inducing is None else x[:, inducing].contiguous()
    different, numbers = model.distinct
    priors = [_prior(_matrices(model.kernel, p, x, inducing)) for p in different]
    maps = [KernelMap(model.kernel, p, anchors) for p in different]
    posteriors, jitter = [], 0.0
    for number, first, precision in zip(numbers, sites.first, sites.precision, strict=True):
        q = priors[number].condition(first, precision)
        posteriors.append(KernelPosterior(maps[number], *q.weights(), 0.0))
        jitter = max(jitter, q.jitter)
    return posteriors, jitter
