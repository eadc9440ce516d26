"""Mean and variance of many components at many rows: what each term contributes to each.

A main effect depends on one number and a pair on two, so their feature maps live in few dimensions
(`oakgp.sensitivity.factors`): psi_u(x) = sigma2 F_u(x) F_u(anchors)^T. The mean is a bilinear form,
exact to rounding. The explained variance is a quadratic form in F_u(x), in which functions that add
next to nothing are left out: rows cost O(Q^2) instead of O(m^2), and deviations agree with the
direct way to about 1e-6 of themselves. Rows in the tails, where more is left out, rough kernels and
terms of three or more features take the direct way.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from oakgp.kernels.terms import Term
from oakgp.ops.threads import threads_for
from oakgp.posterior import KernelPosterior
from oakgp.sensitivity.factors import Factor, factor
from oakgp.sensitivity.pages import points_of

_LEFT_OUT = 1e-5  # of the prior variance, by functions that are left out, at most rows
_DIRECT = 1e-3  # a row where more is left out is done directly
_UNINFORMED = 1e-9  # of the prior variance: what the data explain, by what is left out of that
_WORTHWHILE = 0.7  # functions for each anchor, above which the direct way is as quick
_BATCH = 16_384  # rows at a time
_CHUNK = 1024  # rows of a quadratic form: they stay in the cache
_FEW = 64  # rows that are done directly


def component_moments(
    posterior: KernelPosterior, x: Tensor, terms: Sequence[Term]
) -> tuple[Tensor, Tensor]:
    """Return mean and variance of each component at each row, both ``[k, n]``.

    Parameters
    ----------
    posterior
        Fitted model.
    x
        ``[d, n]`` encoded rows.
    terms
        The components; ``()`` is the constant.
    """
    means = [x.new_zeros((len(terms), 0))]
    variances = [x.new_zeros((len(terms), 0))]
    with threads_for(posterior.features.size):
        for first in range(0, x.shape[1], _BATCH):
            mean, variance = _batch(posterior, x[:, first : first + _BATCH], terms)
            means.append(mean)
            variances.append(variance)
    return torch.cat(means, dim=1), torch.cat(variances, dim=1)


def _batch(posterior: KernelPosterior, x: Tensor, terms: Sequence[Term]) -> tuple[Tensor, Tensor]:
    mean, variance = x.new_zeros((2, len(terms), x.shape[1]))
    small = [u for u in terms if 0 < len(u) <= 2] if x.shape[1] > _FEW else []
    factors = {i: factor(posterior, x[i], i) for i in sorted({i for u in small for i in u})}
    for k, term in enumerate(terms):
        parts = [factors.get(i) for i in term]
        known = [part for part in parts if part is not None]
        if term in small and len(known) == len(term):
            mean[k], variance[k] = _by_factors(posterior, x, term, known)
        else:
            mean[k], variance[k] = posterior.mean_and_variance(x, term)
    return mean, variance


def _by_factors(
    posterior: KernelPosterior, x: Tensor, term: Term, factors: Sequence[Factor]
) -> tuple[Tensor, Tensor]:
    """Return mean and variance of a main effect or a pair."""
    level = posterior.features.weights.order_variances[len(term)]
    unit = torch.stack([each.diagonal for each in factors]).prod(dim=0)
    index, sizes = _chosen(factors, _LEFT_OUT * float(unit.max()))
    if len(sizes) > _WORTHWHILE * posterior.features.size:
        return level * _mean(posterior.mean_weights, factors), _direct(posterior, x, term)
    white = level**0.5 * (posterior.whitener @ _products(factors, index, "at_anchors").T)
    form = _root(white.T @ white, sizes, _UNINFORMED * float(unit.max()))
    explained, left = torch.empty_like(unit), torch.empty_like(unit)
    for first in range(0, x.shape[1], _CHUNK):
        rows = slice(first, first + _CHUNK)
        functions = _products(factors, index, "at_rows", rows)
        explained[rows] = level * (form @ functions).square_().sum(dim=0)
        left[rows] = unit[rows] - functions.square_().sum(dim=0)
    variance = (level * unit - explained).clamp_min_(0.0)
    far = torch.nonzero(left > _DIRECT * unit)[:, 0]
    if len(far):
        variance[far] = _direct(posterior, x[:, far], term)
    return level * _mean(posterior.mean_weights, factors), variance


def _direct(posterior: KernelPosterior, x: Tensor, term: Term) -> Tensor:
    """Return the variance of a component, nothing left out, ``[n]``."""
    features = posterior.kernel.features
    points = points_of(posterior, {i: features[i].coordinates(x[i]) for i in term})
    psi = posterior.features.features(points, (term,))
    explained = (psi @ posterior.whitener.T).square_().sum(dim=1)
    return (posterior.features.prior(points, (term,)) - explained).clamp_min_(0.0)


def _mean(weights: Tensor, factors: Sequence[Factor]) -> Tensor:
    """Return sum_j a_j prod_i F_i(x) F_i(z_j)^T, ``[n]``."""
    one = factors[0]
    if len(factors) == 1:
        return (one.at_anchors @ weights) @ one.at_rows
    other = factors[1]
    form = (one.at_anchors * weights) @ other.at_anchors.T
    return ((form.T @ one.at_rows) * other.at_rows).sum(dim=0)


def _chosen(factors: Sequence[Factor], left_out: float) -> tuple[list[Tensor], Tensor]:
    """Return, of each feature, the function in every product that counts, and their sizes."""
    sizes = factors[0].sizes
    if len(factors) == 2:
        sizes = torch.outer(sizes, factors[1].sizes).reshape(-1)
    order = torch.argsort(sizes, descending=True, stable=True)
    tail = sizes[order].flip(0).cumsum(0).flip(0)
    kept = order[: max(1, int((tail > left_out).sum()))]
    if len(factors) == 1:
        return [kept], sizes[kept]
    width = len(factors[1].sizes)
    return [kept // width, kept % width], sizes[kept]


def _products(
    factors: Sequence[Factor], index: list[Tensor], where: str, rows: slice = slice(None)
) -> Tensor:
    """Return the chosen products of functions at rows or anchors, ``[Q, n]``."""
    product: Tensor = getattr(factors[0], where)[:, rows][index[0]]
    for each, chosen in zip(factors[1:], index[1:], strict=True):
        product *= getattr(each, where)[:, rows][chosen]
    return product


def _root(gram: Tensor, sizes: Tensor, left_out: float) -> Tensor:
    """Return R with R^T R = gram, ``[r, Q]``, without directions of which the data say nothing."""
    scale = sizes.clamp_min(1e-300).sqrt()
    values, vectors = torch.linalg.eigh(scale[:, None] * gram * scale)
    kept = values.cumsum(0) > left_out
    root: Tensor = (vectors[:, kept] * values[kept].sqrt()).T / scale
    return root


def rest_variance(posterior: KernelPosterior, x: Tensor, terms: Sequence[Term]) -> Tensor:
    """Return the variance of f less the constant and less some components, ``[n]``.

    O(m) more work a row and term than the variance of f: for few rows.
    """
    points = posterior.features.points(x)
    parts = [(), *dict.fromkeys(u for u in terms if u)]
    psi = posterior.features.features(points, posterior.kept)
    psi = psi - posterior.features.features(points, parts)
    prior = posterior.features.prior(points, posterior.kept)
    prior = prior - posterior.features.prior(points, parts)
    explained = (psi @ posterior.whitener.T).square_().sum(dim=1)
    return (prior - explained).clamp_min_(0.0)
