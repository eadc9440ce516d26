"""The thread pool: every chunk once, errors come back, several threads, after fork."""

from __future__ import annotations

import multiprocessing
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from oakgp import ops
from oakgp.ops.layout import Kind, Layout, Points, Weights
from oakgp.ops.threads import run_chunks


@pytest.fixture
def two_threads() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def kernel(seed: int, n: int = 120) -> torch.Tensor:
    """A matrix with its gradient in one, so that both go through the pool."""
    d = 4
    x = torch.tensor(np.random.default_rng(seed).standard_normal((d, n)))
    layout = Layout((Kind.SQUARED_EXPONENTIAL,) * d, (0,) * d, (False,) * d, 3)
    ones = torch.ones(d, dtype=torch.float64)
    length = ones.clone().requires_grad_()
    weights = Weights(torch.ones(4, dtype=torch.float64), ones, length, ones[:0])
    matrix = ops.additive_kernel(layout, weights, Points(x, 0.1 * x))
    (slope,) = torch.autograd.grad(matrix.sum(), length)
    return torch.cat([matrix.detach().ravel(), slope])


@pytest.mark.parametrize("n_chunks", [0, 1, 2, 16, 100])
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_chunk_runs_once(n_chunks: int, threads: int) -> None:
    before = torch.get_num_threads()
    seen: list[int] = []
    try:
        torch.set_num_threads(threads)
        run_chunks(seen.append, n_chunks)
    finally:
        torch.set_num_threads(before)
    assert sorted(seen) == list(range(n_chunks))


@pytest.mark.usefixtures("two_threads")
def test_an_error_in_a_chunk_comes_back() -> None:
    def task(chunk: int) -> None:
        if chunk == 3:
            raise RuntimeError("chunk three")

    with pytest.raises(RuntimeError, match="chunk three"):
        run_chunks(task, 16)


@pytest.mark.usefixtures("two_threads")
def test_several_threads_may_compute_at_once() -> None:
    truth = [kernel(seed) for seed in range(8)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(kernel, [*range(8)] * 3))
    for seed, result in enumerate(results):
        assert torch.equal(result, truth[seed % 8])


def test_threads_may_change_the_number_of_threads_meanwhile() -> None:
    """The pool is replaced under the feet of a running call; its chunks still all run."""
    before = torch.get_num_threads()
    truth = kernel(1)
    stop = threading.Event()

    def meddle() -> None:
        count = 2
        while not stop.is_set():
            count = 5 - count
            torch.set_num_threads(count)
            run_chunks(lambda _: None, 4)

    thread = threading.Thread(target=meddle)
    try:
        torch.set_num_threads(2)
        thread.start()
        results = [kernel(1) for _ in range(40)]
    finally:
        stop.set()
        thread.join()
        torch.set_num_threads(before)
    assert all(torch.equal(result, truth) for result in results)


def _child(expected: list[float]) -> None:
    if kernel(2).tolist() != expected:
        raise SystemExit(3)


@pytest.mark.usefixtures("two_threads")
def test_a_forked_child_computes() -> None:
    """The parent's threads do not exist in the child: it must not wait for them."""
    expected = kernel(2).tolist()  # the parent's pool is up and running now
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_child, args=(expected,))
    with warnings.catch_warnings():
        # Python 3.12 warns of every fork of a process with threads, which is what is tested here.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    process.join(timeout=60)
    if process.is_alive():
        process.kill()
        process.join()
    assert process.exitcode == 0
