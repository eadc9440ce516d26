"""scikit-learn estimators: thin shells around `oakgp.fitting` and `oakgp.model`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import (
    _check_feature_names,
    _check_feature_names_in,
    _get_feature_names,
    check_is_fitted,
)

from oakgp.checks import check_count, check_flag, check_terms
from oakgp.columns import read_table, take_rows
from oakgp.fitting import Options, fit_model
from oakgp.inference.learn import Schedule
from oakgp.kernels import RadialKernel
from oakgp.measures import Measure
from oakgp.model import Model
from oakgp.sensitivity import metric_curve, rank_terms
from oakgp.sensitivity.report import SobolIndices
from oakgp.table import Table
from oakgp.targets import read_response, read_weights
from oakgp.truncation import important_terms, root_mean_squared_error
from oakgp.verdict import Verdict, make_verdict

Array = NDArray[np.float64]

_THRESHOLD = 0.01  # share of the variance below which a term is dropped by default (paper, 5.1)


class OAKRegressor(TransformerMixin, RegressorMixin, BaseEstimator):
    """Gaussian process regression with the orthogonal additive kernel.

    The fitted function is a sum of a constant, one function per feature and one per interaction,
    each with mean zero over its features' distribution: a unique decomposition, every part with
    an uncertainty and a share of the variance (its Sobol index).

    Parameters
    ----------
    max_order : int or None, default=None
        Highest interaction order; None means 4, or the number of features if that is smaller.
    kernel : str, kernel, or mapping, default="squared_exponential"
        Base kernel of the numeric features: ``"squared_exponential"``, ``"matern12"``,
        ``"matern32"``, ``"matern52"``, ``oakgp.kernels.Periodic(period=...)``; a mapping gives
        single columns their own, and the others the default.
    measure : str, measure, or mapping, default="auto"
        Distribution of each numeric feature under which components have mean zero: ``"empirical"``
        (the default), ``"gaussian"``, ``"gaussian_mixture"``, ``"uniform"``, each fitted to the
        column; or a measure in the coordinates of the kernel, which are those after the flow.
    flow : str or mapping, default="auto"
        Monotone transform of the numeric features: ``"normal_score"``, ``"sinh_arcsinh"``,
        ``"none"`` (standardise); ``"auto"`` takes the one with the best evidence for all of them.
        Columns that a mapping leaves out get ``"normal_score"``.
    feature_variances : bool, default=True
        Whether each feature has a prior variance of its own besides the one per order.
    priors : {"default", "paper"}, default="default"
        Priors of the hyperparameters. The default ones keep noise from passing as signal in small
        tables; ``"paper"`` leaves all but the order variances to the evidence.
    categorical_features : "auto" or sequence, default="auto"
        Columns to treat as categories besides text, booleans and declared categories.
    max_levels : int, default=256
        Levels kept of a categorical column; the rarer ones share one further level.
    rank : int, default=2
        Rank of the categorical kernels.
    forced_terms : sequence of terms, default=()
        Terms (a name, or a tuple of names) that are in the model whatever ``max_order``;
        truncation keeps them.
    forbidden_terms : sequence of terms, default=()
        Sets of features that no term may contain together; a single name takes the feature out of
        all terms.
    variant : {"additive", "product"}, default="additive"
        ``"product"`` is the kernel prod_d (1 + k~_d) without variances per order.
    orthogonal : bool, default=True
        False leaves the base kernels unconstrained (components are then not identified).
    engine : {"auto", "exact", "sparse"}, default="auto"
        Exact inference, or the collapsed sparse bound with inducing points.
    n_inducing : int, default=500
        Inducing points of the sparse engine.
    max_iter : int, default=120
        Iterations of the optimiser.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where to compute.
    random_state : int or None, default=0
        Seed; the same seed gives the same result.

    Attributes
    ----------
    model_ : Model
        The fitted model.
    n_iter_ : int
        Evaluations of the evidence.
    n_features_in_ : int
        Number of columns of the training table.
    feature_names_in_ : ndarray of str
        Their names, when the table had any.
    sobol_ : SobolIndices
        Sobol indices with credible intervals: tables ``terms``, ``features`` and ``orders``.
    components_ : Table
        The largest components and their shares of the variance: ``sobol_.terms``.
    verdict_ : Verdict
        Whether the fit can be trusted, and what it says, in plain text.
    constant_ : tuple of float
        Mean and standard deviation of the constant component, in units of the response.
    dropped_variance_ : float
        Share of the variance that `truncate` dropped; of truncated models only.

    Examples
    --------
    >>> import numpy as np
    >>> from oakgp import OAKRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (80, 2))
    >>> y = X[:, 0] ** 2 - 2 * X[:, 1]
    >>> model = OAKRegressor(max_order=2).fit(X, y)
    >>> model.components_["term"][0]
    'x1'
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
        variant: str = "additive",
        orthogonal: bool = True,
        engine: str = "auto",
        n_inducing: int = 500,
        max_iter: int = 120,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = 0,
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
        self.variant = variant
        self.orthogonal = orthogonal
        self.engine = engine
        self.n_inducing = n_inducing
        self.max_iter = max_iter
        self.device = device
        self.random_state = random_state

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
            engine=self.engine,
            n_inducing=self.n_inducing,
            device=self.device,
            seed=int(seed),
            schedule=Schedule(max_iterations=self.max_iter),
        )

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : table of shape (n, d)
            pandas or polars frame, Arrow table, NumPy array or list of lists. Missing values,
            text, booleans and categories are welcome; dates are refused with advice.
        y : array of shape (n,)
            Finite numbers.
        sample_weight : array of shape (n,), optional
            A row of weight w counts as w equal rows.

        Returns
        -------
        OAKRegressor
            The fitted estimator.
        """
        options = self._options()
        if y is None:
            raise ValueError(
                "This OAKRegressor estimator requires y to be passed, but the target y is None."
            )
        target = read_response(y)
        n = read_table(X).n_rows  # refuses what is no table, and names that occur twice
        if n != len(target):
            raise ValueError(
                f"X has {n} rows but y has {len(target)}: they must be of equal length"
            )
        weights = read_weights(sample_weight, n)
        _get_feature_names(X)  # refuses names of mixed types
        rows = X
        if not weights.all():  # a row of weight 0 is no row: its levels were not seen either
            used = np.flatnonzero(weights)
            rows, target, weights = take_rows(X, used), target[used], weights[used]
        self.model_ = fit_model(
            rows, target, weights, options, categorical_features=self.categorical_features
        )
        self.__dict__.pop("dropped_variance_", None)  # of an earlier truncation
        _check_feature_names(self, X, reset=True)
        self.n_features_in_ = len(self.model_.schema.columns)
        self.n_iter_ = self.model_.facts.n_evaluations
        return self

    def _fitted(self) -> Model:
        check_is_fitted(self, "model_")
        model: Model = self.model_
        return model

    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """Return the expected response, and with ``return_std`` its predictive deviation.

        The deviation is that of a new response: uncertainty of the function and noise together.
        """
        model = self._fitted()
        if return_std:
            return model.moments(X, noisy=True)
        return model.mean(X)

    def predict_quantiles(self, X: Any, quantiles: Sequence[float] = (0.05, 0.5, 0.95)) -> Array:
        """Return quantiles of a new response, ``[n, len(quantiles)]``."""
        levels = np.asarray(quantiles)
        if (
            levels.dtype.kind not in "fi"
            or levels.ndim != 1
            or not ((levels > 0) & (levels < 1)).all()
        ):
            raise ValueError(f"quantiles={quantiles!r}: give numbers strictly between 0 and 1")
        mean, sd = self._fitted().moments(X, noisy=True)
        return np.asarray(mean[:, None] + sd[:, None] * norm.ppf(levels))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:
        """Return the central interval that holds a new response with some probability, [n, 2]."""
        if not isinstance(coverage, Real) or not 0 < coverage < 1:
            raise ValueError(f"coverage={coverage!r}: give a number strictly between 0 and 1")
        return self.predict_quantiles(X, (0.5 - coverage / 2, 0.5 + coverage / 2))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Return joint draws of the function at the rows of X, ``[n, n_samples]``."""
        model = self._fitted()
        check_count("n_samples", n_samples, 1)
        seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
        draws = model.posterior.sample(model.encode(X), n_samples, seed)
        return np.asarray(model.center + model.scale * draws.cpu().numpy().T)

    def predict_covariance(self, X: Any, term: Any = None) -> Array:
        """Return the posterior covariance of f (or of one component) at the rows of X."""
        model = self._fitted()
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

    def component(self, X: Any, term: Any) -> tuple[Array, Array]:
        """Return mean and standard deviation of one component at the rows of X.

        Parameters
        ----------
        X : table
            All columns must be there; only the term's matter.
        term : str, int or tuple
            ``"age"``, ``("age", "sex")``, ``"age × sex"``, or ``()`` for the constant.
        """
        model = self._fitted()
        return model.component(X, model.term(term))

    def transform(self, X: Any) -> Array:
        """Return the kept components (or the largest ones) at the rows of X, a column each."""
        model = self._fitted()
        columns = [model.component(X, term)[0] for term in self._listed_terms()]
        return np.column_stack(columns) if columns else np.empty((len(model.mean(X)), 0))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of `transform`'s columns: the terms."""
        model = self._fitted()
        _check_feature_names_in(self, input_features, generate_names=False)
        return np.array([model.label(t) for t in self._listed_terms()], dtype=object)

    def _listed_terms(self) -> list[tuple[int, ...]]:
        model = self._fitted()
        if model.posterior.kept is not None:
            return [term for term in model.posterior.kept if term]
        return list(self.sobol_.ranking.terms)

    @property
    def sobol_(self) -> SobolIndices:
        """Sobol indices with credible intervals: ``.terms``, ``.features``, ``.orders``."""
        return self._fitted().sobol

    @property
    def components_(self) -> Table:
        """Table of the largest components and their shares of the variance."""
        return self.sobol_.terms

    @property
    def verdict_(self) -> Verdict:
        """Whether the fit can be trusted, and what it says, in plain text."""
        model = self._fitted()
        totals = model.totals if model.posterior.kernel.orthogonal else None
        return make_verdict(model, totals)

    @property
    def constant_(self) -> tuple[float, float]:
        """Mean and standard deviation of the constant component, in units of the response."""
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
        OAKRegressor
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
        kept, dropped = important_terms(model, threshold, n_terms)
        other = copy.deepcopy(self, {id(model): model})  # a model never changes: share it
        other.model_ = model.keep(kept)
        other.dropped_variance_ = dropped
        return other

    def truncation_curve(
        self,
        X: Any,
        y: Any,
        n_terms: int = 50,
        metric: Callable[[Array, Array], float] | None = None,
    ) -> Table:
        """Return a metric of the predictions against the number of terms, largest first.

        Parameters
        ----------
        X, y : table and array
            Rows to score on: a test set.
        n_terms : int, default=50
            How far to go.
        metric : callable, optional
            ``metric(y, prediction)``; root mean squared error when not given.

        Returns
        -------
        Table
            ``n_terms``, ``term`` (added last), ``cumulative_share`` and ``metric``.
        """
        model = self._fitted()
        check_count("n_terms", n_terms, 0)
        target, rows = read_response(y), model.encode(X)
        if rows.shape[1] != len(target):
            raise ValueError(
                f"X has {rows.shape[1]} rows but y has {len(target)}: they must be of equal length"
            )
        score = metric or root_mean_squared_error
        ranking = rank_terms(model.posterior.keep(None), n_terms)
        curve = metric_curve(
            model.posterior,
            ranking,
            rows,
            lambda mean: score(target, model.center + model.scale * mean.cpu().numpy()),
        )
        return Table(
            {
                "n_terms": [k for k, _, _ in curve],
                "term": ["(constant)", *(model.label(u) for u in ranking.terms)],
                "cumulative_share": [share for _, share, _ in curve],
                "metric": [value for _, _, value in curve],
            }
        )

    def plot_components(self, X: Any = None, terms: Any = None, **options: Any) -> Any:
        """Draw components with matplotlib; see `oakgp.explain.plot_components`."""
        from oakgp.explain import plot_components

        return plot_components(self, X, terms, **options)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted estimator to one file; `oakgp.load` reads it back."""
        from oakgp.export import save

        save(self, path)
