"""Sums of a pass under way, kept in a file so that an interruption costs little."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oakgp.schema import TableSchema
from oakgp.stream.source import Position, Source

_ABOUT = "about"
_FORMAT = 1


@dataclass(frozen=True, eq=False)
class State:
    """How far a pass has come.

    Parameters
    ----------
    arrays
        What was summed up so far, by name.
    position
        Where to go on; see `oakgp.stream.Source.chunks_from`.
    info
        What else belongs to it, as values that JSON can hold: the number of the pass.
    """

    arrays: Mapping[str, NDArray[Any]]
    position: Position
    info: Mapping[str, Any]


@dataclass(frozen=True)
class Checkpoint:
    """A file that holds the state of one pass over one source.

    Parameters
    ----------
    path
        The file, an ``.npz`` archive of plain arrays.
    fingerprint
        Of the source, the schema and whatever else the sums depend on: see `fingerprint`.
    """

    path: str | PathLike[str]
    fingerprint: str

    def save(self, state: State) -> None:
        """Write the state: either all of it, or nothing and the earlier file stays."""
        about = {
            "format": _FORMAT,
            "fingerprint": self.fingerprint,
            "position": list(state.position),
            "info": dict(state.info),
        }
        if _ABOUT in state.arrays:
            raise ValueError(f"no array of a checkpoint can be called {_ABOUT!r}")
        text = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
        path = os.path.abspath(self.path)
        handle, temporary = tempfile.mkstemp(
            dir=os.path.dirname(path), prefix=os.path.basename(path), suffix=".part"
        )
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, allow_pickle=False, **{_ABOUT: text}, **dict(state.arrays))
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise

    def load(self) -> State | None:
        """Read the state back; None when there is no file.

        Raises
        ------
        ValueError
            If the file is damaged, or was written for other data or another model.
        """
        if not os.path.exists(self.path):
            return None
        try:
            with open(self.path, "rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            about = json.loads(arrays.pop(_ABOUT).tobytes())
            found, position, info = about["fingerprint"], about["position"], about["info"]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(
                f"{os.fspath(self.path)} is no checkpoint that can be read ({error}); remove it "
                "to begin anew"
            ) from error
        if found != self.fingerprint:
            raise ValueError(
                f"{os.fspath(self.path)} was written for other data or other settings; go on with "
                "the same, or remove it to begin anew"
            )
        return State(arrays, (int(position[0]), int(position[1])), info)

    def remove(self) -> None:
        """Remove the file, if there is one: the pass is done."""
        if os.path.exists(self.path):
            os.unlink(self.path)


def fingerprint(source: Source, schema: TableSchema, settings: Any = None) -> str:
    """Return a text that changes with the data, the schema or the settings.

    Parameters
    ----------
    source, schema
        Where the rows come from, and what they were found to be.
    settings
        What else the sums depend on, as values that JSON can hold.
    """
    what = [source.fingerprint(), schema.to_dict(), settings]
    text = json.dumps(what, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
