"""Classification, binary and with several classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import log_loss
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor

from oakgp.calibration import ProbabilityCalibration, probability_calibration
from oakgp.checks import check_choice
from oakgp.estimators.base import BaseOAK
from oakgp.kernels import RadialKernel
from oakgp.likelihoods import BernoulliLogit, BernoulliProbit, Softmax
from oakgp.likelihoods.base import Likelihood
from oakgp.measures import Measure
from oakgp.model import Model
from oakgp.table import Table
from oakgp.targets import read_labels
from oakgp.truncation import response_curve

if TYPE_CHECKING:
    from oakgp.stream.chunk import TargetType
    from oakgp.stream.first_pass import FirstPass
    from oakgp.stream.fitting import Target
    from oakgp.stream.sketch import Check

Array = NDArray[np.float64]

LINKS: dict[str, type[Likelihood]] = {"logit": BernoulliLogit, "probit": BernoulliProbit}
_LEAST = float(np.finfo(np.float64).tiny)  # a probability has a logarithm


class OAKClassifier(ClassifierMixin, BaseOAK):
    """Gaussian process classification with the orthogonal additive kernel.

    Two classes have one latent function, the log odds of the second one of ``classes_``; more have
    one for each class (softmax). Each is a sum of a constant, one function per feature and one per
    interaction, with an uncertainty and a share of the variance (its Sobol index).

    Parameters
    ----------
    link : {"logit", "probit"}, default="logit"
        Link of two classes: components are log odds, or normal quantiles. More classes have the
        softmax.
    class_weight : None, "balanced" or mapping, default=None
        Weights of the classes, by which the row weights are multiplied: ``"balanced"`` gives all
        classes the same total. Probabilities are then those of such a population.
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
        Features in which the log odds are to be ``"increasing"`` or ``"decreasing"``, whatever
        the others (two classes only): they are projected after the fit, as by `edit`. Such a
        feature is part of main effects and pairs only.
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
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.
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
        Mean and standard deviation of the constant component, on the scale of the link.
    dropped_variance_ : float
        Share of the variance that `truncate` dropped; of truncated models only.

    Examples
    --------
    >>> import numpy as np
    >>> from oakgp import OAKClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (80, 2))
    >>> y = np.where(X[:, 0] + 0.2 * rng.standard_normal(80) > 0, "yes", "no")
    >>> model = OAKClassifier(max_order=2).fit(X, y)
    >>> model.predict([[0.8, 0.0], [-0.8, 0.0]]).tolist()
    ['yes', 'no']
    >>> model.components_["term"][0]
    'x0'
    """

    def __init__(
        self,
        *,
        link: str = "logit",
        class_weight: str | Mapping[Any, float] | None = None,
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
        self.link = link
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : table of shape (n, d)
            pandas or polars frame, Arrow table, NumPy array or list of lists. Missing values,
            text, booleans and categories are welcome; dates are refused with advice.
        y : array of shape (n,)
            Labels of two or more classes: numbers, texts or booleans.
        sample_weight : array of shape (n,), optional
            A row of weight w counts as w equal rows.

        Returns
        -------
        OAKClassifier
            The fitted estimator.
        """
        if y is None:
            raise ValueError(
                "This OAKClassifier estimator requires y to be passed, but the target y is None."
            )
        check_choice("link", self.link, tuple(LINKS))
        labels = read_labels(y)
        weights = self._checked_weights(X, labels, sample_weight)
        used = weights > 0
        classes, codes = np.unique(labels[used], return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"y has only one class, {classes[0].item()!r}: a classifier needs rows of at least "
                "two classes (of positive weight)"
            )
        weights[used] *= self._class_weights(classes, codes, weights[used])[codes]
        target = np.zeros(len(labels))
        target[used] = codes
        names = [label.item() if isinstance(label, np.generic) else label for label in classes]
        if len(classes) == 2:
            self._fit_rows(X, target, weights, likelihood=LINKS[self.link](), names=names[1:])
        else:
            self._fit_rows(X, target, weights, likelihood=Softmax(len(classes)), names=names)
        self.classes_ = classes
        return self

    def _new_rows(
        self, X: Any, y: Any, sample_weight: Any, given: dict[str, Any]
    ) -> tuple[Array, Array, Array]:
        if given:
            raise TypeError(f"a classifier's update has no argument {next(iter(given))!r}")
        self._fitted()
        labels = read_labels(y)
        weights = self._checked_weights(X, labels, sample_weight)
        codes = np.searchsorted(self.classes_, labels).clip(0, len(self.classes_) - 1)
        new = self.classes_[codes] != labels
        if new.any():
            known = ", ".join(map(repr, self.classes_.tolist()))
            raise ValueError(
                f"y holds the class {labels[new].tolist()[0]!r}, which the model does not have; "
                f"it has {known}"
            )
        return codes.astype(np.float64), weights, np.zeros(len(labels))

    _target_type: TargetType = "label"

    def _check_roles(self, exposure: Any, offset: Any) -> None:
        check_choice("link", self.link, tuple(LINKS))
        if exposure is not None or offset is not None:
            raise ValueError("a classifier has neither exposure nor offset: leave them out")

    def _stream_check(self) -> Check | None:
        return None

    def _stream_target(self, found: FirstPass) -> Target:
        from oakgp.stream.fitting import Target

        counted = sorted(found.response.classes.items())
        names = [label for label, _ in counted]
        classes, mass = np.array(names), np.array([total for _, (_, total) in counted])
        if len(classes) < 2:
            raise ValueError(
                f"y has only one class, {names[0]!r}: a classifier needs rows of at least two "
                "classes (of positive weight)"
            )
        weights = self._class_weights(classes, np.arange(len(classes)), mass)
        self.classes_ = classes
        if len(classes) == 2:
            return Target(LINKS[self.link](), names[1:], weights.tolist())
        return Target(Softmax(len(classes)), names, weights.tolist())

    def _class_weights(self, classes: NDArray[Any], codes: NDArray[Any], weights: Array) -> Array:
        """Return the weight of each class; balanced ones count rows by their weights."""
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            totals = np.bincount(codes, weights=weights)
            return np.asarray(totals.sum() / (len(classes) * totals))
        found: Array = compute_class_weight(self.class_weight, classes=classes, y=classes[codes])
        return found

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, ``[n, n_classes]``, in the order of ``classes_``.

        It is the average over the posterior of the latent functions, not its value at their mean.
        """
        return self._probabilities(self._fitted(), self._fitted().encode(X))

    def _probabilities(self, model: Model, x: Tensor) -> Array:
        assert model.response is not None
        mean, variance = model.response.latent(model.posteriors, x, None)
        p = model.response.mean(mean, variance)
        if len(self.classes_) == 2:  # by symmetry, the first class keeps its digits too
            p = np.stack([model.response.mean(-mean, variance), p])
        return np.asarray((p / p.sum(axis=0)).T)

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of `predict_proba`."""
        return np.asarray(np.log(np.maximum(self.predict_proba(X), _LEAST)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of each row."""
        best = self.predict_proba(X).argmax(axis=1)
        found: NDArray[Any] = self.classes_[best]
        return found

    def decision_function(self, X: Any) -> Array:
        """Return the log odds of the second class ``[n]``, or log probabilities of three or more.

        They are those of `predict_proba`, so they rank rows and classes alike. What the latent
        functions are, with their uncertainty, `predict_link` tells.
        """
        logs = self.predict_log_proba(X)
        return np.asarray(logs[:, 1] - logs[:, 0] if len(self.classes_) == 2 else logs)

    def calibration(
        self, X: Any, y: Any, *, bins: int = 10, how: str = "width"
    ) -> ProbabilityCalibration:
        """Return whether the predicted probabilities can be believed, on rows not fitted to.

        Parameters
        ----------
        X, y : table and array
            The rows, with classes seen in training.
        bins : int, default=10
            Bins of the probabilities.
        how : {"width", "count"}, default="width"
            Bins of equal width, or of about equal numbers of rows.

        Returns
        -------
        ProbabilityCalibration
            Tables ``scores``, ``reliability`` and ``by_class``, and ``plot()``.
        """
        probabilities, labels = self.predict_proba(X), read_labels(y)
        if len(labels) != len(probabilities):
            raise ValueError(
                f"X has {len(probabilities)} rows but y has {len(labels)}: they must be of equal "
                "length"
            )
        unseen = ~np.isin(labels, self.classes_)
        if unseen.any():
            first = labels[unseen].tolist()[0]
            raise ValueError(
                f"{int(unseen.sum())} of {len(labels)} labels were not in training, the first is "
                f"{first!r}: leave these rows out"
            )
        codes = np.searchsorted(self.classes_, labels)
        return probability_calibration(codes, probabilities, self.classes_.tolist(), bins, how)

    def truncation_curve(
        self,
        X: Any,
        y: Any,
        n_terms: int = 50,
        metric: Callable[[NDArray[Any], Array], float] | None = None,
    ) -> Table:
        """Return a metric of the probabilities against the number of terms, largest first.

        Parameters
        ----------
        X, y : table and array
            Rows to score on: a test set.
        n_terms : int, default=50
            How far to go.
        metric : callable, optional
            ``metric(y, probabilities)``, the latter as `predict_proba` returns them; log loss when
            not given.

        Returns
        -------
        Table
            ``n_terms``, ``term`` (added last), ``cumulative_share`` and ``metric``.
        """
        model = self._fitted()
        ranking = self._ranking(n_terms)
        labels, rows = read_labels(y), model.encode(X)
        if rows.shape[1] != len(labels):
            raise ValueError(
                f"X has {rows.shape[1]} rows but y has {len(labels)}: they must be of equal length"
            )
        score = metric or self._log_loss
        curve = response_curve(
            model, ranking, lambda short: score(labels, self._probabilities(short, rows))
        )
        return self._curve_table(ranking, curve)

    def _log_loss(self, labels: NDArray[Any], probabilities: Array) -> float:
        return float(log_loss(labels, probabilities, labels=self.classes_))
