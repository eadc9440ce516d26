"""Rows as the whitened inducing values see them: V = L_u^-1 K_uf, and the way back to the kernel.

With f_i = V_i^T v + an independent remainder of variance k_ii - |V_i|^2 and v ~ N(0, I) under the
prior, the divergence of q(v) does not depend on the hyperparameters: they enter through V and the
remainders alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from oakgp.inference.cholesky import cholesky
from oakgp.inference.exact import inverse_factor
from oakgp.inference.sparse import JITTER
from oakgp.kernels.additive import AdditiveKernel, Parameters
from oakgp.ops.layout import Points, Weights


@dataclass(frozen=True, eq=False)
class View:
    """Rows seen from the inducing points.

    Parameters
    ----------
    whitened
        V, ``[m, n]``.
    remainder
        ``[n]`` prior variances that the inducing values leave.
    """

    whitened: Tensor
    remainder: Tensor


def _view(factor: Tensor, cross: Tensor, diagonal: Tensor) -> View:
    whitened = torch.linalg.solve_triangular(factor, cross, upper=False)
    explained = torch.einsum("ij,ij->j", whitened, whitened)
    return View(whitened, (diagonal - explained).clamp_min(0.0))


@dataclass(frozen=True, eq=False)
class Whitening:
    """Inducing points under some hyperparameters, which stay as they are.

    Parameters
    ----------
    kernel, parameters
        The kernel.
    x
        ``[d, m]`` encoded inducing points.
    """

    kernel: AdditiveKernel
    parameters: Parameters
    x: Tensor

    @cached_property
    def weights(self) -> Weights:
        """Parameters as the fused operation reads them."""
        return self.kernel.weights(self.parameters)

    @cached_property
    def anchors(self) -> Points:
        """The inducing points with their embeddings."""
        return self.kernel.points(self.parameters, self.x)

    @cached_property
    def _factored(self) -> tuple[Tensor, float]:
        inner = self.kernel.matrix(self.weights, self.anchors)
        return cholesky(inner, "the inducing points' kernel", JITTER)

    @property
    def factor(self) -> Tensor:
        """L_u, ``[m, m]``."""
        return self._factored[0]

    @property
    def jitter(self) -> float:
        """Relative jitter of K_uu."""
        return self._factored[1]

    def view(self, x: Tensor) -> View:
        """Return encoded rows ``[d, n]`` as the inducing points see them, O(n m^2)."""
        points = self.kernel.points(self.parameters, x)
        cross = self.kernel.matrix(self.weights, self.anchors, points)
        return _view(self.factor, cross, self.kernel.diagonal(self.weights, points))

    def posterior_weights(self, mean: Tensor, precision: Tensor) -> tuple[Tensor, Tensor]:
        """Return a ``[m]`` and W ``[m, m]`` of the posterior: L_u^-T b, W^T W = K_uu^-1 - ...

        I - B^-1 is positive semidefinite: its root is taken in B's eigenbasis, where the small
        eigenvalues of B - I keep their digits.
        """
        whitening = inverse_factor(self.factor)
        values, vectors = torch.linalg.eigh(precision)
        shrink = ((values - 1.0).clamp_min(0.0) / values).sqrt()
        return whitening.T @ mean, shrink[:, None] * (vectors.T @ whitening)


class TapedView:
    """A view whose gradient goes back to the hyperparameters.

    Parameters
    ----------
    kernel, parameters
        The kernel; the hyperparameters are on a gradient tape.
    inducing, x
        ``[d, m]`` inducing points and ``[d, n]`` rows, encoded.
    """

    def __init__(
        self, kernel: AdditiveKernel, parameters: Parameters, inducing: Tensor, x: Tensor
    ) -> None:
        weights = kernel.weights(parameters)
        anchors, points = kernel.points(parameters, inducing), kernel.points(parameters, x)
        self.matrices = (
            kernel.matrix(weights, anchors),
            kernel.matrix(weights, anchors, points),
            kernel.diagonal(weights, points),
        )
        inner, cross, diagonal = (matrix.detach() for matrix in self.matrices)
        self.factor, self.jitter = cholesky(inner, "the inducing points' kernel", JITTER)
        self.view = _view(self.factor, cross, diagonal)

    def cotangents(self, by_whitened: Tensor, by_diagonal: Tensor) -> tuple[Tensor, ...]:
        """Return gradients by K_uu, K_uf and the diagonal, given those by V and the diagonal.

        G by V goes to K_uf as L_u^-T G and to L_u as minus the lower half of L_u^-T G V^T, which
        the reverse mode of the factorisation takes to K_uu (Murray 2016).
        """
        transposed = self.factor.T
        by_cross = torch.linalg.solve_triangular(transposed, by_whitened, upper=True)
        by_factor = -(by_cross @ self.view.whitened.T).tril()
        inner = (transposed @ by_factor).tril()
        inner.diagonal().mul_(0.5)
        left = torch.linalg.solve_triangular(transposed, inner, upper=True)
        by_inner = torch.linalg.solve_triangular(self.factor, left, upper=False, left=False)
        return 0.5 * (by_inner + by_inner.T), by_cross, by_diagonal
