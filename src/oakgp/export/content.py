"""What a model file holds: an estimator as JSON and tensors, and back.

Floats are written so that they read back to the bit. Everything that comes back is checked before
a model is built of it: types, shapes, and that the parts fit each other.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from oakgp.export.columns import read_columns
from oakgp.export.entries import (
    ModelFileError,
    count,
    entry,
    number,
    present,
    require,
    term,
    terms,
    texts,
)
from oakgp.export.settings import plain, restored
from oakgp.kernels import CategoricalKernel
from oakgp.kernels.additive import AdditiveKernel, Parameters
from oakgp.kernels.terms import Block, TermSet
from oakgp.model import Facts, Model
from oakgp.model_columns import ModelColumn
from oakgp.posterior import KernelMap, Posterior

if TYPE_CHECKING:
    from oakgp.estimators import OAKRegressor

#: Estimators that a file can hold.
ESTIMATORS = ("OAKRegressor",)

_TURNED = "whitener_transposed"


def describe(estimator: OAKRegressor) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return a fitted estimator as JSON-safe values and tensors."""
    name = type(estimator).__name__
    if name not in ESTIMATORS:
        raise TypeError(f"{name} cannot be saved; these can: {', '.join(ESTIMATORS)}")
    model = estimator._fitted()
    kernel, parameters = model.posterior.kernel, model.posterior.parameters
    names = getattr(estimator, "feature_names_in_", None)
    description = {
        "estimator": name,
        "settings": {k: plain(v) for k, v in estimator.get_params(deep=False).items()},
        "feature_names_in": None if names is None else [str(name) for name in names],
        "dropped_variance": getattr(estimator, "dropped_variance_", None),
        "schema": model.schema.to_dict(),
        "columns": [column.to_dict() for column in model.columns],
        "kernel": {
            "orthogonal": kernel.orthogonal,
            "n_features": kernel.terms.n_features,
            "blocks": [asdict(block) for block in kernel.terms.blocks],
        },
        "center": model.center,
        "scale": model.scale,
        "noise": model.posterior.noise,
        "kept": model.posterior.kept,
        "forced": model.forced,
        "facts": asdict(model.facts),
    }
    tensors = {
        "anchors": model.posterior.features.x,
        "mean_weights": model.posterior.mean_weights,
        **_by_layout(model.posterior.whitener),
        "lengthscales": parameters.lengthscales,
        "scales": parameters.scales,
        "order_variances": parameters.order_variances,
        "noise": parameters.noise,
    }
    for k, (w, kappa) in enumerate(zip(parameters.mixing, parameters.diagonal, strict=True)):
        tensors[f"mixing_{k}"], tensors[f"diagonal_{k}"] = w, kappa
    return description, {name: t.detach().cpu().contiguous() for name, t in tensors.items()}


def restore(description: dict[str, Any], tensors: dict[str, Tensor]) -> OAKRegressor:
    """Return the estimator that `describe` was given."""
    from oakgp import estimators

    tensors = dict(tensors)
    if _TURNED in tensors:
        tensors["whitener"] = tensors.pop(_TURNED).T
    name = entry(description, "estimator", str)
    require(name in ESTIMATORS, f"it holds the unknown estimator {name!r}; update oakgp")
    settings = entry(description, "settings", dict)
    schema, columns = read_columns(description)
    kernel = _kernel(entry(description, "kernel", dict), columns)
    n, known = kernel.n_features, kernel.terms
    kept = None
    if present(description, "kept") is not None:
        kept = terms(description, "kept", n, known)
        require(() in kept, "the constant is not among the kept terms")
    parameters = _parameters(kernel, tensors)
    noise, scale = number(description, "noise"), number(description, "scale")
    require(noise > 0 and scale > 0, "noise and scale are not positive")
    estimator: OAKRegressor = getattr(estimators, name)(
        **{k: restored(v) for k, v in settings.items()}
    )
    estimator.model_ = Model(
        schema=schema,
        columns=columns,
        posterior=Posterior(
            KernelMap(kernel, parameters, tensors["anchors"]),
            tensors["mean_weights"],
            tensors["whitener"],
            noise,
            kept,
        ),
        center=number(description, "center"),
        scale=scale,
        facts=_facts(entry(description, "facts", dict)),
        forced=terms(description, "forced", n, known),
    )
    estimator.n_iter_ = estimator.model_.facts.n_evaluations
    estimator.n_features_in_ = len(schema.columns)
    if present(description, "feature_names_in") is not None:
        names = texts(description, "feature_names_in")
        require(len(names) == len(schema.columns), "there is not one name for each column")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    if present(description, "dropped_variance") is not None:
        estimator.dropped_variance_ = number(description, "dropped_variance")
        require(0 <= estimator.dropped_variance_ <= 1, "the dropped variance is no share")
    return estimator


def _by_layout(whitener: Tensor) -> dict[str, Tensor]:
    """Return a matrix as it lies in memory: with the other layout, products round differently."""
    turned = not whitener.is_contiguous() and whitener.T.is_contiguous()
    return {_TURNED: whitener.T} if turned else {"whitener": whitener}


def _kernel(d: dict[str, Any], columns: tuple[ModelColumn, ...]) -> AdditiveKernel:
    n = count(d, "n_features")
    require(n == len(columns), f"the kernel has {n} features, but there are {len(columns)} columns")
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
    return AdditiveKernel(features, found, entry(d, "orthogonal", bool))


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


def _facts(d: dict[str, Any]) -> Facts:
    """Return how the fit went; a fact that the file lacks has the default, if there is one."""
    facts: dict[str, Any] = {}
    for name, kind in Facts.__annotations__.items():
        if name not in d:
            continue
        if kind == "float":
            facts[name] = number(d, name)
        elif kind == "int":
            facts[name] = count(d, name)
        elif kind in ("str", "bool"):
            facts[name] = entry(d, name, str if kind == "str" else bool)
        else:
            facts[name] = texts(d, name)
    return Facts(**{**d, **facts})
