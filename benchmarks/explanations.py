"""Time of explanations: terms of many rows, Shapley values, bands of all components.

    python -m benchmarks.explanations            # 500 anchors
    python -m benchmarks.explanations --anchors 200 1000

Prints a line of JSON for each number of anchors. Models are fitted briefly to made-up tables: only
their size matters here. Each figure is that of a second call, the compiled loops being loaded.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import torch

from benchmarks.records import circumstances, timed
from oakgp import OAKRegressor
from oakgp.model import Model

_ROWS = 10_000
_GRID = 200


def fitted(features: int, order: int, anchors: int) -> OAKRegressor:
    """A model whose every main effect and some interactions count."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((anchors, features))
    waves = np.sin(x * np.linspace(0.5, 1.5, features))
    y = waves.sum(axis=1) + 0.5 * (waves[:, :-1] * waves[:, 1:]).sum(axis=1)
    model = OAKRegressor(engine="exact", max_order=order, flow="none", max_iter=3)
    return model.fit(x, y + 0.1 * rng.standard_normal(anchors))


def bands(model: Model, side: int) -> None:
    """Mean and deviation of 20 main effects and 30 pairs, one by one, as plots ask for them.

    Pairs at as many points as main effects, or on a square grid of some points a side.
    """
    d = len(model.columns)
    grid = torch.linspace(-2.5, 2.5, _GRID, dtype=torch.float64)
    for i in range(d):
        x = torch.zeros((d, _GRID), dtype=torch.float64)
        x[i] = grid
        model.posterior.component_moments(x, [(i,)])
    along = torch.linspace(-2.5, 2.5, side, dtype=torch.float64)
    a, b = (grid, grid.flip(0)) if side == 0 else map(torch.flatten, _mesh(along))
    for i, j in list(combinations(range(d), 2))[:30]:
        x = torch.zeros((d, len(a)), dtype=torch.float64)
        x[i], x[j] = a, b
        model.posterior.component_moments(x, [(i, j)])


def _mesh(along: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.meshgrid(along, along, indexing="ij")


def second(call: Callable[[], Any]) -> dict[str, float]:
    """Time a call that has been made once."""
    call()
    _, time = timed(call)
    return {"wall_s": time.wall, "cpu_s": time.cpu}


def measure(anchors: int) -> dict[str, Any]:
    """All figures for one number of anchors."""
    wide, deep = fitted(20, 2, anchors), fitted(8, 8, anchors)
    rng = np.random.default_rng(1)
    rows, few = rng.standard_normal((_ROWS, 20)), rng.standard_normal((1000, 8))
    names = wide.feature_names_in_ if hasattr(wide, "feature_names_in_") else range(20)
    terms = [*[(i,) for i in names], *list(combinations(names, 2))[:30]]
    return {
        "anchors": anchors,
        "explain_10000_rows_50_terms": second(lambda: wide.explain(rows, terms[:50]).terms),
        "shapley_1000_rows_8_features_all_orders": second(lambda: deep.explain(few).features),
        "bands_20_mains_30_pairs_200_points": second(lambda: bands(wide.model_, 0)),
        "bands_20_mains_30_pairs_40_by_40": second(lambda: bands(wide.model_, 40)),
        "simultaneous_bands_and_panels": second(
            lambda: wide.plot_components(terms=[(i,) for i in range(9)])
        ),
        **circumstances(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--anchors", type=int, nargs="+", default=[500])
    for anchors in parser.parse_args().anchors:
        print(json.dumps(measure(anchors)))


if __name__ == "__main__":
    main()
