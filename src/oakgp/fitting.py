"""From a table and a response to a fitted model: what every estimator's ``fit`` does."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp.basis.fit import BasisSchedule
from oakgp.basis.model import fit_basis
from oakgp.basis.rows import InMemory, Rows
from oakgp.checks import check_choice, check_count
from oakgp.engine_choice import (
    DEEP_INDUCING,
    DEEPEST,
    ENGINES,
    Choice,
    choose_by_probe,
    choose_by_size,
)
from oakgp.facts import basis_facts, gather_facts
from oakgp.inference.data import TrainingData, collapse, merge_rows
from oakgp.inference.engines import Regression, Variational
from oakgp.inference.learn import Learner, Run, Schedule
from oakgp.inference.priors import PRIORS
from oakgp.inference.sites import Observations
from oakgp.inference.space import Bounds, ParameterSpace
from oakgp.kernels import RadialKernel
from oakgp.kernels.additive import AdditiveKernel
from oakgp.kernels.terms import Term, term_set
from oakgp.likelihoods import Gaussian
from oakgp.likelihoods.base import Likelihood
from oakgp.measures import Measure
from oakgp.model import Facts, Label, Model, with_response
from oakgp.model_columns import ModelColumn, fit_columns, transform
from oakgp.posterior import Posterior
from oakgp.response import Response
from oakgp.schema import TableSchema

Array = NDArray[np.float64]

# The compiler takes a third of a second to import: now, rather than in the first fit.
importlib.import_module("oakgp.ops.cpu")

#: Flows that ``flow="auto"`` chooses from, by the evidence of the first stage's rows.
AUTO_FLOWS = ("normal_score", "sinh_arcsinh", "none")


@dataclass(frozen=True)
class Options:
    """Settings of a fit; the estimator's parameters, checked."""

    max_order: int | None = None
    variant: str = "additive"
    orthogonal: bool = True
    kernel: str | RadialKernel | Mapping[str, str | RadialKernel] = "squared_exponential"
    measure: str | Measure | Mapping[str, str | Measure] = "auto"
    flow: str | Mapping[str, str] = "auto"
    feature_variances: bool = True
    priors: str = "default"
    max_levels: int = 256
    rank: int = 2
    forced_terms: Sequence[Any] = ()
    forbidden_terms: Sequence[Any] = ()
    monotone: Mapping[Any, str] = field(default_factory=dict)
    engine: str = "auto"
    n_inducing: int = 500
    device: str = "cpu"
    seed: int = 0
    interactions: int | str = "auto"
    bounds: Bounds = field(default_factory=Bounds)
    schedule: Schedule = field(default_factory=Schedule)
    basis_schedule: BasisSchedule = field(default_factory=BasisSchedule)

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        check_choice("engine", self.engine, ENGINES)
        check_choice("variant", self.variant, ("additive", "product"))
        check_choice("priors", self.priors, tuple(PRIORS))
        check_choice("device", self.device, ("auto", "cpu", "cuda"))
        check_count("n_inducing", self.n_inducing, 1)
        check_count("rank", self.rank, 1)
        if self.interactions != "auto":
            check_count("interactions", self.interactions, 0)
        if self.max_order is not None:
            check_count("max_order", self.max_order, 1)
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device='cuda', but torch finds no GPU; use device='auto' or 'cpu'")

    @property
    def plain(self) -> bool:
        """Whether the kernel is the orthogonal additive one."""
        return self.orthogonal and self.variant == "additive"

    @property
    def torch_device(self) -> str:
        """The device that ``"auto"`` stands for."""
        if self.device == "auto":
            return "cuda" if torch.cuda.is_available() else "cpu"
        return self.device


def standardise(y: Array, weights: Array) -> tuple[Array, float, float]:
    """Return the response with mean 0 and standard deviation 1, its mean and its deviation.

    A constant response keeps deviation 1. Scaled by the largest value first: 1e300 is no trouble.
    """
    largest = float(np.max(np.abs(y))) or 1.0
    unit = y / largest
    mean = float(np.average(unit, weights=weights))
    spread = float(np.sqrt(np.average((unit - mean) ** 2, weights=weights)))
    if spread <= 1e-13:  # rounding of equal values
        return np.zeros_like(y), mean * largest, 1.0
    return (unit - mean) / spread, mean * largest, spread * largest


def fit_model(
    table: Any,
    y: Array,
    weights: Array,
    options: Options,
    *,
    categorical_features: Any = "auto",
    likelihood: Likelihood | None = None,
    offset: Array | None = None,
    names: Sequence[Label] | None = None,
) -> Model:
    """Fit transforms and measures, learn the hyperparameters, return the model.

    Parameters
    ----------
    table, y, weights, options
        Rows, responses ``[n]``, row weights ``[n]`` and settings.
    categorical_features
        As the estimators' setting of that name.
    likelihood
        Likelihood of the response; None for Gaussian noise.
    offset
        ``[n]`` what is added to the (first) latent function; None for 0.
    names
        Names of the latent functions; None for the likelihood's own.
    """
    begin = time.perf_counter()
    if likelihood is not None:
        likelihood.check(y)
    schema = TableSchema.infer(
        table, categorical_features=categorical_features, max_levels=options.max_levels
    )
    encoded = schema.encode(table)
    n_rows = int((weights > 0).sum())
    shifts = likelihood is None or likelihood.support == "real"
    if offset is None:
        offset = np.zeros(len(y))
    elif shifts:  # what is added to the mean can be taken from the response
        y, offset = y - offset, np.zeros(len(y))
    choice = choose_by_size(
        options.engine,
        n_rows,
        likelihood is None,
        options.max_order,
        options.plain,
        _schedule(options, likelihood),
    )
    if choice is None or choice.engine != "basis":
        encoded, pairs, weights = collapse(encoded, np.column_stack([y, offset]), weights)
        y, offset = pairs[:, 0].copy(), pairs[:, 1].copy()
    unit, center, scale = standardise(y, weights) if shifts else (y, 0.0, 1.0)
    problem = _Problem(unit, weights, offset, likelihood)
    task = _Task(schema, encoded, problem, options, n_rows, center, scale, names, begin)
    if choice is None:
        choice = _probed(task)
    return _basis_model(task, choice) if choice.engine == "basis" else _kernel_model(task, choice)


@dataclass(frozen=True)
class _Problem:
    """Distinct rows: responses on the likelihood's scale, weights, offsets; the likelihood."""

    y: Array
    weights: Array
    offset: Array
    likelihood: Likelihood | None


@dataclass(frozen=True)
class _Task:
    """A table that was read: encoded rows, what to fit to them, and the settings."""

    schema: TableSchema
    encoded: Array
    problem: _Problem
    options: Options
    n_rows: int
    center: float
    scale: float
    names: Sequence[Label] | None
    begin: float

    def columns(self, flow: str | Mapping[str, str]) -> list[ModelColumn]:
        """Return the columns of the model, with one of the flows."""
        return fit_columns(
            self.schema,
            self.encoded,
            self.problem.weights,
            kernel=self.options.kernel,
            measure=self.options.measure,
            flow=flow,
            rank=self.options.rank,
        )

    @property
    def flows(self) -> tuple[str | Mapping[str, str], ...]:
        """The flows to choose from."""
        flow = self.options.flow
        return AUTO_FLOWS if isinstance(flow, str) and flow == "auto" else (flow,)

    @property
    def seconds(self) -> float:
        """Time since the fit began."""
        return time.perf_counter() - self.begin

    def model(self, columns: Sequence[ModelColumn], posterior: Posterior, facts: Facts) -> Model:
        """Return the model of the first latent function."""
        return Model(
            schema=self.schema,
            columns=tuple(columns),
            posterior=posterior,
            center=self.center,
            scale=self.scale,
            facts=facts,
            forced=named_terms(self.options.forced_terms, _feature_names(columns), "forced_terms"),
        )

    def with_response(
        self, model: Model, levels: Tensor, parameters: Tensor, posteriors: Sequence[Posterior]
    ) -> Model:
        """Return the model with all latent functions of its likelihood."""
        likelihood = self.problem.likelihood
        assert likelihood is not None
        response = Response(likelihood, parameters, levels, self.center, self.scale)
        return with_response(model, response, posteriors, self.names)


def _schedule(options: Options, likelihood: Likelihood | None) -> Schedule:
    if likelihood is None:
        return options.schedule
    return options.schedule.for_latents(likelihood.n_latents)


def _feature_names(columns: Sequence[ModelColumn]) -> list[str]:
    return [column.feature.name for column in columns]


def _kernel_model(task: _Task, choice: Choice) -> Model:
    """Fit the exact or the sparse engine."""
    options, problem = task.options, task.problem
    if choice.deep:
        options = replace(
            options,
            max_order=min(task.encoded.shape[1], DEEPEST),
            n_inducing=max(options.n_inducing, DEEP_INDUCING),
        )
    learners: list[tuple[Any, list[ModelColumn], Learner[Any], Run | None]] = []
    flows = task.flows
    for flow in flows:
        columns = task.columns(flow)
        learner = _learner(columns, transform(columns, task.encoded), problem, options)
        learners.append((flow, columns, learner, learner.trial() if len(flows) > 1 else None))
        if all(column.flow is None for column in columns):
            break  # no numeric column: nothing to choose
    flow, columns, learner, trial = min(
        learners, key=lambda entry: entry[3].optimum.value if entry[3] else 0.0
    )
    learned = learner.learn(choice.engine, options.n_inducing, trial)
    facts = gather_facts(
        learner.engine,
        learner.engine.space,
        learned,
        problem.y,
        problem.likelihood,
        flow=str(flow),
        names=_feature_names(columns),
        n_rows=task.n_rows,
        seconds=task.seconds,
        reason=choice.reason,
    )
    posterior, center = learned.fitted.posteriors[0], task.center
    if problem.likelihood is None and isinstance(learner.engine, Variational):
        # Gaussian noise by minibatches: the model is that of regression all the same.
        posterior = replace(posterior, noise=float(learned.fitted.likelihood_parameters[0]))
        center += task.scale * float(learner.engine.levels[0])
    model = replace(task.model(columns, posterior, facts), center=center)
    if problem.likelihood is None:
        return model
    engine: Variational = learner.engine
    return task.with_response(
        model, engine.levels, learned.fitted.likelihood_parameters, learned.fitted.posteriors
    )


def _probed(task: _Task) -> Choice:
    """Choose an engine for many rows."""
    problem, options = task.problem, task.options
    if problem.likelihood is not None:
        return Choice("basis", f"{task.n_rows:,} rows are many")
    columns = task.columns(task.flows[0])
    deep = replace(options, max_order=max(1, min(len(columns), DEEPEST)))
    learner = _learner(columns, transform(columns, task.encoded), problem, deep)
    return choose_by_probe(learner, task.n_rows, options.torch_device, options.max_order)


def _basis_model(task: _Task, choice: Choice) -> Model:
    """Fit the basis engine."""
    options, problem = task.options, task.problem
    flow = task.flows[0]
    columns = task.columns(flow)
    rows = Rows(
        *_tensors(transform(columns, task.encoded).T, problem.y, problem.weights, problem.offset)
    )
    names = _feature_names(columns)
    start = None
    if problem.likelihood is not None:
        start = problem.likelihood.start(problem.y, problem.weights, problem.offset)
    schedule = options.basis_schedule
    if options.interactions != "auto":
        budget = replace(schedule.budget, interactions=int(options.interactions))
        schedule = replace(schedule, budget=budget)
    found = fit_basis(
        [column.feature for column in columns],
        InMemory(rows),
        likelihood=problem.likelihood,
        start=start,
        max_order=options.max_order,
        forbidden=_forbidden(options, names),
        forced=named_terms(options.forced_terms, names, "forced_terms"),
        schedule=schedule,
        seed=options.seed,
        device=options.torch_device,
    )
    facts = basis_facts(
        found.fit,
        rows.x[:, :2000],
        problem.y,
        problem.likelihood,
        found.likelihood_parameters,
        flow=str(flow),
        names=names,
        n_rows=task.n_rows,
        seconds=task.seconds,
        reason=choice.reason,
    )
    model = task.model(columns, found.fit.posteriors[0], facts)
    if found.levels is None or found.likelihood_parameters is None:
        return model
    return task.with_response(
        model, found.levels, found.likelihood_parameters, found.fit.posteriors
    )


def _learner(
    columns: list[ModelColumn], rows: Array, problem: _Problem, options: Options
) -> Learner[Any]:
    d = len(columns)
    names = [column.feature.name for column in columns]
    order = options.max_order
    if order is None:
        order = d if options.variant == "product" else min(d, 4)
    terms = term_set(
        d,
        order,
        forbidden=_forbidden(options, names),
        forced=named_terms(options.forced_terms, names, "forced_terms"),
    )
    kernel = AdditiveKernel(tuple(column.feature for column in columns), terms, options.orthogonal)
    likelihood, schedule = problem.likelihood, options.schedule
    if likelihood is None and options.engine == "stochastic":
        likelihood = Gaussian()
    priors = PRIORS[options.priors]
    if likelihood is not None:
        if likelihood.support in ("binary", "classes"):
            priors = priors.for_labels()
        priors = priors.in_units_of(likelihood.latent_unit)
    space = ParameterSpace(
        kernel,
        learn_scales=options.feature_variances and d > 0,
        tied=options.variant == "product",
        bounds=options.bounds,
        priors=priors,
        learn_noise=likelihood is None,
    )
    device, dtype = options.torch_device, torch.float64
    if likelihood is None:
        distinct, means, counts, within = merge_rows(rows, problem.y, problem.weights)
        x, mean, weight = _tensors(distinct.T, means, counts)
        data = TrainingData(x, mean, weight, within).to(device, dtype)
        return Learner(Regression(space, data), schedule, options.seed)
    # Merging rows into their mean response is exact for Gaussian noise only.
    observations = Observations(*_tensors(rows.T, problem.y, problem.weights, problem.offset)).to(
        device, dtype
    )
    levels, parameters = likelihood.start(problem.y, problem.weights, problem.offset)
    engine = Variational(
        space, observations, likelihood, levels.to(device, dtype), parameters.to(device, dtype)
    )
    return Learner(engine, schedule.for_latents(likelihood.n_latents), options.seed)


def _tensors(*arrays: Array) -> tuple[Tensor, ...]:
    return tuple(torch.tensor(array.copy()) for array in arrays)  # a copy each: torch aligns it


def _forbidden(options: Options, names: list[str]) -> tuple[Term, ...]:
    """Return the forbidden terms: those asked for, and three features with a monotone one.

    Main effects and pairs can be made monotone, larger terms cannot, nor pairs in both features.
    """
    found = named_terms(options.forbidden_terms, names, "forbidden_terms")
    monotone = [i for (i,) in named_terms(list(options.monotone), names, "monotone")]
    found += tuple(combinations(sorted(monotone), 2))
    for i in monotone:
        others = [j for j in range(len(names)) if j != i]
        triples = (sorted((i, *pair)) for pair in combinations(others, 2))
        found += tuple(tuple(triple) for triple in triples)
    return found


def named_terms(specs: Sequence[Any], names: list[str], option: str) -> tuple[Term, ...]:
    """Return terms given by names or numbers as sorted feature numbers."""
    terms = []
    for spec in specs:
        parts = [spec] if isinstance(spec, (str, int, np.integer)) else list(spec)
        numbers = set()
        for part in parts:
            if isinstance(part, str) and part in names:
                numbers.add(names.index(part))
            elif not isinstance(part, str) and 0 <= int(part) < len(names):
                numbers.add(int(part))
            else:
                raise ValueError(
                    f"{option}= names {part!r}, which is no feature of the model; "
                    f"it has {', '.join(names)}"
                )
        if not numbers:
            raise ValueError(f"{option}= holds an empty term; the constant is always in the model")
        terms.append(tuple(sorted(numbers)))
    return tuple(terms)
