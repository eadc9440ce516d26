"""Why single predictions are what they are: parts that add up, with deviations, on both scales."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from itertools import product
from math import factorial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from tests.explain.models import fitted, frame, response, texts

from oakgp import OAKClassifier, OAKRegressor
from oakgp.explain.explanation import OTHERS, LinkExplanation
from oakgp.explain.response_scale import expected_response

TABLE = frame(40)


@cache
def classifier(n_classes: int = 2) -> OAKClassifier:
    table = frame(90)
    labels = pd.qcut(response(table), n_classes, labels=list("uvw")[:n_classes]).astype(str)
    return OAKClassifier(max_order=2, max_iter=5, flow="none").fit(table, labels)


@cache
def counts() -> OAKRegressor:
    table = frame(90)
    y = np.random.default_rng(0).poisson(np.exp(0.15 * response(table)))
    return OAKRegressor(likelihood="poisson", max_order=2, max_iter=5, flow="none").fit(table, y)


def test_parts_add_up_to_the_prediction() -> None:
    model = fitted()
    found = model.explain(TABLE)
    expected = model.predict(TABLE)
    assert isinstance(found, LinkExplanation)
    np.testing.assert_allclose(found.prediction, expected, atol=1e-9)
    for kind in ("terms", "features"):
        np.testing.assert_allclose(found.attribution(kind).prediction, expected, atol=1e-8)
    np.testing.assert_allclose(found.prediction_sd, model.predict_link(TABLE)[1], atol=1e-9)
    assert found.base[0] == pytest.approx(model.constant_[0])


def test_terms_are_the_components_with_their_deviations() -> None:
    model = fitted()
    found = model.explain(TABLE, ["a", ("a", "b"), ("a", "b", "d")])
    assert found.terms.names == ("a", "a × b", "a × b × d", OTHERS)
    for k, term in enumerate(found.terms.names[:3]):
        mean, sd = model.component(TABLE, term)
        np.testing.assert_allclose(found.terms.values[:, k], mean, atol=1e-9)
        assert found.terms.sd is not None
        np.testing.assert_allclose(found.terms.sd[:, k], sd, rtol=1e-3)
    # Of all others together the deviation is known too, a row at a time.
    rest = found.of_row(3, "terms").sd
    whole = model.explain(TABLE, max_terms=60)
    left = [u for u in whole.listed if u not in found.listed]
    posterior, x = model.model_.posterior, whole.x[:, 3:4]
    psi = posterior.features.features(posterior.features.points(x), left)
    prior = posterior.features.prior(posterior.features.points(x), left)
    variance = prior - ((psi @ posterior.whitener.T) ** 2).sum(dim=1)
    assert OTHERS not in whole.terms.names
    assert rest is not None
    assert rest[0, -1] == pytest.approx(model.model_.scale * float(variance[0]) ** 0.5, rel=1e-6)


def test_a_shorter_model_is_explained_by_what_it_kept() -> None:
    short = fitted().truncate(n_terms=3)
    found = short.explain(TABLE)
    assert list(found.terms.names) == list(short.get_feature_names_out())
    np.testing.assert_allclose(found.terms.prediction, short.predict(TABLE), atol=1e-8)
    np.testing.assert_allclose(found.features.prediction, short.predict(TABLE), atol=1e-8)
    dropped = next(term for term in fitted().components_["term"] if term not in found.terms.names)
    with pytest.raises(ValueError, match="truncation dropped"):
        short.explain(TABLE, [dropped])


def test_the_covariance_of_shapley_values_belongs_to_their_deviations() -> None:
    found = fitted().explain(TABLE)
    assert isinstance(found, LinkExplanation)
    joint = found.feature_covariance
    assert found.features.sd is not None
    np.testing.assert_allclose(
        np.sqrt(joint.diagonal(axis1=1, axis2=2)), found.features.sd, atol=1e-7
    )
    np.testing.assert_allclose(joint, joint.transpose(0, 2, 1), atol=1e-9)


def test_each_class_has_an_explanation_of_its_own() -> None:
    model = classifier(3)
    with pytest.raises(ValueError, match="give output="):
        model.explain(TABLE)
    found = model.explain(TABLE, output="v")
    np.testing.assert_allclose(
        found.terms.prediction, model.predict_link(TABLE, output="v")[0], atol=1e-8
    )
    column = list(model.classes_).index("v")
    on_probabilities = model.explain(TABLE[:3], output="v", scale="response", n_samples=8)
    probability = model.predict_proba(TABLE[:3])[:, column]
    for kind in ("terms", "features"):
        np.testing.assert_allclose(
            on_probabilities.attribution(kind).prediction, probability, atol=1e-8
        )
    assert on_probabilities.unit == "probability of v"


def test_responses_are_split_on_their_own_scale() -> None:
    for model, expected in (
        (classifier(), classifier().predict_proba(TABLE)[:, 1]),
        (counts(), counts().predict(TABLE)),
    ):
        found = model.explain(TABLE, max_terms=4, scale="response", n_samples=8)
        assert len(found.listed) == 4
        assert found.terms.sd is None
        np.testing.assert_allclose(found.terms.prediction, expected, rtol=1e-7)
        np.testing.assert_allclose(found.features.prediction, expected, rtol=1e-7)
        # What a term adds there has the sign of what it adds to the function.
        link = model.explain(TABLE, max_terms=4)
        assert (np.sign(found.terms.values[:, :4]) == np.sign(link.terms.values[:, :4])).all()


def test_shapley_values_of_the_response_agree_with_all_coalitions() -> None:
    """Two categories: every coalition's worth is a finite sum."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"c": rng.choice(list("xyz"), 80), "d": rng.choice(["p", "q"], 80)})
    chance = 0.2 + 0.3 * (table["c"] == "x") + 0.4 * ((table["d"] == "p") & (table["c"] == "y"))
    model = OAKClassifier(max_order=2, max_iter=5).fit(table, rng.random(80) < chance)
    measures = [column.feature.measure.atoms for column in model.model_.columns]
    cells = list(product(*(range(len(nodes)) for nodes, _ in measures)))
    mass = np.array([np.prod([w[k] for (_, w), k in zip(measures, c, strict=True)]) for c in cells])

    def worth(row: np.ndarray, coalition: tuple[int, ...]) -> float:
        mixed = np.array(cells, dtype=float)
        mixed[:, list(coalition)] = row[list(coalition)]
        assert model.model_.response is not None
        moments = model.model_.response.latent(
            model.model_.posteriors, torch.tensor(mixed.T.copy()), None
        )
        return float(mass @ expected_response(model.model_, model.model_, *moments))

    found = model.explain(table[:4], scale="response", n_samples=4000)
    assert found.features.error is not None
    for n in range(4):
        row = found.rows[n]
        both, none = worth(row, (0, 1)), worth(row, ())
        alone = [worth(row, (i,)) for i in (0, 1)]
        for i in (0, 1):
            truth = (alone[i] - none + both - alone[1 - i]) / factorial(2)
            error = found.features.error[n, i]
            assert 0 < error < 0.02
            assert abs(found.features.values[n, i] - truth) < 4 * error


def test_gaussian_regression_has_one_scale() -> None:
    assert isinstance(fitted().explain(TABLE, scale="response"), LinkExplanation)


def test_tables_have_an_entry_for_each_part() -> None:
    found = fitted().explain(TABLE[:3], ["a", "b"])
    table = found.to_table()
    assert list(table.columns) == ["row", "term", "value", "sd"]
    assert list(table["term"]) == ["a", "b", OTHERS] * 3
    assert list(table["row"]) == [0] * 3 + [1] * 3 + [2] * 3
    np.testing.assert_array_equal(table["value"], found.terms.values.ravel())
    features = found.to_frame("features")
    assert list(features.columns) == ["row", "feature", "value", "sd"]
    assert len(features) == 12
    sampled = classifier().explain(TABLE[:2], scale="response", n_samples=4)
    assert list(sampled.to_table("features").columns) == ["row", "feature", "value", "error"]
    assert list(sampled.to_table("terms").columns) == ["row", "term", "value"]
    assert repr(found) == "Explanation of 3 rows by 2 terms: response"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": "log"}, "scale='log'"),
        ({"terms": ["a", ()]}, "names the constant"),
        ({"terms": ["z"]}, "no feature 'z'"),
        ({"max_terms": 0}, "max_terms=0"),
        ({"n_samples": 1}, "n_samples=1"),
    ],
)
def test_wrong_settings_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fitted().explain(TABLE, **options)


def test_what_has_no_place_on_the_response_scale_is_refused() -> None:
    table = frame(60)
    model = OAKRegressor(
        likelihood="heteroscedastic_gaussian", max_order=1, max_iter=3, flow="none"
    )
    model.fit(table, response(table))
    assert model.explain(table, output="log noise").unit == "log noise"
    with pytest.raises(ValueError, match="no part of"):
        model.explain(table, output="log noise", scale="response")
    found = model.explain(table, scale="response", n_samples=4)
    np.testing.assert_allclose(found.terms.prediction, model.predict(table), atol=1e-8)


# Pictures.


def test_the_waterfall_leads_from_the_base_to_the_prediction() -> None:
    found = fitted().explain(TABLE, max_terms=60)
    figure = found.plot(2, max_bars=5)
    (ax,) = figure.axes
    bars = [patch for patch in ax.patches if patch.get_height() < 1]
    assert len(bars) == 5
    assert bars[0].get_x() == pytest.approx(found.base[2])
    end = bars[-1].get_x() + bars[-1].get_width()
    assert end == pytest.approx(found.terms.prediction[2])
    names = texts(ax.get_yticklabels())
    assert names[-1] == "10 smaller ones"
    largest = int(np.argmax(np.abs(found.terms.values[2])))
    assert names[0].startswith(found.terms.names[largest])
    assert "base" in ax.get_title()


def test_the_waterfall_names_the_values_of_the_row() -> None:
    table = TABLE.assign(a=0.25, b=np.nan, c="red", d="never seen")
    (ax,) = fitted().explain(table).plot(0, "features").axes
    assert set(texts(ax.get_yticklabels())) == {"a = 0.25", "b = missing", "c = red", "d = unseen"}


def test_parts_of_a_probability_are_drawn_in_their_order() -> None:
    found = classifier().explain(TABLE[:2], scale="response", n_samples=4)
    (ax,) = found.plot(1).axes
    names = [text.partition(" = ")[0] for text in texts(ax.get_yticklabels())]
    assert names == list(found.terms.names)
    assert ax.get_xlabel() == "probability of v"


def test_a_row_that_is_not_there_is_refused() -> None:
    with pytest.raises(IndexError, match="rows 0 to 39"):
        fitted().explain(TABLE).plot(40)


@pytest.mark.filterwarnings("ignore")  # of that library, about others
def test_shap_draws_our_explanations() -> None:
    shap = pytest.importorskip("shap")
    for found in (
        fitted().explain(TABLE),
        classifier().explain(TABLE[:5], scale="response", n_samples=4),
    ):
        theirs = found.to_shap()
        assert isinstance(theirs, shap.Explanation)
        np.testing.assert_allclose(
            theirs.base_values + theirs.values.sum(axis=1), found.features.prediction
        )
        for draw in (
            lambda e: shap.plots.waterfall(e[0], show=False),
            lambda e: shap.plots.beeswarm(e, show=False),
            lambda e: shap.plots.bar(e, show=False),
            lambda e: shap.plots.scatter(e[:, "a"], show=False),
            lambda e: shap.plots.heatmap(e, show=False),
        ):
            draw(theirs)
            assert plt.gcf().axes
            plt.close("all")


def test_explanations_need_no_matplotlib_and_plots_say_so() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import importlib.util; find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n: None if n == 'matplotlib' else find(n)\n"
        "import oakgp.explain\n"
        "try:\n    oakgp.explain.plot_sobol\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'plots need matplotlib: pip install "oakgp[plots]"'


def test_values_are_written_as_people_would() -> None:
    table = pd.DataFrame(
        {"a": [0.123456, 1.0, -2.5], "b": [123456.7, 25000.0, 1e-9], "c": "red", "d": "no"}
    )
    texts_of = fitted().explain(table).value_texts
    assert list(texts_of[:, 0]) == ["0.1235", "1", "-2.5"]
    assert list(texts_of[:, 1]) == ["123,457", "25,000", "1e-09"]
