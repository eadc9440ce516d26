"""Differences between rows and between values of a feature, against the joint posterior."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.explain.models import fitted, frame, response, rows

from oakgp import OAKClassifier

TABLE = frame(30)


def by_covariance(model: Any, pair: pd.DataFrame, term: Any) -> float:
    covariance = model.predict_covariance(pair, term)
    return float(np.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]))


def test_rows_differ_by_their_predictions_and_terms_by_their_components() -> None:
    model, pair = fitted(), TABLE.iloc[[2, 5]]
    table = model.contrast(pair.iloc[[0]], pair.iloc[[1]], coverage=0.9)
    mean = model.predict(pair)
    assert table["term"][0] == "(prediction)"
    assert table["difference"][0] == pytest.approx(mean[1] - mean[0])
    assert table["sd"][0] == pytest.approx(by_covariance(model, pair, None), rel=1e-6)
    assert 5 < len(table) <= 15
    sizes = np.abs(table["difference"][1:])
    assert (np.diff(sizes) <= 0).all()
    for row in list(table.rows())[1:]:
        component, _ = model.component(pair, row["term"])
        assert row["difference"] == pytest.approx(component[1] - component[0], abs=1e-9)
        assert row["sd"] == pytest.approx(by_covariance(model, pair, row["term"]), abs=1e-7)
        assert row["high"] - row["low"] == pytest.approx(2 * 1.6448536 * row["sd"])


def test_terms_that_do_not_differ_are_left_out_unless_asked_for() -> None:
    model, row = fitted(), TABLE.iloc[2]
    other = row.copy()
    other["a"] = row["a"] + 0.3
    names = list(model.contrast(row, other)["term"])
    assert all("a" in name.split(" × ") for name in names[1:])
    asked = model.contrast(row, other, terms=["b", "a"])
    assert list(asked["term"]) == ["(prediction)", "b", "a"]
    assert (asked["difference"][1], asked["sd"][1]) == (0.0, 0.0)
    assert model.contrast(row, row)["sd"][0] == 0.0


def test_a_row_comes_in_any_form() -> None:
    model = fitted()
    forms = [
        TABLE.iloc[[7]],
        TABLE.iloc[7],
        TABLE.iloc[7].to_dict(),
        TABLE.iloc[7].tolist(),
        TABLE.iloc[[7], ::-1],
    ]
    expected = model.contrast(TABLE.iloc[[0]], forms[0])
    for form in forms[1:]:
        np.testing.assert_array_equal(
            model.contrast(TABLE.iloc[[0]], form)["difference"], expected["difference"]
        )


def test_values_of_a_feature_differ_by_its_main_effect() -> None:
    model = fitted()
    for feature, a, b in (
        ("a", -0.4, 0.7),
        ("c", "red", "blue"),
        ("b", None, 2.0),
        (3, "no", "yes"),
    ):
        pair = rows(**{"abcd"[feature] if isinstance(feature, int) else feature: [a, b]})
        name = feature if isinstance(feature, str) else "d"
        table = model.contrast(a, b, feature)
        mean, _ = model.component(pair, name)
        assert list(table["term"]) == [name]
        assert table["difference"][0] == pytest.approx(mean[1] - mean[0], abs=1e-9)
        assert table["sd"][0] == pytest.approx(by_covariance(model, pair, name), rel=1e-6)
    far, near = (model.contrast(0.0, step, "a")["sd"][0] for step in (0.5, 0.01))
    assert near < 0.1 * far  # both ends are uncertain together


def test_probabilities_differ_by_their_own_amount() -> None:
    table = frame(90)
    model = OAKClassifier(max_order=2, max_iter=5, flow="none").fit(table, response(table) > 5)
    pair = table.iloc[[1, 4]]
    found = model.contrast(pair.iloc[0], pair.iloc[1], scale="response")
    chance = model.predict_proba(pair)[:, 1]
    assert list(found["term"]) == ["(response)"]
    assert found["difference"][0] == pytest.approx(chance[1] - chance[0], abs=0.02)
    assert -1 <= found["low"][0] < found["difference"][0] < found["high"][0] <= 1
    with pytest.raises(ValueError, match="depends on all other features"):
        model.contrast(0.1, 0.2, "a", scale="response")
    on_link = model.contrast(pair.iloc[0], pair.iloc[1])
    latent = model.predict_link(pair)[0]
    assert on_link["difference"][0] == pytest.approx(latent[1] - latent[0])


def test_probabilities_of_several_classes() -> None:
    table = frame(90)
    labels = pd.qcut(response(table), 3, labels=list("uvw")).astype(str)
    model = OAKClassifier(max_order=1, max_iter=5, flow="none").fit(table, labels)
    a, b = table.iloc[3], table.iloc[8]
    chance = model.predict_proba(table.iloc[[3, 8]])
    for k, label in enumerate(model.classes_):
        found = model.contrast(a, b, scale="response", output=label)["difference"][0]
        assert found == pytest.approx(chance[1, k] - chance[0, k], abs=0.03)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((TABLE.iloc[:2], TABLE.iloc[[0]]), {}, "a= has 2 rows"),
        ((TABLE.iloc[[0]], {"a": 1.0}), {}, "b= has no value for 'b', 'c', 'd'"),
        ((TABLE.iloc[[0]], TABLE.iloc[[0], :2]), {}, "b= has no column 'c', 'd'"),
        (([1.0, 2.0], TABLE.iloc[0]), {}, "a= has 2 values, but the model has 4"),
        ((TABLE.iloc[0], TABLE.iloc[1]), {"coverage": 1.0}, "coverage=1.0"),
        ((TABLE.iloc[0], TABLE.iloc[1]), {"scale": "odds"}, "scale='odds'"),
        ((0.0, 1.0, "z"), {}, "no feature 'z'"),
        ((0.0, "much", "a"), {}, "holds the text 'much'"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        fitted().contrast(*arguments, **options)
