"""L-BFGS-B on an objective written in torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult
from scipy.optimize import minimize as scipy_minimize
from torch import Tensor

from oakgp.inference.cholesky import NotPositiveDefiniteError
from oakgp.ops.threads import one_blas_thread
from oakgp.progress import step

Array = NDArray[np.float64]

_PATIENCE = 3  # iterations over which the gain is averaged


@dataclass(frozen=True)
class Optimum:
    """Where a run of the optimiser ended.

    Parameters
    ----------
    theta
        The vector.
    value
        Objective there.
    converged
        Whether a tolerance, not the iteration limit, ended the run.
    n_evaluations
        Number of value-and-gradient calls.
    path
        Objective at the start and after each iteration.
    """

    theta: Array
    value: float
    converged: bool
    n_evaluations: int
    path: tuple[float, ...]


def minimise(
    objective: Callable[[Tensor], Tensor],
    start: Array,
    limits: list[tuple[float, float]],
    *,
    max_iter: int,
    tolerance: float,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float64,
) -> Optimum:
    """Minimise a differentiable function of a vector within bounds.

    ``tolerance`` is absolute: a run ends when an iteration gains less, on the average of three,
    since the first step of a run says little about those to come. An indefinite kernel
    matrix on the way counts as a very bad point, so the line search backs off from it.
    """
    worst = 0.0

    def value_and_gradient(theta: Array) -> tuple[float, Array]:
        nonlocal worst
        variable = torch.tensor(theta, dtype=dtype, device=device, requires_grad=True)
        try:
            value = objective(variable)
            (gradient,) = torch.autograd.grad(value, variable)
        except NotPositiveDefiniteError:
            if worst == 0.0:  # the start itself: nothing to back off to
                raise
            return worst + 10.0 * abs(worst), np.zeros_like(theta)
        result = float(value.detach())
        worst = max(worst, result, 1.0)
        return result, gradient.detach().cpu().to(torch.float64).numpy()

    begin = np.asarray(start, dtype=np.float64)
    first, slope = value_and_gradient(begin)
    if max_iter == 0:
        return Optimum(begin, first, False, 1, (first,))
    memory = [(begin.tobytes(), first, slope)]  # scipy asks for the start once more

    def recall(theta: Array) -> tuple[float, Array]:
        if memory and memory[0][0] == theta.tobytes():
            return memory.pop()[1:]
        return value_and_gradient(theta)

    path = [first]
    settled = False

    def note(intermediate_result: OptimizeResult) -> None:
        nonlocal settled
        path.append(float(intermediate_result.fun))
        progress.advance(1, f"objective {path[-1]:.6g}")
        settled = len(path) > _PATIENCE and path[-1 - _PATIENCE] - path[-1] < _PATIENCE * tolerance
        if settled:
            raise StopIteration

    # scipy factorises tiny matrices through threaded BLAS, whose threads then spin in torch's way.
    with one_blas_thread(), step("optimising", max_iter, "iterations") as progress:
        result = scipy_minimize(
            recall,
            begin,
            jac=True,
            method="L-BFGS-B",
            bounds=limits,
            callback=note,
            options={
                "maxiter": max_iter,
                "maxcor": 20,
                "ftol": 0.0,
                "gtol": 1e-5 * max(abs(first), 1.0),
            },
        )
    return Optimum(
        np.asarray(result.x),
        float(result.fun),
        settled or bool(result.status == 0),
        int(result.nfev),
        tuple(path),
    )
