"""Settings of all tests: no windows, the same examples every time, CUDA tests only with CUDA."""

from __future__ import annotations

import os

import hypothesis
import pytest
import torch

# Before anything imports Matplotlib: a test machine has no screen.
os.environ["MPLBACKEND"] = "Agg"

# A shared machine may stall for a second, which says nothing about an example.
hypothesis.settings.register_profile("oakgp", deadline=None, derandomize=True)
hypothesis.settings.load_profile("oakgp")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA device")
    for item in items:
        if item.get_closest_marker("cuda") is not None:
            item.add_marker(skip)
