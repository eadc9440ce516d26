r"""q(v) = N(b, B^-1) of the whitened inducing values v = L_u^-1 u, by its natural parameters.

    first = B b,   precision = B = I + sum_i lambda2_i V_i V_i^T

B is the prior's precision plus what sites add, and these are never negative: whatever convex
combination a step takes, B stays positive definite.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from oakgp.inference.cholesky import cholesky
from oakgp.inference.exact import inverse
from oakgp.inference.stochastic.whitening import View, Whitening


@dataclass(frozen=True, eq=False)
class InducingGaussian:
    """q(v) of one latent function.

    Parameters
    ----------
    first, precision
        ``[m]`` B b and ``[m, m]`` B.
    mean, covariance
        ``[m]`` b and ``[m, m]`` B^-1.
    log_det
        Scalar log|B|.
    jitter
        Relative jitter of the factorisation.
    """

    first: Tensor
    precision: Tensor
    mean: Tensor
    covariance: Tensor
    log_det: Tensor
    jitter: float

    @staticmethod
    def of(first: Tensor, precision: Tensor) -> InducingGaussian:
        """Return q for some natural parameters, O(m^3)."""
        factor, jitter = cholesky(precision, "the inducing points' posterior precision")
        mean = torch.cholesky_solve(first[:, None], factor)[:, 0]
        log_det = 2.0 * factor.diagonal().log().sum()
        return InducingGaussian(first, precision, mean, inverse(factor), log_det, jitter)

    @staticmethod
    def prior(count: int, like: Tensor) -> InducingGaussian:
        """Return N(0, I) of so many values."""
        eye = torch.eye(count, dtype=like.dtype, device=like.device)
        return InducingGaussian.of(eye.new_zeros(count), eye)

    def divergence(self) -> Tensor:
        """Return KL(q(v) || N(0, I))."""
        trace = self.covariance.diagonal().sum()
        return 0.5 * (trace + self.mean @ self.mean - len(self.mean) + self.log_det)

    def entropy_and_energy(self, first: Tensor, precision: Tensor) -> Tensor:
        """Return E_q[log t] + H(q) for a Gaussian factor t(v), up to a constant."""
        square = (precision * self.covariance).sum() + self.mean @ (precision @ self.mean)
        return first @ self.mean - 0.5 * (square + self.log_det)

    def moments(self, view: View) -> tuple[Tensor, Tensor, Tensor]:
        """Return mean and variance of f at the rows of a view, each ``[n]``, and B^-1 V."""
        projected = self.covariance @ view.whitened
        explained = torch.einsum("ij,ij->j", view.whitened, projected)
        mean = view.whitened.T @ self.mean
        return mean, (view.remainder + explained).clamp_min(0.0), projected

    def towards(self, first: Tensor, precision: Tensor, share: float) -> InducingGaussian:
        """Return q a share of the way to other natural parameters."""
        return InducingGaussian.of(
            torch.lerp(self.first, first, share), torch.lerp(self.precision, precision, share)
        )

    def seen_from(self, old: Whitening, new: Whitening) -> InducingGaussian:
        """Return the q of other inducing points that has the same moments there.

        With C = cov(v', v) under the prior, v' ~ N(C b, I - C (I - B^-1) C^T).
        """
        view = old.view(new.x)
        cross = torch.linalg.solve_triangular(new.factor, view.whitened.T, upper=False)
        covariance = cross @ self.covariance @ cross.T - cross @ cross.T
        covariance.diagonal().add_(1.0)
        factor, _ = cholesky(0.5 * (covariance + covariance.T), "the moved posterior", 1e-10)
        precision = inverse(factor)
        return InducingGaussian.of(precision @ (cross @ self.mean), precision)
