"""scikit-learn's callbacks (1.9 and later): the steps of a fit as a tree of its tasks.

Each step of `oakgp.progress` is a subtask of the step that it is part of, and each of its units a
leaf. Older versions of scikit-learn have no callbacks; then this does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

from oakgp.progress import Event, listening

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands for scikit-learn's, which this version does not have."""

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["CallbackSupportMixin", "reports_tasks", "with_callbacks"]


class Tasks:
    """Turns events into the begin and end of scikit-learn's tasks."""

    def __init__(self, estimator: Any, root: Any) -> None:
        self._estimator = estimator
        self._contexts: dict[tuple[str, ...], Any] = {(): root}

    def __call__(self, event: Event) -> None:
        """Begin or end a task; an advance is a task of its own, as quick as it was."""
        if event.state == "begin":
            parent = self._contexts.get(event.path[:-1], self._contexts[()])
            context = parent.subcontext(task_name=event.step, max_subtasks=None)
            context.call_on_fit_task_begin(estimator=self._estimator)
            self._contexts[event.path] = context
        elif event.path in self._contexts and event.state == "advance":
            leaf = self._contexts[event.path].subcontext(task_name=event.unit or "unit")
            leaf.call_on_fit_task_begin(estimator=self._estimator)
            leaf.call_on_fit_task_end(estimator=self._estimator)
        elif event.path in self._contexts:
            context = self._contexts.pop(event.path)
            context.call_on_fit_task_end(estimator=self._estimator)


@contextmanager
def _tasks(estimator: Any) -> Iterator[None]:
    has_callbacks = getattr(estimator, "_skl_callbacks", None)
    if not has_callbacks and not hasattr(estimator, "_parent_callback_ctx"):
        yield
        return
    root = estimator._init_callback_context(max_subtasks=None)
    root.call_on_fit_task_begin(estimator=estimator)
    with listening(Tasks(estimator, root)):
        yield
    root.call_on_fit_task_end(estimator=estimator)


def reports_tasks(method: F) -> F:
    """Have a method's steps reported to the callbacks that were set on its estimator."""

    @wraps(method)
    def reporting(estimator: Any, *args: Any, **kwargs: Any) -> Any:
        with _tasks(estimator):
            return method(estimator, *args, **kwargs)

    managed: F = with_callbacks(reporting)
    return managed
