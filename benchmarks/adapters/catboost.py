"""CatBoost with its defaults; it writes no files."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import make_pipeline

from benchmarks.adapters.base import ALL, Job
from benchmarks.adapters.scikit import ScikitAdapter
from benchmarks.adapters.tables import Categories, is_numeric


class CatBoost(ScikitAdapter):
    """Categories as categories; counts by the Poisson loss."""

    name = "catboost"
    package = "catboost"
    module = "catboost"
    tasks = ALL

    def estimator(self, job: Job, X: Any) -> Any:
        from catboost import CatBoostClassifier, CatBoostRegressor

        options = {
            "random_seed": job.seed,
            "thread_count": job.threads,
            "verbose": False,
            "allow_writing_files": False,
            "cat_features": [i for i, name in enumerate(X) if not is_numeric(X[name])],
            **job.options,
        }
        if job.task == "count":
            # It gives log rates by ``predict`` unless told otherwise: see `_Rates`.
            return make_pipeline(Categories("missing"), _rates(options))
        kind = CatBoostRegressor if job.task == "regression" else CatBoostClassifier
        return make_pipeline(Categories("missing"), kind(**options))


def _rates(options: dict[str, Any]) -> Any:
    from catboost import CatBoostRegressor

    class Rates(CatBoostRegressor):
        """Predicts the rate, not its logarithm."""

        def predict(self, X: Any) -> Any:
            return super().predict(X, prediction_type="Exponent")

    return Rates(loss_function="Poisson", **options)
