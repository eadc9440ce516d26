"""The main job on a table with a known truth: fit, explain, compare, truncate, save.

The table is made here: the yearly heating energy of houses, with numbers, categories, missing
values, two interactions and two columns that have nothing to do with it. What the model finds is
printed beside what is true. Run `python examples/demo.py`; pictures go to `demo_output/`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # writes files, needs no screen

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import oakgp
from oakgp.explain import plot_components, plot_sobol, plot_truncation
from oakgp.table import Table

Array = NDArray[np.float64]

OUTPUT = Path("demo_output")
NOISE = 0.8  # standard deviation, in MWh a year
TRAIN, TEST = 700, 1000
HEATING = {"gas": 0.45, "oil": 0.25, "heat pump": 0.2, "district": 0.1}
ROOFS = ["black", "brown", "green", "grey", "red"]


def houses(n: int, seed: int) -> pd.DataFrame:
    """Draw houses. All columns are independent, so the true shares of variance are exact."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "floor area": rng.lognormal(np.log(120), 0.35, n).round(),
            "insulation": rng.gamma(2.0, 5.0, n).round(1),
            "winter temperature": rng.normal(3.0, 3.0, n).round(1),
            "thermostat": rng.uniform(16.0, 24.0, n).round(1),
            "occupants": rng.choice([1, 2, 3, 4, 5, 6], n, p=[0.3, 0.33, 0.15, 0.14, 0.06, 0.02]),
            "heating": pd.Categorical(rng.choice(list(HEATING), n, p=list(HEATING.values()))),
            "roof": pd.Categorical(rng.choice(ROOFS, n)),
            "street number": rng.integers(1, 200, n),
        }
    )
    # Every sixth house has no energy certificate: nobody knows how thick its insulation is.
    frame.loc[rng.random(n) < 1 / 6, "insulation"] = np.nan
    return frame


def effects(x: pd.DataFrame) -> dict[tuple[str, ...], tuple[Array, ...]]:
    """Return the factors of each true effect; centred, then multiplied, they are its component."""
    area = np.log(x["floor area"].to_numpy() / 120)
    thickness = x["insulation"].to_numpy()
    # Old houses have no certificate: without one, a house loses more than with thick walls.
    loss = np.where(np.isnan(thickness), 0.8, np.exp(-np.nan_to_num(thickness) / 8))
    cold = 3.0 - x["winter temperature"].to_numpy()
    warm = np.logaddexp(0.0, 1.5 * (x["thermostat"].to_numpy() - 20.5))
    heating = x["heating"].astype(str)
    waste = heating.map({"gas": 1.0, "oil": 2.0, "heat pump": -3.0, "district": 0.0}).to_numpy()
    pump = (heating == "heat pump").to_numpy(dtype=np.float64)
    return {
        ("floor area",): (5.5 * area,),
        ("insulation",): (5.5 * loss,),
        ("winter temperature",): (0.5 * cold,),
        ("thermostat",): (0.5 * warm,),
        ("occupants",): (1.4 * np.sqrt(x["occupants"].to_numpy()),),
        ("heating",): (waste,),
        ("floor area", "insulation"): (9.0 * area, loss),
        ("winter temperature", "heating"): (0.7 * cold, pump),
    }


def truth(x: pd.DataFrame, population: pd.DataFrame) -> dict[tuple[str, ...], Array]:
    """Return the true components at the rows of x: each averages to 0 over every feature."""
    centres = {u: [f.mean() for f in factors] for u, factors in effects(population).items()}
    return {
        u: np.prod([f - c for f, c in zip(factors, centres[u], strict=True)], axis=0)
        for u, factors in effects(x).items()
    }


def response(x: pd.DataFrame, population: pd.DataFrame, seed: int) -> Array:
    """Return the energy used: the sum of the true components, and noise."""
    noise = NOISE * np.random.default_rng(seed).normal(size=len(x))
    return np.asarray(14.0 + sum(truth(x, population).values()) + noise)


def linear(train: pd.DataFrame, y: Array, test: pd.DataFrame) -> tuple[Array, Array]:
    """Return predictions and 90% intervals of a linear model with dummies for categories."""
    prepare = make_column_transformer(
        (OneHotEncoder(), make_column_selector(dtype_include="category")),
        remainder=SimpleImputer(add_indicator=True),
    )
    model = make_pipeline(prepare, LinearRegression()).fit(train, y)
    mean = model.predict(test)
    half = 1.645 * np.std(y - model.predict(train))
    return mean, np.column_stack([mean - half, mean + half])


def boosting(train: pd.DataFrame, y: Array, test: pd.DataFrame) -> tuple[Array, Array]:
    """Return predictions and 90% intervals of gradient boosting (a model for each quantile)."""

    def predict(**loss: object) -> Array:
        model = HistGradientBoostingRegressor(random_state=0, **loss).fit(train, y)
        return np.asarray(model.predict(test))

    ends = [predict(loss="quantile", quantile=q) for q in (0.05, 0.95)]
    return predict(), np.column_stack(ends)


def scores(y: Array, mean: Array, interval: Array) -> dict[str, float]:
    """Return what the comparison shows of one model."""
    inside = (interval[:, 0] <= y) & (y <= interval[:, 1])
    return {
        "RMSE": float(np.sqrt(np.mean((y - mean) ** 2))),
        "R2": float(1 - np.mean((y - mean) ** 2) / np.var(y)),
        "coverage": float(inside.mean()),
        "width": float(np.mean(interval[:, 1] - interval[:, 0])),
    }


def compare(model: oakgp.OAKRegressor, data: list[pd.DataFrame], y: list[Array]) -> Table:
    """Return the scores of three models on the test rows."""
    train, test = data
    rivals: dict[str, Callable[..., tuple[Array, Array]]] = {
        "linear regression": linear,
        "gradient boosting": boosting,
    }
    rows = {"oakgp": scores(y[1], model.predict(test), model.predict_interval(test, 0.9))}
    rows |= {name: scores(y[1], *rival(train, y[0], test)) for name, rival in rivals.items()}
    columns = {key: [row[key] for row in rows.values()] for key in rows["oakgp"]}
    return Table({"model": list(rows), **columns})


def shares(model: oakgp.OAKRegressor, population: pd.DataFrame) -> Table:
    """Return the Sobol indices that were found beside the true ones."""
    variances = {u: float(f.var()) for u, f in truth(population, population).items()}
    total = sum(variances.values())
    true = {" × ".join(u): v / total for u, v in variances.items()}
    found = model.sobol_.terms
    listed = slice(0, max(10, len(true)))
    columns = {key: found[key][listed].tolist() for key in ("term", "share", "low", "high")}
    return Table({**columns, "truth": [true.get(term, 0.0) for term in columns["term"]]})


def draw(model: oakgp.OAKRegressor, train: pd.DataFrame, curve: Table) -> None:
    """Write the pictures."""
    plot_components(model, train).savefig(OUTPUT / "components.png", dpi=110)
    plot_sobol(model, max_terms=12).savefig(OUTPUT / "sobol.png", dpi=110)
    figure = plot_truncation(curve, label="test RMSE")
    figure.savefig(OUTPUT / "truncation.png", dpi=110)
    plt.close("all")


def main() -> None:
    """Fit, compare, explain and save."""
    begin = time.perf_counter()
    OUTPUT.mkdir(exist_ok=True)
    population = houses(100_000, seed=0)
    train, test = houses(TRAIN, seed=1), houses(TEST, seed=2)
    y_train, y_test = response(train, population, seed=3), response(test, population, seed=4)

    model = oakgp.OAKRegressor().fit(train, y_train)
    curve = model.truncation_curve(test, y_test, n_terms=16)
    small = model.truncate(0.01)
    before, after = (
        scores(y_test, m.predict(test), m.predict_interval(test)) for m in (model, small)
    )
    kept = small.get_feature_names_out()
    draw(model, train, curve)
    model.save(OUTPUT / "houses.oakgp")
    same = np.array_equal(oakgp.load(OUTPUT / "houses.oakgp").predict(test), model.predict(test))

    sections = {
        "Verdict": str(model.verdict_) + f"\ntrue noise: standard deviation {NOISE}",
        "Shares of the variance, found and true": repr(shares(model, population)),
        f"On {TEST} new houses": repr(compare(model, [train, test], [y_train, y_test])),
        "Truncation at 1% of the variance": (
            f"keeps {len(kept)} of {model.model_.posterior.kernel.terms.count()} terms and drops "
            f"{100 * small.dropped_variance_:.2f}% of the variance;\n"
            f"test RMSE {before['RMSE']:.3f} with all, {after['RMSE']:.3f} with these: "
            + ", ".join(kept)
        ),
        "Model file": f"houses.oakgp, read back: predictions {'equal' if same else 'DIFFER'}",
    }
    report = ["# Heating energy of houses", ""]
    for title, text in sections.items():
        print(f"\n{title}\n{'-' * len(title)}\n{text}")
        report += [f"## {title}", "", "```text", text, "```", ""]
    report += [f"![{name}]({name}.png)\n" for name in ("components", "sobol", "truncation")]
    (OUTPUT / "report.md").write_text("\n".join(report), encoding="utf-8")
    seconds = time.perf_counter() - begin
    print(f"\nAll of it, with pictures, is in {OUTPUT}/report.md ({seconds:.0f} s)")


if __name__ == "__main__":
    main()
