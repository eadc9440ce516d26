"""How long steps report where they are: one interface for bars, logs and callbacks.

Code that takes a while says so and knows nothing of who listens:

    with step("learning", total=120, unit="iterations") as progress:
        for _ in range(120):
            ...
            progress.advance(1)

Who wants to know listens: ``with listening(callback): model.fit(X, y)``. Without a listener nothing
happens, and nothing is ever printed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Event:
    """Where a step is.

    Parameters
    ----------
    step
        Name of the step, in words: ``"learning hyperparameters"``.
    path
        Names of the steps that it is part of, outermost first, itself last.
    state
        ``"begin"``, ``"advance"`` or ``"end"``; ``"end"`` comes after a failure too.
    done, total
        Units done, and of how many; None where the number is not known.
    unit
        What is counted: ``"rows"``, ``"iterations"``.
    detail
        What else there is to say: the current value of the objective, a file's name.
    seconds
        Time since the step began.
    """

    step: str
    path: tuple[str, ...]
    state: Literal["begin", "advance", "end"]
    done: float
    total: float | None
    unit: str
    detail: str
    seconds: float


Callback = Callable[[Event], None]

_listeners: ContextVar[tuple[Callback, ...]] = ContextVar("oakgp_listeners", default=())
_path: ContextVar[tuple[str, ...]] = ContextVar("oakgp_steps", default=())


class Step:
    """A step under way; made by `step`."""

    def __init__(self, path: tuple[str, ...], total: float | None, unit: str) -> None:
        self._path, self._total, self._unit = path, total, unit
        self._done, self._begin = 0.0, time.monotonic()
        self._listeners = _listeners.get()

    def advance(self, by: float = 1.0, detail: str = "") -> None:
        """Say that so many more units are done."""
        self._done += by
        self._tell("advance", detail)

    def _tell(self, state: Literal["begin", "advance", "end"], detail: str = "") -> None:
        if not self._listeners:
            return
        event = Event(
            self._path[-1],
            self._path,
            state,
            self._done,
            self._total,
            self._unit,
            detail,
            time.monotonic() - self._begin,
        )
        for callback in self._listeners:
            callback(event)


@contextmanager
def step(name: str, total: float | None = None, unit: str = "") -> Iterator[Step]:
    """Announce a step, to be advanced within the block.

    Parameters
    ----------
    name
        What is being done.
    total
        How many units it takes; None where that is not known.
    unit
        What is counted.
    """
    path = (*_path.get(), name)
    token = _path.set(path)
    progress = Step(path, total, unit)
    progress._tell("begin")
    try:
        yield progress
    finally:
        progress._tell("end")
        _path.reset(token)


@contextmanager
def listening(callback: Callback) -> Iterator[None]:
    """Have a function called with every `Event` of the steps run within the block."""
    token = _listeners.set((*_listeners.get(), callback))
    try:
        yield
    finally:
        _listeners.reset(token)
