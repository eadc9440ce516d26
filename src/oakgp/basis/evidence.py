r"""Log evidence of a basis regression, and its gradient, from the sufficient statistics alone.

With w ~ N(0, Lambda), Lambda block-diagonal over the terms, and noise variance s, where a row of
weight w counts like w equal rows (n is the sum of the weights),

    B = I + L^T G L / s,  L L^T = Lambda,  G = Phi^T W Phi,  b = Phi^T W z,
    log Z = -1/2 [n log 2 pi s + log|B| + (z^T W z - |B^-1/2 L^T b|^2 / s) / s].

B has eigenvalues of 1 or more, so nothing is lost when a term's variance goes to 0. The gradient by
a block is 1/2 (v v^T - H), where v = (b - G m) / s and H = (G - G L B^-1 L^T G / s) / s: only its
diagonal blocks are formed. O(F^3), whatever the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from oakgp.basis.statistics import Statistics
from oakgp.inference.cholesky import cholesky

_JITTER = 1e-10  # relative, of a prior block: leading eigenvalues span ten decades at most

Blocks = Sequence[Tensor]


def block_factors(blocks: Blocks) -> list[Tensor]:
    """Return the lower Cholesky factor of each prior block."""
    factors = []
    for block in blocks:
        if len(block) == 1:
            factors.append(block.clamp_min(0.0).sqrt())
            continue
        scale = block.diagonal().mean()
        if float(scale) <= 0.0:
            factors.append(torch.zeros_like(block))
            continue
        # On unit scale: a variance of 1e-300 is still a variance.
        factor, _ = cholesky(block / scale, "the prior of a term", _JITTER)
        factors.append(factor * scale.sqrt())
    return factors


def spans_of(blocks: Blocks) -> list[slice]:
    """Return the columns of each block."""
    spans, start = [], 0
    for block in blocks:
        spans.append(slice(start, start + len(block)))
        start += len(block)
    return spans


def times_factors(matrix: Tensor, factors: Sequence[Tensor]) -> Tensor:
    """Return M L for block-diagonal L."""
    out = torch.empty_like(matrix)
    for span, factor in zip(spans_of(factors), factors, strict=True):
        torch.mm(matrix[:, span], factor, out=out[:, span])
    return out


def factors_times(factors: Sequence[Tensor], matrix: Tensor) -> Tensor:
    """Return L^T M for block-diagonal L."""
    return times_factors(matrix.T.contiguous(), factors).T


def on_device(matrices: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Return small matrices on another device, all in one transfer."""
    if not matrices or matrices[0].device == device:
        return list(matrices)
    flat = torch.cat([m.reshape(-1) for m in matrices]).to(device)
    parts = flat.split([m.numel() for m in matrices])
    return [part.view(m.shape) for part, m in zip(parts, matrices, strict=True)]


class Solution:
    """A basis regression solved for one prior and one noise variance.

    Parameters
    ----------
    data
        The sufficient statistics.
    factors
        Lower factors of the prior blocks.
    noise
        Noise variance of a row of weight 1.
    """

    def __init__(self, data: Statistics, factors: Sequence[Tensor], noise: float) -> None:
        self.data, self.factors, self.noise = data, factors, noise
        right = times_factors(data.gram, factors)  # G L
        inner = times_factors(right.T.contiguous(), factors)  # L^T G L, symmetric
        inner = (inner + inner.T) * (0.5 / noise)
        inner.diagonal().add_(1.0)
        self.factor, self.jitter = cholesky(inner, "the posterior precision of the basis weights")
        self.right = right
        rotated = factors_times(factors, data.moment[:, None])
        self.half = torch.linalg.solve_triangular(self.factor, rotated, upper=False)

    @property
    def log_evidence(self) -> Tensor:
        """Log evidence of the rows."""
        data, noise = self.data, self.noise
        fit = (self.half * self.half).sum() / noise
        log_noise = math.log(2.0 * math.pi * noise)
        value: Tensor = -0.5 * (
            data.weight * log_noise
            + 2.0 * self.factor.diagonal().log().sum()
            + (data.square - fit) / noise
        )
        return value

    @property
    def mean(self) -> Tensor:
        """Posterior mean of the weights, ``[F]``."""
        back = torch.linalg.solve_triangular(self.factor.T, self.half, upper=True)
        out = torch.empty_like(back)
        for span, factor in zip(spans_of(self.factors), self.factors, strict=True):
            out[span] = factor @ back[span]
        mean: Tensor = out[:, 0] / self.noise
        return mean

    @property
    def root(self) -> Tensor:
        """R ``[F, F]`` with R^T R the posterior covariance of the weights: R = C^-1 L^T."""
        eye = torch.block_diag(*[factor.T for factor in self.factors])
        root: Tensor = torch.linalg.solve_triangular(self.factor, eye, upper=False).contiguous()
        # Contiguous, as a file gives it back: then products are the same to the bit.
        return root

    def gradients(self) -> tuple[float, list[Tensor]]:
        """Return the derivative by the noise variance and by each prior block."""
        data, noise = self.data, self.noise
        mean = self.mean
        fitted = data.gram @ mean
        v = (data.moment - fitted) / noise
        explained = torch.linalg.solve_triangular(self.factor, self.right.T, upper=False)
        by_blocks, effective = [], v.new_zeros(())
        for span, factor in zip(spans_of(self.factors), self.factors, strict=True):
            part = explained[:, span]
            h = (data.gram[span, span] - part.T @ part / noise) / noise
            by_blocks.append(0.5 * (torch.outer(v[span], v[span]) - h))
            effective = effective + (h * (factor @ factor.T)).sum()
        residual = data.square - 2.0 * (data.moment @ mean) + mean @ fitted
        by_noise = -0.5 * ((data.weight - effective) / noise - residual / noise**2)
        return float(by_noise), by_blocks


class _LogEvidence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, data: Statistics, noise: Tensor, *blocks: Tensor) -> Tensor:
        # What is small stays where it is: a GPU takes longer to begin with it than a CPU to end.
        factors = on_device(block_factors(blocks), data.gram.device)
        ctx.solution = Solution(data, factors, float(noise))
        value: Tensor = ctx.solution.log_evidence
        return value.to(noise)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        by_noise, by_blocks = ctx.solution.gradients()
        (grad,) = grads
        by_blocks = on_device(by_blocks, grad.device)
        return (None, grad * by_noise, *(grad * g for g in by_blocks))


def log_evidence(data: Statistics, noise: Tensor, blocks: Blocks) -> Tensor:
    """Return the log evidence, differentiable in the noise variance and the prior blocks."""
    value: Tensor = _LogEvidence.apply(data, noise, *blocks)
    return value
