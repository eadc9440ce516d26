"""Model files of all released versions: each loads for ever, and says what it said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.export.make_golden import MODELS, answers

import oakgp
from oakgp import OAKRegressor
from oakgp.export.archive import VERSION
from oakgp.kernels import Periodic

FOLDER = Path(__file__).parent / "golden"
FILES = [f"v{version}{name}" for version in range(1, VERSION + 1) for name in MODELS]


def golden(name: str) -> tuple[OAKRegressor, dict[str, Any]]:
    path = FOLDER / f"{name}.oakgp"
    return oakgp.load(path), json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FILES)
def test_golden_files_answer_as_they_did(name: str) -> None:
    estimator, expected = golden(name)
    found = answers(estimator, pd.DataFrame(expected["rows"]))
    assert found["names_out"] == expected["names_out"]
    for key in found.keys() - {"names_out"}:
        truth = np.array(expected[key])
        # Processors round differently; a deviation is a difference of larger numbers.
        size = np.abs(truth).max()
        np.testing.assert_allclose(found[key], truth, rtol=1e-9, atol=1e-9 * size, err_msg=key)


@pytest.mark.parametrize("name", FILES)
def test_golden_files_can_be_saved_and_fitted_again(name: str, tmp_path: Path) -> None:
    estimator, expected = golden(name)
    rows = pd.DataFrame(expected["rows"])
    estimator.save(tmp_path / "again.oakgp")
    again = oakgp.load(tmp_path / "again.oakgp")
    np.testing.assert_array_equal(again.predict(rows), estimator.predict(rows))
    again.set_params(max_iter=1, forced_terms=(), kernel={"hour": Periodic(24.0)})
    assert again.fit(rows, expected["mean"]).predict(rows).shape == (len(rows),)


def test_the_first_version_holds_what_it_should() -> None:
    estimator, _ = golden("v1")
    assert estimator.kernel == {"hour": Periodic(24.0), "income": "matern52"}
    assert estimator.forced_terms == [("age", "income", "hour")]
    assert estimator.feature_names_in_.tolist() == [
        "area",
        "income",
        "age",
        "hour",
        "heat",
        "new",
    ]
    kinds = {column.feature.measure.kind for column in estimator.model_.columns}
    assert kinds == {"empirical", "missing_atom", "uniform", "categorical"}
    assert (1, 2, 3) in estimator.model_.forced
    assert (FOLDER / "v1.oakgp").stat().st_size < 50_000


def test_the_first_basis_model_holds_what_it_should() -> None:
    estimator, _ = golden("v1_basis")
    posterior = estimator.model_.posterior
    assert {len(u) for u in posterior.layout.terms} == {0, 1, 2, 3}
    assert bool((posterior.parameters.rough > 0).any())
    assert [basis.knows_missing for basis in posterior.layout.bases] == [1, 1, 0, 0, 1, 0]
    assert (FOLDER / "v1_basis.oakgp").stat().st_size < 100_000
