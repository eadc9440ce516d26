"""Sobol indices of the posterior mean: per order, per feature, and the largest terms.

Sums over all terms of an order need no enumeration: sum_{|u| = r} V_u = sigma_r^4 a^T e_r(L_1 ..
L_d) a, the same recursion as for the kernel itself. Single terms are searched order by order; a
group of terms that share a prefix is left aside as soon as the *sum* over the group (again a
symmetric polynomial) is smaller than the smallest term that is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from oakgp.kernels.additive import AdditiveKernel
from oakgp.kernels.terms import Block, Term
from oakgp.ops.leave_one_out import leave_one_out
from oakgp.ops.reference import esp
from oakgp.posterior import KernelPosterior
from oakgp.sensitivity.quadratic import PairBlocks
from oakgp.sensitivity.variances import Totals

_PREFIXES = 256  # prefixes multiplied out at a time


def require_orthogonal(posterior: KernelPosterior) -> None:
    """Raise an error unless the components are orthogonal."""
    if not posterior.kernel.orthogonal:
        raise ValueError(
            "Sobol indices and Shapley values need orthogonal components, but the model was made "
            "with orthogonal=False; fit it with orthogonal=True"
        )


def sobol_totals(posterior: KernelPosterior, blocks: PairBlocks | None = None) -> Totals:
    """Return the variance per order and, per feature, of its main effect and in total.

    O(d R m^2), no enumeration of terms.
    """
    require_orthogonal(posterior)
    squares = posterior.features.weights.order_variances**2
    return _sum_totals(
        posterior.kernel,
        ((squares, p.weights, p.matrices) for p in blocks or PairBlocks(posterior)),
    )


def term_variances(
    posterior: KernelPosterior, terms: Sequence[Term], blocks: PairBlocks | None = None
) -> Tensor:
    """Return V_u = sigma_r^4 a^T L_u a of some terms (paper, eq. 11), ``[k]``."""
    squares = posterior.features.weights.order_variances**2
    out = squares.new_zeros(len(terms))
    for pairs in blocks or PairBlocks(posterior):
        for k, term in enumerate(terms):
            product = pairs.matrices[list(term)].prod(dim=0)
            out[k] += squares[len(term)] * (pairs.weights @ product)
    return out.clamp_min(0.0)


def expected_totals(posterior: KernelPosterior, blocks: PairBlocks | None = None) -> Totals:
    """Return the posterior expectations of what `sobol_totals` gives for the posterior mean.

    E[V_u] = sigma_r^4 a^T L_u a + sigma_r^2 prod_i E[k~_i(X, X)] - sigma_r^4 tr(W^T W L_u), and the
    sums over u are symmetric polynomials here too. ``blocks`` carry the entries of W^T W.
    """
    require_orthogonal(posterior)
    variances = posterior.features.weights.order_variances
    prior = posterior.kernel.mean_variances(posterior.parameters)[:, None]

    def parts() -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        yield variances, prior.new_ones(1), prior
        for pairs in blocks or PairBlocks(posterior, with_precision=True):
            assert pairs.precision is not None
            yield variances**2, pairs.weights - pairs.precision, pairs.matrices

    return _sum_totals(posterior.kernel, parts())


def _sum_totals(kernel: AdditiveKernel, parts: Iterable[tuple[Tensor, Tensor, Tensor]]) -> Totals:
    """Add up c_r <w, e_r(L_1 .. L_d)> over parts (c, w, L): in all, per order and per feature."""
    d = kernel.n_features
    orders = torch.zeros(kernel.max_order + 1, dtype=torch.float64)
    main, total, shapley = torch.zeros((3, d), dtype=torch.float64)
    if kernel.terms.count() == 0:
        return Totals(orders, main, total, shapley)
    for coefficients, weights, matrices in parts:
        split = coefficients / torch.arange(len(coefficients)).to(coefficients).clamp_min(1.0)
        main += (coefficients[1] * (matrices @ weights)).to(main)
        for block in kernel.terms.blocks:
            index, top = block.features, block.max_order
            mandatory = kernel.layout(block).mandatory
            polynomials = esp(matrices[index], top, mandatory)
            for r in range(1, top + 1):
                orders[r] += (coefficients[r] * (weights @ polynomials[r])).to(orders)
            if index:
                for sums, levels in ((total, coefficients), (shapley, split)):
                    each = leave_one_out(matrices[index], levels[: top + 1], mandatory)
                    sums[index] += (each @ weights).to(sums)
    main[[i for i in range(d) if (i,) not in kernel.terms]] = 0.0
    return Totals(*(part.clamp_min(0.0) for part in (orders, main, total, shapley)))


def top_terms(
    posterior: KernelPosterior,
    count: int,
    min_share: float = 0.0,
    blocks: PairBlocks | None = None,
    variance: float | None = None,
) -> list[tuple[Term, float]]:
    """Return the terms of largest variance, largest first, with that variance.

    Parameters
    ----------
    posterior
        Fitted model.
    count
        How many terms at most.
    min_share
        Terms below this share of the variance are left out (and the search for them is saved).
    blocks
        Pair blocks to reuse.
    variance
        Variance of the whole posterior mean, where it is known already.

    Notes
    -----
    One pass over the pairs of anchors per order. A prefix (i_1 < ... < i_k) is carried on only if
    some order's sum over all terms that begin with it could still hold a term above the
    ``count``-th largest found so far. Memory does not depend on the number of terms in the model,
    but on how many prefixes stay promising.
    """
    require_orthogonal(posterior)
    if count < 1 or posterior.kernel.terms.count() == 0:
        return []
    blocks = blocks or PairBlocks(posterior)
    floor = 0.0
    if min_share > 0:
        if variance is None:
            variance = sobol_totals(posterior, blocks).variance
        floor = min_share * variance
    found: list[tuple[Term, float]] = []
    for block in posterior.kernel.terms.blocks:
        found = _search(posterior, blocks, block, count, floor, found)
    return found


def _best(found: list[tuple[Term, float]], count: int) -> list[tuple[Term, float]]:
    return sorted(found, key=lambda pair: (-pair[1], len(pair[0]), pair[0]))[:count]


def _search(
    posterior: KernelPosterior,
    blocks: PairBlocks,
    block: Block,
    count: int,
    floor: float,
    found: list[tuple[Term, float]],
) -> list[tuple[Term, float]]:
    """Search one block of terms, level by level."""
    squares = posterior.features.weights.order_variances**2
    offset = len(block.mandatory)
    if offset:
        alone = sum(
            float((pairs.weights * pairs.matrices[list(block.mandatory)].prod(dim=0)).sum())
            for pairs in blocks
        )
        value = float(squares[offset]) * alone
        if value > floor:
            found = _best([*found, (block.mandatory, value)], count)
    prefixes: list[Term] = [()]
    for level in range(block.max_order - offset):
        prefixes.sort(key=lambda p: (p[-1] if p else -1, p))
        sums = _extend(blocks, block, prefixes, level)
        top = sums.shape[2]
        scaled = sums * squares[offset + level + 1 : offset + level + 1 + top]
        children: list[tuple[Term, float, float]] = []
        least = found[-1][1] if len(found) >= count else floor
        reach = scaled[:, :, 1:].amax(dim=2) if top > 1 else torch.zeros_like(scaled[:, :, 0])
        candidates = torch.nonzero((scaled[:, :, 0] > least) | (reach > least)).tolist()
        for row, j in candidates:
            prefix = prefixes[row]
            if prefix and j <= prefix[-1]:
                continue
            children.append(((*prefix, j), float(scaled[row, j, 0]), float(reach[row, j])))
        found = _best(
            found
            + [
                (tuple(sorted((*block.mandatory, *(block.optional[k] for k in child)))), value)
                for child, value, _ in children
                if value > least
            ],
            count,
        )
        least = found[-1][1] if len(found) >= count else floor
        prefixes = [child for child, _, bound in children if bound > least]
        if not prefixes:
            break
    return found


def _extend(blocks: PairBlocks, block: Block, prefixes: list[Term], level: int) -> Tensor:
    """Return, for each prefix, next feature j and s >= 0, the sum over the terms prefix + j + v.

    ``[prefixes, features, 1 + S]``: v runs over the subsets of size s of the features after j, so
    s = 0 is the term itself and the others are sums over a whole group. One matrix product a
    block of pairs.
    """
    d = len(block.optional)
    depth = block.max_order - len(block.mandatory) - level
    index = torch.tensor(prefixes, dtype=torch.long).reshape(len(prefixes), level)
    total: Tensor | None = None
    for pairs in blocks:
        base = pairs.weights
        if block.mandatory:
            base = base * pairs.matrices[list(block.mandatory)].prod(dim=0)
        matrices = pairs.matrices[list(block.optional)]
        right = _suffix_products(matrices, depth)
        if total is None:
            total = right.new_zeros((len(prefixes), d, depth))
        for first in range(0, len(prefixes), _PREFIXES):
            chunk = index[first : first + _PREFIXES].to(base.device)
            # Prefixes are sorted by their last feature: children come after the smallest one.
            begin = int(chunk[:, -1].min()) + 1 if level else 0
            left = base.expand(len(chunk), -1)
            for k in range(level):
                left = left * matrices[chunk[:, k]]
            tail = right[begin:].reshape(-1, right.shape[-1])
            part = (left @ tail.T).reshape(len(chunk), d - begin, depth)
            total[first : first + len(chunk), begin:] += part
    assert total is not None
    return total


def _suffix_products(matrices: Tensor, depth: int) -> Tensor:
    """Return L_j e_s(L_{j+1}, ..., L_d) for every j and s < depth, ``[d, depth, t]``."""
    d, t = matrices.shape
    out = matrices.new_empty((d, depth, t))
    e = [matrices.new_ones(t)] + [matrices.new_zeros(t) for _ in range(depth - 1)]
    for j in range(d - 1, -1, -1):
        for s in range(depth):
            torch.mul(matrices[j], e[s], out=out[j, s])
        e = e[:1] + [e[s] + matrices[j] * e[s - 1] for s in range(1, depth)]
    return out
