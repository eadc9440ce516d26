"""Speed and error of compiled tables: means and bands of 10 main effects and 10 pairs, one core.

Run as ``python -m benchmarks.predict``. Times are CPU times of one thread, the best of several
passes over a million rows (bands: 100 thousand); errors are against the model itself at rows of
which a quarter lie outside the training range.
"""

from __future__ import annotations

import time
from itertools import combinations

import numpy as np
import torch

from oakgp import OAKRegressor

N, D, ROWS = 1000, 10, 1_000_000


def data(n: int, seed: int, spread: float = 1.0) -> np.ndarray:
    X = spread * np.random.default_rng(seed).normal(size=(n, D))
    X[:, 1] = np.exp(X[:, 1])
    return X


def response(X: np.ndarray) -> np.ndarray:
    y = np.sin(2 * X[:, 0]) + np.log(X[:, 1]) + X[:, 2] * X[:, 3] + np.cos(X[:, 4]) * X[:, 5]
    y = y + 0.3 * X[:, 6] ** 2 + 0.2 * X[:, 7] * X[:, 8] + 0.1 * X[:, 9]
    return y + 0.1 * np.random.default_rng(9).normal(size=len(y))


def best(function, passes: int = 5) -> float:
    times = []
    for _ in range(passes):
        begin = time.process_time()
        function()
        times.append(time.process_time() - begin)
    return min(times)


def main() -> None:
    torch.set_num_threads(1)
    X = data(N, 0)
    estimator = OAKRegressor(max_order=2, flow="normal_score", max_iter=40).fit(X, response(X))
    model = estimator.model_
    ranked = [u for u in estimator._ranking(60).terms if len(u) == 2]
    pairs = [*ranked, *(u for u in combinations(range(D), 2) if u not in ranked)][:10]
    terms = [*((i,) for i in range(D)), *pairs]
    begin = time.process_time()
    tables = estimator.compile(terms=terms)
    compile_seconds = time.process_time() - begin
    short = model.keep(terms)
    Z = data(20_000, 1, 1.3)
    encoded = tables.encode(Z)
    mean, sd = short.moments(Z, noisy=False)
    found, band = tables.link(Z, return_std=True)
    low, high = X.min(axis=0), X.max(axis=0)
    inside = ((low <= Z) & (high >= Z)).all(axis=1)
    million = np.ascontiguousarray(np.tile(encoded, (ROWS // len(Z), 1)))
    tenth = million[: ROWS // 10].copy()
    function = tables.functions[0]
    begin = time.process_time()
    short.mean(Z[:5000])
    exact = 5000 / (time.process_time() - begin)
    relative = np.abs(band / sd - 1.0)
    print(f"terms {len(function.sum.tables)} tables, left out {len(function.left_out)}")
    print(f"compile {compile_seconds:.1f} s CPU")
    print(f"mean  {ROWS / best(lambda: function.sum(million)) / 1e6:.2f} million rows/s")
    print(f"bands {len(tenth) / best(lambda: function.bands.variance(tenth)) / 1e3:.0f} th. rows/s")
    print(f"model itself, mean {exact / 1e3:.1f} thousand rows/s")
    print(f"bound {tables.bound:.2e}, worst seen {np.abs(found - mean).max() / model.scale:.2e}")
    print(
        f"sd within range: worst {np.abs(band - sd)[inside].max() / model.scale:.3f} "
        f"(stated {tables.band_bound:.3f}) of target sd; relative median "
        f"{np.median(relative[inside]):.3f}, 90% {np.quantile(relative[inside], 0.9):.3f}; "
        f"outside: median {np.median(relative[~inside]):.3f}"
    )


if __name__ == "__main__":
    main()
