"""From a table and a response to a fitted model: what every estimator's ``fit`` does."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp.checks import check_choice, check_count
from oakgp.inference.data import TrainingData, collapse, merge_rows
from oakgp.inference.engines import Regression, Variational
from oakgp.inference.learn import Learned, Learner, Run, Schedule
from oakgp.inference.priors import PRIORS
from oakgp.inference.sites import Observations
from oakgp.inference.space import Bounds, ParameterSpace
from oakgp.kernels import RadialKernel
from oakgp.kernels.additive import AdditiveKernel, Parameters
from oakgp.kernels.terms import Term, term_set
from oakgp.likelihoods.base import Likelihood
from oakgp.measures import Measure
from oakgp.model import Facts, Label, Model, with_response
from oakgp.model_columns import ModelColumn, fit_columns, transform
from oakgp.response import Response
from oakgp.schema import TableSchema

Array = NDArray[np.float64]

#: Flows that ``flow="auto"`` chooses from, by the evidence of the first stage's rows.
AUTO_FLOWS = ("normal_score", "sinh_arcsinh", "none")
_CORRELATED = 0.9


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
    engine: str = "auto"
    n_inducing: int = 500
    device: str = "cpu"
    seed: int = 0
    bounds: Bounds = field(default_factory=Bounds)
    schedule: Schedule = field(default_factory=Schedule)

    def __post_init__(self) -> None:
        """Refuse settings that cannot be."""
        check_choice("engine", self.engine, ("auto", "exact", "sparse"))
        check_choice("variant", self.variant, ("additive", "product"))
        check_choice("priors", self.priors, tuple(PRIORS))
        check_choice("device", self.device, ("auto", "cpu", "cuda"))
        check_count("n_inducing", self.n_inducing, 1)
        check_count("rank", self.rank, 1)
        if self.max_order is not None:
            check_count("max_order", self.max_order, 1)
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device='cuda', but torch finds no GPU; use device='auto' or 'cpu'")

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
    encoded, pairs, weights = collapse(encoded, np.column_stack([y, offset]), weights)
    y, offset = pairs[:, 0].copy(), pairs[:, 1].copy()
    unit, center, scale = standardise(y, weights) if shifts else (y, 0.0, 1.0)
    problem = _Problem(unit, weights, offset, likelihood)

    auto = isinstance(options.flow, str) and options.flow == "auto"
    flows = AUTO_FLOWS if auto else (options.flow,)
    learners: list[tuple[Any, list[ModelColumn], Learner[Any], Run | None]] = []
    for flow in flows:
        columns = fit_columns(
            schema,
            encoded,
            weights,
            kernel=options.kernel,
            measure=options.measure,
            flow=flow,
            rank=options.rank,
        )
        learner = _learner(columns, transform(columns, encoded), problem, options)
        learners.append((flow, columns, learner, learner.trial() if len(flows) > 1 else None))
        if all(column.flow is None for column in columns):
            break  # no numeric column: nothing to choose
    flow, columns, learner, trial = min(
        learners, key=lambda entry: entry[3].optimum.value if entry[3] else 0.0
    )
    learned = learner.learn(options.engine, options.n_inducing, trial)
    features = [column.feature.name for column in columns]
    seconds = time.perf_counter() - begin
    model = Model(
        schema=schema,
        columns=tuple(columns),
        posterior=learned.fitted.posteriors[0],
        center=center,
        scale=scale,
        facts=_facts(learner, learned, problem, str(flow), features, n_rows, seconds),
        forced=_terms(options.forced_terms, features, "forced_terms"),
    )
    if likelihood is None:
        return model
    engine: Variational = learner.engine
    response = Response(
        likelihood, learned.fitted.likelihood_parameters, engine.levels, center, scale
    )
    return with_response(model, response, learned.fitted.posteriors, names)


@dataclass(frozen=True)
class _Problem:
    """Distinct rows: responses on the likelihood's scale, weights, offsets; the likelihood."""

    y: Array
    weights: Array
    offset: Array
    likelihood: Likelihood | None


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
        forbidden=_terms(options.forbidden_terms, names, "forbidden_terms"),
        forced=_terms(options.forced_terms, names, "forced_terms"),
    )
    kernel = AdditiveKernel(tuple(column.feature for column in columns), terms, options.orthogonal)
    likelihood, schedule = problem.likelihood, options.schedule
    space = ParameterSpace(
        kernel,
        learn_scales=options.feature_variances and d > 0,
        tied=options.variant == "product",
        bounds=options.bounds,
        priors=PRIORS[options.priors],
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


def _terms(specs: Sequence[Any], names: list[str], option: str) -> tuple[Term, ...]:
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


def _facts(
    learner: Learner[Any],
    learned: Learned,
    problem: _Problem,
    flow: str,
    names: list[str],
    n_rows: int,
    seconds: float,
) -> Facts:
    engine, likelihood = learner.engine, problem.likelihood
    constant = bool((problem.y == problem.y[0]).all())
    notes = _correlations(engine.x, names)
    if constant and likelihood is None:
        notes.append(
            "y is the same in every row, so there is nothing to learn: every prediction is that "
            "value, and the deviations are those of the noise's lower bound"
        )
    elif constant:
        notes.append("y is the same in every row, so there is little to learn")
    at_bound: list[str] = []
    if not constant:
        seen: list[Parameters] = []
        for posterior in learned.fitted.posteriors:
            if not any(posterior.parameters is p for p in seen):
                seen.append(posterior.parameters)
                at_bound += _at_bound(posterior.parameters, engine.space, names)
        if likelihood is not None:
            at_bound += _likelihood_at_bound(likelihood, learned.fitted.likelihood_parameters)
    return Facts(
        engine=learned.engine,
        n_rows=n_rows,
        n_distinct=engine.n,
        log_evidence=learned.log_evidence,
        evidence_rows=learned.evidence_rows,
        converged=learned.converged,
        n_evaluations=learned.n_evaluations,
        jitter=learned.fitted.jitter,
        n_inducing=learned.n_inducing,
        flow=flow,
        at_bound=tuple(dict.fromkeys(at_bound)),
        notes=tuple(notes),
        seconds=seconds,
    )


def _at_bound(parameters: Parameters, space: ParameterSpace, names: list[str]) -> list[str]:
    """Return, in words, the hyperparameters at a bound that a user should know of."""
    found = []
    lengthscales = parameters.lengthscales.tolist()
    for i in space.numeric:
        if lengthscales[i] <= space.bounds.lengthscale[0] * 1.001:
            found.append(f"the lengthscale of {names[i]} is at its lower bound (very rough)")
    if not space.learn_noise:
        return found
    low, high = space.bounds.noise
    noise = float(parameters.noise)
    if noise <= low * 1.001:
        found.append("the noise is at its lower bound: the data are interpolated")
    if noise >= high * 0.999:
        found.append("the noise is at its upper bound: no signal was found")
    return found


def _likelihood_at_bound(likelihood: Likelihood, parameters: Tensor) -> list[str]:
    found = []
    triples = zip(
        likelihood.parameter_names,
        likelihood.parameter_bounds,
        parameters.tolist(),
        strict=True,
    )
    for name, (low, high), value in triples:
        if value <= low * 1.001:
            found.append(f"the {name} of the {likelihood.name} likelihood is at its lower bound")
        if value >= high * 0.999:
            found.append(f"the {name} of the {likelihood.name} likelihood is at its upper bound")
    return found


def _correlations(x: Tensor, names: list[str]) -> list[str]:
    """Return a sentence on strongly correlated pairs of numeric features."""
    rows = x[:, :2000].cpu().numpy()
    if rows.shape[1] < 10:
        return []
    counts = np.maximum((~np.isnan(rows)).sum(axis=1, keepdims=True), 1)
    centred = np.nan_to_num(rows - np.nansum(rows, axis=1, keepdims=True) / counts)
    length = np.sqrt((centred**2).sum(axis=1))
    usable = length > 0
    unit = centred / np.where(usable, length, 1.0)[:, None]
    r = np.triu(unit @ unit.T, k=1)
    pairs = [
        (abs(r[i, j]), f"{names[i]} and {names[j]} ({r[i, j]:+.2f})")
        for i, j in zip(*np.nonzero(np.abs(r) > _CORRELATED), strict=True)
    ]
    if not pairs:
        return []
    pairs.sort(reverse=True)
    more = f" and {len(pairs) - 3} more pairs" if len(pairs) > 3 else ""
    return [
        "strongly correlated features share their effect between them, so read their components "
        "together: " + ", ".join(text for _, text in pairs[:3]) + more
    ]
