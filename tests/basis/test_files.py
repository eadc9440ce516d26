"""Files of basis models: read back to the bit, and refused when anything in them is wrong."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.basis.tables import classification, frame, labels, regression, regressor, response, rows
from tests.export.test_damage import (
    WRONG,
    Json,
    Tensors,
    holder,
    places,
    refused,
    spoiled,
    with_tensor,
    write,
)

import oakgp
from oakgp import OAKClassifier
from oakgp.export import ModelFileError
from oakgp.export.content import describe
from oakgp.kernels import Periodic


def fitted(**options: Any) -> Any:
    return regressor(**{"max_iter": 4, "max_order": 2, **options}).fit(frame(), response(frame()))


def constants(table: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"one": 1.0, "same": "x"}, index=table.index)


MODELS: dict[str, Callable[[], Any]] = {
    "orders up to 3": regression,
    "truncated": lambda: fitted().truncate(n_terms=3),
    "edited": lambda: fitted().edit(scale={"a": 0.5}, drop=["d"]),
    "monotone": lambda: fitted(max_order=1).edit(monotone={"b": "increasing"}),
    "forced": lambda: fitted(forced_terms=[("a", "b", "c", "d")], interactions=1),
    "main effects": lambda: fitted(interactions=0, flow="none", measure="gaussian"),
    "periodic": lambda: fitted(kernel={"a": Periodic(2.0), "b": "matern32"}),
    "heteroscedastic": lambda: fitted(likelihood="heteroscedastic_gaussian"),
    "student t": lambda: fitted(likelihood="student_t", interactions=0),
    "two classes": classification,
    "three classes": lambda: classification(3),
    "three classes, truncated": lambda: classification(3).truncate(n_terms=2),
    "probit": lambda: OAKClassifier(engine="basis", link="probit", max_iter=4, max_order=1).fit(
        frame(), labels(frame())
    ),
    "nothing": lambda: regressor().fit(constants(frame()), response(frame())),
}


@cache
def model(name: str) -> Any:
    return MODELS[name]()


def asked(name: str) -> pd.DataFrame:
    return constants(rows()) if name == "nothing" else rows()


def answers(estimator: Any, table: pd.DataFrame) -> dict[str, Any]:
    """All that a model says, as bytes and texts."""
    outputs = estimator.model_.outputs
    terms = (
        estimator.model_.posterior.layout.terms
        if hasattr(estimator.model_.posterior, "layout")
        else [()]
    )
    said = {
        "covariance": [m.posterior.covariance(m.encode(table)).numpy().tobytes() for m in outputs],
        "components": [
            [a.tobytes() for a in m.component(table, u)] for m in outputs for u in terms
        ],
        "verdict": str(estimator.verdict_),
        "facts": estimator.model_.facts,
        "sobol": [str(t.to_dict()) for t in (estimator.sobol_.terms, estimator.sobol_.orders)],
        "kept": [m.posterior.kept for m in outputs],
        "dropped": getattr(estimator, "dropped_variance_", None),
    }
    if isinstance(estimator, OAKClassifier):
        return said | {"p": estimator.predict_proba(table).tobytes()}
    moments = estimator.predict(table, return_std=True)
    interval = estimator.predict_interval(table)
    return said | {"mean": [a.tobytes() for a in (*moments, *np.atleast_1d(interval))]}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_reads_back_to_the_bit(name: str, tmp_path: Path) -> None:
    saved = model(name)
    saved.save(tmp_path / "a.oakgp")
    loaded = oakgp.load(tmp_path / "a.oakgp")
    before, after = answers(saved, asked(name)), answers(loaded, asked(name))
    assert [key for key in before if before[key] != after[key]] == []
    loaded.save(tmp_path / "b.oakgp")
    assert (tmp_path / "a.oakgp").read_bytes() == (tmp_path / "b.oakgp").read_bytes()


# Damage.


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.oakgp"


def parts_of(name: str) -> tuple[Json, Tensors]:
    description, tensors = describe(model(name))
    text = json.dumps({"format": "oakgp-model", "version": 1, **description})
    return json.loads(text), tensors


@pytest.fixture(scope="module")
def parts() -> tuple[Json, Tensors]:
    return parts_of("orders up to 3")


def answers_or_is_refused(path: Path) -> bool:
    """Load a file; what is accepted must answer, since it is too late to complain then."""
    try:
        loaded = oakgp.load(path)
    except ModelFileError:
        return False
    found = getattr(loaded, "predict_proba", loaded.predict)(rows())
    assert np.isfinite(found).all()
    assert str(loaded.verdict_)
    assert loaded.components_
    return True


def test_every_entry_of_the_basis_is_checked(path: Path, parts: tuple[Json, Tensors]) -> None:
    accepted = []
    for at in places({"basis": parts[0]["basis"]}):
        for wrong in (*WRONG, 0, 3, 999, [0, 0], [[0], [0]]):
            description = deepcopy(parts[0])
            holder(description, at)[at[-1]] = wrong
            write(path, description, parts[1])
            if answers_or_is_refused(path):
                accepted.append((at[-1], wrong))
    # Another reference or split of the functions is another prior, which no check can tell.
    assert {key for key, _ in accepted} <= {"reference", "n_smooth", "knows_missing", "terms", 0}
    for at in places({"basis": parts[0]["basis"]}):
        description = deepcopy(parts[0])
        inside = holder(description, at)
        if isinstance(inside, dict):
            del inside[at[-1]]
            write(path, description, parts[1])
            refused(path)


def test_every_tensor_is_checked(path: Path, parts: tuple[Json, Tensors]) -> None:
    description, tensors = parts
    changes: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "longer": lambda t: torch.cat([t.reshape(-1), t.reshape(-1), t.reshape(-1)[:1]]),
        "dimension": lambda t: t[None],
        "float32": lambda t: t.float(),
        "int32": lambda t: t.int(),
        "infinite": spoiled(float("inf")),
        "NaN": spoiled(float("nan")),
    }
    for name in tensors:
        for what, change in changes.items():
            if what in ("infinite", "NaN") and tensors[name].dtype == torch.int64:
                change = spoiled(10**6)
            write(path, description, with_tensor(tensors, name, change))
            refused(path)
        write(path, description, {k: t for k, t in tensors.items() if k != name})
        refused(path)
        if tensors[name].numel():
            write(path, description, with_tensor(tensors, name, spoiled(-1.0)))
            if answers_or_is_refused(path):
                assert name.startswith(("table_", "mean_weights", "root", "mass")), name
    write(path, description, {**tensors, "payload": torch.zeros(3)})
    refused(path, "missing or too many: payload")


@pytest.mark.parametrize(
    ("tensor", "change", "message"),
    [
        ("knots_0", lambda t: t.flip(0), "the knots of feature 0 are not increasing"),
        ("knots_2", lambda t: t + 1.0, "the knots of feature 2 are not its levels"),
        ("table_1", lambda t: t[1:], "the table of feature 1 does not fit"),
        ("mass_1", lambda t: t[1:], "the probabilities of feature 1 do not fit"),
        ("mass_1", lambda t: -t, "the probabilities of feature 1 do not fit"),
        ("eigenvalues_0", lambda t: -t, "the table of feature 0 does not fit"),
        ("columns_0", lambda t: t + 999, "columns_0 names functions that there are not"),
        ("columns_0", lambda t: t[:, 0], "columns_0 does not fit its term"),
        ("mean_weights", lambda t: t[1:], "there is not one weight for each column"),
        ("root", lambda t: t[:, 1:], "the root does not fit the columns"),
        ("variances", lambda t: t[1:], "there is not one variance for each term"),
        ("variances", lambda t: -t, "a hyperparameter is not positive"),
        ("lengthscales", lambda t: t[1:], "the lengthscales do not fit"),
        ("rough", lambda t: t - 1.0, "the variances of rough parts do not fit"),
        ("noise", lambda t: t[None], "the noise is no number"),
    ],
)
def test_errors_name_the_tensor_at_fault(
    tensor: str, change: Any, message: str, path: Path, parts: tuple[Json, Tensors]
) -> None:
    description, tensors = parts
    write(path, description, {**tensors, tensor: change(tensors[tensor].clone()).contiguous()})
    refused(path, message)


@pytest.mark.parametrize("name", ["three classes", "heteroscedastic"])
def test_every_tensor_of_a_response_is_checked(name: str, path: Path) -> None:
    description, tensors = parts_of(name)
    own = [key for key in tensors if "." in key]
    assert own
    for key in own:
        write(path, description, {k: t for k, t in tensors.items() if k != key})
        refused(path)
        for change in (lambda t: t[None], lambda t: t.float(), spoiled(float("inf"))):
            if tensors[key].numel():
                write(path, description, with_tensor(tensors, key, change))
                refused(path)


def test_damaged_bytes_are_refused_or_do_no_harm(path: Path) -> None:
    saved = model("main effects")
    saved.save(path)
    data, truth = path.read_bytes(), saved.predict(rows())
    rng, read = np.random.default_rng(0), 0
    spots = sorted(rng.choice(len(data), 150, replace=False).tolist())
    for at in spots:
        damaged = bytearray(data)
        damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            loaded = oakgp.load(path)
        except ModelFileError:
            continue
        read += 1
        np.testing.assert_array_equal(loaded.predict(rows()), truth)
    assert read < 0.1 * len(spots)
    for size in (0, 10, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        refused(path)


def test_halves_of_two_sound_files_do_not_make_a_model(path: Path) -> None:
    description, _ = parts_of("orders up to 3")
    _, tensors = parts_of("main effects")
    write(path, description, tensors)
    refused(path)


def test_no_code_is_in_a_file(path: Path) -> None:
    model("orders up to 3").save(path)
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["model.json", "tensors.safetensors"]
