"""Functions that must not overflow, and SciPy's special functions on tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

#: Exponents are cut here: exp(300) = 2e130, whose square is still a float.
MAX_EXPONENT = 300.0


def bounded_exp(x: Tensor) -> Tensor:
    """Return exp(min(x, 300)): overshooting latent values give a huge number, never infinity."""
    return torch.exp(x.clamp(max=MAX_EXPONENT))


def lognormal_variance(mean: Tensor, variance: Tensor, excess: Tensor) -> Tensor:
    """Return Var[e^f] + excess E[e^(2 f)] for f ~ N(mean, variance).

    Equal to e^(2m + v) (e^v - 1) + excess e^(2m + 2v); the two exponents are cut at 300.
    """
    # e^(2m + v) (e^v - 1) = e^(2m + 2v) (1 - e^-v) loses no digits when v is small.
    return bounded_exp(2.0 * (mean + variance)) * (excess - torch.expm1(-variance))


def normal_cdf(x: Tensor) -> Tensor:
    """Return Phi(x)."""
    p: Tensor = torch.special.ndtr(x)
    return p


def log_normal_cdf(x: Tensor) -> Tensor:
    """Return log Phi(x), to full precision in both tails."""
    log_p: Tensor = torch.special.log_ndtr(x)
    return log_p


def normal_quantile(p: Tensor) -> Tensor:
    """Return the x with Phi(x) = p."""
    x: Tensor = torch.special.ndtri(p)
    return x


def log_sigmoid(x: Tensor) -> Tensor:
    """Return -log(1 + e^-x), to full precision in both tails."""
    log_p: Tensor = torch.nn.functional.logsigmoid(x)
    return log_p


def elementwise(function: Callable[..., Any], *arguments: Tensor) -> Tensor:
    """Apply a NumPy function to tensors, on the CPU; no gradient, the result where they were.

    Torch has neither the incomplete beta function nor the inverses of any distribution function.
    """
    arrays = [a.detach().cpu().numpy() for a in torch.broadcast_tensors(*arguments)]
    return torch.as_tensor(function(*arrays), dtype=torch.float64).to(arguments[0].device)


def uniform(like: Tensor, generator: torch.Generator) -> Tensor:
    """Return draws from the open interval (0, 1) with the shape and device of ``like``."""
    draws = torch.rand(
        like.shape, generator=generator, dtype=torch.float64, device=generator.device
    )
    return draws.clamp(min=2.0**-54).to(like.device)


def standard_normal(like: Tensor, generator: torch.Generator) -> Tensor:
    """Return standard normal draws with the shape and device of ``like``."""
    return torch.randn(
        like.shape, generator=generator, dtype=torch.float64, device=generator.device
    ).to(like.device)
