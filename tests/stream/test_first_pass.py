"""The first pass finds what a fit in memory finds, whatever the chunks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.stream.tables import (
    SETTINGS,
    assert_same_columns,
    assert_same_pass,
    in_memory,
    many_kinds,
)

from oakgp.model_columns import fit_columns
from oakgp.schema import TableSchema
from oakgp.stream import SketchPlan, first_pass, open_source, summary

MAKERS = {
    "pandas": lambda frame: frame,
    "polars": lambda frame: pl.from_pandas(frame),
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("chunk_rows", [97, 10_000])
def test_schema_and_columns_are_those_of_a_fit_in_memory(maker, chunk_rows) -> None:
    table = maker(many_kinds(3000))
    found = first_pass(open_source(table, chunk_rows=chunk_rows))
    schema, columns = in_memory(table)
    assert found.schema == schema
    assert not found.approximate
    assert_same_columns(found.fit_columns(), columns)


def test_other_flows_and_measures_agree_too() -> None:
    table = many_kinds(3000)[["normal", "count", "gaps", "spike"]]
    found = first_pass(open_source(table, chunk_rows=500))
    schema = TableSchema.infer(table)
    for flow in ("normal_score", "sinh_arcsinh", "none"):
        for measure in ("empirical", "gaussian", "gaussian_mixture", "uniform"):
            options = SETTINGS | {"flow": flow, "measure": measure}
            want = fit_columns(schema, schema.encode(table), np.ones(3000), **options)
            assert_same_columns(found.fit_columns(flow=flow, measure=measure), want, 1e-6)


def test_weights_are_masses_and_rows_of_weight_zero_are_none() -> None:
    table = many_kinds(2000)
    rng = np.random.default_rng(1)
    weights = rng.integers(0, 4, 2000) * 0.1
    used = weights > 0
    found = first_pass(open_source(table, weight=weights, chunk_rows=300))
    schema, columns = in_memory(table[used], weights[used])
    assert found.schema == schema
    assert found.n_rows == used.sum()
    assert found.mass == pytest.approx(weights.sum(), rel=1e-12)
    assert_same_columns(found.fit_columns(), columns, 1e-12)


def test_numpy_arrays_of_objects_are_read_as_in_memory() -> None:
    table = np.array([[i % 7, f"{i % 5}" if i < 300 else "x", None] for i in range(400)], object)
    found = first_pass(open_source(table, chunk_rows=50))
    assert found.schema == TableSchema.infer(table)
    assert found.schema.columns[1].levels == ("0", "1", "2", "3", "4", "x")


def test_categorical_features_and_max_levels_are_as_in_memory() -> None:
    table = many_kinds(3000)
    options = {"categorical_features": ["count", "key", "row_id"], "max_levels": 20}
    found = first_pass(open_source(table, chunk_rows=512), **options)
    schema, columns = in_memory(table, **options)
    assert found.schema == schema
    assert_same_columns(found.fit_columns(), columns)


def shuffled_source(table, y, order, **options):
    return open_source(table.iloc[order].reset_index(drop=True), y[order], **options)


def test_the_order_of_the_rows_does_not_matter() -> None:
    table = many_kinds(8_000).drop(columns=["counter"])  # whose order is its meaning
    rng = np.random.default_rng(2)
    y = rng.normal(size=len(table))
    plain = first_pass(open_source(table, y, chunk_rows=1000), sample_rows=2000)
    order = rng.permutation(len(table))
    mixed = first_pass(shuffled_source(table, y, order, chunk_rows=7777), sample_rows=2000)
    assert not plain.sample.whole
    assert len(plain.sample.weights) == 2000
    assert_same_pass(plain, mixed)


@pytest.mark.slow
def test_the_order_does_not_matter_where_values_are_too_many_to_count() -> None:
    rng = np.random.default_rng(3)
    n = 300_000
    table = pd.DataFrame(
        {
            "normal": rng.normal(size=n),
            "mixed": np.where(rng.random(n) < 0.5, 0.0, rng.lognormal(0.0, 3.0, size=n)),
            "far": np.where(rng.random(n) < 0.5, rng.normal(size=n), 1e9 + rng.random(n)),
        }
    )
    y, weights = rng.normal(size=n), rng.integers(1, 9, n) / 12.0
    plain = first_pass(open_source(table, y, weight=weights))
    order = rng.permutation(n)
    source = open_source(table.iloc[order], y[order], weight=weights[order], chunk_rows=10_007)
    mixed = first_pass(source)
    assert plain.approximate == ("normal", "mixed", "far")
    assert_same_pass(plain, mixed)
    schema, columns = in_memory(table, weights)
    assert [c.n_distinct for c in plain.schema.columns] == pytest.approx(
        [c.n_distinct for c in schema.columns], rel=0.08
    )
    for j, (got, want) in enumerate(zip(plain.fit_columns(), columns, strict=True)):
        x = table.iloc[:, j].to_numpy()[:5000]
        z, exact = got.forward(x), want.forward(x)
        # "far" has half of its rows in one cell, which the sample divides.
        error = np.abs(z - exact)
        assert np.quantile(error, 0.99) < (0.03 if j == 2 else 0.01), got.feature.name


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(1, 599), max_size=6),
    chunk_rows=st.integers(20, 700),
)
def test_parts_merge_in_any_grouping(seed, cuts, chunk_rows) -> None:
    table = many_kinds(600, seed)
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 5, 600).astype(float)
    bounds = [0, *sorted(set(cuts)), 600]
    plan = SketchPlan.of(open_source(table, y), sample_rows=200)
    sketches = [
        [
            plan.sketch(part)
            for part in open_source(
                table.iloc[a:b].reset_index(drop=True), y[a:b], chunk_rows=chunk_rows
            ).parts
        ]
        for a, b in pairwise(bounds)
    ]
    # From the right: what the second half has seen is merged before the first half is.
    left, right = plan.empty(), plan.empty()
    half = len(sketches) // 2
    for group in sketches[half:]:
        for sketch in group:
            right.merge(sketch)
    for group in sketches[:half]:
        for sketch in group:
            left.merge(sketch)
    left.merge(right)
    assert_same_pass(summary(left, plan), first_pass(open_source(table, y), sample_rows=200), 1e-12)


def test_a_category_first_seen_late_and_a_column_missing_in_one_chunk() -> None:
    n = 1100
    table = pd.DataFrame(
        {
            "late": ["a", "b"] * (n // 2 - 1) + ["c", "c"],
            "hole": np.r_[np.arange(500.0), [np.nan] * 100, np.arange(500.0)],
            "text": pd.Series(["u"] * 500 + [None] * 100 + ["v"] * 500, dtype="object"),
        }
    )
    found = first_pass(open_source(table, chunk_rows=50))
    schema, columns = in_memory(table)
    assert found.schema == schema
    assert found.schema.columns[0].counts == (549, 549, 2)
    assert_same_columns(found.fit_columns(), columns)


def test_more_levels_than_are_counted_make_an_identifier() -> None:
    plan = SketchPlan.of(open_source(pd.DataFrame({"a": ["x"]})))
    small = SketchPlan(**{**vars(plan), "limits": type(plan.limits)(100, 50, 10)})
    table = pd.DataFrame({"a": [f"k{i % 80}" for i in range(800)]})
    sketch = small.sketch(open_source(table, chunk_rows=90).parts[0])
    found = summary(sketch, small)
    assert found.schema.columns[0].identifier
    assert found.schema.columns[0].n_distinct == 80


def test_duplicate_rows_are_one_row_of_larger_weight_in_the_sample() -> None:
    table = pd.DataFrame({"a": [1.0, 2.0, 1.0, 1.0], "b": ["u", "v", "u", "u"]})
    found = first_pass(open_source(table, np.array([0.0, 1.0, 0.0, 5.0]), chunk_rows=1))
    rows = {
        (*x, y): w
        for x, y, w in zip(
            map(tuple, found.sample.encoded.tolist()),
            found.sample.y,
            found.sample.weights,
            strict=True,
        )
    }
    assert rows == {(1.0, 0.0, 0.0): 2.0, (2.0, 1.0, 1.0): 1.0, (1.0, 0.0, 5.0): 1.0}


def test_the_sample_keeps_all_responses_of_a_place_together() -> None:
    rng = np.random.default_rng(4)
    table = pd.DataFrame({f"x{j}": rng.integers(0, 20, 60_000) for j in range(3)})
    y = (rng.random(60_000) < 0.3).astype(int)
    found = first_pass(open_source(table, y, target_type="label"), sample_rows=3000)
    assert len(found.sample.y) <= 3000
    sampled = pd.DataFrame(found.sample.encoded, columns=list(table))
    sampled["n"] = found.sample.weights
    whole = table.assign(n=1.0).groupby(list(table), as_index=False).sum()
    both = sampled.groupby(list(table), as_index=False).sum().merge(whole, on=list(table))
    assert (both.n_x == both.n_y).all()
    share = np.average(found.sample.y, weights=found.sample.weights)
    assert share == pytest.approx(0.3, abs=0.05)


def test_crowded_places_are_sampled_row_by_row() -> None:
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"a": rng.integers(0, 40, 50_000)})
    found = first_pass(open_source(table, rng.normal(size=50_000)), sample_rows=1000)
    assert len(found.sample.y) == 1000
    assert len(np.unique(found.sample.encoded)) == 40


def test_the_response_is_summed_up() -> None:
    rng = np.random.default_rng(6)
    y, offset, w = rng.normal(3.0, 2.0, 5000), rng.normal(size=5000), rng.random(5000)
    table = pd.DataFrame({"a": rng.normal(size=5000)})
    source = open_source(table, y, weight=w, offset=offset, chunk_rows=333)
    response = first_pass(source).response
    assert response.moments.mean == pytest.approx(np.average(y, weights=w), rel=1e-12)
    centered = (y - offset) - np.average(y - offset, weights=w)
    deviation = np.sqrt(np.average(centered**2, weights=w))
    assert response.shifted.deviation == pytest.approx(deviation, rel=1e-12)
    assert (response.moments.low, response.moments.high) == (y.min(), y.max())
    labels = np.array(["no", "yes"])[(y > 3).astype(int)]
    counted = first_pass(
        open_source(table, labels, target_type="label", chunk_rows=333)
    ).response.classes
    assert counted == {
        "no": ((y <= 3).sum(), (y <= 3).sum()),
        "yes": ((y > 3).sum(), (y > 3).sum()),
    }
