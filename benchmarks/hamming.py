"""Speed of Hamming search beside faiss and a plain XOR and sum, all measured in one run.

    python benchmarks/hamming.py [--queries 10000] [--docs 1000000] [--bits 256 1024] [--k 100]

Everyone searches the same random codes with the same number of threads. Repeats are interleaved
and the shortest time of each counts. The XOR and sum of bits, with a stable sort, as it is often
written in numpy, runs on a slice, and its time is scaled to all pairs. faiss is left out if it is
not installed. Distances must agree, or the run stops.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from assay.native import engine_name
from assay.search.engine import Codes, rank_codes

Jobs = dict[str, tuple[Callable[[], Any], float]]  # what to do, and by what to multiply its time

SLICE_QUERIES, SLICE_DOCS = 20, 10_000


def random_codes(rows: int, bits: int, seed: int) -> Codes:
    rng = np.random.default_rng(seed)
    packed = rng.integers(0, 256, (rows, -(-bits // 8)), np.uint8)
    packed[:, -1] &= 0xFF << (-bits % 8) & 0xFF
    return Codes(packed, bits)


def distances_of_assay(queries: Codes, docs: Codes, k: int, threads: int) -> Any:
    return -rank_codes(queries, docs, k, threads=threads).scores.reshape(-1, k)


def faiss_search(docs: Codes, k: int, threads: int) -> Callable[[Codes], Any]:
    import faiss

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexBinaryFlat(docs.packed.shape[1] * 8)  # padding is zero on both sides
    index.add(np.ascontiguousarray(docs.packed))
    return lambda queries: index.search(np.ascontiguousarray(queries.packed), k)[0]


def xor_and_sum(queries: Any, docs: Any, k: int) -> Any:
    found = []
    for query in queries:  # all queries at once would take gigabytes
        distances = (query ^ docs).sum(axis=1)
        found.append(distances[np.argsort(distances, kind="stable")[:k]])
    return np.array(found)


def jobs(queries: Codes, docs: Codes, k: int, threads: int) -> Jobs:
    work: Jobs = {"assay": (lambda: distances_of_assay(queries, docs, k, threads), 1.0)}
    if find_spec("faiss") is not None:
        search = faiss_search(docs, k, threads)
        work["faiss IndexBinaryFlat"] = (lambda: search(queries), 1.0)
    few = np.unpackbits(queries.packed[:SLICE_QUERIES], axis=1, count=queries.bits)
    some = np.unpackbits(docs.packed[:SLICE_DOCS], axis=1, count=docs.bits)
    share = len(queries) * len(docs) / (len(few) * len(some))
    work["numpy XOR and sum"] = (lambda: xor_and_sum(few, some, min(k, len(some))), share)
    return work


def shortest(work: Jobs, repeats: int) -> dict[str, float]:
    times: dict[str, float] = {}
    for _ in range(repeats):
        for name, (job, share) in work.items():
            start = time.perf_counter()
            job()
            taken = (time.perf_counter() - start) * share
            times[name] = min(times.get(name, taken), taken)
    return times


def check(queries: Codes, docs: Codes, k: int, threads: int) -> None:
    """Both peers find the same distances on a slice."""
    few, some = (
        Codes(queries.packed[:SLICE_QUERIES], queries.bits),
        Codes(docs.packed[:SLICE_DOCS], docs.bits),
    )
    k = min(k, len(some))
    bits = [np.unpackbits(codes.packed, axis=1, count=codes.bits) for codes in (few, some)]
    expected = xor_and_sum(*bits, k)
    np.testing.assert_array_equal(distances_of_assay(few, some, k, threads), expected)
    if find_spec("faiss") is not None:
        np.testing.assert_array_equal(faiss_search(some, k, threads)(few), expected)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--docs", type=int, default=1_000_000)
    parser.add_argument("--bits", type=int, nargs="+", default=[256, 1024])
    parser.add_argument("--k", type=int, default=100)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    for bits in options.bits:
        queries = random_codes(options.queries, bits, 1)
        docs = random_codes(options.docs, bits, 2)
        check(queries, docs, options.k, options.threads)
        print(
            f"top {options.k}, {len(queries)} queries × {len(docs)} docs × {bits} bits, "
            f"{options.threads} threads, {engine_name()} kernels, {platform.machine()}"
        )
        times = shortest(jobs(queries, docs, options.k, options.threads), options.repeats)
        for name, taken in times.items():
            pairs = len(queries) * len(docs) / taken / 1e9
            print(
                f"  {name:<22} {taken:9.3f} s {pairs:8.3f} G pairs/s "
                f"{pairs * bits / 8:8.2f} GB/s {taken / times['assay']:8.1f} × assay"
            )


if __name__ == "__main__":
    main()
