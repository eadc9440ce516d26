"""Sparse regression with inducing points: the collapsed bound of Titsias (2009), per-row noise.

With A = L_u^-1 K_uf S^-1/2, L_u L_u^T = K_uu, S = diag(sigma2 / w) and B = I + A A^T:

    bound = log N(y; 0, Q_ff + S) - 1/2 tr(S^-1 (K_ff - Q_ff)),   Q_ff = K_fu K_uu^-1 K_uf

in O(n m^2). Everything is whitened by L_u first: forming K_uf K_fu would square its condition.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from oakgp.inference.cholesky import cholesky
from oakgp.inference.data import TrainingData
from oakgp.kernels.additive import AdditiveKernel, Parameters
from oakgp.posterior import KernelMap, Posterior

#: Relative jitter of K_uu: the inducing points are chosen to be nearly independent, so little is
#: needed, but without any the bound would follow rounding errors.
JITTER = 1e-8


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
    factor, _ = cholesky(kernel.matrix(weights, anchors), "the inducing points' kernel", JITTER)
    noise = parameters.noise / data.weight
    root = noise.sqrt()
    a = torch.linalg.solve_triangular(
        factor, kernel.matrix(weights, anchors, points) / root, upper=False
    )
    b = a @ a.T
    trace = b.diagonal().sum()
    b = b + torch.eye(len(b), dtype=b.dtype, device=b.device)
    factor_b, _ = cholesky(b, "the inducing points' posterior precision")
    scaled = data.y / root
    c = torch.linalg.solve_triangular(factor_b, (a @ scaled)[:, None], upper=False)[:, 0]
    log_det = 2.0 * factor_b.diagonal().log().sum() + noise.log().sum()
    quadratic = scaled @ scaled - c @ c
    fit = 0.5 * (log_det + quadratic + data.n * math.log(2.0 * math.pi))
    slack = 0.5 * ((kernel.diagonal(weights, points) / noise).sum() - trace)
    value: Tensor = fit + slack - data.replicate_term(parameters.noise)
    return value


def posterior(
    kernel: AdditiveKernel, parameters: Parameters, data: TrainingData, inducing: Tensor
) -> tuple[Posterior, float]:
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
    return Posterior(features, mean, whitener, float(parameters.noise)), jitter
