"""What the verdict says of fits that went well and of fits that did not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.estimators.models import fitted, frame, quick

from oakgp.model import Model
from oakgp.sensitivity import Totals
from oakgp.verdict import Verdict, make_verdict


def model(**facts: Any) -> Model:
    """A fitted model, with some facts of its fit changed."""
    plain = fitted(max_order=2).model_
    ended = {"converged": True, "at_bound": (), "notes": (), **facts}
    return replace(plain, facts=replace(plain.facts, **ended))


def totals(*orders: float) -> Totals:
    return replace(fitted(max_order=2).model_.totals, orders=torch.tensor([0.0, *orders]))


def verdict(given: Model, *orders: float) -> Verdict:
    return make_verdict(given, totals(*(orders or (0.9, 0.1))))


def test_shares_are_of_the_explained_variance() -> None:
    found = verdict(model(), 6.0, 2.0)
    assert found.order_shares == (0.75, 0.25)
    assert "share of the explained variance by order 1: 75.0%, order 2: 25.0%" in found.lines


def test_a_good_fit_warns_of_nothing() -> None:
    found = verdict(model(), 0.99, 0.01)
    assert found.converged
    assert found.warnings == ()
    assert str(found) == "\n".join(found.lines)
    assert "\nconverged after" in str(found)


def test_noise_is_in_units_of_the_response() -> None:
    given = model()
    found = verdict(given)
    assert found.noise == pytest.approx(given.scale * given.posterior.noise**0.5)
    assert found.explained == pytest.approx(1.0 - given.posterior.noise)
    loud = replace(given, posterior=replace(given.posterior, noise=1.5))
    assert verdict(loud).explained == 0.0


def test_a_fit_that_did_not_converge_says_so() -> None:
    found = verdict(model(converged=False))
    assert not found.converged
    assert found.lines[1].startswith("NOT converged after")
    assert "raise max_iter" in found.warnings[0]


def test_a_high_share_of_the_highest_order_asks_for_a_higher_one() -> None:
    (warning,) = verdict(model(), 0.9, 0.1).warnings
    assert warning.startswith("order 2, the highest allowed, still carries 10% of the variance")
    assert "a higher max_order may fit better" in warning
    # Of three features, order 3 is the last: nothing higher could be asked for.
    assert verdict(model(), 0.5, 0.2, 0.3).warnings == ()


def test_notes_and_bounds_are_warnings_below_the_rest() -> None:
    found = verdict(model(notes=("look at a",), at_bound=("b is at its bound",)), 1.0, 0.0)
    assert found.warnings == ("look at a", "b is at its bound")
    assert str(found).endswith("\n! look at a\n! b is at its bound")


def test_rows_engines_and_features_are_counted() -> None:
    first = verdict(model(n_rows=12_345, n_distinct=99)).lines[0]
    assert first.startswith("12,345 rows (99 distinct), 3 features, 6 terms up to order 2; exact")
    assert verdict(model(n_rows=1, n_distinct=1)).lines[0].startswith("1 row, 3 features, 6 terms")
    first = verdict(model(engine="sparse", n_inducing=50)).lines[0]
    assert "; sparse engine with 50 inducing points, flow normal_score" in first


def test_models_without_shares() -> None:
    for given in (make_verdict(model(), None), verdict(model(), 0.0, 0.0)):
        assert given.order_shares == ()
        assert not any("share" in line for line in given.lines)


def test_a_constant_response_explains_nothing() -> None:
    table = frame(12)
    found = quick(max_iter=1, max_order=1).fit(table, np.full(12, 4.0)).verdict_
    assert found.explained == 0.0
    assert found.order_shares == ()
    assert any(text.startswith("y is the same in every row") for text in found.warnings)
