"""Regression of any response."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.base import RegressorMixin
from sklearn.utils import Tags, check_random_state

from oakgp.calibration import (
    COVERAGES,
    DistributionCalibration,
    distribution_calibration,
    randomised_pit,
)
from oakgp.checks import check_choice, check_count, check_flag
from oakgp.estimators.base import BaseOAK
from oakgp.kernels import RadialKernel
from oakgp.likelihoods import LIKELIHOODS
from oakgp.likelihoods.base import Likelihood
from oakgp.measures import Measure
from oakgp.model import Model
from oakgp.response import Response
from oakgp.sensitivity import metric_curve
from oakgp.table import Table
from oakgp.targets import read_offset, read_response
from oakgp.truncation import response_curve, root_mean_squared_error

if TYPE_CHECKING:
    from oakgp.stream.first_pass import FirstPass
    from oakgp.stream.fitting import Target
    from oakgp.stream.sketch import Check

Array = NDArray[np.float64]

#: Likelihoods of numbers: what ``likelihood=`` accepts.
RESPONSES = tuple(
    name for name, kind in LIKELIHOODS.items() if kind.support not in ("binary", "classes")
)
_EXPOSED = ("count", "positive")  # responses whose mean grows with exposure


class OAKRegressor(RegressorMixin, BaseOAK):
    """Gaussian process regression with the orthogonal additive kernel, for any response.

    The fitted function is a sum of a constant, one function per feature and one per interaction,
    each with mean zero over its features' distribution: a unique decomposition, every part with
    an uncertainty and a share of the variance (its Sobol index).

    Parameters
    ----------
    likelihood : str, default="gaussian"
        What the response is: ``"gaussian"``; ``"student_t"`` (outliers);
        ``"heteroscedastic_gaussian"`` (a second additive function for the log noise variance);
        ``"poisson"``, ``"negative_binomial"`` (counts); ``"gamma"`` (positive amounts); ``"beta"``
        (proportions). Components are on the scale of the link: log for counts and amounts, log
        odds for proportions.
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
    monotone : mapping, optional
        Features in which the function is to be ``"increasing"`` or ``"decreasing"``, whatever the
        others: it is projected after the fit, as by `edit`. Such a feature is part of main effects
        and pairs only.
    variant : {"additive", "product"}, default="additive"
        ``"product"`` is the kernel prod_d (1 + k~_d) without variances per order.
    orthogonal : bool, default=True
        False leaves the base kernels unconstrained (components are then not identified).
    interactions : int or "auto", default="auto"
        Most interactions that the basis engine may have; 0 leaves main effects only.
    engine : {"auto", "exact", "sparse", "stochastic", "basis"}, default="auto"
        Exact inference; a bound with inducing points, from all rows at once or from minibatches; or
        a finite basis with terms up to order 3, whose cost does not depend on the number of rows
        once these are summed. "auto" goes by rows and depth of interaction; ``verdict_`` says why.
    n_inducing : int, default=500
        Inducing points of the sparse and the stochastic engine.
    max_iter : int, default=120
        Iterations of the optimiser.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where to compute.
    random_state : int or None, default=0
        Seed; the same seed gives the same result.
    verbose : {0, 1, 2}, default=0
        Progress of fits: 0 none, 1 lines in the log ``"oakgp"`` (to standard error where logging is
        not set up), 2 bars.

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
        likelihood: str = "gaussian",
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
        super().__init__(
            max_order=max_order,
            kernel=kernel,
            measure=measure,
            flow=flow,
            feature_variances=feature_variances,
            priors=priors,
            categorical_features=categorical_features,
            max_levels=max_levels,
            rank=rank,
            forced_terms=forced_terms,
            forbidden_terms=forbidden_terms,
            monotone=monotone,
            variant=variant,
            orthogonal=orthogonal,
            interactions=interactions,
            engine=engine,
            n_inducing=n_inducing,
            max_iter=max_iter,
            device=device,
            random_state=random_state,
            verbose=verbose,
        )
        self.likelihood = likelihood

    def __sklearn_tags__(self) -> Tags:
        """Return the estimator's tags: some likelihoods want positive responses."""
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.likelihood in ("gamma", "beta")
        return tags

    def _likelihood(self) -> Likelihood | None:
        check_choice("likelihood", self.likelihood, RESPONSES)
        return None if self.likelihood == "gaussian" else LIKELIHOODS[self.likelihood]()

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, exposure: Any = None, offset: Any = None
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : table of shape (n, d)
            pandas or polars frame, Arrow table, NumPy array or list of lists. Missing values,
            text, booleans and categories are welcome; dates are refused with advice.
        y : array of shape (n,)
            Finite numbers that the likelihood can produce.
        sample_weight : array of shape (n,), optional
            A row of weight w counts as w equal rows.
        exposure : array of shape (n,), optional
            What the mean of a count or an amount is proportional to: time, area, insured years.
            Positive. The model is then one of the rate per unit of exposure.
        offset : array of shape (n,), optional
            What is added to the function, on the scale of the link.

        Returns
        -------
        OAKRegressor
            The fitted estimator.
        """
        if y is None:
            raise ValueError(
                "This OAKRegressor estimator requires y to be passed, but the target y is None."
            )
        likelihood = self._likelihood()
        target = read_response(y)
        weights = self._checked_weights(X, target, sample_weight)
        shift = self._offset(len(target), exposure, offset)
        return self._fit_rows(X, target, weights, likelihood=likelihood, offset=shift)

    def _check_roles(self, exposure: Any, offset: Any) -> None:
        self._likelihood()
        self._offset(1, None if exposure is None else 1.0, None)

    def _stream_target(self, found: FirstPass) -> Target:
        from oakgp.stream.fitting import Target

        return Target(self._likelihood())

    def _stream_check(self) -> Check | None:
        likelihood = self._likelihood()
        return None if likelihood is None else likelihood.check

    def _new_rows(
        self, X: Any, y: Any, sample_weight: Any, given: dict[str, Any]
    ) -> tuple[Array, Array, Array]:
        model, target = self._fitted(), read_response(y)
        weights = self._checked_weights(X, target, sample_weight)
        unknown = sorted(set(given) - {"exposure", "offset"})
        if unknown:
            raise TypeError(f"unknown argument {unknown[0]!r}; exposure= and offset= are known")
        shift = self._offset(len(target), given.get("exposure"), given.get("offset"))
        offset = np.zeros(len(target)) if shift is None else shift
        if model.response is None:
            return (target - offset - model.center) / model.scale, weights, np.zeros(len(target))
        model.response.likelihood.check(target[weights > 0])
        if model.response.shifts:
            target, offset = target - offset, np.zeros(len(target))
        return (target - model.response.center) / model.response.scale, weights, offset

    def _offset(self, n: int, exposure: Any, offset: Any) -> Array | None:
        """Return offset + log exposure, ``[n]``; None when neither is given."""
        likelihood = LIKELIHOODS[self.likelihood]
        if exposure is not None and likelihood.support not in _EXPOSED:
            raise ValueError(
                f"exposure= is for counts and positive amounts, whose mean is proportional to it; "
                f"the {self.likelihood} likelihood has no exposure: use offset= or sample_weight="
            )
        return read_offset(exposure, offset, n)

    def _moments(
        self, X: Any, exposure: Any, offset: Any
    ) -> tuple[Response, tuple[Any, Any], Array | None]:
        model = self._fitted()
        assert model.response is not None
        x = model.encode(X)
        shift = self._offset(x.shape[1], exposure, offset)
        return model.response, model.response.latent(model.posteriors, x, shift), shift

    def predict(
        self, X: Any, return_std: bool = False, *, exposure: Any = None, offset: Any = None
    ) -> Array | tuple[Array, Array]:
        """Return the expected response, and with ``return_std`` its predictive deviation.

        The deviation is that of a new response: uncertainty of the function and noise together.

        Parameters
        ----------
        X : table of shape (n, d)
            The rows.
        return_std : bool, default=False
            Whether to return deviations too.
        exposure, offset : array of shape (n,), optional
            As in `fit`; 1 and 0 when not given.
        """
        model = self._fitted()
        if model.response is not None:
            response, moments, shift = self._moments(X, exposure, offset)
            mean = response.mean(*moments, shift)
            return (mean, response.deviation(*moments)) if return_std else mean
        if return_std:
            mean, sd = model.moments(X, noisy=True)
        else:
            mean, sd = model.mean(X), np.zeros(0)
        shift = self._offset(len(mean), exposure, offset)
        mean = mean if shift is None else mean + shift
        return (mean, sd) if return_std else mean

    def predict_quantiles(
        self,
        X: Any,
        quantiles: Sequence[float] = (0.05, 0.5, 0.95),
        *,
        exposure: Any = None,
        offset: Any = None,
    ) -> Array:
        """Return quantiles of a new response, ``[n, len(quantiles)]``; of counts, whole numbers."""
        levels = np.asarray(quantiles)
        if (
            levels.dtype.kind not in "fi"
            or levels.ndim != 1
            or not ((levels > 0) & (levels < 1)).all()
        ):
            raise ValueError(f"quantiles={quantiles!r}: give numbers strictly between 0 and 1")
        model = self._fitted()
        if model.response is not None:
            response, moments, shift = self._moments(X, exposure, offset)
            return response.quantiles(*moments, levels.tolist(), shift)
        mean, sd = model.moments(X, noisy=True)
        shift = self._offset(len(mean), exposure, offset)
        mean = mean if shift is None else mean + shift
        return np.asarray(mean[:, None] + sd[:, None] * norm.ppf(levels))

    def predict_interval(
        self, X: Any, coverage: float = 0.9, *, exposure: Any = None, offset: Any = None
    ) -> Array:
        """Return the central interval that holds a new response with some probability, [n, 2]."""
        if not isinstance(coverage, Real) or not 0 < coverage < 1:
            raise ValueError(f"coverage={coverage!r}: give a number strictly between 0 and 1")
        tails = (0.5 - coverage / 2, 0.5 + coverage / 2)
        return self.predict_quantiles(X, tails, exposure=exposure, offset=offset)

    def predict_log_density(
        self, X: Any, y: Any, *, exposure: Any = None, offset: Any = None
    ) -> Array:
        """Return the log density (of counts, log probability) that the model gave to y, ``[n]``."""
        target, model = read_response(y), self._fitted()
        if model.response is not None:
            model.response.likelihood.check(target)
            response, moments, shift = self._moments(X, exposure, offset)
            return response.log_density(target, *moments, shift)
        mean, sd = self.predict(X, return_std=True, exposure=exposure, offset=offset)
        return np.asarray(norm.logpdf(target, mean, sd))

    def calibration(
        self, X: Any, y: Any, *, exposure: Any = None, offset: Any = None, random_state: int = 0
    ) -> DistributionCalibration:
        """Return whether predictive distributions can be believed, on rows not fitted to.

        Parameters
        ----------
        X, y : table and array
            The rows.
        exposure, offset : array of shape (n,), optional
            As in `fit`.
        random_state : int, default=0
            Seed of the randomised PIT values of counts.

        Returns
        -------
        DistributionCalibration
            Tables ``scores`` and ``coverage`` (of central 50, 80, 90 and 95% intervals), PIT values
            ``pit``, and ``plot()``.
        """
        target, model = read_response(y), self._fitted()
        given = {"exposure": exposure, "offset": offset}
        density = self.predict_log_density(X, y, **given)
        tails = [0.5 - c / 2 for c in COVERAGES] + [0.5 + c / 2 for c in COVERAGES]
        ends = self.predict_quantiles(X, tails, **given)
        if model.response is not None:
            response, moments, shift = self._moments(X, exposure, offset)
            below, at_most = response.distribution(target, *moments, shift)
        else:
            mean, sd = self.predict(X, return_std=True, **given)
            below = at_most = norm.cdf(target, mean, sd)
        pit = randomised_pit(below, at_most, random_state)
        k = len(COVERAGES)
        return distribution_calibration(target, density, ends[:, :k], ends[:, k:], pit)

    def sample_y(
        self,
        X: Any,
        n_samples: int = 1,
        random_state: Any = 0,
        *,
        noise: bool = False,
        exposure: Any = None,
        offset: Any = None,
    ) -> Array:
        """Return joint draws at the rows of X, ``[n, n_samples]``.

        Parameters
        ----------
        X : table of shape (n, d)
            The rows.
        n_samples : int, default=1
            How many.
        random_state : int or RandomState, default=0
            Seed.
        noise : bool, default=False
            False draws the function (its expected response, where there is a link); True draws new
            responses: counts of a Poisson likelihood.
        exposure, offset : array of shape (n,), optional
            As in `fit`.
        """
        model = self._fitted()
        check_count("n_samples", n_samples, 1)
        check_flag("noise", noise)
        random = check_random_state(random_state)
        seed = int(random.randint(np.iinfo(np.int32).max))
        x = model.encode(X)
        shift = self._offset(x.shape[1], exposure, offset)
        if model.response is not None:
            draws = model.response.draws(
                model.posteriors, x, n_samples, seed, noisy=noise, offset=shift
            )
            return np.asarray(draws.T)
        f = model.posterior.sample(x, n_samples, seed).cpu().numpy().T
        if noise:
            f = f + model.posterior.noise**0.5 * random.standard_normal(f.shape)
        y = model.center + model.scale * f
        return np.asarray(y if shift is None else y + shift[:, None])

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
        ranking = self._ranking(n_terms)
        target, rows = read_response(y), model.encode(X)
        if rows.shape[1] != len(target):
            raise ValueError(
                f"X has {rows.shape[1]} rows but y has {len(target)}: they must be of equal length"
            )
        score = metric or root_mean_squared_error
        if model.response is not None:
            response = model.response

            def loss(short: Model) -> float:
                return score(target, response.mean(*response.latent(short.posteriors, rows, None)))

            curve = response_curve(model, ranking, loss)
        else:
            curve = metric_curve(
                model.posterior,
                ranking,
                rows,
                lambda mean: score(target, model.center + model.scale * mean.cpu().numpy()),
            )
        return self._curve_table(ranking, curve)
