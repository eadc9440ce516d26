"""Inducing points by greedy conditional variance: a pivoted Cholesky of the OAK kernel."""

from __future__ import annotations

import torch
from torch import Tensor

from oakgp.kernels.additive import AdditiveKernel, Parameters

_STOP = 1e-9  # relative remaining variance at which further points would add rounding errors only


def greedy_inducing(
    kernel: AdditiveKernel,
    parameters: Parameters,
    x: Tensor,
    count: int,
    seed: int,
    max_candidates: int = 20_000,
) -> Tensor:
    """Return the numbers of rows chosen one by one where the conditional variance is largest.

    Each point is the row whose value the points before it predict worst under the prior (Burt et
    al. 2020). O(n m^2) time, O(n m) memory, on a random subset when there are more than
    ``max_candidates`` rows. Fewer than ``count`` rows come back when the rest is determined.

    Parameters
    ----------
    kernel, parameters
        The model whose kernel measures distance.
    x
        ``[d, n]`` encoded rows.
    count
        Number of points wanted.
    seed
        Of the subset of candidates.
    max_candidates
        Size of that subset.

    Returns
    -------
    Tensor
        Row numbers, ``[<= count]``, in order of choice.
    """
    parameters = parameters.detach()
    n = x.shape[1]
    candidates = torch.arange(n, device=x.device)
    if n > max_candidates:
        generator = torch.Generator().manual_seed(seed)
        candidates = torch.randperm(n, generator=generator)[:max_candidates].to(x.device)
    weights = kernel.weights(parameters)
    points = kernel.points(parameters, x[:, candidates])
    remaining = kernel.diagonal(weights, points).clone()
    first = float(remaining.max())
    count = min(count, points.n)
    rows = remaining.new_zeros((count, points.n))
    chosen: list[int] = []
    for k in range(count):
        pivot = int(remaining.argmax())
        top = float(remaining[pivot])
        if top <= _STOP * first:
            break
        row = kernel.matrix(weights, points.take(torch.tensor([pivot], device=x.device)), points)[0]
        row = (row - rows[:k, pivot] @ rows[:k]) / top**0.5
        rows[k] = row
        remaining = (remaining - row * row).clamp_min(0.0)
        remaining[pivot] = 0.0
        chosen.append(pivot)
    return candidates[torch.tensor(chosen, dtype=torch.long, device=x.device)]
