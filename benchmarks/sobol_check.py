"""Sobol indices by SALib from the fitted mean, beside the closed form: a check by other hands.

    pip install SALib && python -m benchmarks.sobol_check

Saltelli's sampling needs independent inputs, so the model has a uniform measure and no flow, and
the function is the one of Ishigami, whose indices are known as well.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benchmarks.render import Rows, markdown
from oakgp import OAKRegressor

PI = np.pi
A, B = 7.0, 0.1
NAMES = ("x0", "x1", "x2")


def ishigami(x: Any) -> Any:
    """Return sin x1 + A sin^2 x2 + B x3^4 sin x1."""
    return np.sin(x[:, 0]) + A * np.sin(x[:, 1]) ** 2 + B * x[:, 2] ** 4 * np.sin(x[:, 0])


def known() -> dict[str, tuple[float, float]]:
    """Return first-order and total indices of the function itself."""
    first = 0.5 * (1 + B * PI**4 / 5) ** 2
    second, both = A**2 / 8, B**2 * PI**8 * (1 / 18 - 1 / 50)
    variance = first + second + both
    return {
        "x0": (first / variance, (first + both) / variance),
        "x1": (second / variance, second / variance),
        "x2": (0.0, both / variance),
    }


def compare(rows: int = 600, samples: int = 4096) -> Rows:
    """Return the table of indices: closed form, SALib on the mean, the function's own."""
    from SALib.analyze import sobol as analysis
    from SALib.sample import sobol as sampling

    rng = np.random.default_rng(0)
    X = rng.uniform(-PI, PI, (rows, 3))
    model = OAKRegressor(measure="uniform", flow="none", max_order=3).fit(X, ishigami(X))
    # The measure is uniform over the range of the training rows.
    box = {
        "num_vars": 3,
        "names": list(NAMES),
        "bounds": list(zip(X.min(0), X.max(0), strict=True)),
    }
    found = analysis.analyze(box, model.predict(sampling.sample(box, samples)))
    table = model.sobol_.features
    ours = {str(row["feature"]): row for row in table.rows()}
    result: Rows = [["feature", "first: closed form", "SALib", "function", "total: closed form"]]
    result[0] += ["SALib", "function"]
    for i, name in enumerate(NAMES):
        row, truth = ours[name], known()[name]
        numbers = [row["first_order"], found["S1"][i], truth[0]]
        numbers += [row["total"], found["ST"][i], truth[1]]
        result.append([name, *(f"{value:.4f}" for value in numbers)])
    return result


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(markdown(compare()))


if __name__ == "__main__":
    main()
