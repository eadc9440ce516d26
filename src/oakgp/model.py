"""A fitted model: schema, columns, posterior and the response's scale, in one frozen object.

Estimators, files, plots and reports all read this; nothing in it depends on how it was fitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from oakgp.kernels.terms import Term
from oakgp.model_columns import ModelColumn, transform
from oakgp.ops.threads import threads_for
from oakgp.posterior import Posterior
from oakgp.response import Response, as_array
from oakgp.schema import TableSchema

if TYPE_CHECKING:
    from oakgp.sensitivity.report import SobolIndices
    from oakgp.sensitivity.variances import Totals, Variances

Array = NDArray[np.float64]

#: Names of latent functions: class labels keep their type.
Label = str | int | float | bool

#: Between the names of a term's features.
JOINER = " × "


@dataclass(frozen=True)
class Facts:
    """How a model came about.

    Parameters
    ----------
    engine
        ``"exact"``, ``"sparse"``, ``"stochastic"`` or ``"basis"``.
    n_rows, n_distinct
        Training rows of positive weight, and how many distinct inputs they have.
    log_evidence, evidence_rows
        Log evidence (or its bound) per the rows of the last stage, and the number of these.
    converged
        Whether the optimiser ended by its tolerance.
    n_evaluations
        Value-and-gradient calls.
    jitter
        Relative jitter of the last factorisation.
    n_inducing
        Inducing points; 0 for the exact engine.
    flow
        Transform of numeric columns, after ``"auto"`` was decided.
    at_bound
        Hyperparameters that ended at a bound, in words.
    notes
        Sentences on the data: correlated features and the like.
    seconds
        Wall time of the fit.
    n_columns
        Columns of the basis; 0 for the other engines.
    reason
        Why this engine, in words.
    """

    engine: str
    n_rows: int
    n_distinct: int
    log_evidence: float
    evidence_rows: int
    converged: bool
    n_evaluations: int
    jitter: float
    n_inducing: int
    flow: str
    at_bound: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: float
    n_columns: int = 0
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Model:
    """Everything needed to predict and to explain.

    A model is one latent function with its components, or the first of several: then ``others``
    are models of the rest, and all are explained one by one.

    Parameters
    ----------
    schema
        How tables are read.
    columns
        Transform and feature of each active column.
    posterior
        On the scale of the standardised response.
    center, scale
        Response = center + scale * f, or that which the response's mean is linked to.
    facts
        How the fit went.
    forced
        Terms that truncation never drops.
    response
        How responses follow from the latent functions; None for a Gaussian one, which is the
        function with the posterior's noise.
    name
        Which latent function this is: a class label, ``"mean"``, ``"log noise"``; empty for one.
    others
        The other latent functions.
    """

    schema: TableSchema
    columns: tuple[ModelColumn, ...]
    posterior: Posterior
    center: float
    scale: float
    facts: Facts
    forced: tuple[Term, ...] = ()
    response: Response | None = None
    name: Label = ""
    others: tuple[Model, ...] = ()

    @cached_property
    def outputs(self) -> tuple[Model, ...]:
        """Each latent function as a model of its own."""
        return (replace(self, others=()) if self.others else self, *self.others)

    @property
    def pooled(self) -> bool:
        """Whether the latent functions are classes, which share their terms and Sobol indices."""
        return bool(self.others) and (
            self.response is not None and self.response.likelihood.support == "classes"
        )

    def of(self, output: Label | None) -> Model:
        """Return one latent function by its name; the first, unless they are classes, for None."""
        if output is None and not self.pooled:
            return self.outputs[0]
        for model in self.outputs:
            if output is not None and model.name == output:
                return model
        names = ", ".join(repr(model.name) for model in self.outputs)
        if output is None:
            raise ValueError(f"each class has components of its own: give output=, one of {names}")
        if self.outputs[0].name == "":
            raise ValueError(
                f"output={output!r}: the model has one latent function without a name; leave "
                "output= out"
            )
        raise ValueError(f"the model has no latent function for output={output!r}; it has {names}")

    def variances(self) -> Variances:
        """Return the variances of all components over the inputs, averaged over classes."""
        others = [model.posterior for model in self.others] if self.pooled else []
        return self.posterior.variances(others)

    @cached_property
    def totals(self) -> Totals:
        """Variance of the posterior mean, by order and by feature; quick, no term is listed."""
        with threads_for(self.posterior.size):
            return self.variances().totals()

    @cached_property
    def sobol(self) -> SobolIndices:
        """Sobol indices of the whole model, whatever terms are kept."""
        from oakgp.sensitivity.report import sobol_indices

        return sobol_indices(self)

    @property
    def names(self) -> list[str]:
        """Names of the model's features."""
        return [column.feature.name for column in self.columns]

    def encode(self, table: Any) -> Tensor:
        """Return a table as the posterior reads it, ``[d, n]``."""
        rows = transform(self.columns, self.schema.encode(table))
        like = self.posterior.mean_weights
        return torch.tensor(rows.T.copy(), dtype=like.dtype, device=like.device)

    def term(self, spec: str | int | Sequence[str | int]) -> Term:
        """Return the feature numbers of a term given by names or numbers of table columns.

        A single name is a main effect; ``"a × b"`` and ``("a", "b")`` are a pair; ``()`` is the
        constant.
        """
        parts: Iterable[str | int]
        if isinstance(spec, str):
            parts = [spec] if spec in self.schema.names else spec.split(JOINER)
        elif isinstance(spec, Integral):
            parts = [int(spec)]
        elif isinstance(spec, Iterable):
            parts = spec
        else:
            raise TypeError(
                f"{spec!r} names no term: give a column's name or number, or a tuple of these"
            )
        numbers = {self._feature_number(part) for part in parts}
        term = tuple(sorted(numbers))
        if term not in self.posterior.terms:
            raise ValueError(
                f"the model has no term {self.label(term)!r}: its highest order is "
                f"{self.posterior.terms.max_order}, or the term is forbidden"
            )
        return term

    def _feature_number(self, part: str | int) -> int:
        names = self.schema.names
        known = f"it has {', '.join(map(repr, self.names))}"
        if isinstance(part, str) and part in names:
            position = names.index(part)
        elif isinstance(part, Integral) and 0 <= part < len(names):
            position = int(part)
        else:
            raise ValueError(f"the model has no feature {part!r}; {known}")
        if position not in self.schema.active:
            raise ValueError(
                f"the model has no feature {names[position]!r}: the column was left out, and "
                f"verdict_ says why; {known}"
            )
        return self.schema.active.index(position)

    @property
    def effect(self) -> str:
        """What components are effects on, for the axes of plots."""
        if self.response is None:
            return "effect on the response"
        first = self.name != "log noise"
        return f"effect on the {self.response.likelihood.latent_scale if first else self.name}"

    def label(self, term: Term) -> str:
        """Return the name of a term."""
        return JOINER.join(self.names[i] for i in term) if term else "(constant)"

    def keep(self, terms: Sequence[Term] | None) -> Model:
        """Return the model whose predictions sum over some terms only (of all classes)."""
        others = self.others
        if self.pooled:
            others = tuple(model.keep(terms) for model in others)
        return replace(self, posterior=self.posterior.keep(terms), others=others)

    @property
    def posteriors(self) -> tuple[Posterior, ...]:
        """Posterior of each latent function."""
        return tuple(model.posterior for model in self.outputs)

    def mean(self, table: Any) -> Array:
        """Return the expected response of regression, or the latent function, ``[n]``."""
        values = self.posterior.mean(self.encode(table))
        return self.center + self.scale * as_array(values)

    def moments(self, table: Any, *, noisy: bool) -> tuple[Array, Array]:
        """Return mean and standard deviation of f (or, noisy, of a new response), each ``[n]``.

        The noise is that of regression; other responses have theirs from the likelihood.
        """
        mean, variance = self.posterior.mean_and_variance(self.encode(table))
        if noisy:
            variance = variance + self.posterior.noise
        return self.center + self.scale * as_array(mean), self.scale * as_array(variance.sqrt())

    def component(self, table: Any, term: Term) -> tuple[Array, Array]:
        """Return mean and standard deviation of one component, in units of the response.

        The constant component is on the response's own scale; all others are deviations from it.
        """
        mean, variance = self.posterior.mean_and_variance(self.encode(table), term)
        shift = self.center if not term else 0.0
        return shift + self.scale * as_array(mean), self.scale * as_array(variance.sqrt())


def with_response(
    model: Model,
    response: Response,
    posteriors: Sequence[Posterior],
    names: Sequence[Label] | None = None,
) -> Model:
    """Return a model with all latent functions of a response, each on its own scale.

    Real responses have a mean in their own units, and a log noise variance in the logarithm of
    their squares; all else is on the scale of the link.
    """
    models = []
    for k, posterior in enumerate(posteriors):
        level = float(response.levels[k])
        center, scale = level, 1.0
        if response.shifts and k == 0:
            center, scale = response.center + response.scale * level, response.scale
        elif response.shifts:
            center = level + 2.0 * float(np.log(response.scale))
        name = response.likelihood.latent_names[k] if names is None else names[k]
        models.append(
            replace(
                model,
                posterior=posterior,
                center=center,
                scale=scale,
                response=response,
                name=name,
            )
        )
    return replace(models[0], others=tuple(models[1:]))
