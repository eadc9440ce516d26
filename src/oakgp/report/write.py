"""Write the report of a fitted estimator."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from oakgp.checks import check_count
from oakgp.report.collect import collect
from oakgp.report.page import render


def write_report(
    estimator: Any,
    path: str | PathLike[str],
    X_test: Any = None,
    y_test: Any = None,
    *,
    title: str | None = None,
    n_rows: int = 24,
    max_interactions: int = 30,
    rows: Sequence[int] | None = None,
    exposure: Any = None,
    offset: Any = None,
    random_state: int = 0,
) -> Path:
    """Write one HTML file that needs no server and no network.

    Parameters
    ----------
    estimator : fitted estimator
        An `oakgp.OAKRegressor` or `oakgp.OAKClassifier`.
    path : path
        Where to write; an existing file is replaced once the new one is complete.
    X_test, y_test : table and array, optional
        Rows that the model has not seen. With both, the report says how good the predictions are;
        with ``X_test`` alone it still has rows to question. Their values are in the file.
    title : str, optional
        Heading of the page.
    n_rows : int, default=24
        How many rows can be questioned: those with the largest errors, some over the range of
        predictions, and random ones.
    max_interactions : int, default=30
        How many interactions are shown, largest first. Main effects all are.
    rows : sequence of int, optional
        Numbers of the rows of ``X_test`` to question, in place of a choice.
    exposure, offset : array, optional
        Of the test rows, as in `OAKRegressor.predict`.
    random_state : int, default=0
        Seed of the random rows.

    Returns
    -------
    pathlib.Path
        The file.
    """
    check_is_fitted(estimator, "model_")
    check_count("n_rows", n_rows, 1)
    check_count("max_interactions", max_interactions, 0)
    if y_test is not None and X_test is None:
        raise ValueError("y_test= needs X_test=: responses of rows that are not there")
    if rows is not None and X_test is None:
        raise ValueError("rows= needs X_test=: numbers of rows that are not there")
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent}: there is no such directory")
    found = collect(
        estimator,
        X_test,
        y_test,
        title=title,
        n_rows=n_rows,
        max_interactions=max_interactions,
        rows=rows,
        given={"exposure": exposure, "offset": offset},
        seed=random_state,
    )
    text = render(found)
    partial = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        with open(partial, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return target
