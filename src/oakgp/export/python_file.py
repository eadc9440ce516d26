"""A compiled model as one Python file that needs nothing but Python."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

from oakgp.columns import as_text
from oakgp.compiled.links import inverse_link, outputs
from oakgp.compiled.model import CompiledModel
from oakgp.schema import CategoricalColumn

_TEMPLATE = Path(__file__).with_name("scoring_template.txt")


def to_python(model: CompiledModel, path: str | PathLike[str]) -> None:
    """Write a file that scores rows: as a program on CSV, or by its function ``predict``.

    Class labels must be texts, numbers or truth values.

    Parameters
    ----------
    model
        Compiled tables.
    path
        Where to write.
    """
    document = model.to_dict(bands=False)
    chosen = [document["functions"][k] for _, k in outputs(model)]
    # The tables name features by their place in the document's list.
    found = {
        "functions": [{key: f[key] for key in ("name", "constant", "tables")} for f in chosen],
        "features": [_feature(model, d) for d in document["features"]],
        "link": inverse_link(model),
        "classes": document["classes"],
        "bound": model.bound,
    }
    # Non-ASCII and quotes are escaped: nothing in a name can end the text that holds it.
    text = json.dumps(found, ensure_ascii=True, allow_nan=False).replace('"""', '""\\u0022')
    Path(path).write_text(_TEMPLATE.read_text("utf-8").replace("@MODEL@", text), "utf-8")


def _feature(model: CompiledModel, d: dict[str, Any]) -> dict[str, Any]:
    if d["kind"] == "numeric":
        return d
    column = model.schema.columns[model.schema.active[d["feature"]]]
    assert isinstance(column, CategoricalColumn)
    n = len(column.levels)
    levels = [(level, k) for k, level in enumerate(column.levels)]
    if column.pooled:
        levels = levels[:-1] + [(level, n - 1) for level in column.pooled]
    kind = "text"
    if all(isinstance(level, bool) for level, _ in levels):
        kind = "truth"
    elif not any(isinstance(level, str) for level, _ in levels):
        kind = "number"
    codes = {as_text(level) if kind == "text" else repr(float(level)): k for level, k in levels}
    return {"kind": kind, "name": d["name"], "n": n, "codes": codes}
