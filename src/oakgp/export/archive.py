"""Save and load: a zip archive with ``model.json`` and ``tensors.safetensors``.

The JSON holds names, settings and measures; floats are written so that they read back to the bit.
The tensors hold the posterior. Nothing in the file is ever executed, and every part is checked
before a model is built from it.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from oakgp.kernels import KERNELS, Periodic, RadialKernel
from oakgp.kernels.additive import AdditiveKernel, Parameters
from oakgp.kernels.terms import Block, TermSet
from oakgp.measures import Measure, measure_from_dict
from oakgp.model import Facts, Model
from oakgp.model_columns import ModelColumn
from oakgp.posterior import KernelMap, Posterior
from oakgp.schema import TableSchema

if TYPE_CHECKING:
    from oakgp.estimators import OAKRegressor

FORMAT = "oakgp-model"
VERSION = 1
_JSON = "model.json"
_TENSORS = "tensors.safetensors"


class ModelFileError(ValueError):
    """The file is not a model of this library, or it is damaged."""


def save(estimator: OAKRegressor, path: str | PathLike[str]) -> None:
    """Write a fitted estimator to one file.

    The file appears under its name only when it is complete: an interrupted save leaves the old
    file as it was.
    """
    from oakgp import __version__

    model = estimator._fitted()
    posterior = model.posterior
    kernel, parameters = posterior.kernel, posterior.parameters
    description = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": __version__,
        "estimator": type(estimator).__name__,
        "settings": {k: _plain(v) for k, v in estimator.get_params(deep=False).items()},
        "feature_names_in": _names(estimator),
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
        "noise": posterior.noise,
        "kept": posterior.kept,
        "forced": model.forced,
        "facts": asdict(model.facts),
    }
    tensors = {
        "anchors": posterior.features.x,
        "mean_weights": posterior.mean_weights,
        "whitener": posterior.whitener,
        "lengthscales": parameters.lengthscales,
        "scales": parameters.scales,
        "order_variances": parameters.order_variances,
        "noise": parameters.noise,
    }
    for k, (w, kappa) in enumerate(zip(parameters.mixing, parameters.diagonal, strict=True)):
        tensors[f"mixing_{k}"], tensors[f"diagonal_{k}"] = w, kappa
    data = safetensors.torch.save(
        {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    )
    target = Path(path)
    partial = target.with_name(target.name + ".partial")
    with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_JSON, json.dumps(description, allow_nan=False))
        archive.writestr(_TENSORS, data)
    os.replace(partial, target)


def load(path: str | PathLike[str]) -> OAKRegressor:
    """Read a fitted estimator back from a file that `save` wrote.

    Raises
    ------
    ModelFileError
        When the file is not a model, is damaged, or was written by a newer version.
    """
    description, tensors = _read(Path(path))
    try:
        return _build(description, tensors)
    except ModelFileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ModelFileError(
            f"{path}: the model file is damaged or incomplete ({type(error).__name__}: {error}); "
            "save the model again"
        ) from error


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such model file")
    try:
        with zipfile.ZipFile(path) as archive:
            description = json.loads(archive.read(_JSON))
            if not isinstance(description, dict) or description.get("format") != FORMAT:
                raise ModelFileError(f"{path}: not an oakgp model file")
            version = description.get("version")
            if not isinstance(version, int) or version > VERSION:
                raise ModelFileError(
                    f"{path}: written in format {version} by oakgp "
                    f"{description.get('written_by')}; this oakgp reads formats up to {VERSION}: "
                    "update it"
                )
            tensors = safetensors.torch.load(archive.read(_TENSORS))
    except ModelFileError:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        KeyError,
        EOFError,
        json.JSONDecodeError,
        UnicodeDecodeError,
        safetensors.SafetensorError,
    ) as error:
        raise ModelFileError(
            f"{path}: not an oakgp model file, or a damaged one ({type(error).__name__})"
        ) from error
    return description, tensors


def _build(description: dict[str, Any], tensors: dict[str, Tensor]) -> OAKRegressor:
    from oakgp.estimators import OAKRegressor

    columns = tuple(ModelColumn.from_dict(d) for d in description["columns"])
    blocks = tuple(
        Block(tuple(b["mandatory"]), tuple(b["optional"]), b["max_order"])
        for b in description["kernel"]["blocks"]
    )
    terms = TermSet(description["kernel"]["n_features"], blocks)
    kernel = AdditiveKernel(
        tuple(column.feature for column in columns), terms, description["kernel"]["orthogonal"]
    )
    n_categorical = len(kernel.categorical)
    parameters = Parameters(
        tensors["lengthscales"],
        tensors["scales"],
        tensors["order_variances"],
        tensors["noise"],
        tuple(tensors[f"mixing_{k}"] for k in range(n_categorical)),
        tuple(tensors[f"diagonal_{k}"] for k in range(n_categorical)),
    )
    _check_shapes(kernel, tensors)
    kept = description["kept"]
    posterior = Posterior(
        KernelMap(kernel, parameters, tensors["anchors"]),
        tensors["mean_weights"],
        tensors["whitener"],
        float(description["noise"]),
        None if kept is None else tuple(tuple(t) for t in kept),
    )
    facts = dict(description["facts"])
    facts["at_bound"], facts["notes"] = tuple(facts["at_bound"]), tuple(facts["notes"])
    settings = {k: _restore(v) for k, v in description["settings"].items()}
    estimator = OAKRegressor(**settings)
    estimator.model_ = Model(
        schema=TableSchema.from_dict(description["schema"]),
        columns=columns,
        posterior=posterior,
        center=float(description["center"]),
        scale=float(description["scale"]),
        facts=Facts(**facts),
        forced=tuple(tuple(t) for t in description["forced"]),
    )
    estimator.n_iter_ = estimator.model_.facts.n_evaluations
    estimator.n_features_in_ = len(estimator.model_.schema.columns)
    if description["feature_names_in"] is not None:
        estimator.feature_names_in_ = np.array(description["feature_names_in"], dtype=object)
    if description["dropped_variance"] is not None:
        estimator.dropped_variance_ = description["dropped_variance"]
    return estimator


def _check_shapes(kernel: AdditiveKernel, tensors: dict[str, Tensor]) -> None:
    d, m = kernel.n_features, tensors["mean_weights"].shape[0]
    expected = {
        "anchors": (d, m),
        "lengthscales": (d,),
        "scales": (d,),
        "order_variances": (kernel.max_order + 1,),
        "noise": (),
    }
    for name, shape in expected.items():
        if tuple(tensors[name].shape) != shape:
            raise ModelFileError(
                f"the model file's {name} has shape {tuple(tensors[name].shape)}, not {shape}"
            )
    if tensors["whitener"].ndim != 2 or tensors["whitener"].shape[1] != m:
        raise ModelFileError(f"the model file's whitener does not fit its {m} anchors")
    for name, tensor in tensors.items():
        if name != "anchors" and not bool(torch.isfinite(tensor).all()):
            raise ModelFileError(f"the model file's {name} holds values that are not finite")


def _names(estimator: OAKRegressor) -> list[str] | None:
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _plain(value: Any) -> Any:
    """Return a setting as JSON; kernels and measures as tagged objects."""
    if isinstance(value, RadialKernel):
        period = {"period": value.period} if isinstance(value, Periodic) else {}
        return {"__kernel__": value.name, **period}
    if isinstance(value, Measure):
        return {"__measure__": value.to_dict()}
    if isinstance(value, dict):
        return {"__map__": [[k, _plain(v)] for k, v in value.items()]}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return None  # a random generator: its state is spent, the fitted model does not need it


def _restore(value: Any) -> Any:
    if isinstance(value, list):
        return [_restore(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "__kernel__" in value:
        rest = {k: v for k, v in value.items() if k != "__kernel__"}
        return KERNELS[value["__kernel__"]](**rest)
    if "__measure__" in value:
        return measure_from_dict(value["__measure__"])
    return {k: _restore(v) for k, v in value["__map__"]}
