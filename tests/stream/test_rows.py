"""Streams as the basis engine reads them: the rows and the sums of a fit in memory."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.stream.tables import in_memory, many_kinds

from oakgp.basis.functions import feature_basis
from oakgp.basis.layout import BasisLayout
from oakgp.basis.learn import collect
from oakgp.basis.rows import InMemory, Rows
from oakgp.basis.selection import Budget, main_layout
from oakgp.basis.working import GaussianWorking
from oakgp.fitting import standardise
from oakgp.model_columns import transform
from oakgp.stream import first_pass, open_source
from oakgp.stream.rows import ResponseUnit, StreamedRows


def problem(n: int = 2500):
    rng = np.random.default_rng(12)
    table = many_kinds(n).drop(columns=["huge", "rare"])
    y = 5.0 + 3.0 * np.sin(table.normal.to_numpy()) + rng.normal(size=n)
    return table, y, rng.random(n) + 0.1


def streamed(table, y, w, **options):
    source = open_source(table, y, weight=w, **options)
    found = first_pass(source)
    columns = found.fit_columns()
    return StreamedRows(source, found, columns, ResponseUnit.of(found, real=True)), columns


def joined(rows) -> Rows:
    parts = list(rows)
    return Rows(
        torch.cat([p.x for p in parts], dim=1),
        *(torch.cat([getattr(p, name) for p in parts]) for name in ("y", "w", "offset")),
    )


def test_rows_are_those_of_a_fit_in_memory() -> None:
    table, y, w = problem()
    rows, _ = streamed(table, y, w, chunk_rows=333)
    got = joined(rows)
    schema, columns = in_memory(table, w)
    np.testing.assert_allclose(got.x, transform(columns, schema.encode(table)).T, rtol=1e-9)
    np.testing.assert_allclose(got.y, standardise(y, w)[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(got.w, w)
    assert not got.offset.any()
    assert rows.n_rows == 2500
    sample = rows.sample(500, 0)
    assert sample.n == 500
    place = {float(v): i for i, v in enumerate(got.y)}
    at = [place[float(v)] for v in sample.y]
    np.testing.assert_array_equal(sample.x, got.x[:, at])
    np.testing.assert_array_equal(sample.w, got.w[at])


def test_sums_do_not_depend_on_chunks_and_order() -> None:
    table, y, w = problem()
    order = np.random.default_rng(0).permutation(len(y))
    sums = []
    for rows, size in ((np.arange(len(y)), 100), (order, 611), (order[::-1], 5000)):
        source, columns = streamed(table.iloc[rows], y[rows], w[rows], chunk_rows=size)
        bases = tuple(feature_basis(c.feature, 0.4, 10) for c in columns)
        layout: BasisLayout = main_layout(bases, lambda term: True, (), Budget())
        (data,), _ = collect(source, layout, GaussianWorking(), torch.zeros((1, layout.size)))
        sums.append(data)
    whole = joined(source)
    (once,), _ = collect(InMemory(whole), layout, GaussianWorking(), torch.zeros((1, layout.size)))
    for data in sums:
        scale = float(once.gram.abs().max())
        np.testing.assert_allclose(data.gram, once.gram, rtol=1e-9, atol=1e-9 * scale)
        np.testing.assert_allclose(data.moment, once.moment, rtol=1e-9, atol=1e-9 * scale)
        assert float(data.square) == pytest.approx(float(once.square), rel=1e-9)


def test_offsets_and_classes_find_their_places() -> None:
    table, y, _ = problem(400)
    offset = np.linspace(-1.0, 1.0, 400)
    source = open_source(table, y, offset=offset, chunk_rows=90)
    found = first_pass(source)
    real = joined(
        StreamedRows(source, found, found.fit_columns(), ResponseUnit.of(found, real=True))
    )
    np.testing.assert_allclose(real.y, standardise(y - offset, np.ones(400))[0], atol=1e-9)
    assert not real.offset.any()
    link = joined(
        StreamedRows(source, found, found.fit_columns(), ResponseUnit.of(found, real=False))
    )
    np.testing.assert_array_equal(link.y, y)
    np.testing.assert_array_equal(link.offset, offset)
    labels = np.array(["no", "yes", "maybe"])[np.arange(400) % 3]
    source = open_source(table, labels, target_type="label", chunk_rows=90)
    found = first_pass(source)
    unit = ResponseUnit.of(found, real=False)
    assert unit.classes == ("maybe", "no", "yes")
    codes = joined(StreamedRows(source, found, found.fit_columns(), unit)).y
    np.testing.assert_array_equal(np.array(unit.classes)[codes.numpy().astype(int)], labels)
    with pytest.raises(ValueError, match="label 'perhaps', which the first pass did not see"):
        unit.read(np.array(["no", "perhaps"]), None)
    constant = first_pass(open_source(table, np.full(400, 7.0)))
    assert ResponseUnit.of(constant, real=True) == ResponseUnit(7.0, 1.0, True)
