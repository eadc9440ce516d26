"""scikit-learn estimators: thin shells around `oakgp.fitting` and `oakgp.model`."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import (
    _check_feature_names,
    _check_sample_weight,
    check_array,
    check_is_fitted,
    column_or_1d,
)

from oakgp.fitting import Options, fit_model
from oakgp.inference.learn import Schedule
from oakgp.kernels import RadialKernel
from oakgp.measures import Measure
from oakgp.model import Model
from oakgp.sensitivity import metric_curve, rank_terms, select
from oakgp.sensitivity.report import SobolIndices
from oakgp.table import Table
from oakgp.verdict import Verdict, make_verdict

Array = NDArray[np.float64]

_RANKED = 2000  # terms looked at by truncation; smaller ones together are reported as dropped


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
        single columns their own.
    measure : str, measure, or mapping, default="auto"
        Distribution of each numeric feature under which components have mean zero: ``"empirical"``
        (the default), ``"gaussian"``, ``"gaussian_mixture"``, ``"uniform"``.
    flow : str or mapping, default="auto"
        Monotone transform of the numeric features: ``"normal_score"``, ``"sinh_arcsinh"``,
        ``"none"``; ``"auto"`` takes the one with the best evidence.
    feature_variances : bool, default=True
        Whether each feature has a prior variance of its own besides the one per order.
    categorical_features : "auto" or sequence, default="auto"
        Columns to treat as categories besides text, booleans and declared categories.
    rank : int, default=2
        Rank of the categorical kernels.
    forced_terms, forbidden_terms : sequence of terms, default=()
        Terms (a name, or a tuple of names) that are in the model whatever ``max_order``, and
        sets of features that no term may contain together.
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
        categorical_features: Any = "auto",
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
        self.categorical_features = categorical_features
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
        return tags

    def _options(self) -> Options:
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
        target = _response(y)
        n = _length(X)
        if n is not None and n != len(target):
            raise ValueError(
                f"X has {n} rows but y has {len(target)}: they must be of equal length"
            )
        weights = _weights(sample_weight, len(target))
        self.model_ = fit_model(
            X, target, weights, options, categorical_features=self.categorical_features
        )
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
        levels = np.asarray(quantiles, dtype=np.float64)
        if levels.ndim != 1 or not ((levels > 0) & (levels < 1)).all():
            raise ValueError(f"quantiles={quantiles!r}: give numbers strictly between 0 and 1")
        mean, sd = self._fitted().moments(X, noisy=True)
        return np.asarray(mean[:, None] + sd[:, None] * norm.ppf(levels))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:
        """Return the central interval that holds a new response with this probability, ``[n, 2]``."""
        if not 0 < coverage < 1:
            raise ValueError(f"coverage={coverage!r}: give a number strictly between 0 and 1")
        return self.predict_quantiles(X, (0.5 - coverage / 2, 0.5 + coverage / 2))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Return joint draws of the function at the rows of X, ``[n, n_samples]``."""
        model = self._fitted()
        seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
        draws = model.posterior.sample(model.encode(X), n_samples, seed)
        return np.asarray(model.center + model.scale * draws.cpu().numpy().T)

    def predict_covariance(self, X: Any, term: Any = None) -> Array:
        """Return the posterior covariance of f (or of one component) at the rows of X."""
        model = self._fitted()
        which = None if term is None else model.term(term)
        covariance = model.posterior.covariance(model.encode(X), term=which)
        return np.asarray(model.scale**2 * covariance.cpu().numpy())

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
        totals = self.sobol_.totals if model.posterior.kernel.orthogonal else None
        return make_verdict(model, totals)

    @property
    def constant_(self) -> tuple[float, float]:
        """Mean and standard deviation of the constant component, in units of the response."""
        model = self._fitted()
        mean, variance = model.posterior.constant()
        return model.center + model.scale * mean, model.scale * variance**0.5

    def truncate(self, threshold: float | None = 0.01, n_terms: int | None = None) -> Self:
        """Return a copy whose predictions sum over the important terms only.

        Parameters
        ----------
        threshold : float or None, default=0.01
            Terms with a smaller share of the variance are dropped; None when ``n_terms`` decides.
        n_terms : int, optional
            At most this many terms are kept.

        Returns
        -------
        OAKRegressor
            A fitted copy with the attribute ``dropped_variance_``: the share that was dropped.
        """
        model = self._fitted()
        if n_terms is not None and threshold == 0.01:
            threshold = None
        least = 0.0 if threshold is None else threshold
        ranking = rank_terms(model.posterior.keep(None), n_terms or _RANKED, least)
        kept, dropped = select(ranking, threshold, n_terms, model.forced)
        other = copy.copy(self)
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
        target = _response(y)
        score = metric or _rmse
        ranking = rank_terms(model.posterior.keep(None), n_terms)
        curve = metric_curve(
            model.posterior,
            ranking,
            model.encode(X),
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


def _rmse(y: Array, prediction: Array) -> float:
    return float(np.sqrt(np.mean((y - prediction) ** 2)))


def _length(X: Any) -> int | None:
    shape = getattr(X, "shape", None)
    if shape is not None and len(shape) >= 1:
        return int(shape[0])
    return len(X) if isinstance(X, (list, tuple)) else None


def _response(y: Any) -> Array:
    """Return y as a finite float vector, or say which row is at fault."""
    y = y.to_numpy() if hasattr(y, "to_numpy") else y
    raw = column_or_1d(y, warn=True)
    values = check_array(
        raw, dtype=np.float64, ensure_2d=False, ensure_all_finite=False, input_name="y"
    )
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        what = "NaN" if np.isnan(values[bad[0]]) else "infinity"
        raise ValueError(
            f"Input y contains {what}: {len(bad)} of {len(values)} rows, the first is row {bad[0]}; "
            "drop these rows or mend them before fitting"
        )
    if len(values) == 0:
        raise ValueError("y is empty: at least one row is needed")
    return np.asarray(values, dtype=np.float64)


def _weights(sample_weight: Any, n: int) -> Array:
    if sample_weight is None:
        return np.ones(n)
    weights = _check_sample_weight(sample_weight, np.empty((n, 1)), dtype=np.float64)
    if (weights < 0).any():
        bad = np.flatnonzero(weights < 0)
        raise ValueError(
            f"sample_weight is negative in {len(bad)} rows, the first is row {bad[0]} "
            f"({weights[bad[0]]:g}); weights must be 0 or more"
        )
    if not (weights > 0).any():
        raise ValueError("sample_weight is 0 in every row: nothing is left to fit")
    return np.asarray(weights, dtype=np.float64)
