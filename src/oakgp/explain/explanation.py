"""Explanations of single predictions: by terms, and by features as Shapley values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from oakgp.checks import check_choice, check_count
from oakgp.explain.attribution import Attribution
from oakgp.explain.response_scale import sampled_shapley, sequential
from oakgp.explain.values import term_with_values, value_texts
from oakgp.kernels.terms import Term
from oakgp.model import Label, Model
from oakgp.response import as_array
from oakgp.sensitivity.report import LISTED
from oakgp.sensitivity.selection import rank_terms
from oakgp.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

Array = NDArray[np.float64]

SCALES = ("link", "response")
KINDS = ("terms", "features")
OTHERS = "(other terms)"


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(ABC):
    """Why the predictions of some rows are what they are.

    Made by ``estimator.explain(X)``. ``terms`` and ``features`` are two ways to split the same
    predictions; the latter are computed when first asked for.

    Parameters
    ----------
    model
        All latent functions.
    output
        The one that is explained.
    rows
        ``[n, d]`` the rows, in units of their columns: numbers, or codes of levels.
    x
        ``[d, n]`` the same as the posterior reads them.
    listed
        The terms that are listed one by one.
    """

    model: Model
    output: Model
    rows: Array
    x: Tensor
    listed: tuple[Term, ...]

    @cached_property
    @abstractmethod
    def terms(self) -> Attribution:
        """What each term adds to each row; the last entry is that of all others together."""

    @cached_property
    @abstractmethod
    def features(self) -> Attribution:
        """Shapley value of each feature at each row."""

    @property
    @abstractmethod
    def unit(self) -> str:
        """What is explained, for the axes of plots."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __repr__(self) -> str:
        """Say what is explained."""
        return f"Explanation of {len(self)} rows by {len(self.listed)} terms: {self.unit}"

    @cached_property
    def value_texts(self) -> NDArray[np.object_]:
        """The values of all features in words, ``[n, d]``."""
        return value_texts(self.output, self.rows)

    def attribution(self, kind: str) -> Attribution:
        """Return ``terms`` or ``features`` by name."""
        check_choice("kind", kind, KINDS)
        return self.terms if kind == "terms" else self.features

    def to_table(self, kind: str = "terms") -> Table:
        """Return a table with an entry for each part of each row.

        Parameters
        ----------
        kind : {"terms", "features"}, default="terms"
            How predictions are split.
        """
        return self.attribution(kind).to_table(kind[:-1])

    def to_frame(self, kind: str = "terms") -> Any:
        """Return `to_table` as a pandas DataFrame."""
        return self.to_table(kind).to_pandas()

    def to_shap(self) -> Any:
        """Return the Shapley values as a ``shap.Explanation``, for the plots of that library.

        Levels of categories are numbers in its ``data`` and names in its ``display_data``. Its
        ``error_std`` holds posterior deviations or, on the response scale, standard errors.
        """
        try:
            import shap
        except ImportError:
            raise ImportError("to_shap() needs the shap package: pip install shap") from None
        parts = self.features
        return shap.Explanation(
            values=parts.values,
            base_values=parts.base,
            data=self.rows,
            display_data=self.value_texts,
            feature_names=list(parts.names),
            error_std=parts.sd if parts.sd is not None else parts.error,
        )

    def labels(self, row: int, kind: str) -> list[str]:
        """Return the names of the parts of one row, with the values of their features."""
        texts = self.value_texts[row]
        if kind == "features":
            return [f"{name} = {text}" for name, text in zip(self.output.names, texts, strict=True)]
        named = [term_with_values(self.output, term, texts) for term in self.listed]
        return [*named, *self.terms.names[len(named) :]]

    def of_row(self, row: int, kind: str) -> Attribution:
        """Return the parts of one row, with all that can be known of their deviations."""
        n = len(self)
        if not -n <= row < n:
            raise IndexError(f"row {row}: the explanation has rows 0 to {n - 1}")
        return self.attribution(kind).take(row % n)

    def plot(
        self,
        row: int = 0,
        kind: str = "terms",
        *,
        max_bars: int = 10,
        bands: float = 2.0,
        figure: Figure | SubFigure | None = None,
    ) -> Figure | SubFigure:
        """Draw the way from the base to the prediction of one row; see `plot_waterfall`.

        Parameters
        ----------
        row : int, default=0
            Number of the row.
        kind : {"terms", "features"}, default="terms"
            How the prediction is split.
        max_bars : int, default=10
            Parts shown; the smaller ones are one bar together.
        bands : float, default=2.0
            Half-width of error bars, in standard deviations.
        figure : matplotlib figure or subfigure, optional
            Where to draw; a new figure when not given.
        """
        from oakgp.explain import plot_waterfall

        return plot_waterfall(self, row, kind, max_bars=max_bars, bands=bands, figure=figure)


@dataclass(frozen=True, eq=False, repr=False)
class LinkExplanation(Explanation):
    """On the scale of the function itself: of the response, or of what its mean is linked to.

    Parts are components and their exact Shapley values, each with its posterior deviation.
    """

    @property
    def unit(self) -> str:
        """What is explained."""
        return self.output.effect.replace("effect on the ", "", 1)

    @cached_property
    def base(self) -> Array:
        """The constant component, at the level of the response, ``[n]``."""
        mean, _ = self.output.posterior.constant()
        return np.full(len(self), self.output.center + self.output.scale * mean)

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        mean, variance = self.output.posterior.mean_and_variance(self.x)
        model = self.output
        return model.center + model.scale * as_array(mean), model.scale * as_array(variance.sqrt())

    @property
    def prediction(self) -> Array:
        """Mean of the function at each row, ``[n]``."""
        return self._moments[0]

    @property
    def prediction_sd(self) -> Array:
        """Posterior deviation of the function at each row, noise not counted, ``[n]``."""
        return self._moments[1]

    @cached_property
    def terms(self) -> Attribution:
        """What each term adds to each row, with its deviation."""
        model = self.output
        mean, variance = model.posterior.component_moments(self.x, self.listed)
        values = model.scale * as_array(mean.T)
        sd = model.scale * as_array(variance.T.sqrt())
        names = [model.label(term) for term in self.listed]
        if _covers(model, self.listed):
            return Attribution(tuple(names), values, sd, None, self.base)
        whole = model.center + model.scale * as_array(model.posterior.mean(self.x))
        rest = whole - self.base - values.sum(axis=1)
        return Attribution(
            (*names, OTHERS),
            np.column_stack([values, rest]),
            np.column_stack([sd, np.full(len(self), np.nan)]),
            None,
            self.base,
        )

    @cached_property
    def features(self) -> Attribution:
        """Shapley value of each feature at each row, exact, with its deviation."""
        model = self.output
        mean, variance = model.posterior.shapley(self.x)
        return Attribution(
            tuple(model.names),
            model.scale * as_array(mean.T),
            model.scale * as_array(variance.T.sqrt()),
            None,
            self.base,
        )

    @cached_property
    def feature_covariance(self) -> Array:
        """Posterior covariance of the features' Shapley values at each row, ``[n, d, d]``.

        The deviation of the sum of two of them, say, follows from it.
        """
        scale = self.output.scale
        return scale * scale * as_array(self.output.posterior.shapley_covariance(self.x))

    def of_row(self, row: int, kind: str) -> Attribution:
        """Return the parts of one row, the deviation of all other terms together included."""
        part = super().of_row(row, kind)
        if kind == "features" or len(part.names) == len(self.listed):
            return part
        assert part.sd is not None
        row %= len(self)
        variance = self.output.posterior.rest_variance(self.x[:, row : row + 1], self.listed)
        sd = part.sd.copy()
        sd[0, -1] = self.output.scale * float(variance[0]) ** 0.5
        return Attribution(part.names, part.values, sd, None, part.base)


@dataclass(frozen=True, eq=False, repr=False)
class ResponseExplanation(Explanation):
    """On the scale of the response: of probabilities, counts, amounts.

    Parts are of the expected response, averaged over the posterior, so they have no posterior
    deviation. Terms are added one after another in the order listed; Shapley values of features
    are estimated by sampling, with a standard error. See `oakgp.explain.response_scale`.

    Parameters
    ----------
    n_samples, seed
        Draws behind the Shapley values.
    """

    n_samples: int = 256
    seed: int = 0

    @property
    def unit(self) -> str:
        """What is explained."""
        response = self.model.response
        if response is not None and response.likelihood.support in ("classes", "binary"):
            return f"probability of {self.output.name}"
        return "expected response"

    @cached_property
    def terms(self) -> Attribution:
        """What the expected response gains as each term is added."""
        gains, base = sequential(self.model, self.output, self.x, self.listed)
        names = tuple(self.output.label(term) for term in self.listed)
        if _covers(self.output, self.listed):
            return Attribution(names, gains[:, :-1], None, None, base)
        return Attribution((*names, OTHERS), gains, None, None, base)

    @cached_property
    def features(self) -> Attribution:
        """Shapley value of each feature at each row, with its standard error."""
        values, errors, base = sampled_shapley(
            self.model, self.output, self.x, self.n_samples, self.seed
        )
        names = tuple(self.output.names)
        return Attribution(names, values, None, errors, np.full(len(self), base))


def _covers(model: Model, terms: Sequence[Term]) -> bool:
    """Whether some terms are all that predictions sum over."""
    kept = model.posterior.kept
    if kept is not None:
        return set(kept) - {()} <= set(terms)
    return len(set(terms)) == model.posterior.terms.count()


def explain_rows(
    model: Model,
    table: Any,
    terms: Any = None,
    *,
    max_terms: int = 50,
    scale: str = "link",
    output: Label | None = None,
    n_samples: int = 256,
    seed: int = 0,
) -> Explanation:
    """Return the explanation of a model's predictions; see ``estimator.explain``."""
    check_choice("scale", scale, SCALES)
    check_count("n_samples", n_samples, 2)
    chosen = model.of(output)
    listed = listed_terms(model, chosen, terms, max_terms)
    rows = model.schema.encode(table)
    x = chosen.encode(table)
    if scale == "link" or model.response is None:
        return LinkExplanation(model, chosen, rows, x, listed)
    refuse_without_response(model, chosen)
    return ResponseExplanation(model, chosen, rows, x, listed, n_samples, seed)


def refuse_without_response(model: Model, output: Model) -> None:
    """Raise an error for a latent function that the expected response does not follow from."""
    if not model.pooled and output.name != model.outputs[0].name:
        raise ValueError(
            f"scale='response' is about the expected response, which output={output.name!r} is no "
            "part of: use scale='link'"
        )


def listed_terms(model: Model, output: Model, terms: Any, max_terms: int) -> tuple[Term, ...]:
    """Return the terms to list: those asked for, those kept, or the largest."""
    check_count("max_terms", max_terms, 1)
    posterior = output.posterior
    if terms is not None:
        specs = [terms] if isinstance(terms, (str, int)) else list(terms)
        found = tuple(dict.fromkeys(output.term(spec) for spec in specs))
        if () in found:
            raise ValueError("terms= names the constant, which is the base of every explanation")
        kept = posterior.kept
        dropped = [output.label(u) for u in found if kept is not None and u not in kept]
        if dropped:
            raise ValueError(
                f"terms= names {', '.join(map(repr, dropped))}, which truncation dropped, so that "
                "predictions do not count it; explain the model as it was before"
            )
        return found
    if posterior.kept is not None:
        return tuple(term for term in posterior.kept if term)
    if not posterior.orthogonal:
        mains = ((i,) for i in range(posterior.n_features) if (i,) in posterior.terms)
        return tuple(mains)[:max_terms]
    source = model if model.pooled else output
    ranking = source.sobol.ranking
    if max_terms > LISTED:
        ranking = rank_terms(source.posterior, max_terms, variances=source.variances())
    return ranking.terms[:max_terms]
