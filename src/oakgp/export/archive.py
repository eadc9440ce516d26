"""Save and load: a zip archive with ``model.json`` and ``tensors.safetensors``.

Nothing in the file is ever executed or unpacked onto the disk, and no more of it is read than a
file of its size can honestly hold. Members of other names are ignored.
"""

from __future__ import annotations

import errno
import json
import os
import struct
import uuid
import zipfile
import zlib
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import safetensors
import safetensors.torch
from torch import Tensor

from oakgp.export.content import describe, restore
from oakgp.export.entries import ModelFileError, require
from oakgp.progress import step

if TYPE_CHECKING:
    from oakgp.estimators.base import BaseOAK

FORMAT = "oakgp-model"
VERSION = 1
_JSON = "model.json"
_TENSORS = "tensors.safetensors"

# Text of names and numbers shrinks to a third or so, never a hundredfold; a small file may.
_LARGEST_RATIO = 100
_SMALL = 1 << 24

# What reading a damaged file trips over, besides what is looked for.
_DAMAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    MemoryError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
    safetensors.SafetensorError,
)


def save(estimator: BaseOAK, path: str | PathLike[str]) -> None:
    """Write a fitted estimator to one file; equal models give equal files, byte by byte.

    The file appears under its name only when it is complete: an interrupted save leaves the old
    file as it was.
    """
    from oakgp import __version__

    with step("saving"):
        _save(estimator, Path(path), __version__)


def _save(estimator: BaseOAK, target: Path, written_by: str) -> None:
    content, tensors = describe(estimator)
    description = {"format": FORMAT, "version": VERSION, "written_by": written_by, **content}
    text = json.dumps(description, allow_nan=False)
    try:
        restore(json.loads(text), tensors)
    except _DAMAGE as error:
        raise ValueError(
            f"the model cannot be saved, since it could not be loaded again: {error}"
        ) from error
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent}: there is no such directory")
    partial = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        with zipfile.ZipFile(partial, "x") as archive:
            archive.writestr(_member(_JSON, zipfile.ZIP_DEFLATED), text)
            # Tensors are stored as they are: nobody can claim a terabyte of zeros then.
            archive.writestr(_member(_TENSORS, zipfile.ZIP_STORED), safetensors.torch.save(tensors))
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _member(name: str, compression: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)  # dated 1980, so that equal models give equal files
    info.compress_type = compression
    info.external_attr = 0o644 << 16
    return info


def load(path: str | PathLike[str]) -> BaseOAK:
    """Read a fitted estimator back from a file that `save` wrote.

    Settings come back as they were, but for a random generator (None) and arrays (lists).

    Raises
    ------
    ModelFileError
        When the file is not a model, is damaged, or was written by a newer version.
    """
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"{source}: no such model file")
    try:
        require(source.is_file(), "not a file")
        return restore(*_read(source))
    except ModelFileError as error:
        raise ModelFileError(f"{source}: not a model that oakgp can read: {error}") from error
    except (*_DAMAGE, OSError) as error:
        # A damaged directory of the archive points to before the file's beginning.
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        raise ModelFileError(
            f"{source}: not an oakgp model file, or a damaged one "
            f"({type(error).__name__}: {error}); save the model again"
        ) from error


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        text = archive.getinfo(_JSON)
        limit = max(_SMALL, _LARGEST_RATIO * min(text.compress_size, size))
        require(text.file_size <= limit, f"{_JSON} claims to hold {text.file_size:,} bytes")
        description = json.loads(archive.read(text).decode(), parse_constant=_not_finite)
        require(
            isinstance(description, dict) and description.get("format") == FORMAT,
            f"its {_JSON} does not say {FORMAT!r}",
        )
        version = description.get("version")
        require(
            type(version) is int and 1 <= version <= VERSION,
            f"it has format {version!r:.20}, written by oakgp "
            f"{description.get('written_by')!r:.30}; this oakgp reads formats up to {VERSION}: "
            "update it",
        )
        data = archive.getinfo(_TENSORS)
        require(
            data.compress_type == zipfile.ZIP_STORED and data.file_size <= size,
            f"{_TENSORS} is not stored as oakgp does",
        )
        tensors = safetensors.torch.load(archive.read(data))
        # Memory of torch's own: how its products round depends on where a matrix begins.
        return description, {name: tensor.clone() for name, tensor in tensors.items()}


def _not_finite(text: str) -> NoReturn:
    raise ModelFileError(f"its {_JSON} holds {text}, which is no number")
