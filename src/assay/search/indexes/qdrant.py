"""`qdrant`: Qdrant in this process, in a folder, or by the URL of a server.

`qdrant` and `qdrant:FOLDER` look at all vectors; in the folder, a new one is made for them and
removed at the end (what is there already is not opened: Qdrant would unpickle it).
`qdrant:http://host:6333` searches the graph of a server, in a collection of its own that is deleted
at the end; the key comes from the environment (QDRANT_API_KEY). Options, for a server: `m`,
`ef_construct`, `hnsw_ef` and `exact=true`.
"""

from __future__ import annotations

import os
import time
import warnings
from typing import Any, Final
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats32, Ints
from assay.core.specs import is_loopback
from assay.errors import StorageError, UsageError, need
from assay.io.streams import ScratchFolder
from assay.search.indexes.base import EngineBytes, Exactness, Options, Setup

_DISTANCES: Final = {"cosine": "COSINE", "dot": "DOT", "l2": "EUCLID"}
_POINTS: Final = 512  # in one call
_QUERIES: Final = 64
_PATIENCE: Final = 3600.0  # seconds that a server may take to build its graph


class _Qdrant:
    tunable = ("hnsw_ef", "exact")

    def __init__(self, setup: Setup) -> None:
        package = need("qdrant_client", "The index 'qdrant'", "qdrant")
        self._models = package.models
        self._setup = setup
        self._name = f"assay-{uuid4().hex}"
        self._served = setup.argument.startswith(("http://", "https://"))
        self._graph = self._describe_graph()
        self.tune(setup.options)
        self._has_collection = False
        self._folder: ScratchFolder | None = None
        self._client = self._connected(package.QdrantClient)
        self.version = f"qdrant {self._client.info().version if self._served else 'in process'}"

    def tune(self, options: Options) -> None:
        """Describe the search of a graph; in process there is none."""
        params: dict[str, Any] = {}
        if self._served:
            params = {"hnsw_ef": options.whole("hnsw_ef"), "exact": options.flag("exact")}
        self._params = self._models.SearchParams(**params)
        whole = params.get("exact", True)
        self.exactness: Exactness = "exact" if whole else "approximate"

    def add(self, vectors: Floats32) -> None:
        models, distance = self._models, _DISTANCES[self._setup.metric]
        params = models.VectorParams(
            size=self._setup.dimension, distance=getattr(models.Distance, distance)
        )
        self._has_collection = self._served  # one in process ends with its folder
        self._client.create_collection(self._name, vectors_config=params, hnsw_config=self._graph)
        for start in range(0, len(vectors), _POINTS):
            rows = vectors[start : start + _POINTS]
            numbers = list(range(start, start + len(rows)))
            batch = models.Batch(ids=numbers, vectors=rows.tolist())
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Local mode")  # that it is slow is measured
                self._client.upsert(self._name, points=batch, wait=True)
        if self._served:
            self._wait()

    def find(self, queries: Floats32, k: int) -> NDArray[Any]:
        return self.find_among(queries, k, None)

    def find_among(self, queries: Floats32, k: int, among: Ints | None) -> NDArray[Any]:
        models, only = self._models, None
        if among is not None:
            only = models.Filter(must=[models.HasIdCondition(has_id=among.tolist())])
        neighbours = np.full((len(queries), k), -1, np.int64)
        for start in range(0, len(queries), _QUERIES):
            requests = [
                models.QueryRequest(
                    query=query, limit=k, with_payload=False, params=self._params, filter=only
                )
                for query in queries[start : start + _QUERIES].tolist()
            ]
            answers = self._client.query_batch_points(self._name, requests=requests)
            for row, answer in enumerate(answers, start):
                numbers = [point.id for point in answer.points]
                neighbours[row, : len(numbers)] = numbers
        return neighbours

    def size(self) -> EngineBytes:
        return EngineBytes()

    def close(self) -> None:
        if self._client is None:
            return
        try:
            if self._has_collection:
                self._client.delete_collection(self._name)
        finally:
            self._client.close()
            self._client = None
            if self._folder is not None:
                self._folder.cleanup()

    def _describe_graph(self) -> Any:
        if not self._served:
            return None
        numbers = {name: self._setup.options.whole(name) for name in ("m", "ef_construct")}
        return self._models.HnswConfigDiff(**numbers)

    def _connected(self, client: Any) -> Any:
        place = self._setup.argument
        try:
            if not self._served:
                return client(path=self._new_folder()) if place else client(":memory:")
            key = os.environ.get("QDRANT_API_KEY")
            if key and place.startswith("http://") and not is_loopback(place):
                raise UsageError(
                    "QDRANT_API_KEY would go to the server in plain text. Give an address with "
                    "https, or unset it if the server needs no key."
                )
            return client(url=place, api_key=key, timeout=60, check_compatibility=False)
        except (OSError, RuntimeError, ValueError) as error:
            raise UsageError(f"Qdrant cannot open {self._setup.spec}: {error}") from None

    def _new_folder(self) -> str:
        place = self._setup.argument
        os.makedirs(place, exist_ok=True)
        self._folder = ScratchFolder("qdrant", place)
        return self._folder.name

    def _wait(self) -> None:
        """Until the server has built its graph: before, it would be measured without."""
        end = time.monotonic() + _PATIENCE
        while self._client.get_collection(self._name).status != "green":
            if time.monotonic() > end:
                raise StorageError(f"{self._setup.spec} was not ready after {_PATIENCE:.0f} s.")
            time.sleep(0.1)


open_engine = _Qdrant
