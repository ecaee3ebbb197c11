"""Search of few queries, small shapes and narrow types, beside the least that each could take.

    python benchmarks/shapes.py              200,000 documents; some minutes
    python benchmarks/shapes.py --parts small

Seconds are those of the processor, of all threads together: a busy machine changes them less than
a clock. Every way has one thread, so that none waits for another. The shortest of several turns
counts. benchmarks/README.md says what each row includes.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
if sys.path and sys.path[0].endswith("benchmarks"):
    sys.path.append(sys.path.pop(0))  # last, or files here would hide standard modules

import argparse
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.search.engine import prepare, rank

Floats = NDArray[np.float32]
PARTS = ("few", "small", "types", "sorted")
DEPTH = 100
SMALL = ((10, 1_000), (300, 5_183), (100, 20_000))


def unit_rows(n: int, columns: int, seed: int) -> Floats:
    rows = np.random.default_rng(seed).standard_normal((n, columns), dtype=np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def seconds(work: Callable[[], Any], budget: float) -> float:
    """The shortest of three to two hundred turns, as many as the budget allows."""
    shortest, spent, turns = np.inf, 0.0, 0
    while turns < 3 or (spent < budget and turns < 200):
        start = time.process_time()
        work()
        took = time.process_time() - start
        shortest, spent, turns = min(shortest, took), spent + took, turns + 1
    return float(shortest)


def argpartition(queries: Floats, docs: Floats, k: int) -> Any:
    return np.argpartition(queries @ docs.T, -k, axis=1)[:, -k:]


def faiss_way(queries: Floats, docs: Floats, k: int) -> Callable[[], Any] | None:
    if not find_spec("faiss"):
        return None
    import faiss

    faiss.omp_set_num_threads(1)
    return lambda: faiss.knn(queries, docs, k, metric=faiss.METRIC_INNER_PRODUCT)


def show(title: str, times: dict[str, float], ours: str = "assay") -> None:
    """Times in milliseconds, and how often assay's goes into each."""
    print(f"\n{title}")
    for name, took in times.items():
        print(f"  {name:28}{took * 1e3:10.2f} ms{took / times[ours]:8.2f} ÷ assay", flush=True)


def few_queries(options: argparse.Namespace) -> None:
    """1 to 256 queries and many documents: the product, or one reading of the memory."""
    docs = unit_rows(options.docs, 384, 1)
    corpus = prepare(docs, threads=1)
    for n_queries in (1, 8, 32, 64, 256):
        queries = unit_rows(n_queries, 384, 2)
        scores = np.empty((n_queries, len(docs)), np.float32)
        ways: dict[str, Callable[[], Any] | None] = {
            "assay": lambda q=queries: rank(q, docs, DEPTH, threads=1),
            "assay, prepared": lambda q=queries: rank(q, corpus, DEPTH, threads=1),
            "numpy, product alone": lambda q=queries, s=scores: np.matmul(q, docs.T, out=s),
            "reading (numpy's max)": lambda: docs.reshape(-1).max(),
            "faiss knn": faiss_way(queries, docs, DEPTH),
        }
        if n_queries == 1:
            ways["numpy, matrix by vector"] = lambda q=queries: docs @ q[0]
        times = {name: seconds(way, options.budget) for name, way in ways.items() if way}
        show(f"{n_queries} × {len(docs):,} × 384, k = {DEPTH}", times)


def small_shapes(options: argparse.Namespace) -> None:
    """Shapes at which fixed costs show."""
    for columns in (384, 128):
        for n_queries, n_docs in SMALL:
            queries, docs = unit_rows(n_queries, columns, 2), unit_rows(n_docs, columns, 1)
            for k in (10, 100):
                ways: dict[str, Callable[[], Any] | None] = {
                    "assay": lambda q=queries, d=docs, k=k: rank(q, d, k, threads=1),
                    "product and argpartition": lambda q=queries, d=docs, k=k: argpartition(
                        q, d, k
                    ),
                    "faiss knn": faiss_way(queries, docs, k),
                }
                times = {name: seconds(way, options.budget) for name, way in ways.items() if way}
                show(f"{n_queries} × {n_docs:,} × {columns}, k = {k}", times)


def narrow_types(options: argparse.Namespace) -> None:
    """The same numbers as nearly as types allow, in files that are mapped into memory."""
    docs = unit_rows(options.docs, 384, 1)
    kinds = {"float32": docs, "float16": docs.astype(np.float16)}
    kinds["int8"] = np.rint(docs * 127 / np.abs(docs).max()).astype(np.int8)
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in kinds.items():
            np.save(Path(folder) / f"{name}.npy", rows)
        maps = {name: np.load(Path(folder) / f"{name}.npy", mmap_mode="r") for name in kinds}
        for n_queries in (1, 8, 64, 500):
            queries = unit_rows(n_queries, 384, 2)
            times = {
                name: seconds(
                    lambda q=queries, m=rows: rank(q, m, DEPTH, threads=1), options.budget
                )
                for name, rows in maps.items()
            }
            show(f"{n_queries} × {len(docs):,} × 384, k = {DEPTH}, mapped", times, "float32")


def sorted_documents(options: argparse.Namespace) -> None:
    """Documents sorted by their score against the same in any order."""
    for columns in (384, 128):
        docs, queries = unit_rows(options.docs, columns, 1), unit_rows(1, columns, 2)
        falling = docs[np.argsort(-(docs @ queries[0]))]
        orders = {"shuffled": docs, "falling": falling, "rising": falling[::-1].copy()}
        times = {
            name: seconds(lambda q=queries, d=rows: rank(q, d, DEPTH, threads=1), options.budget)
            for name, rows in orders.items()
        }
        times["numpy, matrix by vector"] = seconds(
            lambda q=queries, d=docs: d @ q[0], options.budget
        )
        show(f"1 × {len(docs):,} × {columns}, k = {DEPTH}, sorted", times, "shuffled")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--docs", type=int, default=200_000)
    parser.add_argument("--budget", type=float, default=2.0, help="seconds for each row")
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()}")
    parts = (few_queries, small_shapes, narrow_types, sorted_documents)
    for name, part in zip(PARTS, parts, strict=True):
        if name in options.parts:
            part(options)


if __name__ == "__main__":
    main()
