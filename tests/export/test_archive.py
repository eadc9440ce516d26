"""Model files: what is saved comes back to the bit, and a save that fails leaves no trace."""

from __future__ import annotations

import json
import os
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.random import RandomState
from sklearn.base import clone
from tests.export.models import MODELS, answers, asked, fitted, frame, model, response, rows

import oakgp
from oakgp import OAKRegressor
from oakgp.export import save
from oakgp.measures import Measure, Uniform


def same(a: Any, b: Any) -> bool:
    """Whether two answers are equal to the bit, NaN equal to NaN."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, (list, tuple)):
        return (
            type(a) is type(b)
            and len(a) == len(b)
            and all(same(x, y) for x, y in zip(a, b, strict=True))
        )
    return bool(a == b) or repr(a) == repr(b)  # NaN among the nodes of a measure


@pytest.mark.parametrize("name", MODELS)
def test_a_model_reads_back_to_the_bit(name: str, tmp_path: Path) -> None:
    saved = model(name)
    saved.save(tmp_path / "m.oakgp")
    loaded = oakgp.load(tmp_path / "m.oakgp")
    assert type(loaded) is type(saved)
    before, after = answers(saved, asked(name)), answers(loaded, asked(name))
    assert [key for key in before if not same(before[key], after[key])] == []
    assert before.keys() == after.keys()


@pytest.mark.parametrize("name", MODELS)
def test_equal_models_give_equal_files(name: str, tmp_path: Path) -> None:
    saved = model(name)
    saved.save(tmp_path / "a.oakgp")
    oakgp.load(tmp_path / "a.oakgp").save(tmp_path / "b.oakgp")
    assert (tmp_path / "a.oakgp").read_bytes() == (tmp_path / "b.oakgp").read_bytes()


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"forced and truncated"}))
def test_settings_read_back_with_their_types(name: str, tmp_path: Path) -> None:
    saved = model(name)
    saved.save(tmp_path / "m.oakgp")
    loaded = oakgp.load(tmp_path / "m.oakgp").get_params()
    assert loaded == saved.get_params()
    assert {k: type(v) for k, v in loaded.items()} == {
        k: type(v) for k, v in saved.get_params().items()
    }


def test_odd_settings_come_back_as_something_that_fits(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "random_state": RandomState(0),
        "max_iter": np.int64(2),
        "categorical_features": np.array([False, True, True, True, True]),
        "forced_terms": ({"heat", "area"},),
    }
    fitted(**settings).save(tmp_path / "m.oakgp")
    loaded = oakgp.load(tmp_path / "m.oakgp")
    assert loaded.random_state is None
    assert loaded.max_iter == 2
    assert loaded.categorical_features == [False, True, True, True, True]
    assert loaded.forced_terms == (["area", "heat"],)
    again = clone(loaded).fit(frame(), response(frame()))
    assert (0, 2) in again.model_.posterior.kernel.terms


def test_a_loaded_model_can_be_truncated_cloned_and_saved_again(tmp_path: Path) -> None:
    model("all columns").save(tmp_path / "m.oakgp")
    loaded = oakgp.load(tmp_path / "m.oakgp")
    small, truth = loaded.truncate(n_terms=1), model("all columns").truncate(n_terms=1)
    assert same(small.predict(rows()), truth.predict(rows()))
    small.save(tmp_path / "m.oakgp")
    assert same(oakgp.load(tmp_path / "m.oakgp").predict(rows()), truth.predict(rows()))
    assert not hasattr(clone(loaded), "model_")


def test_tensors_of_a_loaded_model_are_its_own(tmp_path: Path) -> None:
    model("sparse").save(tmp_path / "m.oakgp")
    posterior = oakgp.load(tmp_path / "m.oakgp").model_.posterior
    posterior.whitener.zero_()  # read-only memory would fail, or warn
    assert posterior.mean_weights.dtype == torch.float64
    assert not any(t.requires_grad for t in (posterior.whitener, posterior.features.x))


def test_the_file_is_json_and_tensors_and_holds_no_pickle(tmp_path: Path) -> None:
    model("all columns").save(tmp_path / "m.oakgp")
    with zipfile.ZipFile(tmp_path / "m.oakgp") as archive:
        assert archive.namelist() == ["model.json", "tensors.safetensors"]
        description = json.loads(archive.read("model.json"))
        assert description["format"] == "oakgp-model"
        assert description["version"] == 1
        assert description["written_by"] == oakgp.__version__
        assert description["settings"]["max_order"] == 2
        for member in archive.namelist():
            with pytest.raises((pickle.UnpicklingError, ValueError, EOFError, KeyError)):
                pickle.loads(archive.read(member))


def test_neither_saving_nor_loading_touches_pickle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("pickle was used")

    for module, names in {
        "pickle": ["dump", "dumps", "load", "loads"],
        "marshal": ["dumps", "loads"],
        "torch": ["save", "load"],
        "joblib": ["dump", "load"],
    }.items():
        for name in names:
            monkeypatch.setattr(f"{module}.{name}", refuse)
    model("all columns").save(tmp_path / "m.oakgp")
    assert oakgp.load(tmp_path / "m.oakgp").predict(rows()).shape == (9,)


@pytest.mark.parametrize("make", [str, Path, os.fspath])
def test_paths_are_texts_or_paths(make: Any, tmp_path: Path) -> None:
    path = make(tmp_path / "a model of mine")
    model("no features").save(path)
    assert oakgp.load(path).model_.columns == ()


def test_an_interrupted_save_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.oakgp"
    model("all columns").save(path)
    old = path.read_bytes()
    write = zipfile.ZipFile.writestr

    def failing(self: zipfile.ZipFile, info: zipfile.ZipInfo, data: Any) -> None:
        if "tensors" in info.filename:
            raise KeyboardInterrupt
        write(self, info, data)

    monkeypatch.setattr(zipfile.ZipFile, "writestr", failing)
    with pytest.raises(KeyboardInterrupt):
        model("sparse").save(path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_at_the_last_moment_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.oakgp"
    model("all columns").save(path)
    old = path.read_bytes()

    def failing(source: Path, target: Path) -> None:
        assert source.is_file()
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="no space left"):
        model("sparse").save(path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


def test_saving_where_nothing_can_be_saved_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere: there is no such directory"):
        model("sparse").save(tmp_path / "nowhere" / "m.oakgp")
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        model("sparse").save(tmp_path / "taken")
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


def test_an_unfitted_estimator_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not fitted"):
        OAKRegressor().save(tmp_path / "m.oakgp")
    assert list(tmp_path.iterdir()) == []


class OwnMeasure(Uniform):
    kind = "own"


class OwnEstimator(OAKRegressor):
    pass


def test_what_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    own: Measure = OwnMeasure(-2.0, 2.0)
    with pytest.raises(ValueError, match="could not be loaded again: unknown measure kind 'own'"):
        fitted(measure={"hour": own}).save(tmp_path / "m.oakgp")
    estimator = OwnEstimator(max_iter=1).fit(frame(), response(frame()))
    with pytest.raises(TypeError, match="OwnEstimator cannot be saved; these can: OAKRegressor"):
        save(estimator, tmp_path / "m.oakgp")
    odd = fitted()
    odd.random_state = object()
    with pytest.raises(TypeError, match="a setting holds <object .* cannot be saved"):
        odd.save(tmp_path / "m.oakgp")
    broken = fitted()
    broken.model_ = replace(broken.model_, center=float("nan"))
    with pytest.raises(ValueError, match="not JSON compliant"):
        broken.save(tmp_path / "m.oakgp")
    assert list(tmp_path.iterdir()) == []
