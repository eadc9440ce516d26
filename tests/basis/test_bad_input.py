"""Tables as they come, on the basis engine: answered in full, or refused with a remedy."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.basis.tables import frame, labels, regression, regressor, response, rows

from oakgp import OAKClassifier, OAKRegressor

NAN = float("nan")
RNG = np.random.default_rng(0)
NORMAL = RNG.standard_normal((40, 40))

TABLES: dict[str, Any] = {
    "five rows": NORMAL[:5, :3],
    "one row": NORMAL[:1, :2],
    "two rows": NORMAL[:2, :2],
    "one feature": NORMAL[:, :1],
    "a column of missing values": np.c_[NORMAL[:20, 0], np.full(20, NAN)],
    "nothing but constants": np.ones((20, 3)),
    "nothing but missing values": np.full((6, 2), NAN),
    "more features than rows": NORMAL[:8],
    "huge": 1e300 * NORMAL[:20, :2],
    "tiny": 1e-300 * NORMAL[:20, :2],
    "one outlier": np.r_[NORMAL[:20, :2], [[1e300, -1e300]]],
    "twins": NORMAL[:20, [0, 0]],
    "equal rows": np.repeat(NORMAL[:1, :2], 12, axis=0),
    "binary": (NORMAL[:25, :3] > 0) * 2.0,
    "holes": np.where(NORMAL[:30, 3:6] > 0, NAN, NORMAL[:30, :3]),
    "categories": pd.DataFrame(
        {
            "holes": RNG.choice(["u", "v", None], 30),
            "unused levels": pd.Categorical(RNG.choice(["u", "v"], 30), ["w", "v", "x", "u"]),
            "flag": RNG.choice([True, False], 30),
            "one": ["same", None] * 15,
            "identifier": [f"row {k}" for k in range(30)],
        }
    ),
}
RESPONSES: dict[str, Callable[[int], np.ndarray]] = {
    "normal": lambda n: np.random.default_rng(1).standard_normal(n),
    "constant": lambda n: np.full(n, -3.0),
    "huge": lambda n: 1e300 * np.random.default_rng(1).standard_normal(n),
    "line": lambda n: np.arange(n) * 1e-300,
}


def check_sums(model: OAKRegressor, table: Any) -> None:
    mean, sd = model.predict(table, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(sd).all()
    assert (sd >= 0).all()
    scale = model.model_.scale
    terms = [u for u in model.model_.posterior.layout.terms if u]
    parts = [model.model_.component(table, u)[0] / scale for u in terms]
    total = sum(parts, start=model.constant_[0] / scale)
    np.testing.assert_allclose(mean / scale, total, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("y", RESPONSES)
@pytest.mark.parametrize("name", TABLES)
def test_any_table_is_answered_in_full(name: str, y: str) -> None:
    table = TABLES[name]
    model = regressor(max_iter=4).fit(table, RESPONSES[y](len(table)))
    check_sums(model, table)
    assert "basis engine" in str(model.verdict_)
    assert sum(model.components_["share"]) <= 1 + 1e-9
    assert np.isfinite(model.truncate().predict(table)).all()


@pytest.mark.parametrize("name", sorted(set(TABLES) - {"one row"}))
def test_any_table_is_classified_and_counted(name: str) -> None:
    table = TABLES[name]
    n = len(table)
    classes = np.array(["u", "v", "w"])
    for count in (2, 3):
        codes = np.arange(n) % count
        if len(np.unique(codes)) == count:
            model = OAKClassifier(engine="basis", max_iter=4).fit(table, classes[codes])
            p = model.predict_proba(table)
            assert np.isfinite(p).all()
            np.testing.assert_allclose(p.sum(axis=1), 1.0)
    counts = regressor(max_iter=4, likelihood="poisson").fit(table, np.arange(n) % 5)
    mean, sd = counts.predict(table, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(sd).all()
    assert (mean > 0).all()


def test_rows_that_training_never_had() -> None:
    model = regression()
    check_sums(model, rows())
    _, sd = model.predict(rows(), return_std=True)
    plain = rows().assign(c="red")
    assert sd[0] > model.predict(plain, return_std=True)[1][0]
    known = rows().assign(a=rows()["a"].clip(-1, 1))
    # Flat outside the range: far out is as the end.
    mean = model.predict(rows().assign(a=-1e9))
    np.testing.assert_allclose(model.predict(rows().assign(a=-1e300)), mean)
    assert model.predict(known).shape == (len(known),)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "Basis"}, "engine='Basis': choose one of .*'basis'"),
        ({"interactions": -1}, "interactions"),
        ({"interactions": 1.5}, "interactions"),
        (
            {"max_order": 4},
            "max_order=4: the basis engine has terms up to order 3; leave max_order",
        ),
        ({"variant": "product"}, "leave out variant= and orthogonal=, or take engine='sparse'"),
        ({"orthogonal": False}, "leave out variant= and orthogonal=, or take engine='sparse'"),
        ({"forced_terms": [("a", "nobody")]}, "forced_terms= names 'nobody', which is no feature"),
        ({"forbidden_terms": [()]}, "forbidden_terms= holds an empty term"),
    ],
)
def test_settings_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        regressor(**options).fit(frame(20), response(frame(20)))


def test_rows_of_weight_zero_are_not_seen() -> None:
    table, y = frame(60), response(frame(60))
    strange = pd.DataFrame({"a": [1e300], "b": [-5.0], "c": ["hidden"], "d": [True]})
    more = pd.concat([table, strange], ignore_index=True)
    weighted = regressor(max_iter=4).fit(
        more, np.r_[y, 1e300], sample_weight=np.r_[np.ones(60), 0.0]
    )
    truth = regressor(max_iter=4).fit(table, y)
    np.testing.assert_allclose(weighted.predict(table), truth.predict(table), rtol=1e-9)


def test_a_weight_of_two_is_two_rows() -> None:
    table, y = frame(80), response(frame(80))
    weights = np.where(np.arange(80) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(80), weights.astype(int))
    one = regressor(max_iter=60).fit(table, y, sample_weight=weights)
    two = regressor(max_iter=60).fit(table.iloc[twice], y[twice])
    np.testing.assert_allclose(one.predict(table), two.predict(table), atol=0.02)


# scikit-learn.


@parametrize_with_checks(
    [OAKRegressor(engine="basis", max_iter=2), OAKClassifier(engine="basis", max_iter=2)]
)
def test_scikit_learn_checks(
    estimator: BaseEstimator, check: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without it, the array API check skips itself
    try:
        check(estimator)
    except SkipTest as skipped:
        pytest.fail(f"a check skipped itself: {skipped}")


def test_clones_and_copies() -> None:
    model = regression(max_order=2)
    other = clone(model)
    assert other.get_params() == model.get_params()
    other.fit(frame(), response(frame()))
    truth = model.predict(rows(), return_std=True)
    for one in (other, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        found = one.predict(rows(), return_std=True)
        np.testing.assert_array_equal(found, truth)
        assert one.components_ == model.components_ or str(one.components_) == str(
            model.components_
        )


def test_the_seed_picks_the_sample_and_nothing_else() -> None:
    """With fewer rows than the sample may have there is nothing to pick."""
    table, y = frame(), labels(frame())
    first, second = (
        OAKClassifier(engine="basis", max_iter=4, random_state=k).fit(table, y) for k in (0, 1)
    )
    np.testing.assert_array_equal(first.predict_proba(table), second.predict_proba(table))
