"""The component that is drawn is the one that the estimator answers with."""

from __future__ import annotations

import numpy as np
from tests.explain.models import component, fitted, rows

from oakgp.explain.component import Component


def test_it_is_the_estimators_component_in_units_of_the_response() -> None:
    model, part = fitted(), component("a", "b", "c")
    values = {"a": np.array([-0.5, 0.1, 0.9]), "b": np.array([0.5, np.nan, 3.0])}
    columns = model.model_.columns
    at = {i: columns[i].forward(values[name]) for i, name in enumerate("ab")}
    mean, sd = part({**at, 2: np.array([0.0, 1.0, 2.0])})
    truth = model.component(rows(**values, c=["blue", "green", "red"]), ("a", "b", "c"))
    np.testing.assert_allclose(mean, truth[0], atol=1e-12)
    np.testing.assert_allclose(sd, truth[1], atol=1e-9)


def test_fixed_features_keep_their_value() -> None:
    part = component("a", "c")
    at = np.linspace(-1.0, 1.0, 5)
    fixed = Component(part.model, part.term, {2: 1.0})
    np.testing.assert_array_equal(fixed({0: at})[0], part({0: at, 2: np.ones(5)})[0])


def test_a_grid_has_the_first_feature_across_and_the_second_upward() -> None:
    part = component("a", "b")
    a, b = np.array([-1.0, 0.0, 1.0]), np.array([-0.5, 0.5])
    mean, sd = part.grid(0, a, 1, b)
    assert mean.shape == sd.shape == (2, 3)
    for row, column in np.ndindex(2, 3):
        one, deviation = part({0: a[[column]], 1: b[[row]]})
        # One row and many are summed in another order: equal to rounding, not to the bit.
        np.testing.assert_allclose(mean[row, column], one[0], rtol=1e-12)
        np.testing.assert_allclose(sd[row, column], deviation[0], rtol=1e-6)
