"""Changes on purpose, and the report: what estimators offer besides prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Self

from oakgp.model import Model
from oakgp.table import Table


class Editable:
    """Edits and reports of fitted estimators; not for use by itself."""

    def _fitted(self) -> Model:
        """Return the fitted model."""
        raise NotImplementedError

    def edit(
        self,
        *,
        drop: Sequence[Any] = (),
        without: Sequence[Any] = (),
        scale: Mapping[Any, float] | None = None,
        monotone: Mapping[Any, str] | None = None,
        convex: Mapping[Any, str] | None = None,
        interactions: bool = True,
        reason: str = "",
        X_test: Any = None,
        y_test: Any = None,
        **given: Any,
    ) -> Self:
        """Return a copy some of whose components are changed on purpose.

        All that comes later knows of the change: predictions, bands, Sobol indices, plots,
        reports and files, where it is recorded (see `edits_`).

        Parameters
        ----------
        drop : sequence of terms, default=()
            Terms to set to 0.
        without : sequence of str or int, default=()
            Features to take out: all terms that contain them are set to 0.
        scale : mapping, optional
            Terms with what to multiply them by: ``{"age": 0.5}``.
        monotone : mapping, optional
            Features in which the function is to be ``"increasing"`` or ``"decreasing"``, whatever
            the others: the main effect and all pairs with the feature are projected together, draw
            by draw, so that bands survive.
        convex : mapping, optional
            Features whose main effect is to be ``"convex"`` or ``"concave"``, likewise.
        interactions : bool, default=True
            False makes the main effect of a ``monotone`` feature so and leaves its pairs alone.
        reason : str, default=""
            Why, for the record.
        X_test, y_test : table and array, optional
            Held-out rows, to say what the change costs.
        **given : array
            ``exposure=`` or ``offset=`` of these rows.

        Returns
        -------
        estimator
            A fitted copy; this one stays as it is.
        """
        from oakgp.edits.estimator import edit_estimator

        return edit_estimator(
            self,
            X_test,
            y_test,
            given,
            drop=drop,
            without=without,
            scale=scale,
            monotone=monotone,
            convex=convex,
            interactions=interactions,
            reason=reason,
        )

    @property
    def edits_(self) -> Table:
        """What was changed by hand, in order, and what it cost on held-out rows."""
        from oakgp.edits.estimator import edits_table

        return edits_table(self._fitted())

    def report(
        self, path: str | PathLike[str], X_test: Any = None, y_test: Any = None, **options: Any
    ) -> Path:
        """Write one offline HTML file on the model; see `oakgp.report.write_report`.

        It says what the model is and how good, shows every component, and lets rows be questioned.
        Rows of ``X_test`` become part of the file.
        """
        from oakgp.report import write_report

        return write_report(self, path, X_test, y_test, **options)
