"""A small table for results: named columns, printed aligned, convertible to data frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np


class Table:
    """Named columns of equal length.

    Parameters
    ----------
    columns
        Mapping from names to sequences.

    Notes
    -----
    ``table["name"]`` is a NumPy array, ``table.rows()`` yields dictionaries, and ``to_pandas()``
    or ``to_polars()`` import the library only when called.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self.columns: dict[str, np.ndarray[Any, Any]] = {}
        for name, values in columns.items():
            array = np.empty(len(values), dtype=object)
            array[:] = list(values)
            numeric = all(isinstance(v, (int, float, np.number)) for v in values) and len(values)
            self.columns[name] = np.asarray(list(values)) if numeric else array
        lengths = {len(values) for values in self.columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns of unequal length: {sorted(lengths)}")

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        """Return one column."""
        return self.columns[name]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each row as a dictionary."""
        for i in range(len(self)):
            yield {name: values[i] for name, values in self.columns.items()}

    def to_dict(self) -> dict[str, list[Any]]:
        """Return plain lists by column name."""
        return {name: values.tolist() for name, values in self.columns.items()}

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.columns)

    def to_polars(self) -> Any:
        """Return a polars DataFrame."""
        import polars as pl

        return pl.DataFrame(self.to_dict())

    def _cells(self) -> list[list[str]]:
        return [[_text(v) for v in values] for values in self.columns.values()]

    def __repr__(self) -> str:
        """Return the table as aligned text."""
        cells = self._cells()
        widths = [
            max([len(name), *map(len, column)])
            for name, column in zip(self.columns, cells, strict=True)
        ]
        left = [values.dtype == object for values in self.columns.values()]

        def line(parts: Sequence[str]) -> str:
            padded = [
                part.ljust(width) if at_left else part.rjust(width)
                for part, width, at_left in zip(parts, widths, left, strict=True)
            ]
            return "  ".join(padded).rstrip()

        lines = [line(list(self.columns))]
        lines += [line(row) for row in zip(*cells, strict=True)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in zip(*self._cells(), strict=True)
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: Any) -> str:
    if isinstance(value, (float, np.floating)):
        return f"{value:.4g}"
    return str(value)
