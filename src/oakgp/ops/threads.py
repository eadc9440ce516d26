"""A small thread pool for compiled kernels that release the interpreter lock.

Compiled loops run on plain threads instead of numba's own parallel layer: that layer is either not
safe to enter from two threads at once or does not survive ``fork``, and both happen in the hands
of users (joblib, Dask, web servers).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import Lock

import torch
from threadpoolctl import ThreadpoolController

_FEW_ROWS = 800  # matrices up to this size are factorised faster by one thread than by several

_lock = Lock()
_pool: ThreadPoolExecutor | None = None
_pool_key: tuple[int, int] = (0, 0)
_users = 0  # of one_torch_thread, at this moment
_before = 1  # torch's number of threads outside it


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch compute on one thread for a while; `run_chunks` goes on with as many as before.

    For small matrices, whose factorisations take less time than threads take to meet. Torch's idle
    threads spin, so on a busy machine they cost several times what they save.
    """
    global _users, _before
    with _lock:
        if _users == 0:
            _before = torch.get_num_threads()
            torch.set_num_threads(1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                torch.set_num_threads(_before)


def threads_for(n: int) -> AbstractContextManager[None]:
    """Return `one_torch_thread` for work on matrices of n rows if that is faster, else nothing."""
    return one_torch_thread() if n <= _FEW_ROWS else nullcontext()


@cache
def _blas() -> ThreadpoolController:
    """Return scipy's BLAS; finding it takes some milliseconds."""
    return ThreadpoolController().select(internal_api="openblas")


def one_blas_thread() -> AbstractContextManager[None]:
    """Let scipy's BLAS compute on one thread for a while: its threads spin in others' way."""
    limit: AbstractContextManager[None] = _blas().limit(limits=1)
    return limit


def run_chunks(task: Callable[[int], None], n_chunks: int) -> None:
    """Run ``task(0) .. task(n_chunks - 1)``, on as many threads as torch uses.

    The chunks, and so every sum taken over them, do not depend on the number of threads. The
    calling thread works along with the pool's: the next free thread takes the next chunk.
    """
    workers = min(_before if _users else torch.get_num_threads(), n_chunks)
    if workers <= 1:
        for chunk in range(n_chunks):
            task(chunk)
        return
    queue = iter(range(n_chunks))  # its next() is atomic: one chunk to one thread

    def work() -> None:
        for chunk in queue:
            task(chunk)

    futures = [_executor(workers - 1).submit(work) for _ in range(workers - 1)]
    try:
        work()
    finally:
        wait(futures)  # the output arrays are in use until every thread has stopped
    for future in futures:
        future.result()


def _executor(workers: int) -> ThreadPoolExecutor:
    global _pool, _pool_key
    key = (os.getpid(), workers)  # a forked child has no threads: it makes its own pool
    with _lock:
        if _pool is None or _pool_key != key:
            _pool = ThreadPoolExecutor(workers, thread_name_prefix="oakgp")
            _pool_key = key
        return _pool
