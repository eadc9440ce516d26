"""Models by name, one file each."""

from __future__ import annotations

import json
import re
from typing import Any

from benchmarks.adapters.base import Adapter, Fitted, Job, Prediction
from benchmarks.adapters.botorch_oak import BoTorchOAK
from benchmarks.adapters.catboost import CatBoost
from benchmarks.adapters.constant import Constant
from benchmarks.adapters.ebm import EBM
from benchmarks.adapters.forest import Forest
from benchmarks.adapters.gaussian_process import GaussianProcess
from benchmarks.adapters.gpytorch_svgp import SVGP
from benchmarks.adapters.hist_gradient_boosting import HistGradientBoosting
from benchmarks.adapters.lightgbm import LightGBM
from benchmarks.adapters.linear import Linear
from benchmarks.adapters.mgcv import Mgcv
from benchmarks.adapters.mlp import MLP
from benchmarks.adapters.neighbours import Neighbours
from benchmarks.adapters.oakgp import OAK
from benchmarks.adapters.pygam import PyGAM
from benchmarks.adapters.svm import SVM
from benchmarks.adapters.xgboost import XGBoost

__all__ = ["ADAPTERS", "Adapter", "Fitted", "Job", "Prediction", "parse_model", "split_models"]

ADAPTERS: dict[str, Adapter] = {
    adapter.name: adapter
    for adapter in (
        OAK(),
        EBM(),
        LightGBM(),
        XGBoost(),
        CatBoost(),
        HistGradientBoosting(),
        Forest(),
        GaussianProcess(),
        SVGP(),
        BoTorchOAK(),
        PyGAM(),
        Mgcv(),
        MLP(),
        SVM(),
        Neighbours(),
        Linear(),
        Constant(),
    )
}


def split_models(text: str) -> list[str]:
    """Return the models of a list such as ``oakgp,oakgp[max_order=2,link=probit],ebm``."""
    return re.findall(r"[^,\[]+(?:\[[^\]]*\])?", text)


def parse_model(label: str) -> tuple[Adapter, dict[str, Any]]:
    """Return the adapter and the options of ``name`` or ``name[option=value,...]``.

    Values are JSON, or text where they are not.
    """
    match = re.fullmatch(r"([^\[]+)(?:\[([^\]]*)\])?", label)
    if match is None or match[1] not in ADAPTERS:
        raise ValueError(f"there is no model {label!r}; there are {', '.join(ADAPTERS)}")
    options = {}
    for pair in (match[2] or "").split(","):
        if not pair:
            continue
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"{label!r}: write options as name[option=value,...]")
        try:
            options[key] = json.loads(value)
        except json.JSONDecodeError:
            options[key] = value
    return ADAPTERS[match[1]], options
