"""How each engine's posteriors lie in a model file, behind one interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from torch import Tensor

from oakgp.basis.layout import BasisLayout
from oakgp.basis.posterior import BasisPosterior
from oakgp.export import basis, latents
from oakgp.export.entries import count, entry, present, require, term, terms
from oakgp.kernels.additive import AdditiveKernel
from oakgp.kernels.terms import Block, Term, TermSet
from oakgp.model_columns import ModelColumn
from oakgp.posterior import KernelPosterior, Posterior


class EngineFormat(ABC):
    """Reads and writes the posteriors of one engine."""

    #: Entry of the description that says what the latent functions are made of.
    key: ClassVar[str]

    @property
    @abstractmethod
    def terms(self) -> TermSet:
        """The terms of the model."""

    @property
    @abstractmethod
    def orthogonal(self) -> bool:
        """Whether components are orthogonal."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the structure as JSON-safe values."""

    @abstractmethod
    def tensors(self, posterior: Posterior, first: Posterior | None) -> dict[str, Tensor]:
        """Return a latent function's tensors, without those that it has from the first one."""

    @abstractmethod
    def shares(self, posterior: Posterior, first: Posterior) -> bool:
        """Whether a latent function has its hyperparameters from the first one."""

    @abstractmethod
    def read(
        self,
        tensors: Mapping[str, Tensor],
        noise: float,
        kept: tuple[Term, ...] | None,
        first: Posterior | None,
    ) -> Posterior:
        """Return a latent function, once all its tensors are known to be sound.

        ``first`` is the latent function that it has its hyperparameters from; None: its own.
        """

    def read_kept(self, description: dict[str, Any]) -> tuple[Term, ...] | None:
        """Return the kept terms; None for all."""
        if present(description, "kept") is None:
            return None
        kept = terms(description, "kept", self.terms.n_features, self.terms)
        require(() in kept, "the constant is not among the kept terms")
        return kept


class KernelFormat(EngineFormat):
    """The exact and the sparse engine."""

    key = "kernel"

    def __init__(self, kernel: AdditiveKernel) -> None:
        self._kernel = kernel

    @property
    def terms(self) -> TermSet:
        """The terms of the model."""
        return self._kernel.terms

    @property
    def orthogonal(self) -> bool:
        """Whether components are orthogonal."""
        return self._kernel.orthogonal

    def describe(self) -> dict[str, Any]:
        """Return the structure of the kernel."""
        return {
            "orthogonal": self._kernel.orthogonal,
            "n_features": self._kernel.terms.n_features,
            "blocks": [asdict(block) for block in self._kernel.terms.blocks],
        }

    def tensors(self, posterior: Posterior, first: Posterior | None) -> dict[str, Tensor]:
        """Return anchors, hyperparameters and weights."""
        assert isinstance(posterior, KernelPosterior)
        own = latents.weight_tensors(posterior)
        if first is None or not self.shares(posterior, first):
            own |= latents.map_tensors(posterior.features)
        return own

    def shares(self, posterior: Posterior, first: Posterior) -> bool:
        """Whether a latent function has its anchors and hyperparameters from the first one."""
        assert isinstance(posterior, KernelPosterior)
        assert isinstance(first, KernelPosterior)
        return posterior.features is first.features

    def read(
        self,
        tensors: Mapping[str, Tensor],
        noise: float,
        kept: tuple[Term, ...] | None,
        first: Posterior | None,
    ) -> Posterior:
        """Return a latent function."""
        features = first.features if isinstance(first, KernelPosterior) else None
        return latents.read_posterior(self._kernel, tensors, noise, kept, features)

    @classmethod
    def from_description(cls, d: dict[str, Any], columns: tuple[ModelColumn, ...]) -> KernelFormat:
        """Read the structure of a kernel."""
        n = count(d, "n_features")
        require(
            n == len(columns), f"the kernel has {n} features, but there are {len(columns)} columns"
        )
        blocks = []
        for b in entry(d, "blocks", list):
            mandatory = term(present(b, "mandatory"), "mandatory", n)
            optional = term(present(b, "optional"), "optional", n)
            order = count(b, "max_order")
            require(
                not set(mandatory) & set(optional) and len(mandatory) <= order <= n,
                f"a block of terms holds {b!r:.60}, which cannot be",
            )
            blocks.append(Block(mandatory, optional, order))
        found = TermSet(n, tuple(blocks))
        require(() in found, "the constant is not among the terms")
        features = tuple(column.feature for column in columns)
        return cls(AdditiveKernel(features, found, entry(d, "orthogonal", bool)))


class BasisFormat(EngineFormat):
    """The basis engine: all latent functions are on one basis."""

    key = "basis"

    def __init__(self, layout: BasisLayout) -> None:
        self._layout = layout

    @property
    def terms(self) -> TermSet:
        """The terms of the model."""
        return self._layout.term_set

    @property
    def orthogonal(self) -> bool:
        """Whether components are orthogonal: always."""
        return True

    def describe(self) -> dict[str, Any]:
        """Return what the basis is made of."""
        return basis.describe_layout(self._layout)

    def tensors(self, posterior: Posterior, first: Posterior | None) -> dict[str, Tensor]:
        """Return hyperparameters and weights, and the basis itself for the first function."""
        assert isinstance(posterior, BasisPosterior)
        own = basis.weight_tensors(posterior)
        if first is None:
            own |= basis.layout_tensors(posterior)
        if first is None or not self.shares(posterior, first):
            own |= basis.parameter_tensors(posterior)
        return own

    def shares(self, posterior: Posterior, first: Posterior) -> bool:
        """Whether a latent function has its hyperparameters from the first one."""
        assert isinstance(posterior, BasisPosterior)
        assert isinstance(first, BasisPosterior)
        return posterior.parameters is first.parameters

    def read(
        self,
        tensors: Mapping[str, Tensor],
        noise: float,
        kept: tuple[Term, ...] | None,
        first: Posterior | None,
    ) -> Posterior:
        """Return a latent function."""
        parameters = first.parameters if isinstance(first, BasisPosterior) else None
        return basis.read_posterior(self._layout, tensors, noise, kept, parameters)

    @classmethod
    def from_description(
        cls, d: dict[str, Any], columns: tuple[ModelColumn, ...], tensors: dict[str, Tensor]
    ) -> BasisFormat:
        """Read a basis; its tensors are taken out of ``tensors``."""
        features = [column.feature for column in columns]
        layout = basis.read_layout(d, features, tensors)
        for name in basis.layout_names(layout):
            tensors.pop(name)
        return cls(layout)


def format_of(posterior: Posterior) -> EngineFormat:
    """Return how a posterior is written."""
    if isinstance(posterior, BasisPosterior):
        return BasisFormat(posterior.layout)
    assert isinstance(posterior, KernelPosterior)
    return KernelFormat(posterior.kernel)


def read_format(
    description: dict[str, Any], columns: tuple[ModelColumn, ...], tensors: dict[str, Tensor]
) -> EngineFormat:
    """Return how the posteriors of a file are to be read."""
    if BasisFormat.key in description:
        own = entry(description, BasisFormat.key, dict)
        return BasisFormat.from_description(own, columns, tensors)
    return KernelFormat.from_description(entry(description, KernelFormat.key, dict), columns)
