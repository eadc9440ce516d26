"""Tables as they come: every one is refused with its column and a remedy, or answered in full."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from tests.estimators.models import all_terms, quick

from oakgp import OAKRegressor, load
from oakgp.schema import NumericColumn, TableSchema

NAN, INF = float("nan"), float("inf")
Column = Callable[[np.random.Generator, int], Any]


def levels(*names: Any) -> Column:
    return lambda rng, n: [names[k] for k in rng.integers(0, len(names), n)]


GOOD: dict[str, Column] = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "huge": lambda rng, n: 1e300 * rng.standard_normal(n),
    "tiny": lambda rng, n: 1e-300 * rng.standard_normal(n),
    "widest": lambda rng, n: rng.choice([-1.7e308, 0.0, 1.7e308], n),
    "outlier": lambda rng, n: np.r_[1e300, rng.standard_normal(n)][:n],
    "constant": lambda rng, n: np.full(n, 7.0),
    "tied": lambda rng, n: rng.integers(0, 2, n) * 2.0,
    "close": lambda rng, n: 1.0 + 1e-15 * rng.integers(0, 4, n),
    "counter": lambda rng, n: np.arange(n),
    "holes": lambda rng, n: np.where(rng.random(n) < 0.5, NAN, rng.standard_normal(n)),
    "one or none": lambda rng, n: np.where(rng.random(n) < 0.5, NAN, 3.0),
    "nothing": lambda rng, n: np.full(n, NAN),
    "text": levels("u", "v", "w"),
    "text with holes": levels("u", "v", None),
    "one level": levels("u"),
    "one level with holes": levels("u", None),
    "odd text": levels("", " ", "$x_1$", "nan", "(other)", "é"),
    "flags": levels(True, False),
    "identifiers": lambda rng, n: [f"row {k}" for k in range(n)],
    "Int64": lambda rng, n: pd.array(levels(1, 5, None)(rng, n), dtype="Int64"),
    "boolean": lambda rng, n: pd.array(levels(True, False, None)(rng, n), dtype="boolean"),
    "string": lambda rng, n: pd.array(levels("u", "v", None)(rng, n), dtype="string"),
    "category": lambda rng, n: pd.Categorical(levels("u", "v")(rng, n), ["w", "v", "x", "u"]),
}
MIXED: Column = levels("u", 2, 2.5, True, None)  # only pandas can hold it
BAD: dict[str, Column] = {
    "infinity": lambda rng, n: np.r_[INF, np.zeros(n)][:n],
    "dates": lambda rng, n: pd.date_range("2020-01-01", periods=n),
    "durations": lambda rng, n: [dt.timedelta(days=k) for k in range(n)],
    "lists": lambda rng, n: [[1, 2]] * n,
    "bytes": lambda rng, n: [b"u"] * n,
}
RESPONSES: dict[str, Column] = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "constant": lambda rng, n: np.full(n, -3.0),
    "huge": lambda rng, n: 1e300 * rng.standard_normal(n),
    "tiny": lambda rng, n: 1e-300 * rng.standard_normal(n),
    "labels": lambda rng, n: rng.integers(0, 2, n),
    "offset": lambda rng, n: 1e9 + rng.standard_normal(n),
}
WEIGHTS: dict[str, Column] = {
    "none": lambda rng, n: None,
    "some zero": lambda rng, n: np.r_[1.0, rng.integers(0, 2, n)][:n],
    "uneven": lambda rng, n: 10.0 ** rng.uniform(-6, 6, n),
}
FRAMES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda table: table,
    "polars": lambda table: pl.DataFrame(
        {name: pl.from_arrow(pa.array(table[name], from_pandas=True)) for name in table}
    ),
    "arrow": lambda table: pa.table(
        {name: pa.array(table[name], from_pandas=True) for name in table}
    ),
    "objects": lambda table: table.to_numpy(dtype=object),
}


@dataclass(frozen=True)
class Case:
    """A table with a response, and what to fit to it."""

    table: pd.DataFrame
    y: Any
    weights: Any
    library: str
    options: dict[str, Any]

    @property
    def seen(self) -> np.ndarray:
        """Which rows have a positive weight."""
        return np.broadcast_to(self.weights if self.weights is not None else 1.0, len(self.y)) > 0

    def fit(self) -> OAKRegressor:
        model = quick(max_iter=2, **self.options)
        return model.fit(FRAMES[self.library](self.table), self.y, sample_weight=self.weights)


@st.composite
def cases(draw: st.DrawFn, bad: bool = False) -> Case:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 9))
    library = draw(st.sampled_from(sorted(FRAMES)))
    kinds = draw(st.lists(st.sampled_from(sorted(GOOD)), min_size=1, max_size=4))
    columns = {f"c{k}": GOOD[kind](rng, n) for k, kind in enumerate(kinds)}
    if draw(st.booleans()):
        columns["twin"] = columns["c0"]
    if library == "pandas" and draw(st.booleans()):
        columns["mixed"] = MIXED(rng, n)
    if bad:
        columns["bad"] = BAD[draw(st.sampled_from(sorted(BAD)))](rng, n)
    options = {
        "max_order": draw(st.integers(1, 3)),
        "engine": draw(st.sampled_from(["exact", "sparse"])),
        "n_inducing": draw(st.sampled_from([1, 3, 500])),
        "flow": draw(st.sampled_from(["normal_score", "sinh_arcsinh", "none"])),
        "measure": draw(st.sampled_from(["empirical", "gaussian", "gaussian_mixture", "uniform"])),
        "kernel": draw(st.sampled_from(["squared_exponential", "matern12"])),
        "feature_variances": draw(st.booleans()),
    }
    y = RESPONSES[draw(st.sampled_from(sorted(RESPONSES)))](rng, n)
    weights = WEIGHTS[draw(st.sampled_from(sorted(WEIGHTS)))](rng, n)
    return Case(pd.DataFrame(columns), y, weights, library, options)


def strange(schema: TableSchema) -> pd.DataFrame:
    """Rows that training had none of: nothing known, far away, unseen levels, columns turned."""
    far = {
        column.name: [None, 1e300, -1.7e308]
        if isinstance(column, NumericColumn)
        else [None, "never seen", ""]
        for column in schema.columns
    }
    return pd.DataFrame(far).assign(further="x")[["further", *reversed(list(far))]]


few = settings(max_examples=25, suppress_health_check=list(HealthCheck))


@few
@given(cases())
def test_any_table_is_answered_in_full(
    tmp_path_factory: pytest.TempPathFactory, case: Case
) -> None:
    model = case.fit()
    # Rows of weight 0 were not seen: what makes a column text may stand in one of them.
    rows = FRAMES[case.library](case.table[case.seen])
    mean, sd = model.predict(rows, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(sd).all()
    assert (sd >= 0).all()
    scale, terms = model.model_.scale, all_terms(model)
    parts = [model.component(rows, term) for term in terms]
    total = sum((m / scale for m, _ in parts), start=model.constant_[0] / scale)
    np.testing.assert_allclose(mean / scale, total, rtol=1e-9, atol=1e-8)
    assert all(np.isfinite(deviation).all() for _, deviation in parts)

    if case.library != "objects":  # an array has no names to turn its columns by
        foreign, wide = model.predict(strange(model.model_.schema), return_std=True)
        assert np.isfinite(foreign).all()
        assert np.isfinite(wide).all()

    shares = model.components_["share"]
    assert ((shares >= 0) & (shares <= 1 + 1e-9)).all()
    assert sum(shares) <= 1 + 1e-9
    np.testing.assert_allclose(
        model.truncate(0.0).predict(rows), mean, rtol=1e-7, atol=1e-7 * scale
    )
    assert np.isfinite(model.truncate().predict(rows)).all()
    assert "row" in str(model.verdict_)
    left_out = set(case.table if case.library != "objects" else []) - set(model.model_.names)
    assert all(repr(name) in str(model.verdict_) for name in left_out)

    path = tmp_path_factory.mktemp("models") / "model.oak"
    model.save(path)
    for again, once in zip(load(path).predict(rows, return_std=True), (mean, sd), strict=True):
        np.testing.assert_array_equal(again, once)


@few
@given(cases(bad=True))
def test_a_table_with_a_column_that_is_none_is_refused_by_its_name(case: Case) -> None:
    position = list(case.table).index("bad")
    name = f"'x{position}'" if case.library == "objects" else "'bad'"
    with pytest.raises((TypeError, ValueError)) as refusal:
        case.fit()
    assert name in str(refusal.value)
    assert any(word in str(refusal.value) for word in ("Derive", "Spread", "Decode", "Replace"))


# -- examples -----------------------------------------------------------------------------------

N = 12
NUMBERS = pd.DataFrame(np.random.default_rng(0).standard_normal((N, 2)), columns=["a", "b"])
Y = NUMBERS["a"].to_numpy() + 1.0


def small(**options: Any) -> OAKRegressor:
    return quick(**{"max_iter": 2, "max_order": 1, **options})


def inserted(column: str, row: int, value: Any) -> pd.DataFrame:
    table = NUMBERS.astype(object)
    table.loc[row, column] = value
    return table


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (inserted("b", 3, INF), ValueError, "infinity.* column 'b', 1 of 12 rows, first at row 3"),
        (inserted("b", 3, 10**400), ValueError, "column 'b', 1 of 12 rows, first at row 3"),
        (inserted("b", 3, [1]), TypeError, "Column 'b', row 3 .*Spread it"),
        (inserted("b", 3, 1j), ValueError, "Complex data not supported: column 'b'"),
        (NUMBERS.assign(b=pd.Timestamp("2020")), TypeError, "Column 'b' has type .*the days since"),
        (NUMBERS.set_axis(["a", "a"], axis=1), ValueError, "Duplicate column names: 'a'. Rename"),
        (NUMBERS.set_axis(["a", 1], axis=1), TypeError, "string names"),
        (NUMBERS[[]], ValueError, r"0 feature\(s\)"),
        (NUMBERS[:0], ValueError, r"0 sample\(s\)"),
        (NUMBERS[:5], ValueError, "X has 5 rows but y has 12: they must be of equal length"),
        (NUMBERS["a"], ValueError, r"one Series of 12 values.*to_frame"),
        (sparse.csr_array(NUMBERS.to_numpy()), TypeError, "Sparse data was passed.*toarray"),
        (pl.LazyFrame({"a": Y}), TypeError, "Collect it first"),
        (pa.table([pa.array(Y)] * 2, names=["a", "a"]), ValueError, "Duplicate column names: 'a'"),
        ({"a": Y}, ValueError, "dict is no table. Pass a data frame"),
    ],
)
def test_tables_that_are_none_are_refused(table: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        small().fit(table, Y)


LATER = NUMBERS.assign(c=["u", "v", "w"] * 4)


@cache
def fitted_later() -> OAKRegressor:
    return small().fit(LATER, Y)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (LATER.assign(a=INF), ValueError, "column 'a', 12 of 12 rows, first at row 0"),
        (LATER.assign(a="tall"), ValueError, "Column 'a' was numeric at fit, .* 'tall' at row 0"),
        (LATER[["a", "c"]], ValueError, "now missing:\n- b\nAdd these columns; fill them with NaN"),
        (LATER.to_numpy()[:, :2], ValueError, "X has 2 features, .*fitted with 3.*a, b, c"),
        (LATER[:0], ValueError, r"0 sample\(s\)"),
        (LATER.assign(c=[[1]] * N), TypeError, "Column 'c', row 0"),
    ],
)
def test_rows_that_do_not_fit_the_model_are_refused(
    rows: Any, error: type[Exception], message: str
) -> None:
    model = fitted_later()
    for answer in (model.predict, model.transform, model.sample_y):
        with pytest.raises(error, match=message):
            answer(rows)


def test_what_training_had_none_of_has_the_mean_and_a_wide_band() -> None:
    """Missing values and unseen levels: mean 0 of their component, and its full prior variance."""
    model = small(max_iter=20).fit(LATER, Y)
    unknown = LATER.assign(a=NAN, c="never seen")
    for name in ("a", "c"):
        mean, sd = model.component(unknown, name)
        np.testing.assert_allclose(mean, 0.0, atol=1e-12)
        assert (sd >= model.component(LATER, name)[1].max()).all()
    assert (model.component(unknown, "a")[1] > 2 * model.component(LATER, "a")[1]).all()


def test_predictions_far_away_stay_within_reach_of_the_response() -> None:
    """Below the training minimum minus one, where a logarithm of the shift has no value, too."""
    table = pd.DataFrame({"a": np.exp(NUMBERS["a"])})
    for flow in ("normal_score", "sinh_arcsinh", "none"):
        model = small(flow=flow).fit(table, Y)
        far = table["a"].min() - np.array([0.9, 1.0, 1.1, 2.0, 1e6, 1e300])
        mean, sd = model.predict(pd.DataFrame({"a": np.r_[far, 1e300]}), return_std=True)
        assert (np.abs(mean - Y.mean()) < 5 * np.ptp(Y)).all()
        assert (sd > model.predict(table, return_std=True)[1].min()).all()


def test_codes_and_booleans_are_levels_whatever_their_numbers() -> None:
    """Codes 1..K, 0 and 2, fractions, booleans and text give the same model."""
    codes = np.array([0, 1, 2] * 4)
    truth = (
        small()
        .fit(pd.DataFrame({"c": codes.astype(str)}), Y)
        .predict(pd.DataFrame({"c": ["0", "1", "2"]}))
    )
    for values in ([1, 2, 3], [-5, 0.5, 1e9]):
        model = small(categorical_features=["c"])
        model.fit(pd.DataFrame({"c": np.array(values)[codes]}), Y)
        np.testing.assert_array_equal(model.predict(pd.DataFrame({"c": values})), truth)
    two = small().fit(pd.DataFrame({"c": codes > 0}), Y).predict(pd.DataFrame({"c": [False, True]}))
    model = small(categorical_features=[0]).fit(np.where(codes > 0, 2, 0)[:, None], Y)
    np.testing.assert_array_equal(model.predict([[0], [2]]), two)


@pytest.mark.parametrize("engine", ["exact", "sparse"])
def test_only_categories(engine: str) -> None:
    table = pd.DataFrame({"c": ["u", "v", "w"] * 8, "d": [True, False] * 12})
    y = (table["c"] == "u").to_numpy() + 2.0 * table["d"].to_numpy()
    model = small(engine=engine, max_iter=20).fit(table, y)
    np.testing.assert_allclose(model.predict(table), y, atol=0.05)
    assert model.model_.facts.engine == engine


def test_fewer_rows_than_inducing_points() -> None:
    model = small(engine="sparse", n_inducing=500).fit(NUMBERS, Y)
    assert model.model_.facts.n_inducing <= N
    assert np.abs(model.predict(NUMBERS) - Y).max() < 0.5 * Y.std()


def test_more_features_than_rows() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((10, 40))
    model = small(max_order=2).fit(x, x[:, 0])
    assert np.corrcoef(model.predict(x), x[:, 0])[0, 1] > 0.9


def test_one_row_is_remembered() -> None:
    model = small().fit([[1.0, 2.0]], [5.0])
    np.testing.assert_allclose(model.predict([[1.0, 2.0], [-3.0, 1e9]]), 5.0, atol=1e-6)
    assert "No column is left to learn from; the model is a constant." in model.verdict_.warnings
    assert len(model.sobol_.terms) == len(model.sobol_.features) == len(model.sobol_.orders) == 0
    assert model.truncate().predict([[0.0, 0.0]]) == pytest.approx(5.0)


@pytest.mark.parametrize("value", [0.0, 3.0, -1e300, 1e-300])
def test_a_constant_response_is_said_to_teach_nothing(value: float) -> None:
    model = small().fit(NUMBERS, np.full(N, value))
    np.testing.assert_allclose(model.predict(NUMBERS[::-1] + 1.0), value, rtol=1e-12)
    verdict = model.verdict_
    assert verdict.explained == 0.0
    assert "0.0% of the variance is signal" in str(verdict)
    assert any("y is the same in every row" in text for text in verdict.warnings)
    assert not any("interpolated" in text for text in verdict.warnings)
    assert len(model.components_) == 0


@pytest.mark.parametrize("engine", ["exact", "sparse"])
def test_repeated_rows_with_tiny_noise(engine: str) -> None:
    """Equal rows, and rows that differ by a rounding error: no factorisation fails."""
    rng = np.random.default_rng(2)
    x = np.repeat(NUMBERS.to_numpy(), 3, axis=0)
    y = np.repeat(Y, 3)
    for shake in (0.0, 1e-14, 1e-9):
        near = x + shake * rng.standard_normal(x.shape)
        model = small(engine=engine, n_inducing=20).fit(near, y + shake * rng.standard_normal(36))
        mean, sd = model.predict(x, return_std=True)
        assert np.corrcoef(mean, y)[0, 1] > 0.95
        assert np.isfinite(model.sample_y(x)).all()
        assert (sd >= 0).all()


def test_equal_columns_share_their_effect() -> None:
    table = NUMBERS.assign(twin=NUMBERS["a"])
    model = small(max_iter=20).fit(table, Y)
    first, second = (model.component(table, name)[0] for name in ("a", "twin"))
    alone = small(max_iter=20).fit(NUMBERS, Y).component(NUMBERS, "a")[0]
    np.testing.assert_allclose(first + second, alone, atol=0.1 * Y.std())
    assert "Columns 'a' and 'twin' hold the same values" in str(model.verdict_)
    assert "a and twin (+1.00)" in str(model.verdict_)


def test_a_column_of_many_distinct_strings_is_set_apart() -> None:
    n = 100_000
    table = pl.DataFrame({"key": [f"k{i}" for i in range(n)], "a": np.arange(n) % 2})
    model = small(engine="sparse", n_inducing=4).fit(table, np.arange(n) % 2)
    assert model.verdict_.warnings[0] == (
        "Column 'key' is left out: with 100000 distinct values in 100000 rows it looks like an "
        "identifier. To use it as categories, name it in categorical_features and raise max_levels."
    )
    assert model.score(table, np.arange(n) % 2) > 0.99


def test_a_row_without_any_value() -> None:
    table = pd.concat([NUMBERS, pd.DataFrame({"a": [NAN], "b": [NAN]})])
    model = small(max_iter=20).fit(table, np.r_[Y, 9.0])
    assert model.predict(table[-1:])[0] > model.predict(NUMBERS).max()


def test_weights_of_zero_hide_rows_whatever_they_hold() -> None:
    table = pd.concat([LATER, pd.DataFrame({"a": [1e300], "b": [NAN], "c": ["hidden"]})])
    model = small().fit(table, np.r_[Y, 1e300], sample_weight=np.r_[np.ones(N), 0.0])
    truth = fitted_later()
    np.testing.assert_array_equal(model.predict(LATER), truth.predict(LATER))
    assert str(model.model_.schema) == str(truth.model_.schema)


def test_infinities_are_refused_even_in_rows_without_weight() -> None:
    """What is refused must not depend on the weights: later rows of the column would fail too."""
    with pytest.raises(ValueError, match="Input y contains infinity: 1 of 12 rows"):
        small().fit(NUMBERS, np.r_[Y[:-1], INF], sample_weight=np.r_[np.ones(N - 1), 0.0])


def test_a_model_of_a_path_is_saved_whatever_its_columns(tmp_path: Path) -> None:
    table = NUMBERS.rename(columns={"a": "$x$ × \n", "b": "../é"})
    model = small().fit(table, Y)
    model.save(tmp_path / "model.oak")
    again = load(tmp_path / "model.oak")
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    assert list(again.feature_names_in_) == list(table)
