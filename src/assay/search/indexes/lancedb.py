"""`lancedb`: a table of LanceDB in a folder of its own; without a type it looks at all vectors.

`lancedb:IVF_FLAT`, `lancedb:IVF_PQ`, `lancedb:IVF_SQ`, `lancedb:HNSW_SQ`, `lancedb:HNSW_PQ` build
an index. Options: `num_partitions`, `num_sub_vectors` (of PQ), `m` and `ef_construction` (of
HNSW), and for the search `nprobes`, `ef` and `refine_factor`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats32, Ints
from assay.errors import UsageError, need
from assay.io.streams import ScratchFolder
from assay.search.indexes.base import (
    EngineBytes,
    Exactness,
    Options,
    Setup,
    describe_lesson,
    folder_bytes,
)

_TYPES: Final = {
    "IVF_FLAT": "IvfFlat",
    "IVF_PQ": "IvfPq",
    "IVF_SQ": "IvfSq",
    "HNSW_SQ": "HnswSq",
    "HNSW_PQ": "HnswPq",
}
_QUERIES: Final = 32  # in one call: each becomes a part of one plan


class _LanceDB:
    tunable = ("nprobes", "ef", "refine_factor")

    def __init__(self, setup: Setup) -> None:
        package = need("lancedb", "The index 'lancedb'", "lancedb")
        self.version = f"lancedb {package.__version__}"
        self._setup = setup
        self._config = self._index_settings()
        self.tune(setup.options)
        self.exactness: Exactness = "approximate" if self._config else "exact"
        self._folder = ScratchFolder("index")
        try:
            self._database = package.connect(self._folder.name)
        except BaseException:
            self._folder.cleanup()
            raise
        self._table: Any = None
        self.learnt = ""

    def tune(self, options: Options) -> None:
        names = self.tunable if self._config else ()
        self._search = {name: options.whole(name) for name in names}

    def add(self, vectors: Floats32) -> None:
        arrow = need("pyarrow", "The index 'lancedb'", "lancedb")
        column = arrow.FixedSizeListArray.from_arrays(
            arrow.array(vectors.ravel()), self._setup.dimension
        )
        numbers = arrow.array(np.arange(len(vectors), dtype=np.int64))
        table = arrow.table({"id": numbers, "vector": column})
        self._table = self._database.create_table("docs", table)
        if self._config is not None:
            self._table.create_index("vector", config=self._config)
            self.learnt = describe_lesson(len(vectors))

    def find(self, queries: Floats32, k: int) -> NDArray[Any]:
        return self._find(queries, k, "")

    def find_among(self, queries: Floats32, k: int, numbers: Ints) -> NDArray[Any]:
        return self._find(queries, k, f"id IN ({', '.join(map(str, numbers))})")

    def _find(self, queries: Floats32, k: int, where: str) -> NDArray[Any]:
        rows = np.full((len(queries), k), -1, np.int64)
        for start in range(0, len(queries), _QUERIES):
            part = slice(start, start + _QUERIES)
            self._find_some(queries[part], k, rows[part], where)
        return rows

    def _find_some(self, queries: Floats32, k: int, neighbours: Ints, where: str) -> None:
        search = self._table.search(queries if len(queries) > 1 else queries[0])
        search = search.distance_type(self._setup.metric).limit(k).select(["id", "_distance"])
        search = search.where(where, prefilter=True) if where else search
        for name, value in self._search.items():
            if value is not None:
                search = getattr(search, name)(value)
        answer = search.to_arrow()
        docs = answer["id"].to_numpy()
        rows = answer["query_index"].to_numpy() if len(queries) > 1 else np.zeros(len(docs), int)
        by_row = np.argsort(rows, kind="stable")
        rows, docs = rows[by_row], docs[by_row]
        neighbours[rows, np.arange(len(rows)) - np.searchsorted(rows, rows)] = docs

    def size(self) -> EngineBytes:
        return EngineBytes(disk=folder_bytes(self._folder.name))

    def close(self) -> None:
        self._table = None
        self._folder.cleanup()

    def _index_settings(self) -> Any:
        """Return the settings of an index, or None for none."""
        kind, options = self._setup.argument.upper(), self._setup.options
        if not kind:
            return None
        if kind not in _TYPES:
            kinds = ", ".join(_TYPES)
            raise UsageError(f"LanceDB has no index {kind!r}: {self._setup.spec}. Known: {kinds}.")
        names = ["num_partitions"]
        names += ["num_sub_vectors"] if kind.endswith("PQ") else []
        names += ["m", "ef_construction"] if kind.startswith("HNSW") else []
        numbers = {name: options.whole(name) for name in names}
        settings = {name: value for name, value in numbers.items() if value is not None}
        make = getattr(need("lancedb.index", "The index 'lancedb'", "lancedb"), _TYPES[kind])
        return make(distance_type=self._setup.metric, **settings)


open_engine = _LanceDB
