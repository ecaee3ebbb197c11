"""The ways to search that search.py compares, and the process in which one package runs them.

search.py starts this file once for each package and sends it requests, one JSON object to a line.
A package has a process of its own because some read the environment when they are loaded, and
because two thread pools in one process get into each other's way.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # last, so that nothing here hides a standard module

import heapq
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray
from search_sample import Floats, Sample, entering, vectors

__all__ = ["FLOORS", "PRODUCTS", "TARGET_WAYS", "TOP_WAYS", "Way"]

ROWS_SHOWN = 16  # of the answers, so that search.py can see that all ways find the same

Ints = NDArray[np.int64]


class Way(NamedTuple):
    """One way to search, and how many queries it is given where it is too slow for all of them."""

    package: str
    work: Callable[..., Any]
    slice: int | None = None
    variant: str = ""  # of the environment in which the package is loaded
    one_k: bool = False  # is enough
    prepared: bool = False  # the documents, beforehand


# The floor -------------------------------------------------------------------------------------


def sgemm(tile: int) -> Callable[[Floats, Floats, Any], None]:
    """All products and nothing else: tiles of 1,024 × `tile`, all into one buffer, all threads."""

    def multiply(queries: Floats, docs: Floats, _: Any) -> None:
        buffer = np.empty((1024, tile), np.float32)
        for q in _chunks(queries, 1024):
            for d in _chunks(docs, tile):
                np.matmul(q, d.T, out=buffer[: len(q), : len(d)])

    return multiply


def torch_product(queries: Floats, docs: Floats, _: Any) -> None:
    """The same by torch's BLAS, which is another than numpy's."""
    import torch

    buffer = torch.empty((1024, 16384))
    for q in _chunks(torch.from_numpy(queries), 1024):
        for d in _chunks(torch.from_numpy(docs), 16384):
            torch.mm(q, d.T, out=buffer[: len(q), : len(d)])


def _chunks(rows: Any, size: int) -> Iterator[Any]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


# The best k ------------------------------------------------------------------------------------


def assay_top(metric: Any) -> Callable[[Floats, Floats, int], Ints]:
    def top(queries: Floats, docs: Floats, k: int) -> Any:
        from assay.search.engine import rank

        return rank(queries, docs, k, metric=metric).docs.reshape(len(queries), -1)

    return top


def torch_top(query_chunk: int | None, corpus_chunk: int) -> Callable[[Floats, Floats, int], Ints]:
    """Matrix product and topk, chunk by chunk; what chunks found is merged by another topk."""

    def top(queries: Floats, docs: Floats, k: int) -> Ints:
        import torch

        corpus = torch.from_numpy(docs)
        found = [
            _torch_top_of_chunk(torch, chunk, corpus, corpus_chunk, k)
            for chunk in _chunks(torch.from_numpy(queries), query_chunk or len(queries))
        ]
        return np.concatenate(found)

    return top


def _torch_top_of_chunk(torch: Any, queries: Any, corpus: Any, size: int, k: int) -> Any:
    scores, numbers = [], []
    for start, chunk in zip(range(0, len(corpus), size), _chunks(corpus, size), strict=True):
        values, rows = torch.topk(queries @ chunk.T, min(k, len(chunk)), dim=1)
        scores.append(values)
        numbers.append(rows + start)
    if len(scores) == 1:
        return numbers[0].numpy()
    _, best = torch.topk(torch.cat(scores, 1), k, dim=1)
    return torch.cat(numbers, 1).gather(1, best).numpy()


def torch_lists_top(queries: Floats, docs: Floats, k: int) -> Ints:
    """What `semantic_search` of sentence-transformers does besides: lists, and a heap per query."""
    import torch

    heaps = []
    for chunk in _chunks(torch.from_numpy(queries), 100):
        values, rows = torch.topk(chunk @ torch.from_numpy(docs).T, k, dim=1, sorted=False)
        for scores, numbers in zip(values.tolist(), rows.tolist(), strict=True):
            heap: list[tuple[float, int]] = []
            for pair in zip(scores, numbers, strict=True):
                heapq.heappush(heap, pair)
            heaps.append(sorted(heap, reverse=True))
    return np.array([[doc for _, doc in heap] for heap in heaps])


def faiss_top(queries: Floats, docs: Floats, k: int) -> Any:
    import faiss

    return faiss.knn(queries, docs, k, metric=faiss.METRIC_INNER_PRODUCT)[1]


def usearch_top(queries: Floats, docs: Floats, k: int) -> Any:
    from usearch.index import MetricKind, search

    return search(docs, queries, k, MetricKind.IP, exact=True).keys


def argsort_top(queries: Floats, docs: Floats, k: int) -> Ints:
    """Document 000: the whole score matrix, and all of it sorted."""
    return np.argsort(-(queries @ docs.T), axis=1)[:, :k]


def argsort_one_by_one(queries: Floats, docs: Floats, k: int) -> Ints:
    """Document 004: one query at a time, all lengths again for each, all scores sorted."""
    found = []
    for query in queries:
        lengths = np.linalg.norm(docs, axis=1) * np.linalg.norm(query)
        found.append(np.argsort(docs @ query / lengths)[::-1][:k])
    return np.array(found)


# The rank of one target ------------------------------------------------------------------------


def assay_target(queries: Floats, docs: Floats, targets: Ints) -> Any:
    from assay.search.engine import target_ranks

    return target_ranks(queries, docs, targets).rank


def torch_argsort_target(queries: Floats, docs: Floats, targets: Ints) -> Ints:
    import torch

    corpus, found = torch.from_numpy(docs), []
    chunks = zip(_chunks(torch.from_numpy(queries), 100), _chunks(targets, 100), strict=True)
    for chunk, wanted in chunks:
        order = torch.argsort(chunk @ corpus.T, dim=1, descending=True)
        found.append((order == torch.from_numpy(wanted)[:, None]).int().argmax(dim=1).numpy() + 1)
    return np.concatenate(found)


def torch_count_target(queries: Floats, docs: Floats, targets: Ints) -> Ints:
    """The kinder way: count the scores above the target's."""
    import torch

    corpus, found = torch.from_numpy(docs), []
    chunks = zip(_chunks(torch.from_numpy(queries), 100), _chunks(targets, 100), strict=True)
    for chunk, wanted in chunks:
        scores = chunk @ corpus.T
        own = scores.gather(1, torch.from_numpy(wanted)[:, None])
        found.append((scores > own).sum(dim=1).numpy() + 1)
    return np.concatenate(found)


def numpy_argsort_target(queries: Floats, docs: Floats, targets: Ints) -> Any:
    order = np.argsort(-(queries @ docs.T), axis=1)
    return np.argmax(order == targets[:, None], axis=1) + 1


FLOORS = {
    "sgemm, tiles 1024 × 4096": Way("numpy", sgemm(4096)),
    "sgemm, tiles 1024 × 16384": Way("numpy", sgemm(16384)),
}
PRODUCTS = {**FLOORS, "torch, product alone": Way("torch", torch_product)}
TOP_WAYS = {
    **PRODUCTS,
    "assay": Way("assay", assay_top("cosine")),
    "assay, prepared": Way("assay", assay_top("cosine"), prepared=True),
    "assay, dot": Way("assay", assay_top("dot"), one_k=True),
    "assay, l2": Way("assay", assay_top("l2"), one_k=True),
    "faiss knn": Way("faiss", faiss_top),
    "faiss knn, core type set": Way("faiss", faiss_top, variant="core type"),
    "torch, chunks 100 × 500k": Way("torch", torch_top(100, 500_000)),
    "torch, chunks all × 50k": Way("torch", torch_top(None, 50_000)),
    "torch, 100 × 500k, lists": Way("torch", torch_lists_top, slice=500),
    "usearch exact": Way("usearch", usearch_top, slice=500),
    "argsort of all (000)": Way("numpy", argsort_top, slice=100, one_k=True),
    "argsort, one by one (004)": Way("numpy", argsort_one_by_one, slice=16, one_k=True),
}
TARGET_WAYS = {
    **FLOORS,
    "assay": Way("assay", assay_target),
    "torch, counting": Way("torch", torch_count_target),
    "torch argsort": Way("torch", torch_argsort_target, slice=500),
    "numpy argsort": Way("numpy", numpy_argsort_target, slice=100),
}


@lru_cache(maxsize=1)
def prepared_docs(sample: Sample) -> Any:
    """Documents measured and quantised by assay: once for all turns."""
    from assay.search.engine import prepare

    return prepare(vectors(sample).docs)


# The process -----------------------------------------------------------------------------------


def timed(ways: dict[str, Way], name: str, size: list[Any], k: int) -> dict[str, Any]:
    """Seconds of one way, for the queries it was given, and the first of its answers."""
    way, made = ways[name], vectors(Sample(*size))
    queries = made.queries[: way.slice]
    wanted: Any = made.targets[: way.slice] if ways is TARGET_WAYS else k
    docs = prepared_docs(Sample(*size)) if way.prepared else made.docs
    start = time.perf_counter()
    found = way.work(queries, docs, wanted)
    seconds = time.perf_counter() - start
    rows = None if found is None else np.asarray(found)[:ROWS_SHOWN].tolist()
    return {"seconds": seconds, "queries": len(queries), "found": rows}


def peaks() -> dict[str, float]:
    """What this machine can do: flop/s of the fastest of some square products, bytes/s read."""
    return {"flops": max(map(square_flops, (1024, 2048, 3072))), "bytes": read_bytes()}


def square_flops(side: int) -> float:
    a = np.random.default_rng(0).standard_normal((side, side), dtype=np.float32)
    out = np.empty_like(a)
    return 2 * side**3 / shortest(lambda: np.matmul(a, a, out=out), 8)


def read_bytes() -> float:
    """Maxima of pieces of a big array, one thread for each core."""
    cores = os.cpu_count() or 1
    pieces = np.array_split(np.ones(64 << 20, np.float32), cores)
    with ThreadPoolExecutor(cores) as pool:
        return 4 * (64 << 20) / shortest(lambda: list(pool.map(np.max, pieces)), 8)


def shortest(work: Callable[[], Any], turns: int) -> float:
    seconds = []
    for _ in range(turns):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def libraries() -> dict[str, Any]:
    """The BLAS and OpenMP that this process has loaded, and for which core they decided."""
    from threadpoolctl import threadpool_info

    return {
        info["prefix"]: [info.get("architecture"), info["num_threads"]]
        for info in threadpool_info()
    }


def answer(kind: str, *arguments: Any) -> dict[str, Any]:
    if kind == "top":
        return timed(TOP_WAYS, *arguments)
    if kind == "target":
        return timed(TARGET_WAYS, *arguments)
    if kind == "entering":
        return {"share": entering(Sample(*arguments[0]), arguments[1])}
    return peaks() if kind == "peaks" else libraries()


def serve(replies: TextIO) -> None:
    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), file=replies, flush=True)


def main() -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a package prints must not stand between our lines
    serve(replies)


if __name__ == "__main__":
    main()
