"""Sparse regression with inducing points: the collapsed bound of Titsias (2009), per-row noise.

With A = L_u^-1 K_uf S^-1/2, L_u L_u^T = K_uu, S = diag(sigma2 / w) and B = I + A A^T:

    bound = log N(y; 0, Q_ff + S) - 1/2 tr(S^-1 (K_ff - Q_ff)),   Q_ff = K_fu K_uu^-1 K_uf

in O(n m^2). Everything is whitened by L_u first: forming K_uf K_fu would square its condition.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from oakgp.inference.cholesky import cholesky
from oakgp.inference.data import TrainingData
from oakgp.inference.exact import inverse
from oakgp.kernels.additive import AdditiveKernel, Parameters
from oakgp.posterior import KernelMap, KernelPosterior

#: Relative jitter of K_uu: the inducing points are chosen to be nearly independent, so little is
#: needed, but without any the bound would follow rounding errors.
JITTER = 1e-8


class _Bound(torch.autograd.Function):
    """Minus the collapsed bound, with the gradient by the kernel matrices by hand.

    With G_A = (I - B^-1) A + b r^T, b = B^-1 A z, r = z - A^T b and z = S^-1/2 y, the gradient of
    the bound is L_u^-T G_A S^-1/2 by K_uf and -1/2 L_u^-T P L_u^-1 by K_uu, where
    P = G_A A^T = B - 2 I + B^-1 + b b^T is symmetric. Reverse mode through the factorisations
    would cost three times as much.
    """

    @staticmethod
    def forward(
        ctx: Any,
        inner: Tensor,
        cross: Tensor,
        diagonal: Tensor,
        noise: Tensor,
        weight: Tensor,
        y: Tensor,
    ) -> Tensor:
        factor, _ = cholesky(inner, "the inducing points' kernel", JITTER)
        root = (weight / noise).sqrt()
        a = torch.linalg.solve_triangular(factor, cross * root, upper=False)
        gram = a @ a.T
        trace = gram.diagonal().sum()
        b_matrix = gram
        b_matrix.diagonal().add_(1.0)
        factor_b, _ = cholesky(b_matrix, "the inducing points' posterior precision")
        z = root * y
        projected = a @ z
        b = torch.cholesky_solve(projected[:, None], factor_b)[:, 0]
        prior = (diagonal * root * root).sum()
        log_det = 2.0 * (factor_b.diagonal().log().sum() - root.log().sum())
        quadratic = z @ z - projected @ b
        value: Tensor = 0.5 * (
            log_det + quadratic + prior - trace + len(y) * math.log(2.0 * math.pi)
        )
        ctx.save_for_backward(factor, factor_b, b_matrix, a, b, z, root, prior, noise)
        return value

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        factor, factor_b, b_matrix, a, b, z, root, prior, noise = ctx.saved_tensors
        scale = -cotangents[0]  # of the bound itself
        eye = torch.eye(len(factor), dtype=factor.dtype, device=factor.device)
        whitener = torch.linalg.solve_triangular(factor, eye, upper=False)
        b_inverse = inverse(factor_b)
        r = z - a.T @ b
        by_cross = (whitener.T @ (eye - b_inverse)) @ a
        by_cross.addr_(whitener.T @ b, r)
        by_cross *= scale * root
        p = b_matrix - 2.0 * eye + b_inverse + torch.outer(b, b)
        by_inner = (-0.5 * scale) * (whitener.T @ (p @ whitener))
        by_diagonal = (-0.5 * scale) * root * root
        # Everything depends on the noise through S^-1/2 alone.
        along = -0.5 * (p.diagonal().sum() + b @ (a @ z)) + 0.5 * (z @ z - len(z) + prior)
        return by_inner, by_cross, by_diagonal, scale * along / noise, None, None


def negative_bound(
    kernel: AdditiveKernel, parameters: Parameters, data: TrainingData, inducing: Tensor
) -> Tensor:
    """Return minus the collapsed bound, O(n m^2), differentiable in the hyperparameters.

    Parameters
    ----------
    kernel, parameters, data
        Model and rows.
    inducing
        ``[m]`` numbers of the rows that serve as inducing points.
    """
    weights = kernel.weights(parameters)
    points = kernel.points(parameters, data.x)
    anchors = points.take(inducing)
    value: Tensor = _Bound.apply(
        kernel.matrix(weights, anchors),
        kernel.matrix(weights, anchors, points),
        kernel.diagonal(weights, points),
        parameters.noise,
        data.weight,
        data.y,
    )
    return value - data.replicate_term(parameters.noise)


def best_noise(
    kernel: AdditiveKernel,
    parameters: Parameters,
    data: TrainingData,
    inducing: Tensor,
    limits: tuple[float, float],
) -> float:
    """Return the noise variance that maximises the bound with all else fixed, O(n m^2) once.

    What few inducing points leave unexplained counts as noise in the bound, so a noise learned
    without them can be smaller by orders of magnitude: a gradient run from there would rather
    give up the whole signal. In the eigenbasis of A A^T each trial costs O(m).
    """
    parameters = parameters.detach()
    weights = kernel.weights(parameters)
    points = kernel.points(parameters, data.x)
    anchors = points.take(inducing)
    factor, _ = cholesky(kernel.matrix(weights, anchors), "the inducing points' kernel", JITTER)
    root = data.weight.sqrt()
    cross = kernel.matrix(weights, anchors, points) * root
    a = torch.linalg.solve_triangular(factor, cross, upper=False)
    values, vectors = torch.linalg.eigh(a @ a.T)
    values = values.clamp_min(0.0)
    projected = (vectors.T @ (a @ (root * data.y))) ** 2
    total = float((data.weight * data.y**2).sum())
    slack = float((data.weight * kernel.diagonal(weights, points)).sum() - values.sum())
    trials = torch.logspace(
        math.log10(limits[0]), math.log10(limits[1]), 400, dtype=a.dtype, device=a.device
    )
    gain = (projected / (trials[:, None] + values)).sum(dim=1)
    misfit = (total - gain + max(slack, 0.0)) / trials
    log_det = torch.log1p(values / trials[:, None]).sum(dim=1) + data.n * trials.log()
    bound = -0.5 * (misfit + log_det) + torch.stack([data.replicate_term(t) for t in trials])
    return float(trials[bound.argmax()])


def posterior(
    kernel: AdditiveKernel, parameters: Parameters, data: TrainingData, inducing: Tensor
) -> tuple[KernelPosterior, float]:
    """Return the posterior over all components and the relative jitter that was needed.

    Predictive mean K_*u a and variance k_** - |W k_u*|^2 with W^T W = K_uu^-1 - (K_uu + K_uf S^-1
    K_fu)^-1: the same form as the exact posterior, so everything downstream is shared.
    """
    parameters = parameters.detach()
    features = KernelMap(kernel, parameters, data.x[:, inducing].contiguous())
    factor, jitter = cholesky(
        kernel.matrix(features.weights, features.anchors), "the inducing points' kernel", JITTER
    )
    root = (parameters.noise / data.weight).sqrt()
    b = torch.eye(len(factor), dtype=factor.dtype, device=factor.device)
    projected = torch.zeros_like(factor[:, 0])
    for rows in torch.arange(data.n, device=factor.device).split(8192):
        points = kernel.points(parameters, data.x[:, rows])
        cross = kernel.matrix(features.weights, features.anchors, points) / root[rows]
        a = torch.linalg.solve_triangular(factor, cross, upper=False)
        b = b + a @ a.T
        projected = projected + a @ (data.y[rows] / root[rows])
    # I - B^-1 is positive semidefinite: its square root is taken in B's eigenbasis, where the
    # small eigenvalues of A A^T keep their digits.
    values, vectors = torch.linalg.eigh(b)
    shrink = ((values - 1.0).clamp_min(0.0) / values).sqrt()
    eye = torch.eye(len(factor), dtype=factor.dtype, device=factor.device)
    whitening = torch.linalg.solve_triangular(factor, eye, upper=False)
    mean = whitening.T @ (vectors @ ((vectors.T @ projected) / values))
    whitener = shrink[:, None] * (vectors.T @ whitening)
    return KernelPosterior(features, mean, whitener, float(parameters.noise)), jitter
