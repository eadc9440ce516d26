"""Tables larger than memory: sources read in chunks, and the first pass over them."""

from __future__ import annotations

from oakgp.stream.checkpoint import Checkpoint, State, fingerprint
from oakgp.stream.chunk import Chunk
from oakgp.stream.encoding import EncodedChunk, encode, encoded_chunks
from oakgp.stream.first_pass import FirstPass, Sample, SketchPlan, first_pass, summary
from oakgp.stream.opening import open_source
from oakgp.stream.source import Part, Source
from oakgp.stream.sums import sum_over

__all__ = [
    "Checkpoint",
    "Chunk",
    "EncodedChunk",
    "FirstPass",
    "Part",
    "Sample",
    "SketchPlan",
    "Source",
    "State",
    "encode",
    "encoded_chunks",
    "fingerprint",
    "first_pass",
    "open_source",
    "sum_over",
    "summary",
]
