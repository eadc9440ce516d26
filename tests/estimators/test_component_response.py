"""Components on the response scale against draws of the constant and the component together."""

from __future__ import annotations

from functools import cache
from typing import Any

import matplotlib
import numpy as np
import pytest
from scipy.special import expit, ndtr, softmax
from tests.estimators.models import frame, quick

from oakgp import OAKClassifier
from oakgp.component_response import ComponentResponse
from oakgp.likelihoods import LIKELIHOODS

matplotlib.use("Agg")

N_DRAWS = 40_000
TERMS = [("a",), ("c",), ("a", "b"), ()]


@cache
def model(kind: str) -> Any:
    table = frame(60)
    rng = np.random.default_rng(3)
    f = np.sin(3.0 * table["a"].to_numpy()) + (table["c"] == "red").to_numpy()
    options = {"max_iter": 5, "flow": "normal_score", "max_order": 2}
    if kind == "classes":
        y = (rng.random((60, 1)) > softmax(np.stack([f, -f, 0 * f], 1), axis=1).cumsum(1)).sum(1)
        return OAKClassifier(**options).fit(table, np.array(["u", "v", "w"])[y])
    if kind in ("logit", "probit"):
        y = np.where(rng.random(60) < expit(2.0 * f), "yes", "no")
        return OAKClassifier(link=kind, **options).fit(table, y)
    y = {
        "gaussian": f + 0.1 * rng.standard_normal(60),
        "heteroscedastic_gaussian": 5.0 + 3.0 * (f + np.exp(f) * rng.standard_normal(60)),
        "student_t": 5.0 + 3.0 * (f + 0.2 * rng.standard_t(3, 60)),
        "poisson": rng.poisson(np.exp(f)),
        "negative_binomial": rng.poisson(np.exp(f) * rng.gamma(2.0, 0.5, 60)),
        "gamma": rng.gamma(2.0, np.exp(f)),
        "beta": np.clip(rng.beta(5 * expit(f), 5 * expit(-f)), 1e-6, 1 - 1e-6),
    }[kind]
    return quick(likelihood=kind, max_order=2).fit(table, y)


def latent_draws(fitted: Any, X: Any, term: Any, output: Any) -> np.ndarray:
    """Draws of constant + component of each latent function (or the one asked for), [L, S, n]."""
    whole = fitted.model_
    outputs = whole.outputs if whole.pooled else [whole.of(output)]
    draws = []
    for k, m in enumerate(outputs):
        posterior = m.posterior.keep([m.term(term)])
        draws.append(m.center + m.scale * posterior.sample(m.encode(X), N_DRAWS, 50 + k).numpy())
    return np.stack(draws)


EXPECTED = {
    "gaussian": lambda f: f[0],
    "student_t": lambda f: f[0],
    "heteroscedastic_gaussian": lambda f: f[0],
    "logit": lambda f: expit(f[0]),
    "probit": lambda f: ndtr(f[0]),
    "poisson": lambda f: np.exp(f[0]),
    "negative_binomial": lambda f: np.exp(f[0]),
    "gamma": lambda f: np.exp(f[0]),
    "beta": lambda f: expit(f[0]),
    "classes": lambda f: softmax(f, axis=0)[1],
}
KINDS = list(EXPECTED)


def test_every_likelihood_is_covered() -> None:
    assert set(LIKELIHOODS) == (set(KINDS) - {"logit", "probit", "classes"}) | {
        "bernoulli_logit",
        "bernoulli_probit",
        "softmax",
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("term", TERMS)
def test_moments_and_quantiles_are_those_of_draws(kind: str, term: Any) -> None:
    fitted, X = model(kind), frame(4, seed=9)
    output = "v" if kind == "classes" else None
    values = EXPECTED[kind](latent_draws(fitted, X, term, output))
    mean, sd = fitted.component(X, term, output, scale="response")
    error = values.std(axis=0) / N_DRAWS**0.5
    assert (np.abs(mean - values.mean(axis=0)) < 5 * error + 2e-3 * np.abs(mean)).all()
    np.testing.assert_allclose(sd, values.std(axis=0), rtol=0.06, atol=1e-6)
    low, high = fitted.component_interval(X, term, 0.8, output, scale="response").T
    assert (low < high).all()
    for end, share in ((low, 0.1), (high, 0.9)):
        np.testing.assert_allclose((values <= end).mean(axis=0), share, atol=0.012)


def test_the_noise_of_a_heteroscedastic_model_is_a_deviation() -> None:
    fitted, X = model("heteroscedastic_gaussian"), frame(4, seed=9)
    values = np.exp(0.5 * latent_draws(fitted, X, ("a",), "log noise")[0])
    mean, sd = fitted.component(X, "a", "log noise", scale="response")
    np.testing.assert_allclose(mean, values.mean(axis=0), rtol=0.01)
    np.testing.assert_allclose(sd, values.std(axis=0), rtol=0.05)


def test_probabilities_of_all_classes_sum_to_one() -> None:
    fitted, X = model("classes"), frame(6, seed=9)
    total = sum(fitted.component(X, "a", k, scale="response")[0] for k in ("u", "v", "w"))
    np.testing.assert_allclose(total, 1.0, atol=1e-9)
    with pytest.raises(ValueError, match="give output="):
        fitted.component(X, "a", scale="response")


def test_a_model_of_one_term_predicts_its_component() -> None:
    fitted, X = model("logit"), frame(6, seed=9)
    short = fitted.truncate(n_terms=0)
    short.model_ = short.model_.keep([short.model_.term("a")])
    mean, _ = fitted.component(X, "a", scale="response")
    np.testing.assert_allclose(mean, short.predict_proba(X)[:, 1], atol=1e-12)


def test_the_link_scale_interval_is_gaussian() -> None:
    fitted, X = model("logit"), frame(6, seed=9)
    mean, sd = fitted.component(X, "a")
    low, high = fitted.component_interval(X, "a", 0.9).T
    np.testing.assert_allclose(low, mean - 1.6448536 * sd, atol=1e-6)
    np.testing.assert_allclose(high, mean + 1.6448536 * sd, atol=1e-6)


def test_unknown_scales_and_coverages_are_refused() -> None:
    fitted, X = model("logit"), frame(6, seed=9)
    with pytest.raises(ValueError, match="scale"):
        fitted.component(X, "a", scale="odds")
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        fitted.component_interval(X, "a", 1.0)


def known_base(fitted: Any, output: Any) -> float:
    """The expected response at the mean of the constant."""
    whole = fitted.model_
    outputs = whole.outputs if whole.pooled else [whole.of(output)]
    f = [[m.center + m.scale * m.posterior.constant()[0]] for m in outputs]
    kind = next(k for k in KINDS if model(k) is fitted)
    return float(EXPECTED[kind](np.array(f))[0])


def test_a_known_constant_leaves_the_uncertainty_of_the_component() -> None:
    fitted, X = model("logit"), frame(4, seed=9)
    whole = fitted.model_
    x, term = whole.encode(X), whole.term("a")
    part = ComponentResponse(whole, None, term, True)
    mean, variance = whole.posterior.mean_and_variance(x, term)
    constant = whole.center + whole.posterior.constant()[0]
    values = expit(
        constant
        + mean.numpy()
        + variance.sqrt().numpy() * np.random.default_rng(0).standard_normal((N_DRAWS, 1))
    )
    np.testing.assert_allclose(part.moments(x)[0], values.mean(axis=0), atol=0.005)
    np.testing.assert_allclose(part.moments(x)[1], values.std(axis=0), rtol=0.03)
    base, spread = ComponentResponse(whole, None, (), True).moments(x)
    np.testing.assert_allclose(base, expit(constant), atol=1e-9)
    np.testing.assert_allclose(spread, 0.0, atol=1e-7)


@pytest.mark.parametrize("kind", ["logit", "classes", "poisson", "heteroscedastic_gaussian"])
def test_plots_show_the_difference_from_the_base_rate(kind: str) -> None:
    fitted = model(kind)
    output = "v" if kind == "classes" else None
    terms = ["a", "c", ("a", "b"), ("a", "c")]
    figure = fitted.plot_components(terms=terms, output=output, scale="response", n_grid=12)
    base = known_base(fitted, output)
    labels = [ax.get_ylabel() for ax in figure.axes]
    assert any(f"less {base:.3g}" in label for label in labels)
    line = figure.axes[0].get_lines()[-1]
    (band,) = (c for c in figure.axes[0].collections if c.get_alpha() == 0.2)
    path = band.get_paths()[0].vertices[:, 1]
    if kind in ("logit", "classes"):
        assert path.min() >= -base
        assert path.max() <= 1.0 - base
    if kind == "poisson":
        assert path.min() >= -base
    assert path.min() < line.get_ydata().min() < line.get_ydata().max() < path.max()
