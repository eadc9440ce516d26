"""Splits: rows add up, nothing is shared, inner ones stay inside the training rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.data import FAMILIES, SUITES, load_split, resolve
from benchmarks.data.base import fold_of_five, shuffled_tenth

NOWHERE = Path("nowhere")


@pytest.fixture
def folder(tmp_path, rng):
    """A folder with a set of each layout the families read."""
    for name in ("regression", "classification", "baseline", "churn", "extra"):
        (tmp_path / name).mkdir()
    numbers = pd.DataFrame(rng.standard_normal((40, 3)), columns=["a", "b", "c"])
    numbers.assign(y=np.arange(40.0)).to_csv(tmp_path / "regression" / "yacht.csv.gz", index=False)
    binary = numbers.assign(y=np.arange(40) % 2)
    binary.to_csv(tmp_path / "classification" / "blood.csv.gz", index=False)
    two = pd.concat([binary] * 14).iloc[:556]
    two.to_csv(tmp_path / "classification" / "monks-1.csv.gz", index=False)
    claims = numbers.assign(IDpol=range(40), Exposure=0.5, ClaimNb=np.arange(40) % 3)
    claims.to_csv(tmp_path / "extra" / "fremtpl2freq.csv.gz", index=False)
    return tmp_path


def test_the_papers_splits():
    order = np.arange(20)
    np.random.RandomState(3).shuffle(order)
    train, test = shuffled_tenth(20, 3)
    np.testing.assert_array_equal(np.concatenate([train, test]), order)
    assert len(test) == 2
    folds = [fold_of_five(23, k)[1] for k in range(5)]
    assert sorted(np.concatenate(folds)) == list(range(23))


def test_inner_splits_never_hold_a_test_row(folder):
    outer = load_split(folder, "regression/yacht", 1)
    inner = load_split(folder, "regression/yacht", 1, inner=True)
    held = {*inner.X.index, *inner.X_test.index}
    assert held == set(outer.X.index)
    assert not held & set(outer.X_test.index)
    assert len(inner.y_test) == pytest.approx(0.2 * len(outer.y), abs=1)


def test_the_response_is_raw_and_its_unit_apart(folder):
    split = load_split(folder, "regression/yacht", 0)
    assert sorted([*split.y, *split.y_test]) == list(range(40))
    assert split.unit == pytest.approx(np.arange(40.0).std())


def test_the_row_number_is_in_the_leaking_family_only(folder):
    assert "row_number" not in load_split(folder, "classification/blood", 0).X
    split = load_split(folder, "leaking/blood", 0)
    both = pd.concat([split.X, split.X_test]).sort_index()
    np.testing.assert_array_equal(both["row_number"], np.arange(1, 41))
    twice = load_split(folder, "leaking/monks-1", 0)
    both = pd.concat([twice.X, twice.X_test])
    assert both["row_number"].max() == 432  # two files, each numbered from 1


def test_counts_have_their_exposure_apart(folder):
    split = load_split(folder, "counts/fremtpl2freq", 0)
    assert split.task == "count"
    assert set(split.X) == {"a", "b", "c"}
    assert (split.exposure == 0.5).all()


def test_a_missing_folder_says_what_to_do():
    with pytest.raises(FileNotFoundError, match="--suite bundled"):
        load_split(NOWHERE, "regression/yacht", 0)


def test_every_suite_names_sets_that_exist():
    for sets in SUITES.values():
        for name in sets:
            family, _, short = name.partition("/")
            assert short in FAMILIES[family].sets()


def test_names_resolve():
    assert resolve("regression", "airfoil,protein") == ["regression/airfoil", "regression/protein"]
    assert resolve("multiclass", "wine") == ["bundled/wine"]
    assert resolve(None, "openml/31") == ["openml/31"]
    with pytest.raises(ValueError, match="name the family too"):
        resolve(None, "wine")
    with pytest.raises(ValueError, match="no set 'nothing'"):
        resolve("regression", "nothing")
    with pytest.raises(ValueError, match="--suite, --sets or both"):
        resolve(None, None)


def test_bundled_sets_need_no_folder():
    split = load_split(NOWHERE, "bundled/wine", 4)
    assert split.task == "multiclass"
    assert split.n_classes == 3
    assert load_split(NOWHERE, "bundled/diabetes", 0).task == "regression"
