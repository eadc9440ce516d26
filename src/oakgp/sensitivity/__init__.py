"""Global sensitivity: Sobol indices, their uncertainty, ranking and truncation."""

from __future__ import annotations

from oakgp.sensitivity.credible import posterior_variances, sample_variances
from oakgp.sensitivity.selection import Ranking, metric_curve, rank_terms, select
from oakgp.sensitivity.sobol import expected_totals, sobol_totals, top_terms
from oakgp.sensitivity.variances import Totals, Variances

__all__ = [
    "Ranking",
    "Totals",
    "Variances",
    "expected_totals",
    "metric_curve",
    "posterior_variances",
    "rank_terms",
    "sample_variances",
    "select",
    "sobol_totals",
    "top_terms",
]
