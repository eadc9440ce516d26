"""Latent functions of a model file: hyperparameters, anchors and weights as tensors, and back."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from oakgp.export.entries import ModelFileError, require
from oakgp.kernels import CategoricalKernel
from oakgp.kernels.additive import AdditiveKernel, Parameters
from oakgp.kernels.terms import Term
from oakgp.posterior import KernelMap, KernelPosterior

_TURNED = "whitener_transposed"


def weight_tensors(posterior: KernelPosterior) -> dict[str, Tensor]:
    """Return the tensors of q: what the classes of a softmax do not share."""
    return {"mean_weights": posterior.mean_weights, **_by_layout(posterior.whitener)}


def map_tensors(features: KernelMap) -> dict[str, Tensor]:
    """Return the anchors and the hyperparameters."""
    parameters = features.parameters
    tensors = {
        "anchors": features.x,
        "lengthscales": parameters.lengthscales,
        "scales": parameters.scales,
        "order_variances": parameters.order_variances,
        "noise": parameters.noise,
    }
    for k, (w, kappa) in enumerate(zip(parameters.mixing, parameters.diagonal, strict=True)):
        tensors[f"mixing_{k}"], tensors[f"diagonal_{k}"] = w, kappa
    return tensors


def read_posterior(
    kernel: AdditiveKernel,
    tensors: Mapping[str, Tensor],
    noise: float,
    kept: tuple[Term, ...] | None,
    features: KernelMap | None = None,
) -> KernelPosterior:
    """Return a posterior, once all its tensors are known to be sound.

    ``features`` are those of another latent function that this one shares.
    """
    tensors = dict(tensors)
    if _TURNED in tensors:
        turned = tensors.pop(_TURNED)
        require(turned.ndim == 2, f"the tensor {_TURNED} has {turned.ndim} dimensions")
        tensors["whitener"] = turned.T
    if features is not None:
        repeated = sorted(set(tensors) & set(map_tensors(features)))
        require(not repeated, f"these tensors are too many: {', '.join(repeated)}")
        tensors.update(map_tensors(features))
    parameters = _parameters(kernel, tensors)
    return KernelPosterior(
        features or KernelMap(kernel, parameters, tensors["anchors"]),
        tensors["mean_weights"],
        tensors["whitener"],
        noise,
        kept,
    )


def _by_layout(whitener: Tensor) -> dict[str, Tensor]:
    """Return a matrix as it lies in memory: with the other layout, products round differently."""
    turned = not whitener.is_contiguous() and whitener.T.is_contiguous()
    return {_TURNED: whitener.T} if turned else {"whitener": whitener}


def _parameters(kernel: AdditiveKernel, tensors: dict[str, Tensor]) -> Parameters:
    """Return the hyperparameters, once all tensors are known to be sound."""
    shapes = _shapes(kernel, tensors)
    if set(tensors) != set(shapes):
        odd = ", ".join(sorted(set(tensors) ^ set(shapes)))
        raise ModelFileError(f"these tensors are missing or too many: {odd}")
    for name, shape in shapes.items():
        tensor = tensors[name]
        found = tuple(tensor.shape)
        require(found == shape, f"the tensor {name} has shape {found}, not {shape}")
        kinds = (tensor.dtype, tensors["anchors"].dtype)
        require(
            kinds[0] == kinds[1] and kinds[0] in (torch.float32, torch.float64),
            f"the tensor {name} is of {kinds[0]}, which does not fit",
        )
        # A missing value is NaN among the anchors, and nowhere else.
        bad = torch.isinf(tensor) if name == "anchors" else ~torch.isfinite(tensor)
        require(not bool(bad.any()), f"the tensor {name} holds values that are not finite")
        if name.startswith(("noise", "lengthscales", "scales", "order_variances", "diagonal")):
            require(
                bool((tensor > 0).all()), f"the tensor {name} holds values that are not above 0"
            )
    n_categorical = len(kernel.categorical)
    return Parameters(
        tensors["lengthscales"],
        tensors["scales"],
        tensors["order_variances"],
        tensors["noise"],
        tuple(tensors[f"mixing_{k}"] for k in range(n_categorical)),
        tuple(tensors[f"diagonal_{k}"] for k in range(n_categorical)),
    )


def _shapes(kernel: AdditiveKernel, tensors: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Return the shape that each tensor must have."""
    d, m = kernel.n_features, tensors["mean_weights"].numel()
    require(m > 0, "there are no anchors")
    shapes: dict[str, tuple[int, ...]] = {
        "anchors": (d, m),
        "mean_weights": (m,),
        "whitener": (tensors["whitener"].shape[0], m),
        "lengthscales": (d,),
        "scales": (d,),
        "order_variances": (kernel.max_order + 1,),
        "noise": (),
    }
    kernels = [feature.kernel for feature in kernel.features]
    tables = [table for table in kernels if isinstance(table, CategoricalKernel)]
    for k, table in enumerate(tables):
        shapes[f"mixing_{k}"] = (table.n_levels, table.rank)
        shapes[f"diagonal_{k}"] = (table.n_levels,)
    return shapes
