"""Data sets by family, and the suites that name several of them.

A set is called ``family/set``. Within a suite the last part will do.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.data import baseline, regression
from benchmarks.data.base import Dataset, Family, Split, Task
from benchmarks.data.baseline import Baseline
from benchmarks.data.bundled import Bundled, OpenML
from benchmarks.data.classification import Classification, Leaking
from benchmarks.data.regression import Regression
from benchmarks.data.tables import Churn, Claims, Mixed, Susy

__all__ = ["FAMILIES", "SUITES", "Dataset", "Family", "Split", "Task", "load_split", "resolve"]

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Regression(),
        Classification(),
        Leaking(),
        Baseline(),
        Churn(),
        Susy(),
        Mixed(),
        Claims(),
        Bundled(),
        OpenML(),
    )
}


def _all_of(family: str) -> tuple[str, ...]:
    return tuple(f"{family}/{name}" for name in FAMILIES[family].sets())


def _some(family: str, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{family}/{name}" for name in names)


SUITES: dict[str, tuple[str, ...]] = {
    "regression": _some("regression", regression.SMALL + regression.LARGE),
    "regression-small": _some("regression", regression.SMALL),
    "regression-all": _all_of("regression"),
    "baseline-regression": _some("baseline", baseline.REGRESSION),
    "baseline-classification": _some("baseline", baseline.CLASSIFICATION),
    "classification": _all_of("classification"),
    "classification-leaking": _all_of("leaking"),
    "churn": _all_of("churn"),
    "susy": _all_of("susy"),
    "mixed": _all_of("mixed"),
    "counts": ("counts/fremtpl2freq_50k",),
    "counts-all": ("counts/fremtpl2freq",),
    "multiclass": _some("bundled", ("iris", "wine", "digits")),
    "bundled": _all_of("bundled"),
}


def resolve(suite: str | None, sets: str | None) -> list[str]:
    """Return the sets that ``--suite`` and ``--sets`` stand for, as ``family/set``."""
    if suite is not None and suite not in SUITES:
        raise ValueError(f"there is no suite {suite!r}; there are {', '.join(SUITES)}")
    if not sets:
        if suite is None:
            raise ValueError("say --suite, --sets or both")
        return list(SUITES[suite])
    known = [name for family in FAMILIES for name in _all_of(family)]
    if suite is not None:  # a suite's own sets come first, then its families' others
        families = {name.partition("/")[0] for name in SUITES[suite]}
        known = [*SUITES[suite], *(n for f in families for n in _all_of(f))]
    found = []
    for name in sets.split(","):
        if name.startswith("openml/"):
            found.append(name)
            continue
        matches = list(dict.fromkeys(k for k in known if name in (k, k.partition("/")[2])))
        if not matches:
            raise ValueError(f"there is no set {name!r}; `list` says which there are")
        if len(matches) > 1:
            raise ValueError(f"{name!r} may be {' or '.join(matches)}: name the family too")
        found += matches
    return found


def load_split(folder: Path, name: str, number: int, inner: bool = False) -> Split:
    """Return a split of a set called ``family/set``."""
    family, _, short = name.partition("/")
    return FAMILIES[family].split(folder, short, number, inner)
