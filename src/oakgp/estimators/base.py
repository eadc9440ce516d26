"""What the estimators share: settings, the reading of tables, components and their shares."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from numbers import Real
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import (
    _check_feature_names,
    _check_feature_names_in,
    _get_feature_names,
    check_is_fitted,
)

from oakgp.basis.fit import BasisSchedule
from oakgp.checks import check_choice, check_count, check_directions, check_flag, check_terms
from oakgp.columns import read_table, take_rows
from oakgp.component_response import ComponentResponse
from oakgp.estimators.callbacks import CallbackSupportMixin, reports_tasks
from oakgp.estimators.edited import Editable
from oakgp.estimators.explained import Explained
from oakgp.estimators.streams import FitsStreams
from oakgp.estimators.updates import Updatable
from oakgp.fitting import Options, fit_model
from oakgp.inference.learn import Schedule
from oakgp.kernels import RadialKernel
from oakgp.kernels.terms import Term
from oakgp.likelihoods.base import Likelihood
from oakgp.measures import Measure
from oakgp.model import Label, Model
from oakgp.progress import step
from oakgp.sensitivity import Ranking, rank_terms
from oakgp.sensitivity.report import SobolIndices
from oakgp.table import Table
from oakgp.targets import read_weights
from oakgp.truncation import truncated
from oakgp.verdict import Verdict, make_verdict
from oakgp.watching import watching

if TYPE_CHECKING:
    from oakgp.compiled import CompiledModel

Array = NDArray[np.float64]

_THRESHOLD = 0.01  # share of the variance below which a term is dropped by default (paper, 5.1)


class BaseOAK(
    CallbackSupportMixin,
    FitsStreams,
    Explained,
    Editable,
    Updatable,
    TransformerMixin,
    BaseEstimator,
):
    """Settings and explanations of all estimators; not for use by itself.

    The parameters are those of `oakgp.OAKRegressor` and `oakgp.OAKClassifier`.
    """

    def __init__(
        self,
        *,
        max_order: int | None = None,
        kernel: str | RadialKernel | Mapping[str, str | RadialKernel] = "squared_exponential",
        measure: str | Measure | Mapping[str, str | Measure] = "auto",
        flow: str | Mapping[str, str] = "auto",
        feature_variances: bool = True,
        priors: str = "default",
        categorical_features: Any = "auto",
        max_levels: int = 256,
        rank: int = 2,
        forced_terms: Sequence[Any] = (),
        forbidden_terms: Sequence[Any] = (),
        monotone: Mapping[Any, str] | None = None,
        variant: str = "additive",
        orthogonal: bool = True,
        interactions: int | str = "auto",
        engine: str = "auto",
        n_inducing: int = 500,
        max_iter: int = 120,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
    ) -> None:
        self.max_order = max_order
        self.kernel = kernel
        self.measure = measure
        self.flow = flow
        self.feature_variances = feature_variances
        self.priors = priors
        self.categorical_features = categorical_features
        self.max_levels = max_levels
        self.rank = rank
        self.forced_terms = forced_terms
        self.forbidden_terms = forbidden_terms
        self.monotone = monotone
        self.variant = variant
        self.orthogonal = orthogonal
        self.interactions = interactions
        self.engine = engine
        self.n_inducing = n_inducing
        self.max_iter = max_iter
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        """Return the estimator's tags: missing values, categories and text are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    def _options(self) -> Options:
        check_flag("feature_variances", self.feature_variances)
        check_flag("orthogonal", self.orthogonal)
        check_count("max_iter", self.max_iter, 1)
        check_terms("forced_terms", self.forced_terms)
        check_terms("forbidden_terms", self.forbidden_terms)
        check_directions("monotone", self.monotone)
        random = check_random_state(self.random_state)
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)):
            seed = int(random.randint(np.iinfo(np.int32).max))
        return Options(
            max_order=self.max_order,
            variant=self.variant,
            orthogonal=self.orthogonal,
            kernel=self.kernel,
            measure=self.measure,
            flow=self.flow,
            feature_variances=self.feature_variances,
            priors=self.priors,
            max_levels=self.max_levels,
            rank=self.rank,
            forced_terms=self.forced_terms,
            forbidden_terms=self.forbidden_terms,
            monotone=self.monotone or {},
            interactions=self.interactions,
            engine=self.engine,
            n_inducing=self.n_inducing,
            device=self.device,
            seed=int(seed),
            schedule=Schedule(max_iterations=self.max_iter),
            basis_schedule=BasisSchedule().within(self.max_iter),
        )

    @reports_tasks
    def _fit_rows(
        self,
        X: Any,
        target: Array,
        weights: Array,
        *,
        likelihood: Likelihood | None = None,
        offset: Array | None = None,
        names: Sequence[Label] | None = None,
    ) -> Self:
        """Fit to checked responses, weights and offsets ``[n]``."""
        options = self._options()
        _get_feature_names(X)  # refuses names of mixed types
        rows = X
        if not weights.all():  # a row of weight 0 is no row: its levels were not seen either
            used = np.flatnonzero(weights)
            rows, target, weights = take_rows(X, used), target[used], weights[used]
            offset = None if offset is None else offset[used]
        with watching(self.verbose), step("fitting"):
            self.model_ = fit_model(
                rows,
                target,
                weights,
                options,
                categorical_features=self.categorical_features,
                likelihood=likelihood,
                offset=offset,
                names=names,
            )
            if self.monotone:
                from oakgp.edits import edit_model

                self.model_ = edit_model(
                    self.model_, monotone=self.monotone, reason="asked for at fit"
                )
        self.__dict__.pop("dropped_variance_", None)  # of an earlier truncation
        _check_feature_names(self, X, reset=True)
        self.n_features_in_ = len(self.model_.schema.columns)
        self.n_iter_ = self.model_.facts.n_evaluations
        return self

    def _checked_weights(self, X: Any, target: NDArray[Any], sample_weight: Any) -> Array:
        """Return the row weights, once the rows of X and y are known to be as many."""
        n = read_table(X).n_rows  # refuses what is no table, and names that occur twice
        if n != len(target):
            raise ValueError(
                f"X has {n} rows but y has {len(target)}: they must be of equal length"
            )
        return read_weights(sample_weight, n)

    def _fitted(self) -> Model:
        check_is_fitted(self, "model_")
        model: Model = self.model_
        return model

    def output_model(self, output: Label | None = None) -> Model:
        """Return the model of one latent function.

        Parameters
        ----------
        output : label, optional
            A class of a classifier with three or more; ``"mean"`` or ``"log noise"`` of the
            heteroscedastic likelihood. The first one when not given, except of classes.
        """
        return self._fitted().of(output)

    def predict_link(self, X: Any, output: Label | None = None) -> tuple[Array, Array]:
        """Return mean and standard deviation of a latent function, level included, each ``[n]``.

        It is on the scale of the link (log odds, log rates), without offset and without noise:
        the sum of the constant and of all kept components.
        """
        return self.output_model(output).moments(X, noisy=False)

    def predict_covariance(self, X: Any, term: Any = None, output: Label | None = None) -> Array:
        """Return the posterior covariance of f (or of one component) at the rows of X."""
        model = self.output_model(output)
        which = None if term is None else model.term(term)
        covariance = model.posterior.covariance(model.encode(X), term=which)
        with np.errstate(over="ignore", under="ignore"):
            square = np.square(np.float64(model.scale))
        if not np.finfo(np.float64).tiny <= square < np.inf:
            raise ValueError(
                f"y varies by {model.scale:g}, and float64 cannot hold the square of that, which "
                f"is the unit of a covariance; fit y / {model.scale:.0e} instead"
            )
        return np.asarray(square * covariance.cpu().numpy())

    def component(
        self, X: Any, term: Any, output: Label | None = None, *, scale: str = "link"
    ) -> tuple[Array, Array]:
        """Return mean and standard deviation of one component at the rows of X.

        Parameters
        ----------
        X : table
            All columns must be there; only the term's matter.
        term : str, int or tuple
            ``"age"``, ``("age", "sex")``, ``"age × sex"``, or ``()`` for the constant.
        output : label, optional
            Of which latent function; see `output_model`.
        scale : {"link", "response"}, default="link"
            ``"link"``: the component itself, in log odds, log rates, or units of the response
            where there is no link. ``"response"``: the expected response (probability, rate) of
            the constant and this component, all others at their mean of 0, averaged over the
            posterior; with ``()`` it is the base rate.
        """
        check_choice("scale", scale, ("link", "response"))
        model = self.output_model(output)
        if scale == "response":
            part = ComponentResponse(self._fitted(), output, model.term(term))
            return part.moments(model.encode(X))
        return model.component(X, model.term(term))

    def component_interval(
        self,
        X: Any,
        term: Any,
        coverage: float = 0.9,
        output: Label | None = None,
        *,
        scale: str = "link",
    ) -> Array:
        """Return the central posterior interval of `component`, ``[n, 2]``.

        On the response scale its ends are quantiles of the transformed function, so probabilities
        stay between 0 and 1 and rates positive.

        Parameters
        ----------
        X, term, output, scale
            As in `component`.
        coverage : float, default=0.9
            Posterior probability of the interval.
        """
        check_choice("scale", scale, ("link", "response"))
        if not isinstance(coverage, Real) or not 0 < coverage < 1:
            raise ValueError(f"coverage={coverage!r}: give a number strictly between 0 and 1")
        tails = np.array([0.5 - coverage / 2, 0.5 + coverage / 2])
        model = self.output_model(output)
        if scale == "response":
            part = ComponentResponse(self._fitted(), output, model.term(term))
            return part.quantiles(model.encode(X), tails.tolist())
        mean, sd = model.component(X, model.term(term))
        return np.asarray(mean[:, None] + sd[:, None] * norm.ppf(tails))

    def transform(self, X: Any) -> Array:
        """Return the kept components (or the largest ones) at the rows of X, a column each.

        Of several latent functions, those of the first come first.
        """
        columns = [
            model.component(X, term)[0] for model, terms in self._listed_terms() for term in terms
        ]
        model = self._fitted()
        return np.column_stack(columns) if columns else np.empty((len(model.mean(X)), 0))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of `transform`'s columns: the terms, after those of their outputs."""
        listed = self._listed_terms()
        _check_feature_names_in(self, input_features, generate_names=False)
        names = [
            model.label(term) if len(listed) == 1 else f"{model.name}: {model.label(term)}"
            for model, terms in listed
            for term in terms
        ]
        return np.array(names, dtype=object)

    def _listed_terms(self) -> list[tuple[Model, list[Term]]]:
        """Return each latent function with its kept terms, or with the largest ones."""
        whole = self._fitted()
        listed = []
        for model in whole.outputs:
            kept = model.posterior.kept
            if kept is not None:
                terms = [term for term in kept if term]
            else:
                terms = list((whole if whole.pooled else model).sobol.ranking.terms)
            listed.append((model, terms))
        return listed

    @property
    def sobol_(self) -> SobolIndices:
        """Sobol indices with credible intervals: ``.terms``, ``.features``, ``.orders``."""
        return self._fitted().sobol

    def sobol_of(self, output: Label) -> SobolIndices:
        """Return the Sobol indices of one latent function: of a class, or of the log noise."""
        return self.output_model(output).sobol

    @property
    def components_(self) -> Table:
        """Table of the largest components and their shares of the variance."""
        return self.sobol_.terms

    @property
    def verdict_(self) -> Verdict:
        """Whether the fit can be trusted, and what it says, in plain text."""
        model = self._fitted()
        totals = model.totals if model.posterior.orthogonal else None
        return make_verdict(model, totals)

    @property
    def constant_(self) -> tuple[float, float]:
        """Mean and standard deviation of the constant component, of the first latent function."""
        model = self._fitted()
        mean, variance = model.posterior.constant()
        return model.center + model.scale * mean, model.scale * variance**0.5

    def truncate(self, threshold: float | None = None, n_terms: int | None = None) -> Self:
        """Return a copy whose predictions sum over the important terms only.

        Parameters
        ----------
        threshold : float, optional
            Terms with a smaller share of the variance are dropped; 0.01 if ``n_terms`` is not
            given either.
        n_terms : int, optional
            At most this many terms are kept. Forced terms stay besides.

        Returns
        -------
        estimator
            A fitted copy with the attribute ``dropped_variance_``: the share that was dropped.
        """
        model = self._fitted()
        if threshold is None and n_terms is None:
            threshold = _THRESHOLD
        if threshold is not None and not (isinstance(threshold, Real) and 0 <= threshold <= 1):
            raise ValueError(
                f"threshold={threshold!r}: give a share of the variance, between 0 and 1"
            )
        if n_terms is not None:
            check_count("n_terms", n_terms, 0)
        short, dropped = truncated(model, threshold, n_terms)
        other = copy.deepcopy(self, {id(model): model})  # a model never changes: share it
        other.model_ = short
        other.dropped_variance_ = dropped
        return other

    def _ranking(self, n_terms: int) -> Ranking:
        model = self._fitted()
        check_count("n_terms", n_terms, 0)
        return rank_terms(model.posterior.keep(None), n_terms, variances=model.variances())

    def _curve_table(self, ranking: Ranking, curve: Sequence[tuple[int, float, float]]) -> Table:
        return Table(
            {
                "n_terms": [k for k, _, _ in curve],
                "term": ["(constant)", *(self._fitted().label(u) for u in ranking.terms)],
                "cumulative_share": [share for _, share, _ in curve],
                "metric": [value for _, _, value in curve],
            }
        )

    def compile(
        self, tol: float = 1e-3, terms: Sequence[Any] | None = None, *, bands: bool = True
    ) -> CompiledModel:
        """Return the components as tables, for fast prediction and for use elsewhere.

        Parameters
        ----------
        tol : float, default=1e-3
            Largest error of the predicted function, in standard deviations of the target (where
            there is a link, in units of it: log odds). What was reached is ``bound``.
        terms : sequence of terms, optional
            Those to take, of one or two features each; all that predictions sum over when not
            given. A model with higher terms is to be truncated first.
        bands : bool, default=True
            Whether to compile standard deviations too; probabilities and expected counts need
            them.
        """
        from oakgp.compiled import compile_model

        classes = getattr(self, "classes_", None)
        return compile_model(
            self._fitted(),
            tolerance=tol,
            terms=terms,
            bands=bands,
            classes=None if classes is None else classes.tolist(),
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator to one file; `oakgp.load` reads it back."""
        from oakgp.export import save

        save(self, path)
