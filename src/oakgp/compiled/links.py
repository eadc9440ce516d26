"""What a latent function says of the response, at its mean: for tables used elsewhere.

The model itself averages over the uncertainty of the latent function; this does not. Where there is
no link, the two are the same.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from oakgp.compiled.model import CompiledModel

Array = NDArray[np.float64]
Link: TypeAlias = Literal["identity", "exp", "logistic", "probit", "softmax"]

_LINKS: dict[str, Link] = {
    "bernoulli_logit": "logistic",
    "bernoulli_probit": "probit",
    "beta": "logistic",
    "softmax": "softmax",
}


def inverse_link(model: CompiledModel) -> Link:
    """Return the function that takes the latent value to the expected response."""
    if model.response is None or model.response.shifts:
        return "identity"
    return _LINKS.get(model.response.likelihood.name, "exp")


def outputs(model: CompiledModel) -> list[tuple[str, int]]:
    """Return the name of each latent function that is scored elsewhere, and its number."""
    if inverse_link(model) == "softmax":
        return [(f"link_{function.name}", k) for k, function in enumerate(model.functions)]
    return [("link", 0)]


def plug_in(model: CompiledModel, links: Array) -> Array:
    """Return the expected response at latent values ``[outputs, n]``: ``[n]``, or ``[n, K]``."""
    link = inverse_link(model)
    if link == "softmax":
        powers = np.exp(links - links.max(axis=0))
        return np.asarray((powers / powers.sum(axis=0)).T)
    if link == "logistic":
        return np.asarray(0.5 + 0.5 * np.tanh(0.5 * links[0]))
    if link == "probit":
        from scipy.special import ndtr

        return np.asarray(ndtr(links[0]))
    return np.asarray(np.exp(links[0]) if link == "exp" else links[0])
