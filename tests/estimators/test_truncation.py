"""Shorter models: which terms stay, what is lost, and that the long model stays as it was."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from tests.estimators.models import Term, all_terms, fitted, frame, quick, response

from oakgp import OAKRegressor

TABLE = frame()
Y = response(TABLE)
ROWS = frame(9, seed=5)
TEST = frame(60, seed=6)
Y_TEST = response(TEST, seed=7)

FORCED: tuple[Term, ...] = (("a", "b", "c"), ("b", "c"))


def labels(model: OAKRegressor) -> set[str]:
    return set(model.get_feature_names_out())


def shares() -> dict[Term, float]:
    """Share of every term, by plain variances over all combinations of the training values."""
    model = fitted()
    grid = pd.DataFrame(list(product(*(TABLE[c] for c in "abc"))), columns=list("abc"))
    found = {}
    for term in all_terms(model):
        columns = list(term)
        rows = grid[columns].drop_duplicates().merge(grid[:1].drop(columns=columns), how="cross")
        weight = np.ones(len(rows))
        if "c" in term:  # the other columns have 40 different values each
            weight = rows["c"].map(TABLE["c"].value_counts()).to_numpy(dtype=float)
        values, _ = model.component(rows, term)
        found[term] = float(np.average(values**2, weights=weight))
    total = sum(found.values())
    return {term: value / total for term, value in found.items()}


def test_terms_below_the_threshold_are_dropped() -> None:
    truth = shares()
    for threshold in (0.002, 0.05, 0.3):
        short = fitted().truncate(threshold)
        kept = {term for term, share in truth.items() if share >= threshold}
        assert labels(short) == {" × ".join(term) for term in kept}
        lost = sum(share for term, share in truth.items() if term not in kept)
        assert short.dropped_variance_ == pytest.approx(lost, rel=1e-6)


def test_the_default_is_one_per_cent() -> None:
    assert labels(fitted().truncate()) == labels(fitted().truncate(0.01))
    assert fitted().truncate().dropped_variance_ == fitted().truncate(0.01).dropped_variance_
    assert labels(fitted().truncate()) != labels(fitted())


@pytest.mark.parametrize("n_terms", [0, 1, 3, 100])
def test_the_largest_terms_are_kept(n_terms: int) -> None:
    ranked = sorted(shares().items(), key=lambda pair: -pair[1])
    short = fitted().truncate(n_terms=n_terms)
    assert list(short.get_feature_names_out()) == [" × ".join(t) for t, _ in ranked[:n_terms]]
    lost = sum(share for _, share in ranked[n_terms:])
    assert short.dropped_variance_ == pytest.approx(lost, rel=1e-6, abs=1e-9)
    kept = "1 kept term" if n_terms == 1 else f"{min(n_terms, 7)} kept terms"
    assert f"predictions sum over {kept}" in str(short.verdict_)


def test_threshold_and_number_hold_together() -> None:
    assert len(labels(fitted().truncate(0.01, n_terms=2))) == 2
    assert labels(fitted().truncate(0.01, n_terms=50)) == labels(fitted().truncate(0.01))
    assert len(labels(fitted().truncate(n_terms=50))) == 7


def test_predictions_are_the_sum_of_what_is_kept() -> None:
    short = fitted().truncate(n_terms=3)
    constant = short.constant_[0]
    np.testing.assert_allclose(short.transform(ROWS).sum(axis=1) + constant, short.predict(ROWS))
    assert np.abs(short.predict(ROWS) - fitted().predict(ROWS)).max() > 1e-4
    bare = fitted().truncate(n_terms=0)
    np.testing.assert_allclose(bare.predict(ROWS), bare.constant_[0])
    assert bare.transform(ROWS).shape == (len(ROWS), 0)
    everything = fitted().truncate(0.0)
    np.testing.assert_array_equal(everything.predict(ROWS), fitted().predict(ROWS))
    assert everything.dropped_variance_ == 0.0
    assert list(everything.get_feature_names_out()) == list(fitted().get_feature_names_out())


def test_deviations_are_those_of_the_kept_sum() -> None:
    short = fitted().truncate(n_terms=3)
    _, sd = short.predict(ROWS, return_std=True)
    variance = short.predict_covariance(ROWS).diagonal() + short.verdict_.noise**2
    np.testing.assert_allclose(sd**2, variance, rtol=1e-9)
    draws = short.sample_y(ROWS, 2000)
    np.testing.assert_allclose(draws.mean(axis=1), short.predict(ROWS), atol=0.15 * sd.max())


def test_forced_terms_stay() -> None:
    model = quick(max_order=1, forced_terms=FORCED).fit(TABLE, Y)
    assert labels(model.truncate(n_terms=1)) == {"a", "a × b × c", "b × c"}
    assert labels(model.truncate(0.9)) == {"a × b × c", "b × c"}


def test_what_small_forced_terms_explain_is_not_dropped() -> None:
    """Their shares count, although they are too small to be ranked."""
    model = quick(max_order=1, forced_terms=[("a", "b")]).fit(TABLE, Y)
    share = dict(zip(model.components_["term"], model.components_["share"], strict=True))
    assert 0.01 < share["a × b"] < 0.5
    short = model.truncate(0.9)
    assert labels(short) == {"a × b"}
    assert short.dropped_variance_ == pytest.approx(1.0 - share["a × b"], rel=1e-9)


def test_the_original_is_untouched() -> None:
    model = quick(kernel={"a": "matern32"}).fit(TABLE, Y).set_output(transform="pandas")
    before, names = model.predict(ROWS), list(model.get_feature_names_out())
    short = model.truncate(n_terms=1)
    short.set_output(transform="default").set_params(max_order=1)
    short.kernel["b"] = "matern52"
    np.testing.assert_array_equal(model.predict(ROWS), before)
    assert list(model.get_feature_names_out()) == names
    assert not hasattr(model, "dropped_variance_")
    assert isinstance(model.transform(ROWS), pd.DataFrame)
    assert model.max_order is None
    assert model.kernel == {"a": "matern32"}


def test_a_shorter_model_can_be_made_longer_again() -> None:
    short = fitted().truncate(n_terms=1)
    again = short.truncate(n_terms=3)
    np.testing.assert_array_equal(again.predict(ROWS), fitted().truncate(n_terms=3).predict(ROWS))
    assert repr(short.sobol_) == repr(fitted().sobol_)  # of the whole model


def test_a_constant_model_has_nothing_to_drop() -> None:
    model = quick(max_order=1).fit(TABLE, np.full(len(Y), 3.0)).truncate()
    assert model.dropped_variance_ == 0.0
    np.testing.assert_allclose(model.predict(ROWS), 3.0)


@pytest.mark.parametrize("threshold", [-0.1, 1.5, float("nan"), "small"])
def test_thresholds_that_are_none_are_refused(threshold: object) -> None:
    with pytest.raises(ValueError, match="threshold=.*between 0 and 1"):
        fitted().truncate(threshold)


@pytest.mark.parametrize("n_terms", [-1, 1.5, True, "two"])
def test_numbers_of_terms_that_are_none_are_refused(n_terms: object) -> None:
    with pytest.raises(ValueError, match="n_terms=.*whole number of at least 0"):
        fitted().truncate(n_terms=n_terms)
    with pytest.raises(ValueError, match="n_terms=.*whole number of at least 0"):
        fitted().truncation_curve(TEST, Y_TEST, n_terms)


def test_a_model_that_is_not_orthogonal_has_no_shares_to_go_by() -> None:
    with pytest.raises(ValueError, match="orthogonal components.*fit it with orthogonal=True"):
        fitted(orthogonal=False).truncate()


# -- the curve ---------------------------------------------------------------------------------


def test_the_curve_follows_the_shorter_models() -> None:
    model = fitted()
    curve = model.truncation_curve(TEST, Y_TEST, n_terms=4)
    assert list(curve["n_terms"]) == [0, 1, 2, 3, 4]
    assert curve["term"][0] == "(constant)"
    assert list(curve["term"][1:]) == list(model.components_["term"][:4])
    for k, cumulative, metric in zip(
        curve["n_terms"], curve["cumulative_share"], curve["metric"], strict=True
    ):
        short = model.truncate(n_terms=int(k))
        error = np.sqrt(np.mean((short.predict(TEST) - Y_TEST) ** 2))
        assert metric == pytest.approx(error, rel=1e-9)
        assert cumulative == pytest.approx(1.0 - short.dropped_variance_, abs=1e-9)
    assert curve["metric"][3] < 0.7 * curve["metric"][0]


def test_the_curve_takes_any_metric() -> None:
    def worst(y: np.ndarray, prediction: np.ndarray) -> float:
        return float(np.abs(y - prediction).max())

    curve = fitted().truncation_curve(TEST, Y_TEST, metric=worst)
    assert len(curve) == 8
    assert curve["metric"][7] == pytest.approx(worst(Y_TEST, fitted().predict(TEST)))


def test_the_curve_of_a_response_whose_square_overflows() -> None:
    model = quick(max_order=1).fit(TABLE, 1e300 * Y)
    curve = model.truncation_curve(TEST, 1e300 * Y_TEST)
    plain = quick(max_order=1).fit(TABLE, Y).truncation_curve(TEST, Y_TEST)
    np.testing.assert_allclose(curve["metric"] / 1e300, plain["metric"], rtol=1e-6)


def test_the_curve_wants_as_many_responses_as_rows() -> None:
    with pytest.raises(ValueError, match="X has 60 rows but y has 3"):
        fitted().truncation_curve(TEST, Y_TEST[:3])
