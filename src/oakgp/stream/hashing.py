"""Hashes of values and rows: the same on every machine, in every run, for every chunking."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from oakgp.columns import FloatArray, Level

Hashes = NDArray[np.uint64]

MISSING = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


def mixed(h: Hashes) -> Hashes:
    """Scatter the bits of each number (the finalizer of splitmix64); a bijection."""
    h = (h ^ (h >> _30)) * _FIRST
    h = (h ^ (h >> _27)) * _SECOND
    return np.asarray(h ^ (h >> _31))


def hash_numbers(values: FloatArray) -> Hashes:
    """Hash numbers by value: 0.0 and -0.0 are one, and so is every NaN."""
    h = mixed((values + 0.0).view(np.uint64))
    missing = np.isnan(values)
    if missing.any():
        h[missing] = MISSING
    return h


def hash_levels(levels: Sequence[Level]) -> Hashes:
    """Hash levels by value: 1 and 1.0 are one."""
    return np.fromiter(map(_hash_level, levels), np.uint64, len(levels))


def _hash_level(level: Level) -> int:
    if isinstance(level, str):
        digest = hashlib.blake2b(level.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int(struct.unpack("<Q", digest)[0])
    return int(hash_numbers(np.array([float(level)]))[0])


def hash_rows(columns: Iterable[Hashes], n_rows: int) -> Hashes:
    """Combine the hashes of the columns into one a row; the order of the columns matters."""
    h = np.zeros(n_rows, dtype=np.uint64)
    for position, column in enumerate(columns):
        h = mixed(h + column * np.uint64(2 * position + 1) + MISSING)
    return h
