"""SUSY's shape at full size: five million rows, eight features, two classes.

The real file (``--data SUSY.csv.gz``) serves those who have it. Else rows are made of the 21
thousand real ones in the data folder: drawn with replacement, each value moved by a twentieth of
its deviation, with labels drawn from the probabilities of a model fitted to the real rows. What can
be attained is then known: the score of these probabilities.

    python -m benchmarks.susy --rows 5000000 --device cuda
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import roc_auc_score

from oakgp import OAKClassifier, OAKRegressor
from oakgp.basis.layout import BasisLayout, term_columns
from oakgp.basis.passes import GramSum
from oakgp.progress import Event, listening

NAMES = [
    "lepton_1_pT",
    "lepton_1_eta",
    "lepton_1_phi",
    "lepton_2_pT",
    "lepton_2_eta",
    "lepton_2_phi",
    "missing_energy_magnitude",
    "missing_energy_phi",
]


def made_rows(folder: Path, n: int, device: str, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return rows, labels and the probabilities that these were drawn from."""
    real = pd.read_csv(folder / "susy" / "susy_low8_21k.csv.gz")
    X, y = real.iloc[:, :-1], real.iloc[:, -1].astype(int)
    model = OAKClassifier(engine="basis", device=device).fit(X, y)
    rng = np.random.default_rng(seed)
    values = X.to_numpy()[rng.integers(0, len(X), n)]
    values += 0.05 * X.to_numpy().std(axis=0) * rng.standard_normal(values.shape)
    rows = pd.DataFrame(values, columns=X.columns)
    size = 500_000
    p = np.concatenate(
        [model.predict_proba(rows.iloc[k : k + size])[:, 1] for k in range(0, n, size)]
    )
    return rows, (rng.random(n) < p).astype(int), p


def real_rows(path: Path) -> tuple[Any, Any, Any]:
    """Return the rows and labels of the real file; nobody knows the probabilities."""
    frame = pd.read_csv(path, header=None, usecols=range(9))
    return frame.iloc[:, 1:].set_axis(NAMES, axis=1), frame.iloc[:, 0].astype(int).to_numpy(), None


def gram_rate(model: Any, n: int, device: str) -> dict[str, float]:
    """Return the rate of the Gram pass and of a matrix product, in 1e12 operations a second.

    Both count 2 n F^2 operations; the pass includes making the columns.
    """
    layout = model.model_.posterior.layout
    bases = layout.bases
    pairs = [(i, j) for i in range(len(bases)) for j in range(i)]
    blocks = [term_columns(bases, (i,), 14) for i in range(len(bases))]
    blocks += [term_columns(bases, (j, i), 35, tail=0.0) for i, j in pairs]
    layout = BasisLayout(bases, tuple(blocks)).to(device)
    x = torch.randn((len(bases), n), dtype=torch.float64, device=device)
    z, w = x[0].clone(), torch.ones(n, dtype=torch.float64, device=device)
    rates = {"columns": float(layout.size)}
    for name in ("gram", "gram"):
        total = GramSum(layout)
        seconds = _timed(lambda total=total: total.add(x, z, w), device)
        rates[name] = 2.0 * n * layout.size**2 / seconds / 1e12
    size = 8192 if device == "cuda" else 2048
    a = torch.randn((size, size), dtype=torch.float64, device=device)
    a @ a
    rates["dgemm"] = 2.0 * size**3 / min(_timed(lambda: a @ a, device) for _ in range(5)) / 1e12
    rates["share"] = rates["gram"] / rates["dgemm"]
    return rates


def _timed(task: Any, device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    task()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="the real file SUSY.csv.gz")
    parser.add_argument("--folder", type=Path, default=Path("../shared/data"))
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--gram-rows", type=int, default=0, help="rows for the rate of a pass")
    options = parser.parse_args()
    if options.data is not None:
        X, y, p = real_rows(options.data)
        held = 500_000
    else:
        X, y, p = made_rows(options.folder, options.rows, options.device)
        held = max(1, options.rows // 10)
    cut = len(y) - held
    ends: list[tuple[str, float]] = []

    def note(event: Event) -> None:
        if event.state == "end":
            ends.append((" / ".join(event.path), round(event.seconds, 2)))

    found: dict[str, Any] = {"rows": cut, "device": options.device}
    for name, estimator, target in (
        ("classifier", OAKClassifier(device=options.device), y),
        ("regressor", OAKRegressor(engine="basis", device=options.device), y.astype(float)),
    ):
        ends.clear()
        wall, cpu = time.perf_counter(), time.process_time()
        with listening(note):
            estimator.fit(X.iloc[:cut], target[:cut])
        found[name] = {
            "seconds": round(time.perf_counter() - wall, 2),
            "cpu_seconds": round(time.process_time() - cpu, 2),
            "columns": estimator.model_.facts.n_columns,
            "steps": [end for end in ends if end[1] >= 0.2],
        }
        if name == "classifier":
            score = estimator.predict_proba(X.iloc[cut:])[:, 1]
            found[name]["auc"] = round(float(roc_auc_score(y[cut:], score)), 4)
            if p is not None:
                found[name]["attainable_auc"] = round(float(roc_auc_score(y[cut:], p[cut:])), 4)
            if options.gram_rows:
                found["gram"] = gram_rate(estimator, options.gram_rows, options.device)
            print(str(estimator.verdict_))
    found["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
