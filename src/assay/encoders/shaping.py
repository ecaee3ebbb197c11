"""What follows the model: the first dimensions (Matryoshka), and rows scaled to length 1."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from assay.encoders.settings import EncoderSettings
from assay.errors import UsageError

__all__ = ["shaped", "unit_rows"]

Floats = NDArray[np.float32]

_ROWS_AT_ONCE: Final = 8192


def shaped(vectors: Floats, settings: EncoderSettings, spec: str) -> Floats:
    """Vectors under `dimensions` and `normalize`; rows of zeros stay."""
    width = settings.dimensions
    if width is not None:
        if width > vectors.shape[1]:
            raise UsageError(f"dimensions is {width}, but encoder {spec!r} has {vectors.shape[1]}.")
        vectors = np.ascontiguousarray(vectors[:, :width])
    scale = settings.normalize or (width is not None and settings.normalize is None)
    return unit_rows(vectors) if scale else vectors


def unit_rows(vectors: Floats) -> Floats:
    """Each row divided by its length; a row does not depend on its neighbours."""
    made = np.empty_like(vectors)
    for start in range(0, len(vectors), _ROWS_AT_ONCE):
        rows = vectors[start : start + _ROWS_AT_ONCE].astype(np.float64)
        lengths = np.sqrt(np.add.reduce(rows * rows, axis=1, keepdims=True))
        made[start : start + _ROWS_AT_ONCE] = rows / np.where(lengths, lengths, 1)
    return made
