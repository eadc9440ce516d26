"""Who listens to a fit: logs, bars, scikit-learn's callbacks; and nobody by default."""

from __future__ import annotations

import io
import logging

import numpy as np
import pytest

from oakgp import OAKRegressor
from oakgp.progress import Event, listening, step
from oakgp.watching import bars, lines, watching

X = np.random.default_rng(0).normal(size=(30, 2))
Y = X[:, 0] + X[:, 1] ** 2


def quick(**options: object) -> OAKRegressor:
    return OAKRegressor(**{"max_iter": 4, "max_order": 2, "flow": "normal_score", **options})


def test_a_fit_reports_its_steps() -> None:
    events: list[Event] = []
    with listening(events.append):
        model = quick(flow="auto").fit(X, Y)
        model.sobol_  # noqa: B018
    names = [event.path for event in events if event.state == "begin"]
    assert ("fitting", "learning hyperparameters", "optimising") in names
    assert ("fitting", "trying a transform", "optimising") in names
    assert ("fitting", "conditioning on all rows") in names
    assert ("Sobol indices",) in names
    iterations = [event for event in events if event.state == "advance"]
    assert all(event.unit == "iterations" and event.total for event in iterations)
    assert all("objective" in event.detail for event in iterations)


def test_silent_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    quick().fit(X, Y)
    assert capfd.readouterr() == ("", "")


def test_lines_go_to_standard_error_when_nobody_logs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("oakgp"), "propagate", False)
    quick(verbose=1).fit(X, Y)
    text = capsys.readouterr().err
    assert "oakgp: fitting ..." in text
    assert "oakgp: fitting: learning hyperparameters: done in" in text
    assert logging.getLogger("oakgp").handlers == []


def test_lines_go_to_the_log_when_there_is_one(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "oakgp"):
        quick(verbose=1).fit(X, Y)
    assert any("learning hyperparameters" in record.message for record in caplog.records)


def test_long_steps_say_where_they_are(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oakgp.watching._EVERY", 0.0)
    with caplog.at_level(logging.INFO, "oakgp"), lines(), step("work", 10, "rows") as progress:
        progress.advance(4, "half way")
    assert any(
        "work: 4 of 10 rows" in r.message and "half way" in r.message for r in caplog.records
    )


def test_bars_are_drawn_and_taken_away() -> None:
    console = pytest.importorskip("rich.console").Console(
        file=io.StringIO(), force_terminal=True, width=100
    )
    with bars(console), step("outer", 2, "parts") as outer:
        with step("inner [red]", 4, "rows") as inner:
            inner.advance(2, "detail")
        outer.advance(1)
    text = console.file.getvalue()
    assert "outer" in text
    assert "inner [red]" in text


def test_a_wrong_verbose_is_refused() -> None:
    with pytest.raises(ValueError, match="verbose=3"), watching(3):
        pass
    with pytest.raises(ValueError, match="verbose='yes'"):
        quick(verbose="yes").fit(X, Y)


class Recorder:
    """A callback as scikit-learn's protocol has it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def setup(self, estimator: object, context: object) -> None:
        self.calls.append(("setup", ""))

    def on_fit_task_begin(self, estimator: object, context: object) -> None:
        self.calls.append(("begin", context.task_name))  # type: ignore[attr-defined]

    def on_fit_task_end(self, estimator: object, context: object) -> None:
        self.calls.append(("end", context.task_name))  # type: ignore[attr-defined]

    def teardown(self, estimator: object, context: object) -> None:
        self.calls.append(("teardown", ""))


def test_callbacks_of_scikit_learn_follow_a_fit() -> None:
    pytest.importorskip("sklearn.callback")
    recorder = Recorder()
    model = quick().set_callbacks(recorder)
    model.fit(X, Y)
    names = [name for kind, name in recorder.calls if kind == "begin"]
    assert names[:2] == ["fit", "fitting"]
    assert "learning hyperparameters" in names
    assert "iterations" in names
    assert recorder.calls[0] == ("setup", "")
    assert recorder.calls[-1] == ("teardown", "")
    assert sorted(n for k, n in recorder.calls if k == "begin") == sorted(
        n for k, n in recorder.calls if k == "end"
    )


def test_callbacks_are_torn_down_after_a_failure() -> None:
    pytest.importorskip("sklearn.callback")
    recorder = Recorder()
    with pytest.raises(ValueError, match="engine"):
        quick(engine="none").set_callbacks(recorder).fit(X, Y)
    assert ("teardown", "") in recorder.calls or recorder.calls == []


def test_the_progress_bar_of_scikit_learn_works() -> None:
    callback = pytest.importorskip("sklearn.callback")
    pytest.importorskip("rich")
    quick().set_callbacks(callback.ProgressBar()).fit(X, Y)
