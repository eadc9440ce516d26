"""Components of three and more features: two of them, at values of the others."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from tests.explain.models import HOW, axes_of, component, fitted, frame, rows, texts

from oakgp.explain import plot_components
from oakgp.explain.pairs import Lines, Surface, Tiles
from oakgp.explain.slices import slices

TABLE = frame()
NAMES = "abcd"


def views(*names: str, **options: int) -> list[tuple[str, object]]:
    return slices(component(*names, **options), axes_of(fitted(**options)), HOW)


@pytest.mark.parametrize("term", list(combinations(NAMES, 3)))
def test_every_kind_of_three_features_can_be_drawn(term: tuple[str, ...]) -> None:
    figure = plot_components(fitted(), terms=[term])
    panels = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    assert len(panels) == 3
    assert panels[1].get_title().startswith(" × ".join(term))
    figure.canvas.draw()


def test_the_pair_that_varies_most_is_shown_at_values_of_the_third() -> None:
    found = views("a", "b", "d")
    model, spread = fitted(), {}
    for pair in combinations("abd", 2):
        (third,) = set("abd") - set(pair)
        spread[third] = 0.0
        for value in {"a": [-0.8, 0.0, 0.8], "b": [0.4, 1.0, 2.5], "d": ["no", "yes", None]}[third]:
            some = TABLE.assign(**{third: value})
            spread[third] += model.component(some, ("a", "b", "d"))[0].var()
    fixed = max(spread, key=lambda third: spread[third])
    assert all(label.startswith(f"{fixed} = ") for label, _ in found)


def test_a_slice_has_the_values_at_its_label() -> None:
    for label, view in views("a", "b", "c"):
        name, value = label.split(" = ")
        if isinstance(view, Surface):
            x, y = np.meshgrid(view.x, view.y)
            given = rows(a=x.ravel(), b=y.ravel(), c=value)
            inner = view.mean[: len(view.y), : len(view.x)].ravel()
        else:
            assert isinstance(view, Lines)
            at = np.linspace(-1.0, 1.0, 7)
            part = view.component
            coordinates = {view.i: view.a.coordinates(at), view.j: np.ones(7)}
            inner, _ = part(coordinates)
            other = {"a": "b", "b": "a"}[name]
            level = view.b.labels[list(view.b.codes).index(1.0)]
            number = float(value.replace("\N{MINUS SIGN}", "-"))
            given = rows(**{name: np.full(7, number), other: at, "c": level})
        truth, _ = fitted().component(given, ("a", "b", "c"))
        np.testing.assert_allclose(inner, truth, atol=0.02 * np.abs(truth).max())


def test_slices_share_their_levels_colours_and_names() -> None:
    figure = Figure(layout="constrained")
    plot_components(fitted(), terms=[("b", "c", "d")], figure=figure)
    panels = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    assert len({ax.get_ylim() for ax in panels}) == 1
    assert [ax.get_ylabel() for ax in panels[1:]] == ["", ""]
    meshes = [mesh for ax in panels for mesh in ax.collections if isinstance(mesh, QuadMesh)]
    assert len({mesh.get_clim() for mesh in meshes}) <= 1
    if all(isinstance(view, Tiles) for _, view in views("b", "c", "d")):
        assert len({tuple(texts(ax.get_xticklabels())) for ax in panels}) == 1
        assert figure.axes[-1].get_ylim() == meshes[0].get_clim()


def test_of_four_features_two_are_fixed_together() -> None:
    found = slices(component("a", "b", "c", "d", max_order=4), axes_of(fitted(max_order=4)), HOW)
    assert len(found) == 3
    for label, _ in found:
        first, second = label.split("\n")
        assert {first[:4], second[:4]} < {f"{name} = " for name in NAMES}
