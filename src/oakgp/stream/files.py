"""Names of files: one, many, a folder or a pattern, here or on any store that fsspec knows."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

_PAIR = re.compile(r"(?:^|[/\\])([^/\\=]+)=([^/\\]*)(?=[/\\])")

PathSpec: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]


def is_path(data: Any) -> bool:
    """Tell whether data are given as the name of a file, or as a list of names."""
    if isinstance(data, (list, tuple)):
        return len(data) > 0 and all(isinstance(item, (str, PathLike)) for item in data)
    return isinstance(data, (str, PathLike))


def list_files(spec: PathSpec, suffixes: tuple[str, ...]) -> list[str]:
    """Return the files that a name, a folder, a pattern or a list of these stands for, sorted.

    In folders (and what is below them) files with the suffixes count, but not those whose name
    begins with a dot or an underscore.
    """
    if isinstance(spec, (str, PathLike)):
        found = _list_one(os.fspath(spec), suffixes)
    else:
        found = [name for item in spec for name in _list_one(os.fspath(item), suffixes)]
    repeated = next((name for i, name in enumerate(found) if name in found[:i]), None)
    if repeated is not None:
        raise ValueError(f"{repeated} is named twice; name each file once")
    return found


def _list_one(name: str, suffixes: tuple[str, ...]) -> list[str]:
    if "://" in name:
        found = _list_remote(name, suffixes)
    elif os.path.isdir(name):
        found = [str(path) for path in Path(name).rglob("*") if _counts(str(path), suffixes)]
    elif glob.has_magic(name) and not os.path.exists(name):
        found = [path for path in glob.glob(name, recursive=True) if os.path.isfile(path)]
    elif os.path.exists(name):
        return [name]
    else:
        raise FileNotFoundError(f"there is no file {name!r}")
    if not found:
        raise FileNotFoundError(f"{name!r} holds no file ({', '.join('*' + s for s in suffixes)})")
    return sorted(found)


def _list_remote(url: str, suffixes: tuple[str, ...]) -> list[str]:
    from fsspec.core import url_to_fs

    store, path = url_to_fs(url)
    if glob.has_magic(path):
        found = store.glob(path)
    elif store.isdir(path):
        found = [name for name in store.find(path) if _counts(name, suffixes)]
    else:
        found = [path]
    return [store.unstrip_protocol(name) for name in found]


def _counts(name: str, suffixes: tuple[str, ...]) -> bool:
    last = name.rsplit("/", 1)[-1]
    return last.endswith(suffixes) and not last.startswith((".", "_"))


def open_binary(name: str) -> Any:
    """Open a file for reading; of a local one, return its name, which readers like better."""
    if "://" not in name:
        return name
    import fsspec

    return fsspec.open(name, "rb", compression="infer").open()


def identity(names: Sequence[str]) -> list[list[Any]]:
    """Return name, size and time of change of each file."""
    return [_identity(name) for name in names]


def _identity(name: str) -> list[Any]:
    if "://" in name:
        from fsspec.core import url_to_fs

        store, path = url_to_fs(name)
        info = store.info(path)
        return [name, info.get("size"), str(info.get("mtime", info.get("created", "")))]
    status = os.stat(name)
    return [os.path.abspath(name), status.st_size, status.st_mtime_ns]


_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def folder_values(names: Sequence[str]) -> dict[str, list[int | str | None]]:
    """Return what the folders of files say: ``year=2024/part-0.parquet`` has a column "year".

    Parameters
    ----------
    names
        Names of the files.

    Returns
    -------
    dict
        From each key, named by all files and not the same in all, to the value of every file:
        whole numbers where all are, else text; None where the folder says that there is none.
    """
    found = [dict(_PAIR.findall(name)) for name in names]
    columns: dict[str, list[int | str | None]] = {}
    for key in found[0] if found else ():
        texts = [unquote(pairs[key]) if key in pairs else None for pairs in found]
        if None in texts or len(set(texts)) == 1:
            continue
        values = [None if text == _NO_VALUE else text for text in texts]
        whole = all(value is None or re.fullmatch(r"-?\d{1,18}", value) for value in values)
        columns[key] = [int(v) if whole and v is not None else v for v in values]
    return columns
