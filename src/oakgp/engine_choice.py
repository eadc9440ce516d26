"""Which engine fits a table: by its rows, and by how deep its interactions run.

Up to some thousand rows the kernel engine sees all orders at once. Beyond, the basis engine is many
times faster and takes the terms that it finds, up to order 3; where a probe of some hundred rows
says that much lies in higher orders, the kernel engine with inducing points is the better one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from oakgp.basis.selection import MAX_ORDER
from oakgp.inference.engines import Regression
from oakgp.inference.learn import Learner, Schedule
from oakgp.sensitivity import sobol_totals

#: Names that ``engine=`` accepts.
ENGINES = ("auto", "exact", "sparse", "stochastic", "basis")

#: Highest order and inducing points where orders above 3 matter.
DEEPEST = 8
DEEP_INDUCING = 1500

_KERNEL_ROWS = 10_000  # up to here regression takes the kernel engine
_KERNEL_ROWS_OTHER = 3000  # and so do other likelihoods, whose evidence costs several times that
_PROBE_ROWS = 800
_PROBE_ITERATIONS = 25
_PROBE_FEATURES = 40
_DEEP = 0.06  # share of the variance in orders above 3 from which they are said to matter
_DEEP_ROWS = 200_000  # with more, inducing points see too little of the data
_DEVICE_EXACT_ROWS = 40_000


@dataclass(frozen=True)
class Choice:
    """An engine and why.

    Parameters
    ----------
    engine
        ``"exact"``, ``"sparse"``, ``"stochastic"`` or ``"basis"``.
    reason
        In words.
    deep
        Whether orders above 3 matter: then the kernel gets all of them up to `DEEPEST`, and more
        inducing points.
    """

    engine: str
    reason: str
    deep: bool = False


def choose_by_size(
    engine: str, n: int, gaussian: bool, max_order: int | None, plain: bool, schedule: Schedule
) -> Choice | None:
    """Return the engine, or None when a probe has to decide.

    Parameters
    ----------
    engine
        The setting.
    n
        Rows.
    gaussian
        Whether the response is Gaussian.
    max_order
        The setting.
    plain
        Whether the kernel is the orthogonal additive one, which the basis needs.
    schedule
        Rows of the exact engine.
    """
    if engine != "auto":
        _check_forced(engine, max_order, plain)
        return Choice(engine, "it was asked for")
    if n <= schedule.exact_rows:
        return Choice("exact", f"{n:,} rows are few enough for an exact solution")
    inducing = "sparse" if gaussian or n <= schedule.full_batch_rows else "stochastic"
    if not plain:
        return Choice(inducing, "the basis engine has the orthogonal additive kernel only")
    if max_order is not None and max_order > MAX_ORDER:
        return Choice(inducing, f"max_order={max_order} is more than the basis engine has")
    if n <= (_KERNEL_ROWS if gaussian else _KERNEL_ROWS_OTHER):
        return Choice(inducing, f"{n:,} rows are few enough for all orders at once")
    if not gaussian or n > _DEEP_ROWS:
        return Choice("basis", f"{n:,} rows are many")
    return None


def _check_forced(engine: str, max_order: int | None, plain: bool) -> None:
    if engine != "basis":
        return
    if not plain:
        raise ValueError(
            "engine='basis' has the orthogonal additive kernel only; leave out variant= and "
            "orthogonal=, or take engine='sparse'"
        )
    if max_order is not None and max_order > MAX_ORDER:
        raise ValueError(
            f"max_order={max_order}: the basis engine has terms up to order {MAX_ORDER}; leave "
            "max_order out or take engine='sparse'"
        )


def choose_by_probe(
    learner: Learner[Regression], n: int, device: str, max_order: int | None
) -> Choice:
    """Return the engine for n rows, which are many: a short exact fit of a few tells how deep."""
    engine = learner.engine
    d = engine.space.kernel.n_features
    if max_order is not None or d <= MAX_ORDER or d > _PROBE_FEATURES:
        return Choice("basis", f"{n:,} rows are many")
    schedule = replace(
        learner.schedule,
        exact_rows=0,
        middle_rows=_PROBE_ROWS,
        starts=learner.schedule.starts[:1],
        max_iterations=min(_PROBE_ITERATIONS, learner.schedule.max_iterations),
    )
    probe = Learner(engine, schedule, learner.seed)
    run = probe.main_run()
    rows = probe.main_rows()
    posterior = rows.finish(run.optimum.theta).posteriors[0]
    totals = sobol_totals(posterior)
    deep = float(totals.orders[MAX_ORDER + 1 :].sum()) / max(totals.variance, 1e-300)
    if deep < _DEEP:
        return Choice(
            "basis",
            f"{n:,} rows are many, and {100 * (1 - deep):.0f}% of the variance that a probe of "
            f"{rows.n} rows found lies in orders up to {MAX_ORDER}",
        )
    why = f"{100 * deep:.0f}% of the variance that a probe found lies in orders above {MAX_ORDER}"
    if device == "cuda" and engine.n <= _DEVICE_EXACT_ROWS:
        return Choice("exact", why + ", and the GPU holds all rows", deep=True)
    return Choice("sparse", why, deep=True)
