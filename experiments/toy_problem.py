"""Nine starts on the paper's toy problem: one optimum with the constraint, several without.

    python -m experiments.toy_problem

y = x1^2 - 2 x2 + cos(3 x1) sin(5 x2) + noise on [-1, 1]^2 (section 4.2, figure 2, appendix on the
toy example). The paper: with the constrained kernel nine starts end at the same hyperparameters,
with the unconstrained one of Duvenaud et al. (2011) at three local optima, in which the components
are not the truth's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import torch

from experiments.output import FIGURES, markdown, save_table
from oakgp.inference import exact
from oakgp.inference.data import TrainingData
from oakgp.inference.optimize import minimise
from oakgp.inference.priors import PAPER
from oakgp.inference.space import ParameterSpace
from oakgp.kernels import SquaredExponential
from oakgp.kernels.additive import AdditiveKernel
from oakgp.kernels.constrained import Feature
from oakgp.kernels.terms import Term, term_set
from oakgp.measures import Uniform

NOISE, ROWS = 0.1, 150
TERMS: tuple[Term, ...] = ((0,), (1,), (0, 1))
GRID = np.linspace(-1.0, 1.0, 41)
SAME = 0.1  # nats within which two ends are the same optimum


def function(a: Any, b: Any) -> Any:
    """Return the noise-free response."""
    return a**2 - 2 * b + np.cos(3 * a) * np.sin(5 * b)


def truth() -> dict[Term, Any]:
    """Return the components of the function on the grid, under the uniform measure."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    weights = weights / 2
    constant = weights @ function(nodes[:, None], nodes[None, :]) @ weights
    first = function(GRID[:, None], nodes[None, :]) @ weights - constant
    second = weights @ function(nodes[:, None], GRID[None, :]) - constant
    both = function(GRID[:, None], GRID[None, :]) - constant - first[:, None] - second[None, :]
    return {(0,): first, (1,): second, (0, 1): both}


@dataclass(frozen=True)
class End:
    """Where a start led to: minus the log posterior, lengthscales, order variances, components."""

    start: str
    value: float
    lengthscales: tuple[float, ...]
    order_variances: tuple[float, ...]
    means: dict[Term, Any]
    bands: dict[Term, Any]


def ends(orthogonal: bool) -> list[End]:
    """Follow nine starts to their optima."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, (2, ROWS))
    y = function(x[0], x[1]) + NOISE * rng.standard_normal(ROWS)
    features = tuple(Feature(name, SquaredExponential(), Uniform(-1, 1)) for name in ("x1", "x2"))
    kernel = AdditiveKernel(features, term_set(2, 2), orthogonal)
    space = ParameterSpace(kernel, priors=PAPER)
    ones = torch.ones(ROWS, dtype=torch.float64)
    data = TrainingData(torch.tensor(x), torch.tensor(y), ones, 0.0)

    def objective(theta: torch.Tensor) -> torch.Tensor:
        p = space.unpack(theta)
        return exact.negative_evidence(kernel, p, data) - space.log_prior(p)

    plane = torch.tensor(np.array(list(product(GRID, GRID))).T.copy())
    found = []
    for length in (0.3, 1.0, 3.0):
        base = space.unpack(torch.tensor(space.start(length, 0.1, seed=0)))
        for main, pair in ((1.0, 0.03), (1.0, 1.0), (0.03, 1.0)):
            orders = torch.tensor([1.0, main, pair], dtype=torch.float64)
            start = space.pack(replace(base, order_variances=orders))
            best = minimise(objective, start, space.limits(), max_iter=300, tolerance=1e-7)
            p = space.unpack(torch.tensor(best.theta))
            posterior, _ = exact.posterior(kernel, p, data)
            means, bands = {}, {}
            for term in TERMS:
                mean, variance = posterior.mean_and_variance(plane, term)
                means[term] = mean.numpy().reshape(len(GRID), -1)
                bands[term] = variance.sqrt().numpy().reshape(len(GRID), -1)
            found.append(
                End(
                    f"l = {length:g}, variances {main:g} and {pair:g}",
                    best.value,
                    tuple(p.lengthscales.tolist()),
                    tuple(p.order_variances.tolist()),
                    means,
                    bands,
                )
            )
    return found


def optima(found: list[End]) -> list[End]:
    """Return one end for each different optimum, best first."""
    different: list[End] = []
    for end in sorted(found, key=lambda e: e.value):
        if all(end.value - other.value > SAME for other in different):
            different.append(end)
    return different


def draw(by_kernel: dict[str, list[End]]) -> None:
    """Draw the two main effects of each optimum over the truth."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    exact_components = truth()
    rows = [(label, end) for label, found in by_kernel.items() for end in optima(found)]
    figure, axes = plt.subplots(
        len(rows), 2, figsize=(7.5, 2.1 * len(rows)), layout="constrained", squeeze=False
    )
    for (label, end), pair in zip(rows, axes, strict=True):
        for axis, term, name in zip(pair, ((0,), (1,)), ("x1", "x2"), strict=True):
            cut = (slice(None), 0) if term == (0,) else (0, slice(None))
            mean, band = end.means[term][cut], end.bands[term][cut]
            axis.fill_between(GRID, mean - 2 * band, mean + 2 * band, color="#9bc3e6", lw=0)
            axis.plot(GRID, mean, color="#1f5fa8", label="posterior mean, 2 sd")
            axis.plot(GRID, exact_components[term], color="#c03a2b", ls="--", label="truth")
            axis.set_xlabel(name)
        pair[0].set_ylabel(f"{label}\n-log posterior {end.value:.1f}", fontsize=8)
    axes[0][0].legend(fontsize=7)
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURES / "toy_problem.png", dpi=110)
    plt.close(figure)


def main() -> None:
    by_kernel = {"constrained": ends(True), "unconstrained": ends(False)}
    rows = [["kernel", "start", "-log posterior", "lengthscales", "order variances"]]
    for label, found in by_kernel.items():
        for end in found:
            lengths = ", ".join(f"{v:.2f}" for v in end.lengthscales)
            orders = ", ".join(f"{v:.2g}" for v in end.order_variances)
            rows.append([label, end.start, f"{end.value:.2f}", lengths, orders])
    summary = [["kernel", "different optima of nine starts", "spread, nats"]]
    for label, found in by_kernel.items():
        values = [end.value for end in found]
        summary.append([label, str(len(optima(found))), f"{max(values) - min(values):.2g}"])
    errors = [["kernel", "component", "root mean squared error at the best optimum"]]
    for label, found in by_kernel.items():
        best = optima(found)[0]
        for term in TERMS:
            exact_one = truth()[term]
            got = best.means[term]
            if len(term) == 1:
                got = got[:, 0] if term == (0,) else got[0]
            errors.append(
                [
                    label,
                    " x ".join(f"x{i + 1}" for i in term),
                    f"{np.sqrt(np.mean((got - exact_one) ** 2)):.3f}",
                ]
            )
    save_table("toy_problem", markdown(summary), markdown(errors), markdown(rows))
    draw(by_kernel)


if __name__ == "__main__":
    main()
