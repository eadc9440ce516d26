"""What a user should know of a fit, in a few lines of plain text."""

from __future__ import annotations

from dataclasses import dataclass

from oakgp.model import Model
from oakgp.sensitivity import Totals


@dataclass(frozen=True)
class Verdict:
    """Whether the fit can be trusted, and what it says.

    Parameters
    ----------
    converged
        Whether the optimiser ended by its tolerance.
    noise
        Standard deviation of the noise, in units of the response; None unless it is Gaussian.
    explained
        Share of the response's variance that the noise leaves; None likewise.
    order_shares
        Share of the explained variance by interaction order, from order 1 (empty for a model
        that is not orthogonal).
    lines
        The same and more, as sentences.
    warnings
        What deserves a look, as sentences.
    """

    converged: bool
    noise: float | None
    explained: float | None
    order_shares: tuple[float, ...]
    lines: tuple[str, ...]
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        """Return all lines, warnings last."""
        return "\n".join([*self.lines, *(f"! {text}" for text in self.warnings)])

    __repr__ = __str__


def make_verdict(model: Model, totals: Totals | None) -> Verdict:
    """Return the verdict on a fitted model.

    Parameters
    ----------
    model
        The model.
    totals
        Its Sobol totals; None for a model that is not orthogonal.
    """
    facts, posterior = model.facts, model.posterior
    noise, explained, about_noise = _noise(model)
    rows = _counted(facts.n_rows, "row")
    if facts.n_distinct < facts.n_rows:
        rows += f" ({facts.n_distinct:,} distinct)"
    engine = facts.engine
    if model.response is not None and engine != "basis":
        kind = "sparse" if facts.n_inducing else "dense"
        engine = f"{'stochastic' if engine == 'stochastic' else kind} variational"
    if facts.n_columns:
        engine += f" engine with {_counted(facts.n_columns, 'column')}"
    elif facts.n_inducing:
        engine += f" engine with {_counted(facts.n_inducing, 'inducing point')}"
    else:
        engine += " engine"
    terms = posterior.terms
    lines = [
        f"{rows}, {_counted(len(model.columns), 'feature')}, {_counted(terms.count(), 'term')} "
        f"up to order {terms.max_order}; {engine}, flow {facts.flow}, {facts.seconds:.1f} s",
        f"{'converged' if facts.converged else 'NOT converged'} after {facts.n_evaluations} "
        f"evaluations; log evidence {facts.log_evidence / max(1, facts.evidence_rows):.3f} a row; "
        f"jitter {facts.jitter:g}",
        about_noise,
    ]
    shares: tuple[float, ...] = ()
    if totals is not None and totals.variance > 0:
        orders = totals.orders[1:] / totals.orders.sum()
        shares = tuple(orders.tolist())
        text = ", ".join(f"order {r}: {100 * s:.1f}%" for r, s in enumerate(shares, start=1))
        lines.append(f"share of the explained variance by {text}")
    if facts.reason:
        lines.append(f"the {facts.engine} engine was chosen because {facts.reason}")
    warnings = [*model.schema.notes, *facts.notes, *facts.at_bound]
    if not facts.converged:
        warnings.append("the optimiser stopped at its iteration limit; raise max_iter")
    limited = 1 < len(shares) < len(model.columns)
    if limited and shares[-1] > 0.05:
        warnings.append(
            f"order {terms.max_order}, the highest allowed, still carries "
            f"{100 * shares[-1]:.0f}% of the variance: a higher max_order may fit better"
        )
    if posterior.kept is not None:
        lines.append(f"predictions sum over {_counted(len(posterior.kept) - 1, 'kept term')}")
    return Verdict(facts.converged, noise, explained, shares, tuple(lines), tuple(warnings))


def _noise(model: Model) -> tuple[float | None, float | None, str]:
    """Return the noise's deviation, the share it leaves, and a sentence on the response."""
    if model.response is not None:
        return None, None, model.response.describe()
    posterior = model.posterior
    noise = model.scale * posterior.noise**0.5
    # A constant response has no variance, so none of it is explained.
    flat = not bool(posterior.mean_weights.any())
    explained = 0.0 if flat else max(0.0, 1.0 - posterior.noise)
    share = f"{100 * explained:.1f}% of the variance is signal"
    return noise, explained, f"noise: standard deviation {noise:.4g} ({share})"


def _counted(number: int, thing: str) -> str:
    """Return a number with its noun: ``1 row``, ``2,000 rows``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
