"""A fitted model: how terms are named, rows encoded, and answers scaled back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.estimators.models import fitted, frame, response

from oakgp.model import JOINER, Model
from oakgp.posterior import KernelMap

TABLE = frame()
ROWS = frame(7, seed=5)


def model() -> Model:
    return fitted().model_


def test_answers_are_the_posteriors_in_units_of_the_response() -> None:
    given, x = model(), model().encode(ROWS)
    mean, variance = given.posterior.mean_and_variance(x)
    np.testing.assert_allclose(given.mean(ROWS), given.center + given.scale * mean.numpy())
    _, plain = given.moments(ROWS, noisy=False)
    _, noisy = given.moments(ROWS, noisy=True)
    np.testing.assert_allclose(plain, given.scale * variance.sqrt().numpy())
    np.testing.assert_allclose(noisy**2 - plain**2, given.scale**2 * given.posterior.noise)


def test_only_the_constant_carries_the_centre() -> None:
    given = model()
    constant, _ = given.component(ROWS, ())
    assert constant[0] == pytest.approx(response(TABLE).mean(), abs=0.3)
    terms = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    parts = sum(given.component(ROWS, term)[0] for term in terms)
    np.testing.assert_allclose(constant + parts, given.mean(ROWS), atol=1e-8)


def test_rows_are_encoded_a_feature_a_line() -> None:
    x = model().encode(ROWS)
    assert x.shape == (3, 7)
    assert x.dtype == torch.float64
    assert x.is_contiguous()
    assert x[2].tolist() == [["blue", "green", "red"].index(level) for level in ROWS["c"]]
    np.testing.assert_allclose(x[0], model().columns[0].forward(ROWS["a"].to_numpy()))


def test_labels_read_back_as_their_terms() -> None:
    given = model()
    for term in [(0,), (1, 2), (0, 1, 2)]:
        assert given.term(given.label(term)) == term
    assert given.label((0, 2)) == f"a{JOINER}c"
    assert given.label(()) == "(constant)"
    assert given.term(()) == ()


def test_kept_terms_change_the_sum_and_leave_the_rest() -> None:
    given = model()
    short = given.keep([(0,), (2, 0)])
    parts = [given.component(ROWS, term)[0] for term in [(), (0,), (0, 2)]]
    np.testing.assert_allclose(short.mean(ROWS), sum(parts), atol=1e-9)
    assert given.posterior.kept is None
    np.testing.assert_array_equal(short.keep(None).mean(ROWS), given.mean(ROWS))
    np.testing.assert_array_equal(short.component(ROWS, (1,))[0], given.component(ROWS, (1,))[0])
    assert short.totals.variance == pytest.approx(given.totals.variance)


def test_a_model_with_other_lengthscales_reads_its_own() -> None:
    """What was computed for the original is not carried over to the changed one."""
    given, x = model(), model().encode(ROWS)
    before = given.mean(ROWS)  # fills what the original keeps of its anchors
    features = given.posterior.features
    twice = replace(given.posterior.parameters, lengthscales=2 * features.parameters.lengthscales)
    changed = replace(
        given, posterior=replace(given.posterior, features=replace(features, parameters=twice))
    )
    fresh = KernelMap(features.kernel, twice, features.x)
    psi = fresh.features(fresh.points(x), None)
    expected = given.center + given.scale * (psi @ given.posterior.mean_weights).numpy()
    np.testing.assert_allclose(changed.mean(ROWS), expected, rtol=1e-12)
    assert np.abs(changed.mean(ROWS) - before).max() > 1e-3
    np.testing.assert_array_equal(given.mean(ROWS), before)
