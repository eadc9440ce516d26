"""From a stream to a fitted model: the basis engine on rows that need not fit into memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from oakgp.basis.model import fit_basis
from oakgp.basis.rows import RowSource
from oakgp.engine_choice import choose_by_size
from oakgp.facts import basis_facts
from oakgp.fitting import AUTO_FLOWS, Options, named_terms
from oakgp.likelihoods.base import Likelihood
from oakgp.model import Label, Model, with_response
from oakgp.model_columns import ModelColumn
from oakgp.response import Response
from oakgp.stream.checkpoint import fingerprint
from oakgp.stream.first_pass import FirstPass, first_pass
from oakgp.stream.rows import ResponseUnit, StreamedRows
from oakgp.stream.sketch import Check
from oakgp.stream.source import Source
from oakgp.stream.sum_memory import SumMemory

MakeRows = Callable[[Sequence[ModelColumn], ResponseUnit], RowSource]


@dataclass(frozen=True)
class Target:
    """What is fitted to the responses.

    Parameters
    ----------
    likelihood
        Likelihood of the response; None for Gaussian noise.
    names
        Names of the latent functions; None for the likelihood's own.
    class_weights
        What the weights of a class's rows are multiplied by, in the order of the sorted labels;
        None for 1.
    """

    likelihood: Likelihood | None = None
    names: Sequence[Label] | None = None
    class_weights: Sequence[float] | None = None


def fit_stream(
    source: Source,
    options: Options,
    target_of: Callable[[FirstPass], Target],
    *,
    categorical_features: Any = "auto",
    check: Check | None = None,
    checkpoint: str | PathLike[str] | None = None,
) -> Model:
    """Fit a basis model to a source, in a few passes.

    Parameters
    ----------
    source
        The rows, with a target.
    options
        Settings; ``engine`` must be ``"auto"`` or ``"basis"``.
    target_of
        From what the first pass found to what is fitted to the responses.
    categorical_features
        As the estimators' setting of that name.
    check
        Refuses impossible responses ``[n]``.
    checkpoint
        Folder in which the sums of the passes are kept, so that an interrupted fit can go on: run
        it again. It is emptied at the end.
    """
    begin = time.perf_counter()
    found = first_pass(
        source,
        categorical_features=categorical_features,
        max_levels=options.max_levels,
        check=check,
    )
    target = target_of(found)
    memory = None
    if checkpoint is not None:
        settings = [repr(options), repr(target)]
        memory = SumMemory(Path(checkpoint), fingerprint(source, found.schema, settings))

    def make(columns: Sequence[ModelColumn], unit: ResponseUnit) -> StreamedRows:
        return StreamedRows(source, found, columns, unit, memory=memory)

    model = fit_found(found, make, options, target, begin)
    if memory is not None:
        memory.clear()
    return model


def fit_found(
    found: FirstPass,
    make_rows: MakeRows,
    options: Options,
    target: Target,
    begin: float,
) -> Model:
    """Fit a basis model to rows whose first pass is done, wherever they are.

    Parameters
    ----------
    found
        What the first pass found.
    make_rows
        From the columns of the model and the unit of the response to the rows.
    options
        Settings.
    target
        What is fitted to the responses.
    begin
        When the fit began, by `time.perf_counter`.
    """
    if options.engine not in ("auto", "basis"):
        raise ValueError(
            f"engine={options.engine!r} needs all rows in memory; rows that are read in chunks "
            "are fitted with engine='basis'"
        )
    likelihood = target.likelihood
    choose_by_size(
        "basis",
        found.n_rows,
        likelihood is None,
        options.max_order,
        options.plain,
        options.schedule,
    )  # refuses what the basis engine has not
    flow = options.flow if options.flow != "auto" else AUTO_FLOWS[0]
    columns = found.fit_columns(
        kernel=options.kernel, measure=options.measure, flow=flow, rank=options.rank
    )
    real = likelihood is None or likelihood.support == "real"
    unit = ResponseUnit.of(found, real=real, class_weights=target.class_weights)
    rows = make_rows(columns, unit)
    sample = rows.sample(options.basis_schedule.learning_rows, options.seed)
    start = None
    if likelihood is not None:
        start = likelihood.start(*(t.numpy() for t in (sample.y, sample.w, sample.offset)))
    features = [column.feature.name for column in columns]
    forced = named_terms(options.forced_terms, features, "forced_terms")
    schedule = options.basis_schedule
    if options.interactions != "auto":
        budget = replace(schedule.budget, interactions=int(options.interactions))
        schedule = replace(schedule, budget=budget)
    fitted = fit_basis(
        [column.feature for column in columns],
        rows,
        likelihood=likelihood,
        start=start,
        max_order=options.max_order,
        forbidden=named_terms(options.forbidden_terms, features, "forbidden_terms"),
        forced=forced,
        schedule=schedule,
        seed=options.seed,
        device=options.torch_device,
    )
    facts = basis_facts(
        fitted.fit,
        sample.x[:, :2000],
        sample.y.numpy(),
        likelihood,
        fitted.likelihood_parameters,
        flow=str(flow),
        names=features,
        n_rows=found.n_rows,
        seconds=time.perf_counter() - begin,
        reason="the rows are read in chunks",
    )
    model = Model(
        schema=found.schema,
        columns=tuple(columns),
        posterior=fitted.fit.posteriors[0],
        center=unit.center,
        scale=unit.scale,
        facts=facts,
        forced=forced,
    )
    if fitted.levels is None or fitted.likelihood_parameters is None:
        return model
    assert likelihood is not None
    response = Response(
        likelihood, fitted.likelihood_parameters, fitted.levels, unit.center, unit.scale
    )
    return with_response(model, response, fitted.fit.posteriors, target.names)
