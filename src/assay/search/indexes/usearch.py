"""`usearch`: an HNSW graph by USearch.

Options: `connectivity`, `expansion_add`, `expansion_search`, `dtype` (f32, bf16, f16, i8) and
`exact=true`, which looks at all vectors.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats32
from assay.errors import UsageError, need
from assay.search.indexes.base import EngineBytes, Exactness, Options, Setup

_METRICS = {"cosine": "cos", "dot": "ip", "l2": "l2sq"}


class _Usearch:
    tunable = ("expansion_search",)

    def __init__(self, setup: Setup) -> None:
        _load_faiss_first()
        package = need("usearch", "The index 'usearch'", "usearch")
        make = need("usearch.index", "The index 'usearch'", "usearch").Index
        self.version = f"usearch {package.__version__}"
        if setup.argument:
            raise UsageError(f"usearch takes options only: usearch?connectivity=32: {setup.spec}")
        options = setup.options
        dtype = options.choice("dtype", ("f32", "bf16", "f16", "i8"))
        if dtype == "i8" and setup.metric != "cosine":
            raise UsageError(f"usearch stores i8 for metric cosine only: {setup.spec}")
        self._threads = setup.threads or 0
        self._exhaustive = options.flag("exact")
        whole = self._exhaustive and dtype == "f32"
        self.exactness: Exactness = "exact" if whole else "approximate"
        names = ("connectivity", "expansion_add")
        numbers = {name: options.whole(name) for name in names}
        settings = {name: value for name, value in numbers.items() if value is not None}
        self._index = make(
            ndim=setup.dimension, metric=_METRICS[setup.metric], dtype=dtype, **settings
        )
        self.tune(options)

    def tune(self, options: Options) -> None:
        if (effort := options.whole("expansion_search")) is not None:
            self._index.expansion_search = effort

    def add(self, vectors: Floats32) -> None:
        self._index.add(np.arange(len(vectors)), vectors, threads=self._threads)

    def find(self, queries: Floats32, k: int) -> NDArray[Any]:
        neighbours = self._index.search(queries, k, threads=self._threads, exact=self._exhaustive)
        keys = np.atleast_2d(neighbours.keys).astype(np.int64)
        counts = np.asarray(getattr(neighbours, "counts", keys.shape[1])).reshape(-1, 1)
        keys[np.arange(keys.shape[1]) >= counts] = -1
        return keys

    def size(self) -> EngineBytes:
        return EngineBytes(memory=int(self._index.memory_usage))

    def close(self) -> None:
        self._index.reset()


def _load_faiss_first() -> None:
    """Load Faiss first: after USearch (2.26) it crashes where it would raise."""
    with suppress(ImportError):
        import_module("faiss")


open_engine = _Usearch
