"""What scikit-learn asks of an estimator, and how its tools use this one."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import SkipTest

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks
from tests.estimators.models import fitted, frame, quick, response

from oakgp import OAKClassifier, OAKRegressor

TABLE = frame()
Y = response(TABLE)
NUMBERS = TABLE[["a", "b"]]
ROWS = frame(7, seed=5)

Copy = Callable[[OAKRegressor, Path], OAKRegressor]


def through_joblib(model: OAKRegressor, folder: Path) -> OAKRegressor:
    joblib.dump(model, folder / "model.joblib")
    return joblib.load(folder / "model.joblib")


COPIES: dict[str, Copy] = {
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
    "joblib": through_joblib,
    "deepcopy": lambda model, _: copy.deepcopy(model),
}


# No check is left out: one that skips itself fails here.
@parametrize_with_checks(
    [
        quick(max_iter=2),
        quick(max_iter=2, likelihood="student_t"),
        OAKClassifier(max_iter=2, flow="normal_score"),
    ]
)
def test_scikit_learn_checks(
    estimator: BaseEstimator, check: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it, the array API check skips itself
    try:
        check(estimator)
    except SkipTest as skipped:
        pytest.fail(f"a check skipped itself: {skipped}")


def test_tags_excuse_from_no_more_than_they_say() -> None:
    names = {check.func.__name__ for _, check in estimator_checks_generator(OAKRegressor())}
    others = {check.func.__name__ for _, check in estimator_checks_generator(LinearRegression())}
    # A linear regression refuses NaN, takes several responses, and takes sparse tables.
    assert others - names <= {
        "check_estimators_nan_inf",
        "check_regressor_multioutput",
        "check_sample_weight_equivalence_on_sparse_data",
    }
    assert {"check_transformer_general", "check_sample_weight_equivalence_on_dense_data"} <= names


def test_the_constructor_only_stores() -> None:
    given = {
        "max_order": object(),
        "kernel": object(),
        "forced_terms": [["a"]],
        "random_state": object(),
    }
    model = OAKRegressor(**given)
    assert all(getattr(model, name) is value for name, value in given.items())
    parameters = inspect.signature(OAKRegressor).parameters
    assert model.get_params().keys() == parameters.keys()
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY for p in parameters.values())


def test_clone_keeps_the_settings_and_forgets_the_fit() -> None:
    model = fitted(kernel="matern52", max_order=2)
    other = clone(model)
    assert other.get_params() == model.get_params()
    with pytest.raises(NotFittedError, match="not fitted yet"):
        other.predict(TABLE)
    np.testing.assert_array_equal(other.fit(TABLE, Y).predict(ROWS), model.predict(ROWS))


def test_fit_leaves_the_settings_and_the_data_alone() -> None:
    table, y, weights = TABLE.copy(), Y.copy(), np.ones(len(Y))
    settings: dict[str, Any] = {
        "kernel": {"a": "matern32"},
        "forced_terms": [("a", "c")],
        "categorical_features": ["c"],
    }
    model = quick(max_order=1, **copy.deepcopy(settings))
    model.fit(table, y, sample_weight=weights)
    assert {name: getattr(model, name) for name in settings} == settings
    pd.testing.assert_frame_equal(table, TABLE)
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(weights, 1.0)


@pytest.mark.parametrize("name", ["sobol_", "components_", "verdict_", "constant_"])
def test_what_was_learned_is_not_there_before_fit(name: str) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(quick(), name)


def test_a_second_fit_forgets_the_first() -> None:
    model = quick(max_order=1).fit(TABLE, Y).truncate(n_terms=1)
    assert model.dropped_variance_ > 0
    model.fit(NUMBERS.to_numpy(), Y)
    assert not hasattr(model, "dropped_variance_")
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 2
    again = quick(max_order=1).fit(NUMBERS.to_numpy(), Y)
    np.testing.assert_array_equal(model.predict(NUMBERS), again.predict(NUMBERS))


def test_a_failed_fit_leaves_the_old_one() -> None:
    model = quick(max_order=1).fit(TABLE, Y)
    before = model.predict(ROWS)
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(NUMBERS, np.full(len(Y), np.nan))
    with pytest.raises(TypeError, match="string names"):
        model.fit(pd.DataFrame(NUMBERS.to_numpy(), columns=["a", 1]), Y)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_array_equal(model.predict(ROWS), before)


# -- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_names_of_the_columns(make: Callable[[Any], Any]) -> None:
    model = quick(max_order=1).fit(make(TABLE.to_dict("list")), Y)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert model.feature_names_in_.dtype == object
    assert model.n_features_in_ == 3
    assert model.n_iter_ > 0


def test_arrays_have_no_names() -> None:
    model = quick(max_order=1).fit(NUMBERS.to_numpy(), Y)
    assert not hasattr(model, "feature_names_in_")
    assert model.n_features_in_ == 2
    assert set(model.get_feature_names_out()) <= {"x0", "x1"}


def test_names_out_are_the_terms() -> None:
    model = fitted(max_order=2)
    names = model.get_feature_names_out()
    assert names.dtype == object
    assert list(names) == list(model.components_["term"])
    assert {"a", "b", "a × b"} <= set(names)
    np.testing.assert_array_equal(model.get_feature_names_out(["a", "b", "c"]), names)
    with pytest.raises(ValueError, match="not equal to feature_names_in_"):
        model.get_feature_names_out(["a", "b", "d"])


# -- tools ------------------------------------------------------------------------------------


def test_pipeline_as_the_last_step() -> None:
    pipeline = make_pipeline(StandardScaler(), quick(max_order=1)).fit(NUMBERS, Y)
    scaled = StandardScaler().fit_transform(NUMBERS)
    alone = quick(max_order=1).fit(scaled, Y)
    np.testing.assert_array_equal(pipeline.predict(NUMBERS), alone.predict(scaled))
    mean, sd = pipeline.predict(NUMBERS, return_std=True)
    assert mean.shape == sd.shape == Y.shape


def test_pipeline_as_a_transformer() -> None:
    """A linear model of the components can do no worse than their sum."""
    pipeline = make_pipeline(quick(max_order=2), LinearRegression()).fit(TABLE, Y)
    assert pipeline.score(TABLE, Y) >= fitted(max_order=2).score(TABLE, Y) - 1e-6
    names = list(pipeline[:-1].get_feature_names_out())
    assert names == list(fitted(max_order=2).get_feature_names_out())


def test_grid_search_finds_the_interaction() -> None:
    table = frame(80)
    grid = {"max_order": [1, 2]}
    search = GridSearchCV(quick(), grid, cv=2, error_score="raise").fit(table, response(table))
    assert search.best_params_ == {"max_order": 2}
    first, second = search.cv_results_["mean_test_score"]
    assert second > first + 0.05
    np.testing.assert_array_equal(search.predict(ROWS), fitted(80, max_order=2).predict(ROWS))


def test_cross_validation_with_settings_for_a_column_that_is_constant_in_a_fold() -> None:
    table = TABLE.assign(late=np.r_[np.zeros(20), np.arange(20.0)])
    model = quick(max_order=1, kernel={"late": "matern32"}, flow={"late": "none"})
    scores = cross_val_score(model, table, Y, cv=2, error_score="raise")
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_transform_gives_frames(library: str) -> None:
    model = quick(max_order=2).fit(TABLE, Y).set_output(transform=library)
    rows = TABLE.set_index(np.arange(100, 100 + len(TABLE)))
    frame_out = model.transform(rows)
    assert isinstance(frame_out, pd.DataFrame if library == "pandas" else pl.DataFrame)
    assert list(frame_out.columns) == list(model.get_feature_names_out())
    if library == "pandas":
        assert list(frame_out.index) == list(rows.index)
    plain = model.set_output(transform="default").transform(rows)
    assert isinstance(plain, np.ndarray)
    np.testing.assert_array_equal(frame_out.to_numpy(), plain)


def test_fit_transform_is_fit_and_transform() -> None:
    np.testing.assert_array_equal(
        quick(max_order=2).fit_transform(TABLE, Y), fitted(max_order=2).transform(TABLE)
    )


# -- sample weights are routed --------------------------------------------------------------------

WEIGHTS = np.where(TABLE["a"] > 0, 5.0, 0.5)


def test_weights_reach_the_fit_through_a_pipeline() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        last = quick(max_order=1).set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, last).fit(NUMBERS, Y, sample_weight=WEIGHTS)
    scaled = StandardScaler().fit_transform(NUMBERS)
    weighted = quick(max_order=1).fit(scaled, Y, sample_weight=WEIGHTS)
    plain = quick(max_order=1).fit(scaled, Y)
    np.testing.assert_array_equal(pipeline.predict(NUMBERS), weighted.predict(scaled))
    assert np.abs(weighted.predict(scaled) - plain.predict(scaled)).max() > 1e-3


def test_weights_reach_the_fits_of_a_grid_search() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        model = quick().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"max_order": [1]}, cv=2, error_score="raise")
        search.fit(TABLE, Y, sample_weight=WEIGHTS)
    halves = (slice(0, 20), slice(20, 40))
    scores = []
    for train, test in (halves, halves[::-1]):
        half = quick(max_order=1).fit(TABLE[train], Y[train], sample_weight=WEIGHTS[train])
        scores.append(half.score(TABLE[test], Y[test], sample_weight=WEIGHTS[test]))
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(scores), abs=1e-12)


def test_weights_that_nobody_asked_for_are_refused() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(quick(), {"max_order": [1]}, cv=2)
        with pytest.raises(ValueError, match=r"set_fit_request"):
            search.fit(TABLE, Y, sample_weight=WEIGHTS)


# -- copies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(COPIES))
def test_a_copy_says_the_same(name: str, tmp_path: Path) -> None:
    model = fitted(max_order=2)
    twin = COPIES[name](model, tmp_path)
    for got, truth in zip(
        twin.predict(ROWS, return_std=True), model.predict(ROWS, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(got, truth)
    np.testing.assert_array_equal(twin.sample_y(ROWS), model.sample_y(ROWS))
    assert repr(twin.sobol_) == repr(model.sobol_)
    assert str(twin.verdict_) == str(model.verdict_)
    assert list(twin.feature_names_in_) == list(model.feature_names_in_)


@pytest.mark.parametrize("name", list(COPIES))
def test_a_copy_shares_nothing(name: str, tmp_path: Path) -> None:
    model = quick(max_order=1, kernel={"a": "matern32"}).fit(TABLE, Y)
    before = model.predict(ROWS)
    twin = COPIES[name](model, tmp_path)
    twin.kernel["b"] = "matern52"
    twin.model_.posterior.mean_weights.zero_()
    twin.feature_names_in_[0] = "z"
    np.testing.assert_array_equal(model.predict(ROWS), before)
    assert model.kernel == {"a": "matern32"}
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert np.ptp(twin.predict(ROWS)) == 0.0  # and the copy did change


def test_repr_names_what_was_changed() -> None:
    text = repr(OAKRegressor(max_order=3, engine="sparse"))
    assert "max_order=3" in text
    assert "engine='sparse'" in text
    assert "n_inducing" not in text
