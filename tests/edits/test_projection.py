from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from oakgp.edits.projection import SHAPES, project


@pytest.fixture
def draws() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 50.0, 9))
    weights = rng.dirichlet(np.ones(9))
    return np.sin(x / 9.0) + 0.3 * rng.standard_normal((5, 9)), x, weights


def slack(values: np.ndarray, x: np.ndarray, shape: str) -> np.ndarray:
    """What must not be negative."""
    steps = np.diff(values, axis=-1)
    if shape in ("increasing", "decreasing"):
        return steps if shape == "increasing" else -steps
    bends = np.diff(steps / np.diff(x), axis=-1)
    return bends if shape == "convex" else -bends


@pytest.mark.parametrize("shape", SHAPES)
def test_projections_are_the_nearest_functions_of_the_shape(
    draws: tuple[np.ndarray, np.ndarray, np.ndarray], shape: str
) -> None:
    values, x, weights = draws
    found = project(values, x, weights, shape)
    assert slack(found, x, shape).min() > -1e-9
    assert found @ weights == pytest.approx(values @ weights)
    assert np.abs(project(found, x, weights, shape) - found).max() < 1e-6
    for v, g in zip(values, found, strict=True):
        best = minimize(
            lambda f, v=v: 1e3 * weights @ (f - v) ** 2,
            g + 0.05,
            constraints={"type": "ineq", "fun": lambda f: slack(f, x, shape)},
            options={"maxiter": 500, "ftol": 1e-10},
        )
        assert weights @ (g - v) ** 2 <= best.fun / 1e3 + 1e-6


@pytest.mark.parametrize("shape", SHAPES)
def test_what_has_the_shape_stays(shape: str) -> None:
    x = np.linspace(-1.0, 2.0, 12)
    sign = -1.0 if shape in ("decreasing", "concave") else 1.0
    right = sign * (np.exp(x) if shape in SHAPES[:2] else x**2)[None]
    found = project(right, x, np.full(12, 1 / 12), shape)
    assert np.abs(found - right).max() < 1e-7


def test_few_places_and_weights_of_zero() -> None:
    for shape in SHAPES:
        values = np.array([[3.0, 1.0]])
        found = project(values, np.array([0.0, 1.0]), np.array([0.5, 0.5]), shape)
        assert np.isfinite(found).all()
        weights = np.array([0.5, 0.0, 0.5])
        assert np.isfinite(project(np.eye(3), np.arange(3.0), weights, shape)).all()
