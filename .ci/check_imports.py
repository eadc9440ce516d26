"""Check that oakgp neither imports nor needs an optional package.

Looking at sys.modules would not do: scikit-learn itself imports pandas where it is installed. So
the optional packages are made to look absent, oakgp is imported with all its public names, and who
asked for an absent one is noted.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

OPTIONAL = {
    "dask",
    "distributed",
    "duckdb",
    "matplotlib",
    "onnx",
    "pandas",
    "plotly",
    "polars",
    "psycopg",
    "pyarrow",
    "rich",
    "shap",
    "typer",
}


class Absent(MetaPathFinder):
    """Refuse the optional packages and remember where oakgp asked for one."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] not in OPTIONAL:
            return None
        frames = [f for f in traceback.extract_stack() if "importlib" not in f.filename]
        asking = frames[-2]  # the last one is this function
        if "oakgp" in asking.filename.replace("\\", "/").split("/"):
            self.asked.append(f"{asking.filename}:{asking.lineno} imports {name}")
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main() -> int:
    absent = Absent()
    sys.meta_path.insert(0, absent)
    oakgp = importlib.import_module("oakgp")
    for name in oakgp.__all__:
        getattr(oakgp, name)
    for line in absent.asked:
        print(f"{line}: import it inside the function that uses it", file=sys.stderr)
    if not absent.asked:
        print(f"oakgp {oakgp.__version__} imports none of {', '.join(sorted(OPTIONAL))}")
    return 1 if absent.asked else 0


if __name__ == "__main__":
    sys.exit(main())
