"""Functions of one feature: leading eigenfunctions of its constrained kernel, kept as tables.

Under the feature's own measure the eigenfunctions are orthonormal and have mean 0, so a component's
share of the variance is the squared length of its weights. They are computed once, on the
measure's atoms; evaluation is a lookup with linear interpolation, flat outside the atoms' range.

The functions stay what they are while hyperparameters are learned. Another lengthscale only changes
the prior covariance of their weights: the Galerkin projection of the kernel on them.

A numeric feature has a second set of functions, for steps and single values that a smooth kernel
cannot follow: eigenfunctions of a Matern-1/2 kernel, less what the first set says. A main effect
takes them, with a variance of their own, where the data ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from oakgp.kernels import Matern12, Periodic, constrained
from oakgp.kernels.categorical import CategoricalKernel
from oakgp.kernels.constrained import Feature
from oakgp.measures import Empirical

#: Eigenvalues after which the rest sums to less than this share of all are left out.
TAIL = 1e-4


def constrained_matrix(feature: Feature, nodes: Tensor, lengthscale: Tensor) -> Tensor:
    """Return k~ between all atoms of a feature, ``[q, q]``, differentiable in the lengthscale.

    A categorical feature's levels are independent of each other, with unit variance, before the
    constraint: what two levels share shows in their weights.
    """
    if isinstance(feature.kernel, CategoricalKernel):
        _, mass = feature.measure.node_tensors(nodes)
        matrix: Tensor = feature.kernel.table(torch.eye(len(nodes)).to(nodes), mass)
        return matrix[: len(nodes), : len(nodes)]
    t = constrained.embeddings((feature,), nodes[None, :], lengthscale.reshape(1))[0]
    return feature.kernel(nodes, nodes, lengthscale) - torch.outer(t, t)


@dataclass(frozen=True, eq=False)
class FeatureBasis:
    """Orthonormal functions of one feature.

    Parameters
    ----------
    feature
        Whose.
    knots
        ``[q]`` increasing coordinates between which the functions are interpolated; level codes of
        a categorical feature.
    table
        ``[q + 2, m]`` values at the knots, for missing values, and for what training never had
        (unseen levels, or missing values where there were none): zeros.
    mass
        ``[q]`` probabilities of the knots, and one more of "missing" where training had it.
    eigenvalues
        ``[m]`` prior variances of the weights at the reference lengthscale, descending within each
        of the two sets.
    n_smooth
        How many functions are of the first set.
    reference
        The lengthscale that the functions were made with.
    knows_missing
        Whether training had missing values.
    """

    feature: Feature
    knots: Tensor
    table: Tensor
    mass: Tensor
    eigenvalues: Tensor
    n_smooth: int
    reference: float
    knows_missing: bool

    @property
    def size(self) -> int:
        """Number of functions m, of both sets."""
        return int(self.table.shape[1])

    @property
    def is_categorical(self) -> bool:
        """Whether the knots are level codes, between which nothing is interpolated."""
        return self.feature.is_categorical

    def locate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the table row left of each coordinate and how far it is to the next, ``[n]``.

        Parameters
        ----------
        x
            Encoded values: coordinates, or level codes (negative: unseen); NaN is missing.
        """
        q = len(self.knots)
        missing = torch.isnan(x)
        absent = q if self.knows_missing else q + 1
        if self.is_categorical:
            known = (x >= 0) & (x < q)
            row = torch.where(known, x, torch.full_like(x, q + 1))
            row = torch.where(missing, torch.full_like(x, absent), row)
            return row.long(), torch.zeros_like(x)
        value = torch.where(missing, self.knots[0], x)
        left = (torch.searchsorted(self.knots, value, right=True) - 1).clamp(0, max(q - 2, 0))
        if q == 1:
            share = torch.zeros_like(x)
        else:
            low, high = self.knots[left], self.knots[left + 1]
            share = ((value - low) / (high - low)).clamp(0.0, 1.0)
        left = torch.where(missing, torch.full_like(left, absent), left)
        return left, torch.where(missing, torch.zeros_like(share), share)

    def values(self, x: Tensor) -> Tensor:
        """Return the functions at encoded values, ``[m, n]``."""
        row, share = self.locate(x)
        lower = self.table[row].T
        if self.is_categorical:
            return lower
        upper = self.table[(row + 1).clamp_max(len(self.table) - 1)].T
        return torch.lerp(lower, upper, share)

    def unknown(self, x: Tensor) -> Tensor:
        """Return which encoded values training had nothing like, ``[n]`` of bool."""
        return self.locate(x)[0] == len(self.knots) + 1

    @property
    def smooth_values(self) -> Tensor:
        """Prior variances of the smooth functions at the reference lengthscale."""
        return self.eigenvalues[: self.n_smooth]

    @property
    def rough_values(self) -> Tensor:
        """Prior variances of the rough functions, for a variance of 1."""
        return self.eigenvalues[self.n_smooth :]

    def prior(self, lengthscale: Tensor) -> Tensor:
        """Return the prior covariance of the smooth functions' weights, at any lengthscale."""
        if self.is_categorical:
            return torch.diag(self.smooth_values)
        feature, nodes, weighted = self._projection
        return weighted.T @ constrained_matrix(feature, nodes, lengthscale) @ weighted

    @cached_property
    def _projection(self) -> tuple[Feature, Tensor, Tensor]:
        """The feature under the measure of the table's atoms, these, and what projects on them."""
        nodes = self.knots[: len(self.mass) - int(self.knows_missing)]
        if self.knows_missing:
            nodes = torch.cat([nodes, nodes.new_full((1,), torch.nan)])
        weighted = self.mass[:, None] * self.table[: len(self.mass), : self.n_smooth]
        return _with_atoms(self.feature, nodes, self.mass), nodes, weighted

    def to(self, device: torch.device | str) -> FeatureBasis:
        """Return the same functions with their tables on another device."""
        return FeatureBasis(
            self.feature,
            self.knots.to(device),
            self.table.to(device),
            self.mass.to(device),
            self.eigenvalues.to(device),
            self.n_smooth,
            self.reference,
            self.knows_missing,
        )


def _with_atoms(feature: Feature, nodes: Tensor, mass: Tensor) -> Feature:
    """Return a feature under the measure of some atoms."""
    measure = Empirical(tuple(nodes.tolist()), tuple(mass.tolist()))
    return Feature(feature.name, feature.kernel, measure)


def _merged(nodes: Tensor, mass: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Return atoms in increasing order, each once, "missing" (NaN) last, and whether it is there.

    A value with many rows may be several quantile nodes.
    """
    missing = torch.isnan(nodes)
    values, place = torch.unique(nodes[~missing], return_inverse=True)
    sums = values.new_zeros(len(values)).index_add_(0, place, mass[~missing])
    if not bool(missing.any()):
        return values, sums, False
    return (
        torch.cat([values, values.new_full((1,), torch.nan)]),
        torch.cat([sums, mass[missing].sum().reshape(1)]),
        True,
    )


def _leading(gram: Tensor, mass: Tensor, largest: int) -> tuple[Tensor, Tensor]:
    """Return eigenvalues and eigenfunctions of a kernel between weighted atoms, largest first."""
    root = mass.sqrt()
    values, vectors = torch.linalg.eigh(root[:, None] * gram * root)
    values, vectors = values.flip(0), vectors.flip(1)
    if not len(values):
        return values, vectors
    # The constant has eigenvalue 0; so have all functions of a constant feature, but for rounding.
    kept = values[values > 1e-10 * values[0].clamp_min(1e-3)]
    tail = kept.flip(0).cumsum(0).flip(0)
    count = min(largest, int((tail > TAIL * kept.sum()).sum()))
    # gram = sum of eigenvalue phi phi^T: no division by the root of a probability, which may be 0.
    functions = gram @ (root[:, None] * vectors[:, :count]) / values[:count]
    # Signs are free: the largest value of each function is positive.
    peak = functions.abs().argmax(dim=0)
    return values[:count], functions * torch.sign(functions[peak, torch.arange(count)])


def _rough(
    feature: Feature, nodes: Tensor, mass: Tensor, smooth: Tensor, reference: Tensor, largest: int
) -> tuple[Tensor, Tensor]:
    """Return the rough functions: orthogonal to the constant and to the smooth ones."""
    own = _with_atoms(Feature(feature.name, Matern12(), feature.measure), nodes, mass)
    gram = constrained_matrix(own, nodes, reference)
    outside = torch.eye(len(nodes)).to(gram) - smooth @ (smooth * mass[:, None]).T
    values, functions = _leading(outside @ gram @ outside.T, mass, largest)
    return values, functions


def feature_basis(
    feature: Feature,
    reference: float,
    largest: int,
    rough: int = 0,
    device: torch.device | str = "cpu",
) -> FeatureBasis:
    """Return the leading eigenfunctions of a feature's constrained kernel.

    Parameters
    ----------
    feature
        The feature.
    reference
        Lengthscale; the measure's coordinates have unit scale.
    largest, rough
        Most smooth and rough functions there may be; fewer when the eigenvalues' tail is
        negligible. Categorical and periodic features have no rough ones.
    device
        Where the tables shall lie.
    """
    like = torch.zeros((), dtype=torch.float64)
    nodes, mass = feature.measure.node_tensors(like)
    length = like.new_tensor(reference)
    if isinstance(feature.kernel, CategoricalKernel):
        knows_missing = feature.kernel.has_missing
        values, functions = _leading(constrained_matrix(feature, nodes, length), mass, largest)
    else:
        nodes, mass, knows_missing = _merged(nodes, mass)
        own = _with_atoms(feature, nodes, mass)
        values, functions = _leading(constrained_matrix(own, nodes, length), mass, largest)
    n_smooth = len(values)
    if rough and not isinstance(feature.kernel, (CategoricalKernel, Periodic)):
        more = _rough(feature, nodes, mass, functions, length, rough)
        values, functions = torch.cat([values, more[0]]), torch.cat([functions, more[1]], dim=1)

    q = len(nodes) - int(knows_missing)
    zeros = functions.new_zeros((1, len(values)))
    missing = functions[q:] if knows_missing else zeros
    knots = nodes[:q] if q else like.new_zeros(1)
    present = functions[:q] if q else zeros
    return FeatureBasis(
        feature,
        knots.contiguous().to(device),
        torch.cat([present, missing, zeros]).contiguous().to(device),
        mass.contiguous().to(device),
        values.contiguous().to(device),
        n_smooth,
        reference,
        knows_missing,
    )
