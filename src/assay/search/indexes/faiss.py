"""`faiss:FACTORY`: Faiss, by a string for its index factory; options are its search parameters.

Examples: `faiss:Flat`, `faiss:HNSW32?efSearch=64&efConstruction=200`, `faiss:IVF100,Flat?nprobe=8`,
`faiss:OPQ16,IVF100,PQ16`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from assay.arrays import Floats32, Ints
from assay.errors import UsageError, need
from assay.search.indexes.base import EngineBytes, Exactness, Options, Setup, describe_lesson


class _Faiss:
    tunable = ("nprobe", "efSearch", "k_factor", "k_factor_rf", "ht", "max_codes")

    def __init__(self, setup: Setup) -> None:
        self._faiss = need("faiss", "The index 'faiss'", "faiss")
        self.version = f"faiss {self._faiss.__version__}"
        self._setup = setup
        self._index = self._create()
        self.tune(setup.options)
        self._n_centroids = self._ask_for_no_more_points(self._index)
        self.learnt = ""

    @property
    def exactness(self) -> Exactness:
        """Flat indexes, and lists of whole vectors of which all are looked into."""
        index, faiss = self._index, self._faiss
        every_list = isinstance(index, faiss.IndexIVFFlat) and index.nprobe >= index.nlist
        return "exact" if isinstance(index, faiss.IndexFlat) or every_list else "approximate"

    def tune(self, options: Options) -> None:
        for name, value in options.rest().items():
            self._set(name, value)

    def add(self, vectors: Floats32) -> None:
        try:
            with self._threads():
                if not self._index.is_trained:
                    self._index.train(vectors)
                    self.learnt = describe_lesson(len(vectors), self._n_centroids)
                self._index.add(vectors)
        except RuntimeError as error:
            raise self._refusal("cannot be built", error) from None

    def find(self, queries: Floats32, k: int) -> NDArray[Any]:
        with self._threads():
            neighbours: NDArray[Any] = self._index.search(queries, k)[1]
        return neighbours

    def find_among(self, queries: Floats32, k: int, numbers: Ints) -> NDArray[Any] | None:
        """Search by Faiss's own selector; kinds that take none are told by what they raise."""
        faiss, index = self._faiss, self._index
        how: Any = {"sel": faiss.IDSelectorBatch(numbers)}
        if isinstance(index, faiss.IndexHNSW):
            params = faiss.SearchParametersHNSW(efSearch=index.hnsw.efSearch, **how)
        elif isinstance(index, faiss.IndexIVF):
            params = faiss.SearchParametersIVF(nprobe=index.nprobe, **how)
        else:
            params = faiss.SearchParameters(**how)
        try:
            with self._threads():
                neighbours: NDArray[Any] = index.search(queries, k, params=params)[1]
        except RuntimeError:
            return None
        return neighbours

    def size(self) -> EngineBytes:
        return EngineBytes(memory=int(self._faiss.serialize_index(self._index).nbytes))

    def close(self) -> None:
        if self._index is not None:
            self._index.reset()

    def _create(self) -> Any:
        l2, product = self._faiss.METRIC_L2, self._faiss.METRIC_INNER_PRODUCT
        metric = l2 if self._setup.metric == "l2" else product
        factory = self._setup.argument or "Flat"
        try:
            return self._faiss.index_factory(self._setup.dimension, factory, metric)
        except RuntimeError as error:
            raise self._refusal("cannot be made", error) from None

    def _set(self, name: str, value: str) -> None:
        try:
            self._faiss.ParameterSpace().set_index_parameter(self._index, name, float(value))
        except (RuntimeError, ValueError) as error:
            raise self._refusal(f"cannot take {name}={value}", error) from None

    def _refusal(self, what: str, error: Exception) -> UsageError:
        """Faiss begins with a signature and a line of its source; the reason comes last."""
        reason = re.split(r"\.cpp:\d+: |failed: ", str(error))[-1].strip()
        case = f"{self._setup.dimension} dimensions, metric {self._setup.metric}"
        return UsageError(f"The index {self._setup.spec} {what} ({case}): {reason}")

    def _ask_for_no_more_points(self, index: Any) -> int:
        """Return the most centroids of a clustering; `learnt` says so, not a page of warnings."""
        sizes = [0]
        for name, size in (("cp", "nlist"), ("pq", "ksub")):
            part: Any = getattr(index, name, None)
            n_centroids = getattr(index if name == "cp" else part, size, 0)
            part = getattr(part, "cp", part)
            if hasattr(part, "min_points_per_centroid"):
                part.min_points_per_centroid = 1
                sizes.append(int(n_centroids))
        for name in ("index", "base_index", "quantizer", "storage"):
            inner = getattr(index, name, None)
            if inner is not None:
                sizes.append(self._ask_for_no_more_points(self._faiss.downcast_index(inner)))
        return max(sizes)

    @contextmanager
    def _threads(self) -> Iterator[None]:
        if self._setup.threads is None:
            yield
            return
        before = self._faiss.omp_get_max_threads()
        self._faiss.omp_set_num_threads(self._setup.threads)
        try:
            yield
        finally:
            self._faiss.omp_set_num_threads(before)


open_engine = _Faiss
