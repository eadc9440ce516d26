"""What is shown: tables with bars on the terminal, JSON for programs, progress on stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from oakgp import watching

out, err = Console(), Console(stderr=True)


def say(text: str) -> None:
    """Tell the user something, on standard error."""
    sys.stderr.write(f"{text}\n")


@contextmanager
def progress(quiet: bool) -> Iterator[None]:
    """Show bars on a terminal, lines elsewhere."""
    if quiet:
        yield
        return
    with watching.bars(err) if err.is_terminal else watching.lines():
        yield


def put_json(value: Any) -> None:
    """Write a value as JSON to standard output."""
    sys.stdout.write(json.dumps(plain(value), ensure_ascii=False, allow_nan=False) + "\n")


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it; what is not finite becomes null."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (str, int, bool, type(None))):
        return value
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Sequence):
        return [plain(v) for v in value]
    return str(value)


def show_table(
    title: str, columns: Mapping[str, Sequence[Any]], bar: str | None = None, most: int = 30
) -> None:
    """Print a table; one of its columns may be drawn as bars besides."""
    table = Table(title=escape(title), title_justify="left", box=None, pad_edge=False)
    for name in columns:
        numeric = all(isinstance(v, (int, float, np.number)) for v in columns[name])
        table.add_column(escape(name), justify="right" if numeric else "left", no_wrap=not numeric)
    if bar is not None:
        table.add_column("")
    names = list(columns)
    n = len(columns[names[0]]) if names else 0
    top = max([abs(float(v)) for v in columns[bar]] or [1.0]) if bar else 1.0
    for k in range(min(n, most)):
        cells = [escape(_cell(columns[name][k])) for name in names]
        if bar is not None:
            cells.append("█" * round(24 * abs(float(columns[bar][k])) / (top or 1.0)))
        table.add_row(*cells)
    out.print(table)
    if n > most:
        out.print(f"... and {n - most} more")


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, (float, np.floating)) else str(value)
