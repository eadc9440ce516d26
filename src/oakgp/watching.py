"""Listeners of `oakgp.progress`: lines in a log, bars on a terminal, or nothing."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oakgp.progress import Event, listening

logger = logging.getLogger("oakgp")

_EVERY = 10.0  # seconds between lines on a step that takes long


class Lines:
    """Logs the beginning and the end of steps, and of long ones the middle too."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, ...], float] = {}

    def __call__(self, event: Event) -> None:
        """Log an event at level INFO, if there is something to say."""
        name = ": ".join(event.path)
        if event.state == "begin":
            self._told[event.path] = 0.0
            logger.info("%s ...", name)
        elif event.state == "end":
            self._told.pop(event.path, None)
            logger.info("%s: done in %.1f s%s", name, event.seconds, _count(event))
        elif event.seconds - self._told.get(event.path, 0.0) >= _EVERY:
            self._told[event.path] = event.seconds
            detail = f", {event.detail}" if event.detail else ""
            logger.info("%s:%s, %.0f s%s", name, _count(event), event.seconds, detail)


def _count(event: Event) -> str:
    if not event.done:
        return ""
    of = "" if event.total is None else f" of {event.total:g}"
    return f" {event.done:g}{of} {event.unit}".rstrip()


class Bars:
    """Draws a bar for each step under way with rich, on standard error; gone when it ends."""

    def __init__(self, progress: Any) -> None:
        self._progress = progress
        self._tasks: dict[tuple[str, ...], Any] = {}

    def __call__(self, event: Event) -> None:
        """Add, move or remove a bar."""
        if event.state == "begin":
            name = "  " * (len(event.path) - 1) + event.step
            self._tasks[event.path] = self._progress.add_task(name, total=event.total, detail="")
        elif event.path in self._tasks:
            task = self._tasks[event.path]
            if event.state == "end":
                self._progress.remove_task(self._tasks.pop(event.path))
            else:
                self._progress.update(task, completed=event.done, detail=event.detail)


@contextmanager
def bars(console: Any = None) -> Iterator[None]:
    """Show bars within the block."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    except ImportError as error:
        raise ImportError(
            'progress bars need the package rich: pip install "oakgp[cli]", or verbose=1 for '
            "plain lines"
        ) from error
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TimeElapsedColumn(),
        TextColumn("{task.fields[detail]}", markup=False),
    )
    shown = console or Console(stderr=True)
    with Progress(*columns, console=shown, transient=True) as progress, listening(Bars(progress)):
        yield


@contextmanager
def lines() -> Iterator[None]:
    """Log steps within the block, to standard error if nobody has set up logging."""
    handler: logging.Handler | None = None
    level = logger.level
    if not logger.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        logger.addHandler(handler)
    if not logger.isEnabledFor(logging.INFO):
        logger.setLevel(logging.INFO)
    try:
        with listening(Lines()):
            yield
    finally:
        logger.setLevel(level)
        if handler is not None:
            logger.removeHandler(handler)


@contextmanager
def watching(verbose: int) -> Iterator[None]:
    """Listen as an estimator's ``verbose=`` says: 0 not at all, 1 lines, 2 bars."""
    if verbose not in (0, 1, 2) or isinstance(verbose, float):
        raise ValueError(f"verbose={verbose!r}: give 0 (silent), 1 (lines in the log) or 2 (bars)")
    if verbose == 0:
        yield
        return
    with bars() if verbose == 2 else lines():
        yield
