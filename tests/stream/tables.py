"""What the tests of streams share: tables with every kind of column, and comparisons."""

from __future__ import annotations

import numpy as np
import pandas as pd

from oakgp.model_columns import fit_columns
from oakgp.schema import TableSchema

SETTINGS = {
    "kernel": "squared_exponential",
    "measure": "auto",
    "flow": "normal_score",
    "rank": 2,
}


def many_kinds(n: int, seed: int = 0) -> pd.DataFrame:
    """Return a table with numbers, ties, gaps, categories, identifiers, twins and constants."""
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=n)
    return pd.DataFrame(
        {
            "normal": normal,
            "count": rng.integers(0, 30, n),
            "gaps": np.where(rng.random(n) < 0.3, np.nan, rng.gamma(2.0, size=n)),
            "spike": np.where(rng.random(n) < 0.4, 0.0, rng.normal(size=n)),
            "color": rng.choice(["red", "green", "blue"], n),
            "city": pd.Series(rng.choice([*"abcdefgh", None], n), dtype="object"),
            "flag": rng.random(n) < 0.2,
            "grade": pd.Categorical(
                rng.choice(["low", "mid", "high"], n), categories=["low", "mid", "high"]
            ),
            "rare": [f"r{min(int(k), 400)}" for k in rng.geometric(0.01, n)],
            "row_id": np.arange(n) * 7 % n,
            "counter": np.arange(n),
            "key": [f"k{i}" for i in range(n)],
            "twin": normal,
            "constant": 1.0,
            "empty": np.full(n, np.nan),
            "huge": rng.normal(size=n) * 1e300,
        }
    )


def in_memory(table, weights=None, **options):
    """Return schema and columns as a fit in memory finds them."""
    schema = TableSchema.infer(table, **options)
    encoded = schema.encode(table)
    mass = np.ones(len(encoded)) if weights is None else weights
    return schema, fit_columns(schema, encoded, mass, **SETTINGS)


def assert_same_columns(got, want, tolerance: float = 0.0) -> None:
    """Compare fitted columns number by number."""
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        compare(one.to_dict(), other.to_dict(), tolerance, one.feature.name)


def compare(one, other, tolerance: float, where: str) -> None:
    """Compare nested values: words exactly, numbers to a relative tolerance."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for key in one:
            compare(one[key], other[key], tolerance, f"{where}.{key}")
    elif isinstance(one, (list, tuple)) and one and isinstance(one[0], (int, float, type(None))):
        a, b = (np.array(v, dtype=float) for v in (one, other))
        assert a.shape == b.shape, where
        scale = max(np.nanmax(np.abs(b)), 1.0) if np.isfinite(b).any() else 1.0
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale, err_msg=where)
    elif isinstance(one, float):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance, err_msg=where)
    else:
        assert one == other, where


def assert_same_pass(one, other, tolerance: float = 1e-9) -> None:
    """Compare two first passes over the same rows."""
    assert one.schema == other.schema
    assert one.n_rows == other.n_rows
    assert one.approximate == other.approximate
    np.testing.assert_allclose(one.mass, other.mass, rtol=1e-12)
    for a, b in zip(one.distributions, other.distributions, strict=True):
        np.testing.assert_allclose(a.values, b.values, rtol=tolerance)
        np.testing.assert_allclose(a.mass, b.mass, rtol=tolerance)
    np.testing.assert_array_equal(one.sample.encoded, other.sample.encoded)
    np.testing.assert_allclose(one.sample.weights, other.sample.weights, rtol=1e-12)
    if one.sample.y is not None:
        np.testing.assert_array_equal(one.sample.y, other.sample.y)
    for name in ("mean", "deviation", "low", "high"):
        a, b = (getattr(p.response.moments, name) for p in (one, other))
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=1e-12)
    assert_same_columns(one.fit_columns(), other.fit_columns(), tolerance)
