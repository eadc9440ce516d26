r"""A Gaussian process conditioned on Gaussian sites: moments, divergence, gradients.

Two priors, one interface. With S = diag(lambda2) and the sites' lambda1,

    dense:   f ~ N(0, K),              q(f) = N(Sigma lambda1, Sigma),   Sigma = (K^-1 + S)^-1;
    sparse:  f = V^T u + independent remainder,  u ~ N(0, I),   V = L_u^-1 K_uf,  L_u L_u^T = K_uu,
             q(u) = N(b, B^-1),  B = I + V S V^T,  b = B^-1 V lambda1,

where the remainder keeps its prior variance k_ii - |V_i|^2. The dense prior works through
B = I + S^1/2 K S^1/2. So only matrices with eigenvalues of 1 or more are factorised (besides K_uu),
and nothing is divided by a precision, which may be 0.

Gradients are those of sum_i E_i(mean_i, variance_i) - KL(q || p) at fixed sites, where the means
are optimal (dE/dm = lambda1 - lambda2 m) and so are the variances, but for a ``surplus``
dE/dv + lambda2 / 2 in rows whose precision was cut at 0. Without it they are the gradients of the
evidence of a regression on lambda1 / lambda2 with noise 1 / lambda2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from oakgp.inference.cholesky import cholesky
from oakgp.inference.exact import inverse, inverse_factor
from oakgp.inference.sparse import JITTER


@dataclass(frozen=True, eq=False)
class Conditioned(ABC):
    """q(f) of one latent function.

    Parameters
    ----------
    mean, variance
        ``[n]`` moments of q at the rows.
    divergence
        Scalar KL(q || p).
    jitter
        Relative jitter of the factorisations.
    """

    mean: Tensor
    variance: Tensor
    divergence: Tensor
    jitter: float

    @abstractmethod
    def gradients(self, surplus: Tensor | None) -> tuple[Tensor, ...]:
        """Return the bound's gradient by each kernel matrix that the prior was made of."""

    @abstractmethod
    def weights(self) -> tuple[Tensor, Tensor]:
        """Return a ``[m]`` and W ``[k, m]``: mean psi^T a and variance k(x, x) - |W psi|^2."""


class Prior(ABC):
    """Prior of one latent function at the rows, as kernel matrices without a gradient tape."""

    @abstractmethod
    def condition(self, first: Tensor, precision: Tensor) -> Conditioned:
        """Return q given the natural parameters of the sites, each ``[n]``."""


@dataclass(frozen=True, eq=False)
class DensePrior(Prior):
    """All rows with each other: O(n^3) a condition.

    Parameters
    ----------
    matrix
        K, ``[n, n]``.
    """

    matrix: Tensor

    def condition(self, first: Tensor, precision: Tensor) -> DenseConditioned:
        """Return q through B = I + S^1/2 K S^1/2 = L L^T.

        alpha = K^-1 m = lambda1 - S^1/2 B^-1 S^1/2 K lambda1, and the variances are
        k_ii - |(L^-1 S^1/2 K)_i|^2. Since tr(B^-1) = n - sum_i lambda2_i v_i,
        KL = 1/2 (m^T alpha - sum_i lambda2_i v_i + log|B|).
        """
        root = precision.sqrt()
        scaled = root[:, None] * self.matrix
        b = scaled * root
        b.diagonal().add_(1.0)
        factor, jitter = cholesky(b, "the posterior precision of the training rows")
        half = torch.linalg.solve_triangular(factor, scaled, upper=False)
        projected = torch.linalg.solve_triangular(factor.T, (half @ first)[:, None], upper=True)
        alpha = first - root * projected[:, 0]
        mean = self.matrix @ alpha
        explained = torch.einsum("ij,ij->j", half, half)
        variance = (self.matrix.diagonal() - explained).clamp_min(0.0)
        log_det = 2.0 * factor.diagonal().log().sum()
        divergence = 0.5 * (mean @ alpha - precision @ variance + log_det)
        return DenseConditioned(mean, variance, divergence, jitter, self, root, factor, alpha)


@dataclass(frozen=True, eq=False)
class DenseConditioned(Conditioned):
    """q(f) = N(K alpha, K - K R K) with R = S^1/2 B^-1 S^1/2.

    Parameters
    ----------
    prior
        K.
    root, factor, alpha
        ``[n]`` S^1/2, ``[n, n]`` L and ``[n]`` alpha.
    """

    prior: DensePrior
    root: Tensor
    factor: Tensor
    alpha: Tensor

    def gradients(self, surplus: Tensor | None) -> tuple[Tensor]:
        """Return 1/2 (alpha alpha^T - R) + C diag(surplus) C^T, C = I - R K, by K.

        The last term is dv_i = c_i^T dK c_i, over the few rows with a surplus.
        """
        r = inverse(self.factor).mul_(self.root).mul_(self.root[:, None])
        gradient = torch.addr(r, self.alpha, self.alpha, beta=-0.5, alpha=0.5)
        if surplus is not None:
            rows = surplus.nonzero()[:, 0]
            c = -(r @ self.prior.matrix[:, rows])
            c[rows, torch.arange(len(rows), device=rows.device)] += 1.0
            gradient.addmm_(c * surplus[rows], c.T)
        return (gradient,)

    def weights(self) -> tuple[Tensor, Tensor]:
        """Return alpha and W = L^-1 S^1/2."""
        return self.alpha, inverse_factor(self.factor) * self.root


class SparsePrior(Prior):
    """Rows seen through inducing points: O(n m^2) a condition, O(n m) memory.

    Parameters
    ----------
    inner, cross, diagonal
        ``[m, m]`` K_uu, ``[m, n]`` K_uf and ``[n]`` the diagonal of K_ff.
    """

    def __init__(self, inner: Tensor, cross: Tensor, diagonal: Tensor) -> None:
        self.factor, self.jitter = cholesky(inner, "the inducing points' kernel", JITTER)
        self.whitened = torch.linalg.solve_triangular(self.factor, cross, upper=False)
        explained = torch.einsum("ij,ij->j", self.whitened, self.whitened)
        self.remainder = (diagonal - explained).clamp_min(0.0)

    def condition(self, first: Tensor, precision: Tensor) -> SparseConditioned:
        """Return q through B = I + V S V^T = L L^T.

        Means V_i^T b, variances (k_ii - |V_i|^2) + |L^-1 V_i|^2, and
        KL = 1/2 (tr(B^-1) + b^T b - m + log|B|).
        """
        v = self.whitened
        matrix = (v * precision) @ v.T
        matrix.diagonal().add_(1.0)
        factor, jitter = cholesky(matrix, "the inducing points' posterior precision")
        b = torch.cholesky_solve((v @ first)[:, None], factor)[:, 0]
        half = torch.linalg.solve_triangular(factor, v, upper=False)
        variance = self.remainder + torch.einsum("ij,ij->j", half, half)
        b_inverse = inverse(factor)
        log_det = 2.0 * factor.diagonal().log().sum()
        divergence = 0.5 * (b_inverse.diagonal().sum() + b @ b - len(b) + log_det)
        mean = v.T @ b
        return SparseConditioned(
            mean,
            variance,
            divergence,
            max(jitter, self.jitter),
            self,
            precision,
            first - precision * mean,
            matrix,
            b_inverse,
            b,
        )


@dataclass(frozen=True, eq=False)
class SparseConditioned(Conditioned):
    """q(u) = N(b, B^-1) of the whitened inducing values.

    Parameters
    ----------
    prior
        L_u and V.
    precision, residual
        ``[n]`` lambda2 and lambda1 - lambda2 m.
    matrix, inverse, b
        ``[m, m]`` B and B^-1, ``[m]`` b.
    """

    prior: SparsePrior
    precision: Tensor
    residual: Tensor
    matrix: Tensor
    inverse: Tensor
    b: Tensor

    def gradients(self, surplus: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients by K_uu, K_uf and the diagonal of K_ff.

        With D = diag(surplus), T = V D V^T and the residual r, the gradient by V is

            G = (I - B^-1) V (S - 2 D) + b r^T - 2 B^-1 T B^-1 V S.

        The bound does not change when V turns into Q V, so P = G V^T is symmetric:
        P = B - 2 I + B^-1 + b b^T - 2 (T - B^-1 T B^-1). Then L_u^-T G is the gradient by K_uf,
        -1/2 L_u^-T P L_u^-1 that by K_uu, and D - S / 2 that by the diagonal.
        """
        v, whitener = self.prior.whitened, inverse_factor(self.prior.factor)
        eye = torch.eye(len(self.b), dtype=v.dtype, device=v.device)
        shrink = eye - self.inverse
        p = self.matrix - eye - shrink + torch.outer(self.b, self.b)
        by_diagonal = -0.5 * self.precision
        by_cross = (whitener.T @ shrink) @ v
        if surplus is None:
            by_cross *= self.precision
        else:
            rows = surplus.nonzero()[:, 0]
            t = (v[:, rows] * surplus[rows]) @ v[:, rows].T
            both = self.inverse @ t @ self.inverse
            p = p - 2.0 * (t - both)
            by_diagonal = by_diagonal + surplus
            by_cross *= self.precision - 2.0 * surplus
            by_cross.addmm_(whitener.T @ both, v * self.precision, alpha=-2.0)
        by_cross.addr_(whitener.T @ self.b, self.residual)
        return -0.5 * (whitener.T @ (p @ whitener)), by_cross, by_diagonal

    def weights(self) -> tuple[Tensor, Tensor]:
        """Return L_u^-T b and W with W^T W = L_u^-T (I - B^-1) L_u^-1.

        I - B^-1 is positive semidefinite: its root is taken in B's eigenbasis, where the small
        eigenvalues of V S V^T keep their digits.
        """
        whitening = inverse_factor(self.prior.factor)
        values, vectors = torch.linalg.eigh(self.matrix)
        shrink = ((values - 1.0).clamp_min(0.0) / values).sqrt()
        return whitening.T @ self.b, shrink[:, None] * (vectors.T @ whitening)
