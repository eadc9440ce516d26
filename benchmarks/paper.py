"""The paper's printed tables as columns beside ours (Lu et al. 2022, appendix).

Its classification figures were obtained with the row number as a feature, so they stand beside the
``leaking`` sets only; its ``boston`` was misread, so that stands beside ``boston_paperparse``.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

FILES = {
    ("regression", "rmse"): "regression_rmse.csv",
    ("regression", "loglik"): "regression_loglik.csv",
    ("leaking", "accuracy"): "classification_accuracy.csv",
    ("leaking", "loglik"): "classification_loglik.csv",
}
WIDTH = 10  # of the printed names, which are cut off there


def printed(folder: Path) -> dict[tuple[str, str, str], dict[str, float]]:
    """Return (family, metric, printed name) -> method -> mean."""
    tables: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for (family, metric), file in FILES.items():
        with (folder / file).open() as rows:
            for row in csv.DictReader(rows):
                tables[family, metric, row["dataset"]][row["method"]] = float(row["mean"])
    return tables


def printed_name(family: str, name: str) -> str | None:
    """Return what the paper calls a set, or None where the comparison would not hold."""
    if family == "regression":
        if name == "boston":
            return None
        name = "boston" if name == "boston_paperparse" else name
    return name[:WIDTH]


def with_paper(records: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Return the records and, for each of their runs, the paper's means over its ten splits."""
    tables = printed(folder)
    extra = []
    for name, split in sorted({(r["set"], r["split"]) for r in records}):
        family, _, short = name.partition("/")
        label = printed_name(family, short)
        by_method: dict[str, dict[str, float]] = defaultdict(dict)
        for (table_family, metric, printed_as), methods in tables.items():
            if table_family == family and printed_as == label:
                for method, mean in methods.items():
                    by_method[method][metric] = mean
        for method, means in by_method.items():
            extra.append({"set": name, "split": split, "model": f"{method} (paper)", **means})
    return records + extra
