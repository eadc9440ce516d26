"""One feature: its base kernel conditioned on integrating to zero under its measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from oakgp import ops
from oakgp.kernels.base import RadialKernel
from oakgp.kernels.categorical import CategoricalKernel
from oakgp.measures import Measure
from oakgp.ops.layout import Kind


@dataclass(frozen=True)
class Feature:
    """A column of the model: name, base kernel, measure.

    The constrained kernel is k~(x, x') = k(x, x') - t(x) t(x') with t = s / sqrt(v): the measure
    enters only through the mean embedding s and its mean v (paper, eq. 7; DESIGN section 3).
    """

    name: str
    kernel: RadialKernel | CategoricalKernel
    measure: Measure

    @property
    def is_categorical(self) -> bool:
        """Whether the feature's kernel is a table."""
        return isinstance(self.kernel, CategoricalKernel)

    @property
    def kind(self) -> Kind:
        """Number of the base kernel in the fused operation."""
        return self.kernel.kind

    @property
    def table_size(self) -> int:
        """Rows of the feature's table; 0 for a numeric feature."""
        return self.kernel.table_size if isinstance(self.kernel, CategoricalKernel) else 0

    def coordinates(self, x: Tensor) -> Tensor:
        """Return what the fused operation reads for encoded values: ``x``, or table rows."""
        return self.kernel.codes(x) if isinstance(self.kernel, CategoricalKernel) else x


def embeddings(features: Sequence[Feature], x: Tensor, lengthscales: Tensor) -> Tensor:
    """Return t(x) = s(x) / sqrt(v) of every feature, ``[d, n]``.

    Categorical features get 0: their constraint is in the table. Features whose s is a sum over
    nodes go through one fused call.
    """
    rows: list[Tensor] = [x.new_zeros(x.shape[1])] * len(features)
    summed = []
    for i, feature in enumerate(features):
        if isinstance(feature.kernel, CategoricalKernel):
            continue
        if feature.measure.sums_over_nodes(feature.kernel):
            summed.append(i)
        else:
            s = feature.measure.mean_embedding(feature.kernel, x[i], lengthscales[i])
            rows[i] = s / feature.measure.mean_mean(feature.kernel, lengthscales[i]).sqrt()
    if summed:
        index = torch.tensor(summed, device=x.device)
        atoms = [features[i].measure.node_tensors(x) for i in summed]
        together = ops.embeddings(
            [features[i].kind for i in summed],
            x[index],
            [nodes for nodes, _ in atoms],
            [weights for _, weights in atoms],
            lengthscales[index],
        )
        for i, row in zip(summed, together, strict=True):
            rows[i] = row
    return torch.stack(rows)


class SobolPoints:
    """Points of one feature, ready for blocks of L(a, b) = c^2 E_p[k~(X, a) k~(X, b)].

    Expanding k~ = k - t t' gives the four integrals of the paper's appendix F; the last carries
    E[t^2], which holds the full fourth power of the kernel's scale. What depends on one point only
    is computed once.

    Parameters
    ----------
    feature
        The feature.
    x
        ``[n]`` coordinates.
    lengthscale, table
        Its hyperparameters; the table is empty for numeric features.
    scale
        c, the feature's variance.
    """

    def __init__(
        self, feature: Feature, x: Tensor, lengthscale: Tensor, table: Tensor, scale: Tensor
    ) -> None:
        self.feature, self.x, self.lengthscale, self.scale = feature, x, lengthscale, scale
        kernel, measure = feature.kernel, feature.measure
        if isinstance(kernel, CategoricalKernel):
            _, self.weights = measure.node_tensors(x)
            self.rows = table[x.long()][:, : len(self.weights)]
            return
        root = measure.mean_mean(kernel, lengthscale).sqrt()
        self.embedding = measure.mean_embedding(kernel, x, lengthscale) / root
        self.moment = measure.embedding_moment(kernel, x, lengthscale) / root
        self.square = measure.embedding_square(kernel, lengthscale) / root**2

    def matrix(self, rows: slice, columns: slice) -> Tensor:
        """Return L between two ranges of the points, ``[n, m]``."""
        return self.scale**2 * self._unit_matrix(rows, columns)

    def _unit_matrix(self, rows: slice, columns: slice) -> Tensor:
        kernel = self.feature.kernel
        if isinstance(kernel, CategoricalKernel):
            return (self.rows[rows] * self.weights) @ self.rows[columns].T
        moment = self.feature.measure.cross_moment(
            kernel, self.x[rows], self.x[columns], self.lengthscale
        )
        (ta, tb), (ca, cb) = ((v[rows], v[columns]) for v in (self.embedding, self.moment))
        return moment - torch.outer(ta, cb - self.square * tb) - torch.outer(ca, tb)


def mean_variance(feature: Feature, lengthscale: Tensor, table: Tensor) -> Tensor:
    """Return E_p[k~(X, X)]: the prior variance of the component, averaged over the measure."""
    if isinstance(feature.kernel, CategoricalKernel):
        _, weights = feature.measure.node_tensors(table)
        return weights @ table.diagonal()[: len(weights)]
    root = feature.measure.mean_mean(feature.kernel, lengthscale).sqrt()
    return 1.0 - feature.measure.embedding_square(feature.kernel, lengthscale) / root**2
