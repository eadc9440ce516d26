"""Map over parts and reduce, on the workers of a Dask cluster."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from oakgp.progress import step


def map_reduce(
    client: Any,
    parts: Sequence[Any],
    function: Callable[..., Any],
    combine: Callable[[list[Any]], Any],
    *,
    shared: Sequence[Any] = (),
    fan_in: int = 8,
    rows: Callable[[Any], int] | None = None,
    total: int | None = None,
    name: str = "pass",
    advance: Callable[[float], None] | None = None,
) -> Any:
    """Apply a function to every part where it lies, and combine the results in a fixed tree.

    The tree depends on the number of parts alone. So the result is the same, to the bit, whichever
    workers there are and whichever of them are lost on the way: a lost worker costs the
    recomputation of what it had done.

    Parameters
    ----------
    client : dask.distributed.Client
        Of the cluster.
    parts
        What the function is applied to: objects that can be sent, or `dask.delayed.Delayed`.
    function
        Called as ``function(part, *shared)``.
    combine
        From a list of up to ``fan_in`` results, in the order of their parts, to one.
    shared
        What all calls need; sent once.
    fan_in
        Results that are combined at a time.
    rows
        From a result of the function to the rows it stands for, to report progress in rows
        instead of parts.
    total
        Rows of all parts, where known.
    name
        Name of the step for whoever listens to its progress.
    advance
        Called with what is done, in place of a step of its own.
    """
    dask = import_dask()
    if not parts:
        raise ValueError("there is no part to work on")
    if fan_in < 2:
        raise ValueError(f"fan_in={fan_in}: give a whole number of at least 2")
    topic = f"oakgp-{uuid.uuid4().hex}"
    constants = [dask.delayed(_same, pure=False)(value) for value in shared]
    call = dask.delayed(_call, pure=False)
    join = dask.delayed(_join, pure=False)
    level = [call(function, part, rows, topic, *constants) for part in parts]
    while len(level) > 1 or level[0].key.startswith("_call"):
        groups = [level[i : i + fan_in] for i in range(0, len(level), fan_in)]
        level = [join(combine, group) for group in groups]
    if advance is not None:
        return _result(client, level[0], topic, advance)
    with step(name, total if rows else len(parts), "rows" if rows else "parts") as progress:
        return _result(client, level[0], topic, progress.advance)


def _result(client: Any, task: Any, topic: str, advance: Callable[[float], None]) -> Any:
    """Compute a task; tell what its parts report meanwhile."""
    client.subscribe_topic(topic, lambda event: advance(event[1]))
    future = client.compute(task)
    try:
        return future.result()
    finally:
        future.cancel()
        client.unsubscribe_topic(topic)


def import_dask() -> Any:
    """Return dask, with what is needed of it, or say how to install it."""
    try:
        import dask

        import distributed  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            'Work on a cluster needs Dask: pip install "oakgp[dask]"'
        ) from error
    return dask


def _same(value: Any) -> Any:
    return value


def _call(function: Any, part: Any, rows: Any, topic: str, *shared: Any) -> Any:
    from distributed import get_worker

    result = function(part, *shared)
    with suppress(ValueError):  # not on a worker: nobody listens
        get_worker().log_event(topic, 1 if rows is None else rows(result))
    return result


def _join(combine: Callable[[list[Any]], Any], results: list[Any]) -> Any:
    return combine(results)
