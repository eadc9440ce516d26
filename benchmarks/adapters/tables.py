"""Tables into what each library takes; everything is learned from the training rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


def is_numeric(column: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column.dtype)) and column.dtype != bool


class Categories(TransformerMixin, BaseEstimator):
    """Text to pandas categories with the levels of the training rows; plain column names.

    ``missing`` names a level of its own for missing values, for libraries that want text.
    """

    def __init__(self, missing: str | None = None) -> None:
        self.missing = missing

    def _text(self, column: Any) -> Any:
        text = column.astype(object).where(column.notna(), self.missing)
        return text.map(str, na_action="ignore")

    def fit(self, X: Any, y: Any = None) -> Self:
        self.levels_ = {
            name: sorted(self._text(X[name]).dropna().unique())
            for name in X.columns
            if not is_numeric(X[name])
        }
        return self

    def transform(self, X: Any) -> Any:
        columns = {}
        for number, name in enumerate(X.columns):
            if name not in self.levels_:
                columns[f"f{number}"] = X[name].astype(float)
            elif self.missing is None:
                columns[f"f{number}"] = pd.Categorical(self._text(X[name]), self.levels_[name])
            else:
                columns[f"f{number}"] = self._text(X[name])
        return pd.DataFrame(columns, index=X.index)


def dense(model: Any) -> Any:
    """Return a pipeline: standardised numbers, one column a level, then the model."""
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    levels = OneHotEncoder(
        handle_unknown="infrequent_if_exist", min_frequency=10, sparse_output=False
    )
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include=np.number)),
        (levels, make_column_selector(dtype_exclude=np.number)),
    )
    return make_pipeline(columns, model)
