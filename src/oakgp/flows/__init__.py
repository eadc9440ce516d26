r"""Monotone input transforms: one increasing map per feature, to about N(0, 1).

A flow g is fitted to one column before the Gaussian process sees it. The parametric one minimises

    KL = mean(z^2 / 2 - log g'(x)) + const,    z = g(x),

the divergence from the transformed column to a standard normal (the half belongs there; without
it the fitted scale is wrong by sqrt(2)). Sobol indices do not change under a monotone map of a
feature, so a flow only decides how far apart the kernel finds two values.

Every flow is increasing and finite on the whole real line: a model must answer for an input far
outside the training range. NaN stays NaN, and an infinite input counts as the largest float.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oakgp.flows.base import Flow, normal_kl
from oakgp.flows.normal_score import NormalScore
from oakgp.flows.sinh_arcsinh import SinhArcsinh
from oakgp.flows.standardize import Standardize

__all__ = [
    "FLOWS",
    "Flow",
    "NormalScore",
    "SinhArcsinh",
    "Standardize",
    "flow_from_dict",
    "normal_kl",
]

FLOWS: dict[str, type[Flow]] = {
    "none": Standardize,
    "normal_score": NormalScore,
    "sinh_arcsinh": SinhArcsinh,
}
"""Flows by name: what ``flow=`` accepts and what the law tests run over."""


def flow_from_dict(values: Mapping[str, Any]) -> Flow:
    """Restore any flow from the values that its ``to_dict`` gave.

    Parameters
    ----------
    values : mapping
        The parameters, with the flow's name under ``"kind"``.

    Returns
    -------
    Flow
        The same flow, bit by bit.
    """
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in FLOWS:
        raise ValueError(
            f"Unknown flow kind {kind!r}; known kinds are {sorted(FLOWS)}. "
            "The model may have been saved by a newer oakgp: update it and load again."
        )
    return FLOWS[kind].from_dict(values)
