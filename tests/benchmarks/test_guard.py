"""The guard: its reference is right, its history is read, and what got slower is said."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from benchmarks import guard, reference
from oakgp import ops
from oakgp.ops.layout import Points, Weights


def test_the_reference_is_the_additive_kernel():
    layout, weights, points = guard.problem(40, 3, 2)
    x, lengthscales, variances = points.x.numpy(), [0.5, 1.0, 2.0], [0.3, 1.0, 0.2]
    embed = [_embedding(row, row, scale) for row, scale in zip(x, lengthscales, strict=True)]
    numbers = (torch.tensor(v, dtype=torch.float64) for v in (variances, [1.0] * 3, lengthscales))
    weights = Weights(*numbers, weights.tables)
    got = ops.additive_kernel(layout, weights, Points(points.x, torch.tensor(np.array(embed))))
    expected = reference.gram(x, x, x, lengthscales, variances)
    np.testing.assert_allclose(expected, got.numpy(), atol=1e-10)


def _embedding(at, nodes, lengthscale):
    k = np.exp(-0.5 * ((at[:, None] - nodes[None, :]) / lengthscale) ** 2)
    v = np.exp(-0.5 * ((nodes[:, None] - nodes[None, :]) / lengthscale) ** 2).mean()
    return k.mean(axis=1) / np.sqrt(v)


def test_the_references_evidence_is_that_of_a_gaussian(rng):
    from scipy.stats import multivariate_normal

    x, y = rng.standard_normal((2, 20)), rng.standard_normal(20)
    lengthscales, variances = np.ones(2), np.ones(3)
    evidence, mean, variance = reference.regression(x, y, x[:, :5], lengthscales, variances, 0.1)
    K = reference.gram(x, x, x, lengthscales, variances) + 0.1 * np.eye(20)
    assert evidence == pytest.approx(multivariate_normal(cov=K).logpdf(y))
    assert mean.shape == variance.shape == (5,)


def test_what_got_slower_is_said(monkeypatch, tmp_path, capsys):
    ratios = {"a": 1.0, "b": 2.0}
    monkeypatch.setattr(guard, "measure", lambda rounds: dict(ratios))
    arguments = ["--history", str(tmp_path)]
    assert guard.main([*arguments, "--keep"]) == 0
    assert "No history of this kind of machine yet" in capsys.readouterr().out
    (path,) = tmp_path.glob("*.jsonl")
    assert json.loads(path.read_text())["ratios"] == ratios
    assert guard.main(arguments) == 0
    ratios["b"] = 2.0 * guard.SLOWER + 0.1
    assert guard.main(arguments) == 1
    out = capsys.readouterr().out
    assert out.count("SLOWER") == 1
    assert "usually     2.00  SLOWER" in out
