"""Small latent-function models of every likelihood, and Gaussian algebra written out densely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from tests.likelihoods.cases import CASES
from tests.references import Problem, covariance, mixed_features, random_problem, tensor

from oakgp.inference.sites import Observations
from oakgp.inference.space import ParameterSpace
from oakgp.inference.variational import LatentModel
from oakgp.kernels.additive import Parameters
from oakgp.kernels.constrained import Feature

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Latents:
    """A model with rows whose responses were drawn from it."""

    model: LatentModel
    observations: Observations
    problems: tuple[Problem, ...]  # kernel, hyperparameters and rows of each latent function

    def covariances(self) -> list[Array]:
        """K of each latent function, by the slow reference."""
        x = self.observations.x.numpy()
        return [covariance(p, x, x) for p in self.problems]

    @property
    def space(self) -> ParameterSpace:
        return ParameterSpace(self.model.kernel, learn_scales=True)

    def vector(self) -> torch.Tensor:
        """All hyperparameters: those of each different latent function, then the likelihood's."""
        pieces = [self.space.pack(p) for p in self.model.distinct[0]]
        return tensor(np.concatenate([*pieces, self.model.likelihood_parameters.numpy()]))

    def unpack(self, vector: torch.Tensor) -> tuple[tuple[Parameters, ...], torch.Tensor]:
        different, numbers = self.model.distinct
        size = len(self.space.limits())
        each = [self.space.unpack(vector[k * size : (k + 1) * size]) for k in range(len(different))]
        return tuple(each[k] for k in numbers), vector[len(different) * size :]


def latents(
    name: str,
    seed: int = 0,
    n: int = 14,
    features: Sequence[Feature] | None = None,
    max_order: int = 2,
    shared: bool = False,
    variance: float = 0.2,
) -> Latents:
    """A model of moderate prior variance; weights other than 1, offsets other than 0."""
    case = CASES[name]
    rng = np.random.default_rng(seed)
    chosen = tuple(mixed_features() if features is None else features)
    problem = random_problem(seed, n, features=chosen, max_order=max_order)
    count = case.likelihood.n_latents
    problems = []
    for k in range(count):
        other = random_problem(seed + 10 * k, 1, features=chosen, max_order=max_order).parameters
        orders = variance * other.order_variances
        problems.append(replace(problem, parameters=replace(other, order_variances=orders)))
    if shared or name == "softmax":
        problems = problems[:1] * count
    levels = tensor(rng.normal(0.2, 0.3, count))
    offset = tensor(rng.normal(0.0, 0.3, n)) if name != "softmax" else torch.zeros_like(problem.y)
    f = levels[:, None] + tensor(rng.normal(0.0, 0.7, (count, n)))
    f[0] += offset
    y = case.likelihood.sample(f, case.theta, torch.Generator().manual_seed(seed))
    observations = Observations(problem.x, y, tensor(rng.uniform(0.4, 2.5, n)), offset)
    parameters = tuple(p.parameters for p in problems)
    model = LatentModel(problem.kernel, parameters, levels, case.likelihood, case.theta)
    return Latents(model, observations, tuple(problems))


@dataclass(frozen=True)
class DenseGaussian:
    """Mean, covariance, and the divergence from the prior."""

    mean: Array
    covariance: Array
    divergence: float


def divergence(mean: Array, covariance: Array, prior: Array) -> float:
    """KL(N(mean, covariance) || N(0, prior))."""
    precision = np.linalg.inv(prior)
    trace = np.trace(precision @ covariance)
    log_ratio = np.linalg.slogdet(prior)[1] - np.linalg.slogdet(covariance)[1]
    return 0.5 * float(trace + mean @ precision @ mean - len(mean) + log_ratio)


def conditioned(prior: Array, first: Array, precision: Array) -> DenseGaussian:
    """N(0, prior) times exp(first f - precision f^2 / 2), normalised."""
    cov = np.linalg.inv(np.linalg.inv(prior) + np.diag(precision))
    mean = cov @ first
    return DenseGaussian(mean, cov, divergence(mean, cov, prior))
