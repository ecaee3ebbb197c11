"""How many texts each text model takes in a second, and how well it does, on one collection.

    python benchmarks/models.py FOLDER [--docs 1000] [--models wordllama minilm:MODEL_FOLDER]

FOLDER holds `corpus.jsonl.gz`, `queries.jsonl` and `qrels.trec`. Texts are counted over the first
`--docs` documents, without any cache, in a second and in a second of one core; nDCG@10 is computed
only where all documents are taken. Lexical models are timed by fitting and by searching.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import assay
from assay.models import is_lexical, lexical_model, text_model

MODELS = ["bm25", "tfidf", "lsa:200", "wordllama"]


def texts_of(folder: Path) -> tuple[list[str], list[str], list[str], list[str]]:
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        docs = [json.loads(line) for line in file]
    lines = (folder / "queries.jsonl").read_text("utf-8").rstrip("\n").split("\n")
    queries = [json.loads(line) for line in lines]
    return (
        [doc["_id"] for doc in docs],
        [f"{doc['title']} {doc['text']}".strip() for doc in docs],
        [query["_id"] for query in queries],
        [query["text"] for query in queries],
    )


class Timed:
    """Texts a second, and texts in a second of one core: the latter a busy machine tells too."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __enter__(self) -> Timed:
        self.wall, self.cores = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall = self.count / (time.perf_counter() - self.wall)
        self.cores = self.count / (time.process_time() - self.cores)

    def __str__(self) -> str:
        return f"{self.wall:9.1f} /s {self.cores:9.1f} /core s"


def lexical_row(spec: str, docs: list[str], queries: list[str]) -> tuple[Timed, Timed, Any, str]:
    with Timed(len(docs)) as for_docs:
        fitted = lexical_model(spec).fit(docs)
    with Timed(len(queries)) as for_queries:
        found = fitted.search(queries, 100)
    return for_docs, for_queries, found, ""


def dense_row(spec: str, docs: list[str], queries: list[str]) -> tuple[Timed, Timed, Any, str]:
    model = text_model(spec)
    with Timed(len(docs)) as for_docs:
        made = model.encode_docs(docs)
    with Timed(len(queries)) as for_queries:
        asked = model.encode_queries(queries)
    found = assay.rank(asked.vectors, made.vectors, min(100, len(docs)), zero="last")
    cut = "" if made.truncated is None else f"{made.truncated.mean():.1%} cut"
    shape = (len(queries), -1)
    rows = found.docs.reshape(shape).astype(np.int64), found.scores.reshape(shape)
    return for_docs, for_queries, rows, cut


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--docs", type=int, default=1000)
    parser.add_argument("--models", nargs="+", default=MODELS)
    asked = parser.parse_args()
    doc_ids, docs, query_ids, queries = texts_of(asked.folder)
    whole = asked.docs >= len(docs)
    print(
        f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, {min(asked.docs, len(docs))} docs"
    )
    for spec in asked.models:
        row = lexical_row if is_lexical(spec) else dense_row
        for_docs, for_queries, found, note = row(spec, docs[: asked.docs], queries)
        if whole:
            ranking = assay.Ranking.from_arrays(*found, query_ids=query_ids, doc_ids=doc_ids)
            value = assay.evaluate(ranking, asked.folder / "qrels.trec", ["nDCG@10"]).mean()
            note = f"{note} {value}"
        print(f"{spec:10} docs {for_docs}  queries {for_queries}  {note}")


if __name__ == "__main__":
    main()
