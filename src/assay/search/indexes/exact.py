"""`exact`: the engine of this package, for comparison with the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay import __version__
from assay.arrays import Floats32
from assay.search.engine import rank
from assay.search.indexes.base import EngineBytes, Exactness, Setup


class _Exact:
    version = f"assay {__version__}"
    exactness: Exactness = "certified"

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._vectors = np.zeros((0, setup.dimension), np.float32)

    def add(self, vectors: Floats32) -> None:
        self._vectors = vectors

    def find(self, queries: Floats32, k: int) -> NDArray[Any]:
        metric, threads = self._setup.metric, self._setup.threads
        ranking = rank(queries, self._vectors, k, metric=metric, threads=threads)
        return ranking.docs.reshape(len(queries), -1)

    def size(self) -> EngineBytes:
        return EngineBytes(memory=self._vectors.nbytes)

    def close(self) -> None:
        self._vectors = self._vectors[:0]


def open_engine(setup: Setup) -> _Exact:
    """Exact search; there is nothing to set."""
    return _Exact(setup)
