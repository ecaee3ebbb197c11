"""Speed of sparse search beside scipy's product and bm25s, all measured in one run.

    python benchmarks/sparse.py [--docs 100000] [--terms 120] [--queries 200] [--k 100 1000]

Weights are random; how often a term occurs falls with its rank to a power, and so does its largest
weight, as in collections of learned sparse vectors. scipy multiplies the matrices and each row is
cut by argpartition; both use one thread. bm25s searches by its own weights, which Assay is given
too. Repeats are interleaved and the shortest time of each counts; `--clock cpu` counts processor
time, where other programs run. Scores must agree, or the run stops.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from assay import SparseVectors, rank, read_sparse

WORDS = 30_522  # as in the vocabulary of BERT


def random_rows(rows: int, terms: int, power: float, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, WORDS + 1) ** power
    columns = rng.choice(WORDS, rows * terms, p=share / share.sum())
    weights = rng.lognormal(-0.5, 0.6, rows * terms) * (0.3 + np.log1p(columns) / np.log(WORDS))
    numbers = np.repeat(np.arange(rows), terms)
    matrix = sparse.csr_matrix((weights.astype(np.float32), (numbers, columns)), (rows, WORDS))
    matrix.sum_duplicates()
    return matrix


def scores_of_product(queries: Any, by_term: Any, k: int) -> Any:
    product = (queries @ by_term).tocsr()
    best = []
    for start, end in zip(product.indptr[:-1], product.indptr[1:], strict=True):
        row = product.data[start:end]
        some = row[np.argpartition(-row, k)[:k]] if len(row) > k else row
        best.append(-np.sort(-some))
    return best


def shortest(jobs: dict[str, Callable[[], Any]], options: Any) -> tuple[dict[str, float], Any]:
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    times = dict.fromkeys(jobs, float("inf"))
    results = {}
    for _ in range(options.repeats):
        for name, job in jobs.items():
            start = clock()
            results[name] = job()
            times[name] = min(times[name], clock() - start)
    return times, results


def compare_product(options: Any, power: float) -> None:
    queries = random_rows(options.queries, 40, power, 1)
    matrix = random_rows(options.docs, options.terms, power, 2)
    docs, by_term = read_sparse(matrix), matrix.T.tocsr()
    start = time.perf_counter()
    rank(queries[:1], docs, 1, metric="dot")
    prepared = time.perf_counter() - start
    print(
        f"{options.docs} documents × {options.terms}, power {power}; lists made in {prepared:.2f} s"
    )
    for k in options.k:
        compare_product_at(options, k, queries, docs, by_term)


def compare_product_at(options: Any, k: int, queries: Any, docs: Any, by_term: Any) -> None:
    jobs = {
        "assay": lambda: rank(queries, docs, k, metric="dot", threads=options.threads),
        "assay, one thread": lambda: rank(queries, docs, k, metric="dot", threads=1),
        "scipy": lambda: scores_of_product(queries, by_term, k),
    }
    times, results = shortest(jobs, options)
    for query, row in enumerate(results["scipy"]):
        ours = results["assay"].scores[query * k : query * k + len(row)]
        assert np.allclose(ours, row, rtol=1e-4), query
    show(times, k, options.queries, "scipy")


def show(times: dict[str, float], k: int, queries: int, peer: str) -> None:
    for name, seconds in times.items():
        print(
            f"  k = {k:4d} {name:18s} {seconds / queries * 1e3:8.3f} ms a query"
            f"  {times[peer] / seconds:6.2f} × {peer}"
        )


def compare_bm25s(options: Any) -> None:
    try:
        import bm25s
    except ImportError:
        print("bm25s is not installed")
        return
    rng = np.random.default_rng(3)
    share = 1.0 / np.arange(1, WORDS + 1)
    share /= share.sum()
    texts = [rng.choice(WORDS, 150, p=share).tolist() for _ in range(options.docs)]
    asked = [rng.choice(WORDS, 8, replace=False, p=share).tolist() for _ in range(options.queries)]
    names = [str(number) for number in range(WORDS)]
    tokens = bm25s.tokenization.Tokenized(texts, {name: i for i, name in enumerate(names)})
    model = bm25s.BM25()
    model.index(tokens, show_progress=False)
    parts = model.scores
    matrix = sparse.csc_matrix((parts["data"], parts["indices"], parts["indptr"]))
    docs = read_sparse(matrix)
    rows = [
        sorted(model.vocab_dict[names[w]] for w in row if names[w] in model.vocab_dict)
        for row in asked
    ]
    offsets = np.cumsum([0, *map(len, rows)])
    columns = np.concatenate(rows).astype(np.int32)
    queries = SparseVectors(offsets, columns, np.ones(len(columns), np.float32), docs.width)
    words = [[names[word] for word in row] for row in asked]
    rank(queries, docs, 1, metric="dot")
    print(f"{options.docs} documents of 150 words, 8 words a query")
    for k in options.k:
        compare_bm25s_at(options, k, queries, docs, model, words)


def compare_bm25s_at(
    options: Any, k: int, queries: Any, docs: Any, model: Any, words: list[list[str]]
) -> None:
    jobs = {
        "assay": lambda: rank(queries, docs, k, metric="dot", threads=options.threads),
        "assay, one thread": lambda: rank(queries, docs, k, metric="dot", threads=1),
        "bm25s": lambda: model.retrieve(words, k=k, show_progress=False, n_threads=0),
    }
    times, results = shortest(jobs, options)
    assert np.allclose(results["assay"].scores.reshape(-1, k), results["bm25s"].scores, rtol=1e-4)
    show(times, k, options.queries, "bm25s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--docs", type=int, default=100_000)
    parser.add_argument("--terms", type=int, default=120)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--k", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    options = parser.parse_args()
    for power in (0.5, 0.9):
        compare_product(options, power)
    compare_bm25s(options)


if __name__ == "__main__":
    main()
