"""Small fitted models of every sort that a file can hold, and what they say."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from oakgp import OAKClassifier, OAKRegressor
from oakgp.kernels import Matern32, Periodic
from oakgp.measures import Uniform

HEAT = ["gas", "oil", "wood"]


def frame(n: int = 40, seed: int = 0) -> pd.DataFrame:
    """Numbers, whole numbers, text, booleans and ordered categories, with values missing."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "area": rng.lognormal(4.0, 0.5, n),
            "hour": rng.integers(0, 24, n).astype(float),
            "heat": rng.choice(HEAT, n),
            "new": rng.random(n) < 0.4,
            "class": pd.Categorical(
                rng.choice(["C", "B", "A"], n), categories=["C", "B", "A"], ordered=True
            ),
        }
    )
    table.loc[rng.random(n) < 0.2, "area"] = np.nan
    table.loc[rng.random(n) < 0.2, "class"] = None
    return table


def response(table: pd.DataFrame) -> np.ndarray:
    area = np.log(table["area"].fillna(30.0).to_numpy())
    waves = np.sin(2 * np.pi * table["hour"].to_numpy() / 24)
    warm = (table["heat"] == "gas").to_numpy(dtype=float)
    return area + waves * warm + 0.5 * table["new"].to_numpy(dtype=float)


def rows() -> pd.DataFrame:
    """Rows to predict: others than those of training, with an unseen level among them."""
    table = frame(9, seed=1)
    table.loc[2, "heat"] = "coal"
    return table


def fitted(table: Any = None, **options: Any) -> OAKRegressor:
    options = {"max_iter": 2, "max_order": 2, "flow": "normal_score", **options}
    plain = frame()
    return OAKRegressor(**options).fit(plain if table is None else table, response(plain))


def classified(n_classes: int = 2, labels: Any = ("no", "yes", "some"), **options: Any) -> Any:
    """A classifier of the response's quantiles."""
    table, y = frame(), response(frame())
    codes = np.searchsorted(np.quantile(y, np.arange(1, n_classes) / n_classes), y)
    settings = {"max_iter": 2, "max_order": 2, "flow": "normal_score", **options}
    return OAKClassifier(**settings).fit(table, np.array(labels)[codes])


def only_numbers(table: pd.DataFrame) -> pd.DataFrame:
    return table[["area", "hour"]]


def constants(table: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"a": 1.0, "b": "same"}, index=table.index)


def with_gaps(kind: str) -> OAKRegressor:
    return fitted(measure={"area": kind})


#: Each with the rows on which it is asked, made of those of `rows`.
MODELS: dict[str, Callable[[], OAKRegressor]] = {
    "all columns": lambda: fitted(flow="auto"),
    "sparse": lambda: fitted(engine="sparse", n_inducing=12),
    "truncated": lambda: fitted().truncate(n_terms=2),
    "forced terms": lambda: fitted(
        max_order=1, forced_terms=[("area", "heat"), ("area", "new", "hour")]
    ),
    "forced and truncated": lambda: fitted(max_order=1, forced_terms=({"area", "heat"},)).truncate(
        n_terms=1
    ),
    "forbidden terms": lambda: fitted(forbidden_terms=(("area", "heat"), "class")),
    "not orthogonal": lambda: fitted(orthogonal=False),
    "product": lambda: fitted(variant="product", max_order=None, feature_variances=False),
    "periodic": lambda: fitted(kernel={"hour": Periodic(period=24.0), "area": "matern52"}),
    "matern12": lambda: fitted(kernel="matern12"),
    "kernel object": lambda: fitted(kernel=Matern32()),
    "gaussian": lambda: with_gaps("gaussian"),
    "gaussian mixture": lambda: with_gaps("gaussian_mixture"),
    "uniform": lambda: with_gaps("uniform"),
    "measure object": lambda: fitted(measure={"hour": Uniform(-2.0, 2.0)}),
    "sinh-arcsinh": lambda: fitted(flow="sinh_arcsinh"),
    "no flow": lambda: fitted(flow={"area": "none", "hour": "sinh_arcsinh"}),
    "codes as categories": lambda: fitted(categorical_features=["hour"], rank=1),
    "no names": lambda: fitted(only_numbers(frame()).to_numpy(), random_state=3),
    "polars": lambda: fitted(pl.from_pandas(frame())),
    "student t": lambda: fitted(likelihood="student_t"),
    "gamma": lambda: fitted(likelihood="gamma", engine="sparse", n_inducing=12),
    "varying noise": lambda: fitted(likelihood="heteroscedastic_gaussian").truncate(n_terms=2),
    "two classes": classified,
    "probit": lambda: classified(labels=(False, True), link="probit", class_weight="balanced"),
    "three classes": lambda: classified(3),
    "three numbers": lambda: classified(3, (5.0, 1.0, -2.0)).truncate(n_terms=2),
    "no features": lambda: fitted(constants(frame()), max_order=None),
}


@cache
def model(name: str) -> OAKRegressor:
    return MODELS[name]()


def asked(name: str) -> Any:
    """Return the rows on which a model is asked."""
    if name == "no names":
        return only_numbers(rows()).to_numpy()
    if name == "polars":
        return pl.from_pandas(rows())
    return constants(rows()) if name == "no features" else rows()


def answers(estimator: OAKRegressor, table: Any) -> dict[str, Any]:
    """Return all that a model says: arrays, tables as lists, and texts."""
    kernel, outputs = estimator.model_.posterior.kernel, estimator.model_.outputs
    terms = [u for u in [(), (0,), (1,), (0, 1), (0, 2), (0, 1, 3)] if u in kernel.terms]
    said: dict[str, Any] = {
        "mean": estimator.predict(table).tolist(),
        "covariance": [m.posterior.covariance(m.encode(table)).numpy() for m in outputs],
        "components": [m.component(table, term) for m in outputs for term in terms],
        "names": [m.name for m in outputs],
        "verdict": str(estimator.verdict_),
        "constant": estimator.constant_,
        "kept": [m.posterior.kept for m in outputs],
        "forced": estimator.model_.forced,
        "facts": estimator.model_.facts,
        "schema": estimator.model_.schema,
        "columns": estimator.model_.columns,
        "n_iter": estimator.n_iter_,
        "n_features": estimator.n_features_in_,
        "names in": getattr(estimator, "feature_names_in_", np.array([])).tolist(),
        "dropped": getattr(estimator, "dropped_variance_", None),
    }
    if isinstance(estimator, OAKClassifier):
        said["probabilities"] = estimator.predict_proba(table)
        said["classes"] = (estimator.classes_.dtype.str, estimator.classes_.tolist())
    else:
        said["moments"] = estimator.predict(table, return_std=True)
        said["interval"] = estimator.predict_interval(table)
        said["draws"] = estimator.sample_y(table, 2)
    if kernel.orthogonal:
        said["transform"] = estimator.transform(table)
        said["names out"] = estimator.get_feature_names_out().tolist()
        sobol = estimator.sobol_
        said["sobol"] = [t.to_dict() for t in (sobol.terms, sobol.features, sobol.orders)]
    return said
