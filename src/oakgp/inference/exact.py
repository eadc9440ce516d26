"""Exact Gaussian process regression: evidence with gradient, and the posterior.

The gradient of the evidence with respect to the kernel matrix is 1/2 (K^-1 - alpha alpha^T), which
the fused operation turns into the gradient of every hyperparameter.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from oakgp.inference.cholesky import cholesky
from oakgp.inference.data import TrainingData
from oakgp.kernels.additive import AdditiveKernel, Parameters
from oakgp.posterior import KernelMap, KernelPosterior


def inverse_factor(factor: Tensor) -> Tensor:
    """Return the inverse of a lower triangular matrix."""
    eye = torch.eye(len(factor), dtype=factor.dtype, device=factor.device)
    inverse: Tensor = torch.linalg.solve_triangular(factor, eye, upper=False)
    return inverse


def inverse(factor: Tensor) -> Tensor:
    """Return (L L^T)^-1 of a lower triangular matrix L.

    LAPACK's routine does a third of the work of a triangular solve and a product; on a GPU these
    two run at the speed of matrix products, and the routine does not.
    """
    if factor.is_cuda:
        whitener = inverse_factor(factor)
        return whitener.T @ whitener
    return torch.cholesky_inverse(factor)


class _Evidence(torch.autograd.Function):
    """-log N(y; 0, K + diag(noise)), with the kernel matrix's gradient by hand."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, noise: Tensor, y: Tensor) -> Tensor:
        # The kernel matrix is this function's alone, so the noise goes onto it in place.
        matrix.diagonal().add_(noise)
        factor, _ = cholesky(matrix, "the kernel matrix of the training rows")
        alpha = torch.cholesky_solve(y[:, None], factor)[:, 0]
        ctx.save_for_backward(factor, alpha)
        log_det = 2.0 * factor.diagonal().log().sum()
        return 0.5 * (y @ alpha + log_det + len(y) * math.log(2.0 * math.pi))

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor, Tensor, None]:
        factor, alpha = ctx.saved_tensors
        gradient = inverse(factor)
        gradient.addr_(alpha, alpha, alpha=-1.0)
        gradient.mul_(0.5 * cotangents[0])
        return gradient, gradient.diagonal().clone(), None


def negative_evidence(kernel: AdditiveKernel, parameters: Parameters, data: TrainingData) -> Tensor:
    """Return -log p(y | X, hyperparameters), O(n^3), differentiable in the hyperparameters."""
    points = kernel.points(parameters, data.x)
    matrix = kernel.matrix(kernel.weights(parameters), points)
    if not matrix.requires_grad:
        matrix = matrix.clone()
    noise = parameters.noise / data.weight
    value: Tensor = _Evidence.apply(matrix, noise, data.y)
    return value - data.replicate_term(parameters.noise)


def posterior(
    kernel: AdditiveKernel, parameters: Parameters, data: TrainingData
) -> tuple[KernelPosterior, float]:
    """Return the posterior over all components and the relative jitter that was needed."""
    parameters = parameters.detach()
    features = KernelMap(kernel, parameters, data.x)
    matrix = kernel.matrix(features.weights, features.anchors).contiguous()
    matrix.diagonal().add_(parameters.noise / data.weight)
    factor, jitter = cholesky(matrix, "the kernel matrix of the training rows")
    del matrix
    whitener = inverse_factor(factor)
    mean = whitener.T @ (whitener @ data.y)
    return KernelPosterior(features, mean, whitener, float(parameters.noise)), jitter
