"""Priors: each density by hand, and what they are for: noise is not taken for signal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.references import mixed_features, random_parameters

from oakgp import OAKClassifier, OAKRegressor
from oakgp.inference.priors import DEFAULT, PAPER, Priors
from oakgp.inference.space import ParameterSpace
from oakgp.kernels.additive import AdditiveKernel
from oakgp.kernels.terms import term_set

KERNEL = AdditiveKernel(tuple(mixed_features()), term_set(7, 3))
FLAT = Priors(0.0, whole_orders=False, roughness=0.0, scale_spread=1.0, noise=None)


def density(priors: Priors, **options: bool) -> float:
    p = random_parameters(KERNEL, np.random.default_rng(3))
    space = ParameterSpace(KERNEL, priors=priors, **options)
    return float(space.log_prior(p))


def test_the_unit_of_the_latent_function_scales_the_default_priors() -> None:
    assert DEFAULT.in_units_of(1.0) == DEFAULT
    assert DEFAULT.in_units_of(2.0).order_rate == DEFAULT.order_rate / 2.0
    assert PAPER.in_units_of(2.0) == PAPER


def test_labels_need_no_prior_on_roughness() -> None:
    found = DEFAULT.for_labels()
    assert found.roughness == 0.0
    assert found.order_rate == DEFAULT.order_rate / 3.0
    assert PAPER.for_labels() == PAPER


def test_noise_is_not_taken_for_signal_in_labels() -> None:
    """Guessing by the shares costs 0.693 nats a row; a model of noise must not cost much more."""
    losses = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(200, 5)), rng.integers(0, 2, 200)
        model = OAKClassifier(flow="none", max_order=2).fit(X, y)
        new, labels = rng.normal(size=(500, 5)), rng.integers(0, 2, 500)
        own = model.predict_proba(new)[np.arange(500), labels]
        losses.append(-np.log(own).mean())
    assert np.mean(losses) < 0.75


def test_many_features_do_not_drown_the_signal_of_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six of sixty features decide. A prior on the roughness of all sixty costs some of that."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 60))
    y = (np.sin(3 * X[:, :6]).sum(axis=1) > 0).astype(int)

    def loss() -> float:
        model = OAKClassifier(flow="none", max_order=1).fit(X[:200], y[:200])
        return float(-np.log(model.predict_proba(X[200:])[np.arange(500), y[200:]]).mean())

    found = loss()
    monkeypatch.setattr(Priors, "for_labels", lambda self: self)
    assert found < loss() - 0.02


def test_each_density_by_hand() -> None:
    p = random_parameters(KERNEL, np.random.default_rng(3))
    orders = p.order_variances.numpy()
    tables = -sum(
        float((w**2).sum()) / 2 + float(k.sum()) for w, k in zip(p.mixing, p.diagonal, strict=True)
    )
    assert density(FLAT) == pytest.approx(tables)
    assert density(PAPER) == pytest.approx(tables - 0.2 * orders.sum())
    assert density(PAPER, tied=True) == pytest.approx(tables - 0.2 * orders[0])
    whole = orders @ [1, 7, 21, 35]
    both = replace(FLAT, order_rate=3.0, whole_orders=True)
    assert density(both) == pytest.approx(tables - 3.0 * whole)
    numeric = [i for i, f in enumerate(KERNEL.features) if not f.is_categorical]
    rough = -0.4 * (1 / p.lengthscales.numpy()[numeric]).sum()
    assert density(replace(FLAT, roughness=0.4)) == pytest.approx(tables + rough)
    scales = -0.5 * (np.log(p.scales.numpy()) ** 2).sum() / 0.7**2
    spread = replace(FLAT, scale_spread=0.7)
    assert density(spread, learn_scales=True) == pytest.approx(tables + scales)
    assert density(spread) == pytest.approx(tables)
    noise = -0.5 * (np.log(float(p.noise) / 0.3) / 2.0) ** 2
    assert density(replace(FLAT, noise=(0.3, 2.0))) == pytest.approx(tables + noise)


def test_the_default_differs_from_the_papers() -> None:
    assert density(DEFAULT, learn_scales=True) != density(PAPER, learn_scales=True)


@pytest.mark.parametrize("shape", [(200, 10), (200, 2)])
def test_noise_is_not_taken_for_signal(shape: tuple[int, int]) -> None:
    """With the paper's priors more than half of the variance of pure noise passed as signal."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=shape), rng.normal(size=shape[0])
        model = OAKRegressor(flow="none").fit(X, y)
        assert model.verdict_.explained < 0.3
        new = rng.normal(size=(500, shape[1])), rng.normal(size=500)
        assert np.sqrt(np.mean((model.predict(new[0]) - new[1]) ** 2)) < 1.2
