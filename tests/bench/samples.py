"""A small collection of made-up words, for tests of the bench."""

from __future__ import annotations

import numpy as np

from assay.core.ids import Ids
from assay.core.judgments import Judgments
from assay.io.collections import Collection

WORDS = [f"{a}{b}" for a in ("ka", "lo", "mi", "nu", "pe") for b in ("ba", "do", "fi", "gu", "he")]


def letters(texts: list[str]) -> np.ndarray:
    """A text model for tests: how often each letter stands in a text."""
    return np.array([[text.count(chr(97 + i)) + 0.01 * i for i in range(26)] for text in texts])


def shouting(texts: list[str]) -> np.ndarray:
    """Another, worse one."""
    return letters([text[:12] for text in texts])


def lower_cased_letters(texts: list[str]) -> np.ndarray:
    """The same for capitals."""
    return letters([text.lower() for text in texts])


def small(n_docs: int = 40, n_queries: int = 25, seed: int = 0, empty: int = 0) -> Collection:
    """Queries are some words of the one document that is relevant, and a few of another."""
    rng = np.random.default_rng(seed)
    docs = [" ".join(rng.choice(WORDS, 12)) + "." for _ in range(n_docs)]
    targets = rng.choice(n_docs, n_queries, replace=False)
    queries = [
        " ".join([*docs[t].rstrip(".").split()[2:6], str(rng.choice(WORDS))]) for t in targets
    ]
    docs[n_docs - empty :] = [" "] * empty
    doc_ids = Ids.of([f"d{i:02}" for i in range(n_docs)], "doc")
    query_ids = Ids.of([f"q{i:02}" for i in range(n_queries)], "query")
    grades = np.ones(n_queries)
    qrels = Judgments.from_pairs(query_ids, doc_ids, np.arange(n_queries), targets, grades)
    return Collection(doc_ids, docs, query_ids, queries, qrels, "made up")


def shared_words(query: str, texts: list[str]) -> list[float]:
    """A reranker for tests: the share of the query's words that stand in a text."""
    words = query.split()
    return [sum(word in text.split() for word in words) / len(words) for text in texts]


def broken(query: str, texts: list[str]) -> list[float]:
    """Another, which gives no numbers."""
    return [float("nan")] * len(texts)
