"""Speed of exact MaxSim beside numpy's bare product of all tokens and torch, in one run.

    python benchmarks/maxsim.py [--docs 10000] [--queries 64] [--k 100] [--threads 1] [--torch]
    python benchmarks/maxsim.py --texts corpus.jsonl --model FOLDER [--cache tokens.npz]

numpy multiplies the tokens of all queries with those of all documents, some documents at a time,
and does nothing with the products. torch (`--torch`) multiplies padded documents by einsum and
takes the maximum. Repeats are interleaved and the shortest time of each counts; `--clock cpu`
counts processor time, where other programs run. Tokens are random, drawn around the words of a
vocabulary and the topic of their document. Or they are those of a BERT model for the texts of a
file, projected to 128 columns; queries are then other texts of the file. Scores must agree with a
product in float64, or the run stops.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from assay import TokenVectors, prepare, rank
from assay.core.checks import thread_count
from assay.search.engine.tokens import TokenSearch, select
from assay.search.engine.workers import Control

COLUMNS = 128
STEP = 8192  # tokens of documents in one product


def unit(rows: Any) -> Any:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def random_tokens(docs: int, queries: int, seed: int = 0) -> tuple[TokenVectors, TokenVectors]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(60, 180, docs)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    words = rng.standard_normal((20_000, COLUMNS), dtype=np.float32)
    share = 1.0 / np.arange(10, len(words) + 10)
    values = words[rng.choice(len(words), offsets[-1], p=share / share.sum())]
    values += 0.5 * rng.standard_normal(values.shape, dtype=np.float32)
    # Topics lie in few dimensions, so that documents share them by degrees, as in real collections.
    directions = rng.standard_normal((6, COLUMNS), dtype=np.float32) / np.sqrt(np.float32(6))
    topics = rng.standard_normal((docs, 6), dtype=np.float32) @ directions
    values += np.repeat(topics, lengths, axis=0)
    corpus = TokenVectors(unit(values), offsets)
    mixed = []
    for doc in rng.choice(docs, queries):
        rows = corpus.values[rng.integers(offsets[doc], offsets[doc + 1], 32)]
        mixed.append(unit(rows + 0.04 * rng.standard_normal(rows.shape)))
    return corpus, TokenVectors(np.concatenate(mixed), np.arange(queries + 1) * 32)


def encode_texts(options: Any) -> tuple[TokenVectors, TokenVectors]:
    """Encode texts by a folder of weights, token by token; the last ones are queries."""
    if options.cache and Path(options.cache).exists():
        stored = np.load(options.cache)
        return tuple(
            TokenVectors(stored[f"{s}"], stored[f"{s}_offsets"]) for s in ("docs", "queries")
        )
    from assay.models.adapters import minilm, onnx

    folder = onnx.ModelFolder(Path(options.model))
    graph = minilm._build_graph(folder)
    session = onnx.open_session(graph.model, options.model, "minilm", graph.tensors)
    read = gzip.open if options.texts.endswith(".gz") else open
    with read(options.texts, "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file][: options.docs + options.queries]
    file_of = folder.path / "tokenizer.json"
    tokenizer = onnx.Tokenizer(file_of, options.length, purpose="The benchmark", extra="minilm")
    project = np.linalg.qr(np.random.default_rng(0).standard_normal((384, COLUMNS)))[0]
    model = onnx.OnnxModel(session, lambda rows, mask: rows[0], 0, options.model)
    vectors = []
    for text in texts:
        ids = tokenizer([text]).ids[0][: 32 if len(vectors) >= options.docs else None]
        vectors.append(unit(model.vectors([ids], [[0] * len(ids)]) @ project))
    sides = vectors[: options.docs], vectors[options.docs :]
    both = tuple(
        TokenVectors(np.concatenate(side), np.cumsum([0, *map(len, side)])) for side in sides
    )
    if options.cache:
        arrays = {"docs": both[0].values, "docs_offsets": both[0].offsets}
        arrays |= {"queries": both[1].values, "queries_offsets": both[1].offsets}
        np.savez(options.cache, **arrays)
    return both[0], both[1]


def multiply(queries: TokenVectors, docs: TokenVectors) -> None:
    left, right = np.asarray(queries.values), np.asarray(docs.values)
    room = np.empty((min(1024, len(left)), STEP), np.float32)
    for first in range(0, len(left), 1024):
        rows = left[first : first + 1024]
        for start in range(0, len(right), STEP):
            some = right[start : start + STEP]
            np.matmul(rows, some.T, out=room[: len(rows), : len(some)])


def torch_search(
    queries: TokenVectors, docs: TokenVectors, k: int, threads: int
) -> Callable[[], Any]:
    import torch

    torch.set_num_threads(threads)
    longest = int(docs.lengths.max())
    padded = torch.zeros((len(docs), longest, COLUMNS))
    mask = torch.zeros((len(docs), longest), dtype=torch.bool)
    for row, (start, stop) in enumerate(zip(docs.offsets[:-1], docs.offsets[1:], strict=True)):
        padded[row, : stop - start] = torch.from_numpy(docs.values[start:stop])
        mask[row, : stop - start] = True

    def search() -> Any:
        best = []
        for start, stop in zip(queries.offsets[:-1], queries.offsets[1:], strict=True):
            query = torch.from_numpy(queries.values[start:stop])
            products = torch.einsum("qc,dtc->dqt", query, padded)
            products.masked_fill_(~mask[:, None], float("-inf"))
            best.append(torch.topk(products.amax(2).sum(1), k).values)
        return best

    return search


def count_survivors(queries: TokenVectors, docs: TokenVectors, k: int) -> float:
    search = TokenSearch.new(queries, docs, threads=1)
    block = next(search.blocks())
    tile, part = (0, len(queries)), (0, len(block))
    bounds = search.bounds(block, tile, part, Control.new())
    counts = [len(select(low, high, there, -np.inf, k + 1)) for low, high, there in bounds]
    return float(np.mean(counts)) / k


def check(ranking: Any, queries: TokenVectors, docs: TokenVectors) -> None:
    values = np.asarray(queries.values)[: queries.offsets[1]].astype(float)
    products = values @ np.asarray(docs.values).T.astype(float)
    scores = np.maximum.reduceat(products, docs.offsets[:-1], axis=1).sum(axis=0)
    row = ranking.scores[: ranking.offsets[1]]
    if not np.allclose(row, -np.sort(-scores)[: len(row)], rtol=1e-12):
        raise SystemExit("The scores do not agree.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("docs", 10_000), ("queries", 64), ("k", 100), ("repeats", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--threads", type=int, default=thread_count(None))
    parser.add_argument("--length", type=int, default=128, help="tokens of a text at most")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--torch", action="store_true")
    for name in ("texts", "model", "cache"):
        parser.add_argument(f"--{name}")
    options = parser.parse_args()
    docs, queries = (
        encode_texts(options) if options.texts else random_tokens(options.docs, options.queries)
    )
    corpus, clock = (
        prepare(docs),
        time.perf_counter if options.clock == "wall" else time.process_time,
    )
    print(f"{queries}\n{docs}\nk = {options.k}, {options.threads} threads, {options.clock} time")
    print(f"survivors of the 8-bit bound: {count_survivors(queries, corpus, options.k):.2f} k")
    settings = {"metric": "maxsim", "threads": options.threads}
    jobs: dict[str, Callable[[], Any]] = {
        "numpy product": lambda: multiply(queries, docs),
        "rank": lambda: rank(queries, docs, options.k, **settings),
        "rank, prepared": lambda: rank(queries, corpus, options.k, **settings),
    }
    if options.torch:
        jobs["torch, padded"] = torch_search(queries, docs, options.k, options.threads)
    times = dict.fromkeys(jobs, float("inf"))
    with threadpool_limits(options.threads):
        for _ in range(options.repeats):
            for name, job in jobs.items():
                start = clock()
                result = job()
                times[name] = min(times[name], clock() - start)
                if name.startswith("rank"):
                    check(result, queries, docs)
    for name, seconds in times.items():
        print(f"{name:16} {seconds:8.3f} s   {seconds / times['numpy product']:.2f} of the product")


if __name__ == "__main__":
    main()
