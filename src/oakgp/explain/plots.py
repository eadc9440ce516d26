"""Plots of components: a panel for each term, with its band and its share of the variance."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.gridspec import GridSpec
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from oakgp.checks import check_choice, check_count, check_flag
from oakgp.component_response import ComponentResponse
from oakgp.explain.component import Component
from oakgp.explain.feature_axis import FeatureAxis, NumericAxis, feature_axis
from oakgp.explain.layout import Cell, place
from oakgp.explain.mains import Settings, draw_main
from oakgp.explain.pairs import Pair, pair
from oakgp.explain.slices import slices
from oakgp.explain.style import STYLE, percent, term_text
from oakgp.kernels.terms import Term
from oakgp.model import Label, Model

Array = NDArray[np.float64]

_PANEL = (3.2, 2.45)  # inches
_TITLE = 36  # characters of a title above a panel
_ROOM = 28  # characters of a tick label's size beside a bar of colours


def plot_components(
    estimator: Any,
    X: Any = None,
    terms: Any = None,
    *,
    max_terms: int = 9,
    n_grid: int = 120,
    bands: float = 2.0,
    simultaneous: bool = True,
    columns: int = 3,
    output: Label | None = None,
    scale: str = "link",
    figure: Figure | SubFigure | None = None,
) -> Figure | SubFigure:
    """Draw components of a fitted model, a panel for each.

    Parameters
    ----------
    estimator : fitted estimator
        An `oakgp.OAKRegressor` or `oakgp.OAKClassifier`.
    X : table, optional
        Rows whose distribution is shown behind the effects; that of training when not given (it
        is known by up to 256 values a feature). Rows of X are also drawn over surfaces.
    terms : sequence of terms, optional
        Which to draw: names (``"age"``, ``"age × sex"``), tuples of names, or numbers. The
        largest by share of the variance when not given.
    max_terms : int, default=9
        How many to draw when ``terms`` is not given.
    n_grid : int, default=120
        Points of a curve; a surface has a third of them a side.
    bands : float, default=2.0
        Half-width of bands and error bars, in posterior standard deviations.
    simultaneous : bool, default=True
        Whether main effects have a second, paler band: it holds the whole curve with the
        probability with which the inner one holds any single value of it.
    columns : int, default=3
        Panels side by side; a component of three or more features takes the place of two.
    output : label, optional
        Which latent function: a class, where there are three or more; ``"log noise"``. The first
        one when not given, except of classes.
    scale : {"link", "response"}, default="link"
        ``"response"`` draws by how much the expected response (probability, rate) differs from the
        base rate where all other components stand at their mean of 0, and the constant at its own;
        see `oakgp.OAKRegressor.component`.
    figure : matplotlib figure or subfigure, optional
        Where to draw; a new figure when not given.

    Returns
    -------
    matplotlib.figure.Figure
        The figure; ``figure.savefig(...)`` writes it to a file.

    Notes
    -----
    Numeric features are drawn in their own units, categorical ones by level (names in the order of
    their effects, with the number of rows), and "missing" apart from both. Two numeric features
    give a surface; a numeric and a categorical one give lines; two categorical ones give tiles with
    mean and standard deviation. Surfaces and tiles are dotted where the band includes 0. Values far
    from all others are out of the picture.
    A component of three or more features is shown over two of them, at three values of the others.
    """
    whole = fitted_model(estimator)
    model = whole.of(output)
    check_choice("scale", scale, ("link", "response"))
    check_count("n_grid", n_grid, 2)
    check_count("columns", columns, 1)
    check_flag("simultaneous", simultaneous)
    if not isinstance(bands, Real) or not 0 <= bands < np.inf:
        raise ValueError(f"bands={bands!r}: give a number of standard deviations, 0 or more")
    chosen, shares = _chosen(model, terms, max_terms)
    encoded = None if X is None else model.schema.encode(X)
    used = sorted({i for term in chosen for i in term})
    axes: dict[int, FeatureAxis] = {
        i: feature_axis(model, i, None if encoded is None else encoded[:, i]) for i in used
    }
    how = Settings(n_grid, bands, simultaneous)
    spans = [1 if len(term) < 3 else 2 for term in chosen]
    cells = place(spans, max(columns, *spans))
    height, width = max(c.row for c in cells) + 1, max(c.column + c.span for c in cells)
    with plt.rc_context(STYLE):
        if figure is None:
            size = (_PANEL[0] * width, _PANEL[1] * height)
            figure = plt.figure(figsize=size, layout="constrained")
        heights, widths = _sizes(chosen, cells, height, width)
        grid = figure.add_gridspec(height, width, height_ratios=heights, width_ratios=widths)
        for term, share, cell in zip(chosen, shares, cells, strict=True):
            title = _title(model, term, share, cell)
            part = ComponentResponse(whole, output, term, True) if scale == "response" else None
            component = Component(model, term, {}, part)
            if len(term) == 1:
                (ax,) = _panels(figure, grid, cell, 0, component.effect)
                draw_main(ax, component, term[0], axes[term[0]], how)
                ax.set_title(title)
            else:
                views = _views(component, axes, how, encoded)
                _draw_views(
                    _panels(figure, grid, cell, len(views), component.effect), title, views, cell
                )
    return figure


def fitted_model(estimator: Any) -> Model:
    """Return the model of a fitted estimator, or say why nothing can be drawn."""
    check_is_fitted(estimator, "model_")
    model: Model = estimator.model_
    if not model.columns:
        raise ValueError(
            "the model has no features, only a constant: there is no component to draw. "
            "All columns of the training table were constant or identifiers; see verdict_"
        )
    return model


def _chosen(model: Model, terms: Any, max_terms: int) -> tuple[list[Term], list[float | None]]:
    """Return the terms to draw and their shares (None for a model that is not orthogonal)."""
    orthogonal = model.posterior.orthogonal
    if terms is not None:
        specs = [terms] if isinstance(terms, (str, int)) else list(terms)
        chosen = list(dict.fromkeys(model.term(spec) for spec in specs))
        if not all(chosen) or not chosen:
            raise ValueError(
                f"terms={terms!r}: name at least one term, and not the constant, "
                "which has nothing to draw (see constant_)"
            )
        return chosen, _shares(model, chosen) if orthogonal else [None] * len(chosen)
    check_count("max_terms", max_terms, 1)
    mains: list[Term] = [(i,) for i in range(len(model.columns)) if (i,) in model.posterior.terms]
    if not orthogonal:
        return mains[:max_terms], [None] * len(mains[:max_terms])
    ranking = model.sobol.ranking
    ranked = dict(zip(ranking.terms, ranking.shares, strict=True))
    kept = model.posterior.kept
    chosen = [term for term in ranked if kept is None or term in kept][:max_terms]
    if not chosen:  # nothing was learned: flat main effects say so
        chosen = mains[:max_terms]
    return chosen, [ranked.get(term, 0.0) for term in chosen]


def _shares(model: Model, terms: Sequence[Term]) -> list[float | None]:
    """Return the Sobol indices of any terms, small ones too."""
    variances = model.variances()
    total = variances.totals().variance
    return [v / total if total > 0 else 0.0 for v in variances.of(terms).tolist()]


def _title(model: Model, term: Term, share: float | None, cell: Cell) -> str:
    suffix = "" if share is None else f"  ({percent(share)})"
    return term_text(model.label(term), _TITLE * cell.span - len(suffix)) + suffix


def _panels(
    figure: Figure | SubFigure, grid: GridSpec, cell: Cell, count: int, effect: str
) -> list[Axes]:
    """Return panels side by side in one place, with one vertical axis.

    They get a grid of their own: in the figure's grid their colour bar or legend would make every
    panel of the column narrower. ``count=0`` means one panel, lined up with the figure's others.
    """
    spot = grid[cell.row, cell.column : cell.column + cell.span]
    inner = spot.subgridspec(1, max(1, count))
    spots = [inner[0, k] for k in range(count)] if count else [spot]
    panels: list[Axes] = []
    for each in spots:
        panels.append(figure.add_subplot(each, sharey=panels[0] if panels else None))
    if cell.column == 0:
        panels[0].set_ylabel(effect)  # unless a feature takes this axis
    return panels


def _sizes(
    terms: Sequence[Term], cells: Sequence[Cell], height: int, width: int
) -> tuple[list[float], list[float]]:
    """Return the heights of rows and widths of columns.

    The layout gives labels a margin beside the figure's own panels, the main effects. A row or
    column without one has its labels inside, so it gets more room.
    """
    plain = [cell for term, cell in zip(terms, cells, strict=True) if len(term) == 1]
    rows, columns = {cell.row for cell in plain}, {cell.column for cell in plain}
    heights = [1.0 if row in rows else 1.25 for row in range(height)]
    return heights, [1.0 if column in columns else 1.2 for column in range(width)]


def _views(
    component: Component,
    axes: dict[int, FeatureAxis],
    how: Settings,
    encoded: Array | None,
) -> list[tuple[str, Pair]]:
    """Return what to draw of an interaction: one picture, or one a slice."""
    if len(component.term) > 2:
        return slices(component, axes, how)
    i, j = component.term
    points = None if encoded is None else (encoded[:, i], encoded[:, j])
    if points is not None:
        points = _wrapped(points[0], axes[i]), _wrapped(points[1], axes[j])
    return [("", pair(component, i, j, axes, how, points))]


def _wrapped(values: Array, axis: FeatureAxis) -> Array:
    """Return values of a periodic feature within the cycle that is drawn."""
    periodic = isinstance(axis, NumericAxis) and axis.column.flow is None
    return np.mod(values, axis.high) if periodic and isinstance(axis, NumericAxis) else values


def _draw_views(panels: list[Axes], title: str, views: list[tuple[str, Pair]], cell: Cell) -> None:
    limit = max(view.limit for _, view in views) or 1.0
    room = _ROOM * cell.span // len(views)
    middle = (len(views) - 1) // 2
    for k, (ax, (label, view)) in enumerate(zip(panels, views, strict=True)):
        view.draw(ax, limit, room)
        first = title if k == middle else ""
        ax.set_title(f"{first}\n{label}" if label else first)
        if k:
            ax.tick_params(labelleft=False)
            ax.set_ylabel("")
    views[0][1].annotate(panels, limit)
