"""Settings by column, and the transform, kernel and measure that each column gets."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from oakgp.flows import FLOWS
from oakgp.kernels import KERNELS, CategoricalKernel, Periodic
from oakgp.measures import Categorical, Empirical, GaussianMixture, MissingAtom, Uniform
from oakgp.model_columns import ModelColumn, fit_columns, per_column, transform
from oakgp.schema import TableSchema

NAN = float("nan")
TABLE = pd.DataFrame(
    {
        "a": [0.5, 1.5, NAN, 4.0, 4.0],
        "one": [1.0] * 5,
        "b": [10.0, 20.0, 30.0, 50.0, 40.0],
        "c": ["u", "v", "u", None, "u"],
        "d": ["x", "y", "z", "x", "y"],
    }
)
SCHEMA = TableSchema.infer(TABLE)
ENCODED = SCHEMA.encode(TABLE)
WEIGHTS = np.array([1.0, 2.0, 1.0, 3.0, 1.0])


def columns(**options: Any) -> list[ModelColumn]:
    settings = {"kernel": "matern32", "measure": "auto", "flow": "none", "rank": 2, **options}
    return fit_columns(SCHEMA, ENCODED, WEIGHTS, **settings)


def test_one_setting_serves_all_and_a_mapping_single_columns() -> None:
    assert per_column("flow", "none", SCHEMA, "x") == ["none"] * 4
    assert per_column("flow", {"b": "none"}, SCHEMA, "x") == ["x", "none", "x", "x"]
    # "one" is left out of this table: the setting waits for a table where it is not.
    assert per_column("flow", {"one": "none"}, SCHEMA, "x") == ["x"] * 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"flow": {"z": "none"}}, "flow= names columns that the table does not have: 'z'; it has"),
        ({"kernel": {"c": "matern12"}}, "kernel= names column 'c', which holds categories"),
        ({"flow": "log"}, "flow='log' for column 'a': choose one of"),
        ({"flow": 3}, "flow=3 for column 'a': choose one of"),
        ({"kernel": {"b": "cubic"}}, "kernel='cubic' for column 'b': choose one of"),
        ({"kernel": None}, "kernel=None for column 'a': choose one of"),
        ({"kernel": "periodic"}, r"column 'a': the periodic kernel needs its period: .*Periodic"),
        ({"measure": "normal"}, "measure='normal' for column 'a': choose one of .*'gaussian'"),
        ({"measure": ["uniform"]}, r"measure=\['uniform'\] for column 'a': choose one of"),
        ({"measure": np.array(["uniform", "gaussian"])}, "measure=array.* for column 'a'"),
        ({"measure": Categorical((0.5, 0.5))}, "measure=Categorical.* for column 'a'"),
    ],
)
def test_settings_that_are_none_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        columns(**options)


def test_every_column_gets_what_its_kind_asks_for() -> None:
    a, b, c, d = columns(flow={"b": "sinh_arcsinh"}, measure={"b": "uniform"}, rank=9)
    assert [each.feature.name for each in (a, b, c, d)] == ["a", "b", "c", "d"]
    assert isinstance(a.feature.measure, Empirical)
    assert isinstance(b.feature.measure, Uniform)
    assert a.feature.kernel.name == "matern32"
    assert type(a.flow) is FLOWS["normal_score"]
    assert type(b.flow) is FLOWS["sinh_arcsinh"]
    assert c.flow is None
    assert isinstance(c.feature.kernel, CategoricalKernel)
    assert (c.feature.kernel.n_levels, c.feature.kernel.has_missing) == (2, True)
    assert (d.feature.kernel.n_levels, d.feature.kernel.has_missing) == (3, False)
    assert (c.feature.kernel.rank, d.feature.kernel.rank) == (2, 3)  # no more than levels


def test_shares_of_levels_and_of_missing_values_count_weights() -> None:
    a, _, c, d = columns(measure="gaussian")
    assert c.feature.measure == Categorical((3 / 8, 2 / 8, 3 / 8))
    assert d.feature.measure == Categorical((4 / 8, 3 / 8, 1 / 8))
    assert isinstance(a.feature.measure, MissingAtom)
    assert a.feature.measure.share == pytest.approx(1 / 8)


def test_a_measure_of_the_users_is_taken_as_it_is() -> None:
    given = GaussianMixture((1.0,), (0.0,), (2.0,))
    assert columns(measure={"b": given})[1].feature.measure is given


def test_flows_are_fitted_to_the_values_that_are_there() -> None:
    a, b, _, _ = columns()
    present = ~np.isnan(ENCODED[:, 0])
    z = a.forward(ENCODED[:, 0])
    assert np.isnan(z[2])
    assert np.average(z[present], weights=WEIGHTS[present]) == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(np.average(b.forward(ENCODED[:, 1]) ** 2, weights=WEIGHTS), 1.0)


def test_periodic_columns_are_phases_without_a_flow() -> None:
    _, b, _, _ = columns(kernel={"b": Periodic(period=20.0)}, flow="normal_score")
    assert b.flow is None
    np.testing.assert_allclose(b.forward(ENCODED[:, 1]), [0.5, 0.0, 0.5, 0.5, 0.0])


def test_rows_are_transformed_column_by_column() -> None:
    fitted = columns()
    z = transform(fitted, ENCODED)
    assert z.shape == (5, 4)
    np.testing.assert_array_equal(z[:, 1], fitted[1].forward(ENCODED[:, 1]))
    np.testing.assert_array_equal(z[:, 2], ENCODED[:, 2])
    assert transform([], ENCODED[:, :0]).shape == (5, 0)


@pytest.mark.parametrize("kernel", [name for name in KERNELS if name != Periodic.name])
@pytest.mark.parametrize("flow", list(FLOWS))
def test_columns_read_back_from_json(kernel: str, flow: str) -> None:
    fitted = columns(kernel=kernel, flow=flow, measure="gaussian_mixture")
    fitted += columns(kernel={"b": Periodic(period=7.5)})[1:2]
    encoded = np.column_stack([ENCODED, ENCODED[:, 1]])
    again = [
        ModelColumn.from_dict(json.loads(json.dumps(each.to_dict(), allow_nan=False)))
        for each in fitted
    ]
    assert [each.feature for each in again] == [each.feature for each in fitted]
    np.testing.assert_array_equal(transform(again, encoded), transform(fitted, encoded))


def test_kernels_of_later_versions_are_refused() -> None:
    saved = columns()[0].to_dict()
    saved["kernel"] = {"name": "spline"}
    with pytest.raises(ValueError, match="unknown kernel 'spline' in the model file"):
        ModelColumn.from_dict(saved)
