"""A frozen plain implementation that timings are set beside. Do not make it faster: it is the unit.

Dense textbook algebra in NumPy and SciPy, squared exponential kernels under an empirical measure,
nothing of oakgp. What a machine does faster or slower on a day, it does to this as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve


def constrained(a: Any, b: Any, nodes: Any, lengthscale: float) -> Any:
    """Return k~ = k - s s^T / v of one feature, ``[n, m]`` (Lu et al. 2022, eq. 7)."""

    def kernel(x: Any, z: Any) -> Any:
        return np.exp(-0.5 * ((x[:, None] - z[None, :]) / lengthscale) ** 2)

    v = kernel(nodes, nodes).mean()
    s_a, s_b = kernel(a, nodes).mean(axis=1), kernel(b, nodes).mean(axis=1)
    return kernel(a, b) - np.outer(s_a, s_b) / v


def gram(a: Any, b: Any, nodes: Any, lengthscales: Any, variances: Any) -> Any:
    """Return sum_r variances[r] e_r, by the recursion e_r <- e_r + k~_d e_(r-1)."""
    order = len(variances) - 1
    e = [np.ones((a.shape[1], b.shape[1]))] + [np.zeros((a.shape[1], b.shape[1]))] * order
    for i, lengthscale in enumerate(lengthscales):
        factor = constrained(a[i], b[i], nodes[i], lengthscale)
        e = [e[0], *(e[r] + factor * e[r - 1] for r in range(1, order + 1))]
    return sum(variance * part for variance, part in zip(variances, e, strict=True))


def regression(x: Any, y: Any, at: Any, lengthscales: Any, variances: Any, noise: float) -> Any:
    """Return the evidence and the predictive mean and variance at some points."""
    K = gram(x, x, x[:, :200], lengthscales, variances)
    factor = cho_factor(K + noise * np.eye(len(y)), lower=True)
    weights = cho_solve(factor, y)
    evidence = -0.5 * y @ weights - np.log(np.diag(factor[0])).sum()
    cross = gram(at, x, x[:, :200], lengthscales, variances)
    mean = cross @ weights
    variance = np.einsum("ij,ji->i", cross, cho_solve(factor, cross.T))
    return evidence - 0.5 * len(y) * np.log(2 * np.pi), mean, variance
