"""Vectors of Python's own docstrings, to see what codes lose without any download."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np

from assay.arrays import Floats
from assay.io.collections import Collection
from assay.io.streams import atomic_write
from assay.io.writers import write_qrels
from assay.search.demo_texts import small_collection, stdlib_collection

N_QUERIES, DIMENSIONS = 300, 128
_FEWEST: Final = 2  # documents that a word stands in, to count

_FILES: Final = "--embeddings docs.npy --queries queries.npy --resamples 1000"
_JUDGED: Final = f"{_FILES} --doc-ids docs.txt --query-ids queries.txt -r qrels.txt --k 10"

# Questions, and the options of the commands that answer them on the demo's files.
STEPS: Final = {
    title: [options.split()]
    for title, options in {
        "Quality over bytes": (
            f"{_JUDGED} --method float16 int8 int4 asymmetric sign mrl:64 mrl:32"
        ),
        "With reranking by float vectors": (
            f"{_JUDGED} --method sign mrl:32 rabitq:1 --oversample 2 4 --chart bytes.svg"
        ),
        "Learning to hash: neighbours from the same module": (
            f"{_FILES} --labels modules.npy --query-labels query-modules.npy --hashing all"
            " --method itq gaussian --bits 16 32 64 --k 10 --format latex"
        ),
    }.items()
}


def write_demo(folder: Path, collection: Collection | None = None) -> None:
    """Write vectors, ids, judgments and labels of documents and queries."""
    data = stdlib_collection(n_queries=N_QUERIES) if collection is None else collection
    folder.mkdir(parents=True, exist_ok=True)
    write_vectors(folder, data)
    write_qrels(data.qrels, folder / "qrels.txt", format="trec")


def write_vectors(folder: Path, data: Collection) -> None:
    """Write vectors, ids and labels of documents and queries.

    Vectors are those of latent semantic analysis, whose dimensions stand in the order of what they
    explain; a label is the module that a docstring is from.
    """
    docs, queries = _latent(list(data.doc_texts), list(data.query_texts))
    for name, vectors, ids in (("docs", docs, data.doc_ids), ("queries", queries, data.query_ids)):
        np.save(folder / f"{name}.npy", vectors.astype(np.float32))
        names = [str(id).removeprefix("q:") for id in ids]
        side = "" if name == "docs" else "query-"
        np.save(folder / f"{side}modules.npy", [id.partition(".")[0] for id in names])
        with atomic_write(folder / f"{name}.txt") as file:
            file.write("".join(f"{id}\n" for id in ids).encode())


def _latent(docs: list[str], queries: list[str]) -> tuple[Floats, Floats]:
    """Return the first principal directions of TF-IDF vectors of the documents."""
    counted = [Counter(re.findall(r"\w+", text.lower())) for text in (*docs, *queries)]
    n_docs_of = Counter(word for words in counted[: len(docs)] for word in words)
    place = {word: at for at, word in enumerate(sorted(n_docs_of)) if n_docs_of[word] >= _FEWEST}
    weights = np.zeros((len(counted), len(n_docs_of)))
    for row, words in zip(weights, counted, strict=True):
        for word in words.keys() & place.keys():
            row[place[word]] = (1 + np.log(words[word])) * np.log(len(docs) / n_docs_of[word])
    weights /= np.maximum(np.linalg.norm(weights, axis=1, keepdims=True), 1e-12)
    of_docs = weights[: len(docs)]
    lengths, left = np.linalg.eigh(of_docs @ of_docs.T)
    first = slice(-1, -1 - min(DIMENSIONS, len(docs)), -1)
    directions = of_docs.T @ (left[:, first] / np.sqrt(lengths[first]))
    vectors = weights @ directions
    return vectors[: len(docs)], vectors[len(docs) :]


def write_files(folder: Path, rng: object) -> None:
    """Write the vectors of the documentation's texts, and codes as another program leaves them."""
    write_vectors(folder, small_collection())
    # A bit of each dimension, eight to a byte, as other programs do.
    for vectors, codes in (("docs", "doc-codes"), ("queries", "query-codes")):
        bits = np.load(folder / f"{vectors}.npy") > 0
        np.save(folder / f"{codes}.npy", np.packbits(bits, axis=1))
