"""Responses other than Gaussian in a model file: likelihood, classes, further latent functions.

The tensors of the response have names that begin with ``response.``; those of the latent functions
after the first begin with ``latent1.``, ``latent2.`` and so on. Classes share the first one's
anchors and hyperparameters, which are then not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp.export.engines import EngineFormat, format_of
from oakgp.export.entries import ModelFileError, entry, number, require
from oakgp.likelihoods import likelihood_from_dict
from oakgp.model import Model, with_response
from oakgp.response import Response

_KINDS = "biufU"  # of class labels: booleans, numbers, texts


def describe_classes(classes: NDArray[Any] | None) -> dict[str, Any] | None:
    """Return class labels as JSON-safe values, with their type."""
    if classes is None:
        return None
    if classes.dtype.kind not in _KINDS:
        raise TypeError(
            f"class labels of type {classes.dtype} cannot be saved; fit with texts or numbers"
        )
    return {"type": classes.dtype.str, "labels": classes.tolist()}


def read_classes(values: Any) -> NDArray[Any] | None:
    """Return class labels; None when there are none."""
    if values is None:
        return None
    text, labels = entry(values, "type", str), entry(values, "labels", list)
    kind = np.dtype(text)
    require(kind.kind in _KINDS, f"class labels are of type {text!r:.20}")
    wanted = {"b": (bool,), "U": (str,), "f": (int, float)}.get(kind.kind, (int,))
    require(all(type(label) in wanted for label in labels), "class labels are not of their type")
    classes = np.array(labels, dtype=kind)
    require(
        len(classes) > 1 and bool((classes[1:] > classes[:-1]).all()),
        "class labels are not two or more in increasing order",
    )
    require(classes.tolist() == labels, "class labels do not fit their type")
    return classes


def describe_response(model: Model) -> dict[str, Any] | None:
    """Return the response of a model as JSON-safe values; None for a Gaussian one."""
    response = model.response
    if response is None:
        return None
    engine = format_of(model.posterior)
    shared = [engine.shares(m.posterior, model.posterior) for m in model.others]
    return {
        "likelihood": response.likelihood.to_dict(),
        "center": response.center,
        "scale": response.scale,
        "others": [
            {"kept": m.posterior.kept, "shares": s}
            for m, s in zip(model.others, shared, strict=True)
        ],
    }


def response_tensors(model: Model) -> dict[str, Tensor]:
    """Return the tensors of the response and of all latent functions but the first."""
    if model.response is None:
        return {}
    found = {
        "response.levels": model.response.levels,
        "response.parameters": model.response.parameters,
    }
    engine = format_of(model.posterior)
    for k, other in enumerate(model.others, start=1):
        tensors = engine.tensors(other.posterior, model.posterior)
        # Memory of their own: safetensors refuses what two names share.
        found |= {f"latent{k}.{name}": tensor.clone() for name, tensor in tensors.items()}
    return found


def split_tensors(
    tensors: Mapping[str, Tensor],
) -> tuple[dict[str, Tensor], dict[str, dict[str, Tensor]]]:
    """Return the first latent function's tensors, and all others by what their names begin with."""
    own: dict[str, Tensor] = {}
    groups: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        group, dot, rest = name.partition(".")
        if dot:
            groups.setdefault(group, {})[rest] = tensor
        else:
            own[name] = tensor
    return own, groups


def read_response(
    model: Model,
    engine: EngineFormat,
    d: dict[str, Any],
    groups: dict[str, dict[str, Tensor]],
    classes: NDArray[Any] | None,
) -> Model:
    """Return the model with its response and all its latent functions."""
    likelihood = likelihood_from_dict(entry(d, "likelihood", dict))
    others = entry(d, "others", list)
    count = likelihood.n_latents
    require(len(others) == count - 1, f"{likelihood.name} has {count} latent functions")
    wanted = {"response", *(f"latent{k}" for k in range(1, count))}
    require(set(groups) == wanted, f"there are tensors of {sorted(groups)}, not {sorted(wanted)}")
    posteriors = [model.posterior]
    for k, other in enumerate(others, start=1):
        shared = model.posterior if entry(other, "shares", bool) else None
        kept = engine.read_kept(other)
        posteriors.append(engine.read(groups[f"latent{k}"], 0.0, kept, shared))
    tensors, n_parameters = groups["response"], len(likelihood.parameter_names)
    require(set(tensors) == {"levels", "parameters"}, "the response has other tensors")
    levels, parameters = tensors["levels"], tensors["parameters"]
    _check_vector("levels", levels, count, model.posterior.mean_weights)
    _check_vector("parameters", parameters, n_parameters, model.posterior.mean_weights)
    require(bool((parameters > 0).all()), "the likelihood's parameters are not positive")
    response = Response(likelihood, parameters, levels, number(d, "center"), number(d, "scale"))
    require(response.scale > 0, "the scale of the response is not positive")
    names = None
    if classes is not None:
        names = list(classes.tolist()[1:] if len(classes) == 2 else classes.tolist())
        require(len(names) == count, f"{likelihood.name} does not fit {len(classes)} classes")
    kinds = ("binary", "classes")
    require((likelihood.support in kinds) == (classes is not None), "the likelihood does not fit")
    return with_response(model, response, posteriors, names)


def _check_vector(name: str, vector: Tensor, count: int, like: Tensor) -> None:
    if vector.shape != (count,) or vector.dtype != like.dtype:
        raise ModelFileError(f"the {name} of the response are {vector.dtype}{list(vector.shape)}")
    require(bool(torch.isfinite(vector).all()), f"the {name} of the response are not finite")
