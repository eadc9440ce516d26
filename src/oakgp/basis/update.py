r"""New rows for a basis model, rows taken back, and models of different rows made one.

The posterior N(a, S) of the weights is the prior of new rows. With S = R^T R, G = Phi^T W Phi and
b = Phi^T W z of these rows alone, and noise variance s,

    S' = R^T (I +- R G R^T / s)^-1 R,   a' = a +- S' (b - G a) / s,

so nothing is inverted that could be singular, and the rows of the past are not needed. Basis and
hyperparameters stay as they are. For Gaussian noise this is exact, and rows can be taken back; for
other likelihoods it is Laplace's approximation, the past being summed up by a Gaussian.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from oakgp.basis.passes import gather, moments
from oakgp.basis.posterior import BasisPosterior
from oakgp.basis.rows import Rows
from oakgp.basis.statistics import Statistics
from oakgp.basis.working import Working
from oakgp.inference.cholesky import NotPositiveDefiniteError, cholesky

_STEPS = 30
_SETTLED = 1e-6  # a step this small, in posterior standard deviations, is no step


def with_rows(
    posteriors: Sequence[BasisPosterior], working: Working, rows: Rows
) -> tuple[BasisPosterior, ...]:
    """Return the posteriors given some more rows."""
    if working.linear:
        (posterior,) = posteriors
        own = _statistics(posterior, working, rows, posterior.mean_weights[None])[0]
        return (_moved(posterior, own, 1.0),)
    weights = torch.stack([p.mean_weights for p in posteriors])
    found = tuple(posteriors)
    for _ in range(_STEPS):
        data = _statistics(posteriors[0], working, rows, weights)
        found = tuple(_moved(p, d, 1.0) for p, d in zip(posteriors, data, strict=True))
        target = torch.stack([p.mean_weights for p in found])
        step = target - weights
        # Each latent function is solved by itself: half the way where there are several.
        weights = weights + (1.0 if len(found) == 1 else 0.5) * step
        sizes = [_size(p, one) for p, one in zip(found, step.unbind(), strict=True)]
        if max(sizes) < _SETTLED:
            break
    return tuple(replace(p, mean_weights=w) for p, w in zip(found, weights.unbind(), strict=True))


def without_rows(posterior: BasisPosterior, working: Working, rows: Rows) -> BasisPosterior:
    """Return the posterior as if some rows had not been there: Gaussian noise only."""
    data = _statistics(posterior, working, rows, posterior.mean_weights[None])[0]
    try:
        return _moved(posterior, data, -1.0)
    except NotPositiveDefiniteError as error:
        raise ValueError(
            "these rows cannot be taken back: together they say more than the model has learned, "
            "so they were not all among its rows"
        ) from error


def joined(base: BasisPosterior, parts: Sequence[BasisPosterior]) -> BasisPosterior:
    """Return the posterior given all rows that any of the parts got beyond the base's.

    Each part is the base with rows of its own: their gains in precision add up.
    """
    first, moment = _information(base)
    precision, total = first.clone(), moment.clone()
    for part in parts:
        if not _same_basis(base, part):
            raise ValueError(
                "these models are on other functions or have other hyperparameters: only copies "
                "of one model that were updated with rows of their own can be merged"
            )
        own, h = _information(part)
        precision += own - first
        total += h - moment
    factor, _ = cholesky(0.5 * (precision + precision.T), "the merged precision")
    eye = torch.eye(len(factor)).to(factor)
    root = torch.linalg.solve_triangular(factor, eye, upper=False)
    return replace(base, mean_weights=root.T @ (root @ total), root=root.contiguous())


def _statistics(
    posterior: BasisPosterior, working: Working, rows: Rows, weights: Tensor
) -> list[Statistics]:
    latents = moments(posterior.layout, rows.x, weights, None)[0]
    made = working.regressions(rows, latents)
    return [
        gather(posterior.layout, rows.x, z, w)
        for z, w in zip(made.z.unbind(), made.w.unbind(), strict=True)
    ]


def _moved(posterior: BasisPosterior, data: Statistics, sign: float) -> BasisPosterior:
    noise = posterior.noise if posterior.noise > 0 else 1.0
    root, mean = posterior.root, posterior.mean_weights
    inner = root @ data.gram @ root.T
    inner = (sign / (2.0 * noise)) * (inner + inner.T)
    inner.diagonal().add_(1.0)
    if sign > 0:
        factor, _ = cholesky(inner, "the precision of the new rows")
    else:  # with jitter, rows that were never there could be taken back
        factor, info = torch.linalg.cholesky_ex(inner)
        if int(info) > 0:
            raise NotPositiveDefiniteError("the precision without the rows is not positive")
    moved = torch.linalg.solve_triangular(factor, root, upper=False).contiguous()
    residual = (data.moment - data.gram @ mean) / noise
    return replace(posterior, mean_weights=mean + sign * (moved.T @ (moved @ residual)), root=moved)


def _information(posterior: BasisPosterior) -> tuple[Tensor, Tensor]:
    """Return the precision of the weights, and its product with their mean."""
    factor = torch.linalg.qr(posterior.root, mode="r").R
    inverse = torch.linalg.solve_triangular(factor, torch.eye(len(factor)).to(factor), upper=True)
    precision = inverse @ inverse.T
    return precision, precision @ posterior.mean_weights


def _same_basis(left: BasisPosterior, right: BasisPosterior) -> bool:
    one, two = left.layout, right.layout
    return (
        one.terms == two.terms
        and left.noise == right.noise
        and torch.equal(one.factors, two.factors)
        and torch.equal(left.parameters.variances, right.parameters.variances)
        and all(
            a.table.shape == b.table.shape and torch.equal(a.table, b.table)
            for a, b in zip(one.bases, two.bases, strict=True)
        )
    )


def _size(posterior: BasisPosterior, step: Tensor) -> float:
    """Return the length of a step in posterior standard deviations, at the root mean square."""
    factor = torch.linalg.qr(posterior.root, mode="r").R
    white = torch.linalg.solve_triangular(factor.T, step[:, None], upper=False)
    return float((white**2).mean().sqrt())
