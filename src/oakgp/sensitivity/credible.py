"""Posterior distribution of Sobol indices: exact means, and draws for intervals.

The index of the posterior mean (plug-in) ignores that the component is uncertain. Under the
posterior, E[V_u] = V_u(mean) + E_x[var f_u(x)], which is closed-form; the distribution comes from
joint draws of the components' coefficients in the eigenfunctions of their constrained kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from oakgp.kernels import constrained
from oakgp.kernels.terms import Term
from oakgp.ops.layout import Points
from oakgp.posterior import KernelPosterior
from oakgp.sensitivity.quadratic import PairBlocks

_MAX_COEFFICIENTS = 1500  # of all terms together: their joint covariance is factorised
_MAX_PER_TERM = 100


def posterior_variances(
    posterior: KernelPosterior, terms: list[Term], blocks: PairBlocks | None = None
) -> Tensor:
    """Return E[V_u] of some terms under the posterior, ``[k]``, in closed form.

    E[V_u] = sigma_r^4 a^T L_u a + sigma_r^2 prod_i E[k~_i(X, X)] - sigma_r^4 tr(W^T W L_u).
    """
    kernel = posterior.kernel
    variances = posterior.features.weights.order_variances
    spread = kernel.mean_variances(posterior.parameters)
    out = torch.stack([variances[len(u)] * spread[list(u)].prod() for u in terms])
    squares = torch.stack([variances[len(u)] ** 2 for u in terms])
    for pairs in blocks or PairBlocks(posterior, with_precision=True):
        assert pairs.precision is not None
        form = pairs.weights - pairs.precision
        for k, u in enumerate(terms):
            out[k] += squares[k] * (form * pairs.matrices[list(u)].prod(dim=0)).sum()
    return out.clamp_min(0.0)


@dataclass(frozen=True)
class _Basis:
    """Leading eigenfunctions of one constrained kernel under its measure."""

    values: Tensor  # [q] eigenvalues, descending
    at_anchors: Tensor  # [q, m] eigenfunctions at the anchors, times their eigenvalue


def _eigenfunctions(posterior: KernelPosterior, i: int, count: int) -> _Basis:
    """Eigenpairs of k~_i under p_i by quadrature on the measure's nodes (Nystroem)."""
    kernel, parameters = posterior.kernel, posterior.parameters
    feature, anchors = kernel.features[i], posterior.features.anchors
    nodes, mass = feature.measure.node_tensors(anchors.x)
    # The nodes are coordinates already: "missing" is a table row here, not a value to encode.
    points = Points(
        anchors.x.new_zeros((kernel.n_features, len(nodes))),
        anchors.x.new_zeros((kernel.n_features, len(nodes))),
    )
    points.x[i] = nodes
    points.embed[i] = constrained.embeddings(
        (feature,), nodes[None, :], parameters.lengthscales[i : i + 1]
    )[0]
    unit = kernel.weights(parameters)
    one = torch.ones_like(unit.order_variances[:2])
    unit = type(unit)(one, unit.scales, unit.lengthscales, unit.tables)
    gram = kernel.term_matrix(unit, (i,), points)
    cross = kernel.term_matrix(unit, (i,), points, anchors)
    root = mass.sqrt()
    values, vectors = torch.linalg.eigh(root[:, None] * gram * root)
    order = torch.argsort(values, descending=True)[:count]
    values, vectors = values[order].clamp_min(0.0), vectors[:, order]
    # phi_q(z) lambda_q = sum_n root_n v_nq k~(node_n, z)
    return _Basis(values, (root[:, None] * vectors).T @ cross)


def sample_variances(
    posterior: KernelPosterior,
    terms: list[Term],
    n_samples: int,
    seed: int,
    expected: Tensor | None = None,
) -> Tensor:
    """Return joint posterior draws of V_u for some terms, ``[n_samples, k]``.

    A component is a series sum_q c_q phi_q in products of eigenfunctions, orthonormal under the
    measure, so V_u = sum_q c_q^2. The c of all terms are jointly Gaussian; what the series leaves
    out is added as its expectation. ``expected`` spares the computation of
    `posterior_variances`.
    """
    variances = posterior.features.weights.order_variances
    used = sorted({i for u in terms for i in u})
    bases = {i: _eigenfunctions(posterior, i, 24) for i in used}
    budget = max(4, min(_MAX_PER_TERM, _MAX_COEFFICIENTS // max(1, len(terms))))
    priors, maps, owners = [], [], []
    for k, u in enumerate(terms):
        prior, rows = _product_basis([bases[i] for i in u], budget)
        variance = variances[len(u)]
        priors.append(variance * prior)
        maps.append(variance * rows)
        owners += [k] * len(prior)
    prior, psi = torch.cat(priors), torch.cat(maps)
    mean = psi @ posterior.mean_weights
    white = psi @ posterior.whitener.T
    covariance = torch.diag(prior) - white @ white.T
    factor = _root(covariance)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn((n_samples, len(mean)), generator=generator, dtype=torch.float64)
    draws = (mean + noise.to(factor) @ factor.T) ** 2
    index = torch.tensor(owners, device=draws.device)
    sums = draws.new_zeros((n_samples, len(terms))).index_add_(1, index, draws)
    kept = draws.new_zeros(len(terms)).index_add_(0, index, mean**2 + covariance.diagonal())
    if expected is None:
        expected = posterior_variances(posterior, terms)
    return sums + (expected - kept).clamp_min(0.0)


def _root(covariance: Tensor) -> Tensor:
    """Return a matrix F with F F^T = covariance, whose small eigenvalues may round to below 0."""
    factor: Tensor
    jitter = 1e-12 * covariance.diagonal().max()  # spares most the slower way
    factor, info = torch.linalg.cholesky_ex(covariance + torch.diag(jitter.expand(len(covariance))))
    if int(info) > 0:
        values, vectors = torch.linalg.eigh(covariance)
        factor = vectors * values.clamp_min(0.0).sqrt()
    return factor


def _product_basis(bases: list[_Basis], count: int) -> tuple[Tensor, Tensor]:
    """Return the products of eigenfunctions with the largest eigenvalue products."""
    sizes = [len(b.values) for b in bases]
    if len(sizes) > 3:  # the leading ones of high orders come from the leading of each factor
        sizes = [min(s, max(2, int(4096 ** (1.0 / len(sizes))))) for s in sizes]
    index = torch.tensor(list(product(*(range(s) for s in sizes))), device=bases[0].values.device)
    values = torch.ones(len(index), dtype=bases[0].values.dtype, device=index.device)
    for b, column in zip(bases, index.T, strict=True):
        values = values * b.values[column]
    order = torch.argsort(values, descending=True, stable=True)[:count]
    rows = torch.ones_like(bases[0].at_anchors[:1]).expand(len(order), -1)
    for b, column in zip(bases, index[order].T, strict=True):
        rows = rows * b.at_anchors[column]
    return values[order], rows
