"""The basis engine in a model file: hyperparameters, tables of functions, columns and weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from oakgp.basis.functions import FeatureBasis
from oakgp.basis.layout import BasisLayout, TermColumns
from oakgp.basis.posterior import BasisPosterior
from oakgp.basis.prior import BasisParameters
from oakgp.export.entries import ModelFileError, count, entry, number, require, term
from oakgp.kernels.categorical import CategoricalKernel
from oakgp.kernels.constrained import Feature
from oakgp.kernels.terms import Term

_TABLES = ("knots", "table", "mass", "eigenvalues")


def describe_layout(layout: BasisLayout) -> dict[str, Any]:
    """Return what a basis is made of, as JSON-safe values."""
    return {
        "features": [
            {
                "reference": basis.reference,
                "knows_missing": basis.knows_missing,
                "n_smooth": basis.n_smooth,
            }
            for basis in layout.bases
        ],
        "terms": [block.term for block in layout.blocks],
    }


def layout_tensors(posterior: BasisPosterior) -> dict[str, Tensor]:
    """Return the tensors of a basis."""
    layout = posterior.layout
    tensors: dict[str, Tensor] = {}
    for i, basis in enumerate(layout.bases):
        own = (basis.knots, basis.table, basis.mass, basis.eigenvalues)
        tensors |= {f"{name}_{i}": tensor for name, tensor in zip(_TABLES, own, strict=True)}
    for k, block in enumerate(layout.blocks):
        tensors[f"columns_{k}"] = block.index
    return tensors


def parameter_tensors(posterior: BasisPosterior) -> dict[str, Tensor]:
    """Return the hyperparameters of one latent function."""
    p = posterior.parameters
    return {
        "variances": p.variances,
        "lengthscales": p.lengthscales,
        "noise": p.noise,
        "rough": p.rough,
    }


def weight_tensors(posterior: BasisPosterior) -> dict[str, Tensor]:
    """Return the tensors of one latent function."""
    return {"mean_weights": posterior.mean_weights, "root": posterior.root}


def read_layout(
    description: dict[str, Any], features: Sequence[Feature], tensors: Mapping[str, Tensor]
) -> BasisLayout:
    """Return a basis, once all that it is made of is known to be sound."""
    own = entry(description, "features", list)
    require(len(own) == len(features), "the basis does not fit the columns")
    bases = []
    for i, (d, feature) in enumerate(zip(own, features, strict=True)):
        knots, table, mass, values = (_floats(tensors, f"{name}_{i}") for name in _TABLES)
        require(
            knots.ndim == 1 and len(knots) > 0 and bool((knots[1:] > knots[:-1]).all()),
            f"the knots of feature {i} are not increasing",
        )
        require(
            values.ndim == 1
            and table.shape == (len(knots) + 2, len(values))
            and bool((values >= 0).all()),
            f"the table of feature {i} does not fit",
        )
        levels = feature.kernel.n_levels if isinstance(feature.kernel, CategoricalKernel) else 0
        require(
            not levels or torch.equal(knots, torch.arange(levels).to(knots)),
            f"the knots of feature {i} are not its levels",
        )
        reference = number(d, "reference")
        require(reference > 0, "a lengthscale is not positive")
        knows = entry(d, "knows_missing", bool)
        # With missing values only, there is no knot that has a probability.
        sizes = (len(knots) + int(knows), 1 if knows else 0)
        require(
            mass.ndim == 1 and len(mass) in sizes and bool((mass >= 0).all()),
            f"the probabilities of feature {i} do not fit",
        )
        smooth = count(d, "n_smooth")
        require(smooth <= len(values), f"feature {i} has fewer functions than smooth ones")
        bases.append(FeatureBasis(feature, knots, table, mass, values, smooth, reference, knows))
    blocks = []
    for k, value in enumerate(entry(description, "terms", list)):
        u = term(value, "terms", len(features))
        require(len(u) > 0, "the constant is listed among the terms")
        blocks.append(TermColumns(u, _index(tensors, k, u, bases)))
    layout = BasisLayout(tuple(bases), tuple(blocks))
    require(len(set(layout.terms)) == len(layout.terms), "a term is listed twice")
    return layout


def read_posterior(
    layout: BasisLayout,
    tensors: Mapping[str, Tensor],
    noise: float,
    kept: tuple[Term, ...] | None,
    parameters: BasisParameters | None,
) -> BasisPosterior:
    """Return a posterior on a basis.

    ``parameters`` are those of another latent function that this one shares.
    """
    wanted = {"mean_weights", "root"}
    if parameters is None:
        wanted |= {"variances", "lengthscales", "noise", "rough"}
    if set(tensors) != wanted:
        odd = ", ".join(sorted(set(tensors) ^ wanted))
        raise ModelFileError(f"these tensors are missing or too many: {odd}")
    mean, root = _floats(tensors, "mean_weights"), _floats(tensors, "root")
    require(mean.shape == (layout.size,), "there is not one weight for each column")
    require(root.ndim == 2 and root.shape[1] == layout.size, "the root does not fit the columns")
    if parameters is None:
        parameters = _parameters(layout, tensors)
    return BasisPosterior(layout, parameters, mean, root, noise, kept)


def _parameters(layout: BasisLayout, tensors: Mapping[str, Tensor]) -> BasisParameters:
    variances, lengthscales = (_floats(tensors, name) for name in ("variances", "lengthscales"))
    noise = _floats(tensors, "noise")
    require(variances.shape == (len(layout.terms),), "there is not one variance for each term")
    require(lengthscales.shape == (layout.n_features,), "the lengthscales do not fit")
    require(noise.shape == (), "the noise is no number")
    for tensor in (variances, lengthscales, noise):
        require(bool((tensor > 0).all()), "a hyperparameter is not positive")
    rough = _floats(tensors, "rough")
    require(
        rough.shape == lengthscales.shape and bool((rough >= 0).all()),
        "the variances of rough parts do not fit",
    )
    return BasisParameters(variances, lengthscales, noise, rough)


def layout_names(layout: BasisLayout) -> set[str]:
    """Return the names of all tensors of a basis."""
    names = {f"columns_{k}" for k in range(len(layout.blocks))}
    for i in range(layout.n_features):
        names |= {f"{name}_{i}" for name in _TABLES}
    return names


def _floats(tensors: Mapping[str, Tensor], name: str) -> Tensor:
    require(name in tensors, f"the tensor {name} is missing")
    tensor = tensors[name]
    require(tensor.dtype == torch.float64, f"the tensor {name} is of {tensor.dtype}")
    finite = bool(torch.isfinite(tensor).all())
    require(finite, f"the tensor {name} holds values that are not finite")
    return tensor


def _index(tensors: Mapping[str, Tensor], k: int, u: Term, bases: list[FeatureBasis]) -> Tensor:
    name = f"columns_{k}"
    require(name in tensors, f"the tensor {name} is missing")
    index = tensors[name]
    require(
        index.dtype == torch.int64 and index.ndim == 2 and index.shape[1] == len(u),
        f"the tensor {name} does not fit its term",
    )
    sizes = torch.tensor([bases[i].size for i in u])
    inside = bool(((index >= 0) & (index < sizes)).all())
    require(inside, f"the tensor {name} names functions that there are not")
    return index
