"""Overhead of a bench over asking a retriever alone: python -m benchmarks.systems

A retriever that takes 1 ms is asked 10,000 queries at a concurrency of 16: by threads alone, then
by `run_bench`, which reads, checks, ranks, judges and scores the answers. Prints both times and
their ratio, the least of several pairs, and the processor time of each: other programs' load makes
the part that is not waiting longer, and the ratio with it.
"""

from __future__ import annotations

import threading
import time
from collections import deque

import numpy as np

from assay.bench import run_bench
from assay.core.ids import Ids
from assay.core.judgments import Judgments
from assay.io.collections import Collection

QUERIES, DOCS, HITS, CONCURRENCY, PAIRS = 10_000, 5_000, 10, 16, 5


def make_collection() -> Collection:
    """Return queries that are the number of their one relevant document."""
    docs = Ids.of([f"d{number}" for number in range(DOCS)], "doc")
    queries = Ids.of([f"q{number}" for number in range(QUERIES)], "query")
    texts = [str(number % DOCS) for number in range(QUERIES)]
    owners = np.arange(QUERIES)
    qrels = Judgments.from_pairs(queries, docs, owners, owners % DOCS, np.ones(QUERIES))
    return Collection(docs, [f"document {id}" for id in docs], queries, texts, qrels, "made up")


def retrieve(text: str) -> list[tuple[str, float]]:
    """Return some hits after a millisecond, as a server would."""
    time.sleep(0.001)
    first = int(text)
    return [(f"d{(first + place) % DOCS}", 1.0 / (place + 1)) for place in range(HITS)]


def ask_alone(texts: list[str]) -> float:
    """Return the seconds that threads take which do nothing else."""
    waiting, answers = deque(texts), []

    def work() -> None:
        while True:
            try:
                text = waiting.popleft()
            except IndexError:
                return
            answers.append(retrieve(text))

    threads = [threading.Thread(target=work) for _ in range(CONCURRENCY)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def main() -> None:
    """Print the two times and their ratio."""
    collection = make_collection()
    run_bench(collection, [retrieve], measures="nDCG@10", concurrency=CONCURRENCY)
    rows = []
    for _ in range(PAIRS):
        before = time.process_time()
        alone = ask_alone(list(collection.query_texts))
        between, began = time.process_time(), time.perf_counter()
        run_bench(collection, [retrieve], measures="nDCG@10", concurrency=CONCURRENCY)
        times = time.perf_counter() - began, between - before, time.process_time() - between
        rows.append((alone, *times))
    alone, bench, spent_alone, spent = (min(times) for times in zip(*rows, strict=True))
    print(f"alone {alone:.3f} s, run_bench {bench:.3f} s, ratio {bench / alone:.3f}")
    print(f"processor time: alone {spent_alone:.3f} s, run_bench {spent:.3f} s")


if __name__ == "__main__":
    main()
