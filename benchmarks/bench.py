"""What `assay bench` adds to bare encoding and search; and evaluation beside two other packages.

    python benchmarks/bench.py --quick      small sizes, a minute
    python benchmarks/bench.py              the sizes of docs/speed.md

Overhead: a model on a collection by `run_bench`, over encoding the same texts and searching the
same vectors as deep without it, in seconds of all cores together, which another program's load
changes little. Evaluation: search of the same vectors, and then from what was found to the means
of the same measures, by assay and, where they are installed, sentence-transformers'
InformationRetrievalEvaluator and MTEB's RetrievalEvaluator. Their numbers must agree with assay's
under their conventions, or the run stops. Each has a process of its own; the shortest time counts.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

DATA = Path(os.environ.get("ASSAY_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
SEED = 5
CUTS = (1, 3, 5, 10)
MTEB_CUTS = (1, 3, 5, 10, 20, 100, 1000)
# They score in float32, so that two documents that nearly tie may change places; MTEB rounds.
AGREEMENT = {"sentence-transformers": 1e-6, "mteb": 5.1e-6}
PEERS = {"sentence-transformers": "sentence_transformers", "mteb": "mteb"}

PARTS = ("search", "evaluation", "both")

Means = dict[str, float]


# Data ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """Vectors of documents and queries, and which documents are relevant to each query."""

    docs: NDArray[np.float32]
    queries: NDArray[np.float32]
    doc_ids: list[str]
    query_ids: list[str]
    relevant: dict[str, set[str]]


def sample(name: str) -> Sample:
    """`scifact`, or QUERIESxDOCSxDIMENSION made up."""
    return scifact() if name == "scifact" else made_up(*map(int, name.split("x")))


def made_up(n_queries: int, n_docs: int, dimension: int) -> Sample:
    """Unit vectors; each query is near one to five documents, which are relevant to it."""
    rng = np.random.default_rng(SEED)
    docs = rng.normal(size=(n_docs, dimension))
    chosen = [rng.choice(n_docs, rng.integers(1, 6), replace=False) for _ in range(n_queries)]
    noise = rng.normal(size=(n_queries, dimension)) * 2.0
    queries = noise + [docs[some].mean(axis=0) * 2 for some in chosen]
    doc_ids = [f"d{row:07}" for row in range(n_docs)]
    query_ids = [f"q{row:07}" for row in range(n_queries)]
    relevant = {
        query: {doc_ids[doc] for doc in some.tolist()}
        for query, some in zip(query_ids, chosen, strict=True)
    }
    return Sample(unit(docs), unit(queries), doc_ids, query_ids, relevant)


def scifact() -> Sample:
    """SciFact with the vectors of all-MiniLM-L6-v2."""
    import gzip

    folder = DATA / "scifact"
    vectors = np.load(folder / "minilm.npz")
    with gzip.open(folder / "corpus.jsonl.gz", "rt") as lines:
        doc_ids = [str(json.loads(line)["_id"]) for line in lines]
    with (folder / "queries.jsonl").open() as lines:
        query_ids = [str(json.loads(line)["_id"]) for line in lines]
    relevant: dict[str, set[str]] = {}
    for line in (folder / "qrels.trec").read_text().splitlines():
        query, _, doc, grade = line.split()
        if float(grade) > 0:
            relevant.setdefault(query, set()).add(doc)
    return Sample(unit(vectors["docs"]), unit(vectors["queries"]), doc_ids, query_ids, relevant)


def unit(rows: NDArray[Any]) -> NDArray[np.float32]:
    wide = rows.astype(np.float64)
    return np.asarray(wide / np.linalg.norm(wide, axis=1, keepdims=True), np.float32)


# Ways ------------------------------------------------------------------------------------------


class Way(NamedTuple):
    """Searching, evaluating what it found, and how means are read from that, which is not timed."""

    search: Callable[[], Any]
    evaluate: Callable[[Any], Any]
    means: Callable[[Any], Means]


def like_sentence_transformers() -> dict[str, str]:
    """assay's measures by the names of the other."""
    names = {f"cosine_accuracy@{k}": f"Success@{k}" for k in CUTS}
    names |= {f"cosine_precision@{k}": f"P@{k}" for k in CUTS}
    names |= {f"cosine_recall@{k}": f"R@{k}" for k in CUTS}
    return names | {
        "cosine_ndcg@10": "nDCG@10",
        "cosine_mrr@10": "RR@10",
        "cosine_map@100": "AP@100",
    }


def like_mteb() -> dict[str, str]:
    kinds = {"NDCG": "nDCG", "MAP": "AP", "Recall": "R", "P": "P", "HitRate": "Success"}
    names = {f"{theirs}@{k}": f"{ours}@{k}" for theirs, ours in kinds.items() for k in MTEB_CUTS}
    return names | {f"MRR@{k}": f"RR@{k}" for k in MTEB_CUTS}


def assay_way(data: Sample, peer: str) -> Way:
    """Search and evaluate under the peer's conventions, as deep as the peer searches."""
    import assay
    from assay.io.formats import as_judgments

    names = like_mteb() if peer == "mteb" else like_sentence_transformers()
    rules, depth = ("mteb", max(MTEB_CUTS)) if peer == "mteb" else ("sentence_transformers", 100)
    qrels = as_judgments({q: dict.fromkeys(docs, 1) for q, docs in data.relevant.items()})

    def search() -> Any:
        ids = {"query_ids": data.query_ids, "doc_ids": data.doc_ids}
        return assay.rank(data.queries, data.docs, depth, **ids)

    def evaluate(found: Any) -> Any:
        return assay.evaluate(found, qrels, list(names.values()), conventions=rules).mean()

    return Way(
        search, evaluate, lambda mean: {theirs: float(mean[ours]) for theirs, ours in names.items()}
    )


def sentence_transformers_way(data: Sample) -> Way:
    """The evaluator with a model that has computed its vectors already."""
    import torch
    from sentence_transformers.util import cos_sim

    try:
        from sentence_transformers.sentence_transformer.evaluation import (
            InformationRetrievalEvaluator,
        )
    except ImportError:  # before version 6
        from sentence_transformers.evaluation import InformationRetrievalEvaluator

    docs, queries = torch.from_numpy(data.docs), torch.from_numpy(data.queries)
    evaluator = InformationRetrievalEvaluator(
        dict.fromkeys(data.query_ids, "a query"),
        dict.fromkeys(data.doc_ids, "a document"),
        data.relevant,
        score_functions={"cosine": cos_sim},
    )
    rows = [row for row, query in enumerate(data.query_ids) if data.relevant.get(query)]
    asked = queries[rows]
    evaluator.embed_inputs = lambda *_, **__: asked
    evaluate = evaluator.compute_metrics
    evaluator.compute_metrics = lambda found: found  # first what was found, then its evaluation
    evaluator.output_scores = lambda _: None

    def search() -> Any:
        return evaluator.compute_metrices(None, corpus_embeddings=docs)["cosine"]

    def means(scores: Any) -> Means:
        return {
            f"cosine_{name.replace('@k', '')}@{k}": float(value)
            for name, values in scores.items()
            for k, value in values.items()
        }

    return Way(search, evaluate, means)


def mteb_way(data: Sample) -> Way:
    """MTEB's search for encoders and its evaluation, with vectors computed already.

    Its preparing of texts for a model is taken out: there is no model here.
    """
    import mteb
    import mteb.models.search_wrappers as wrappers
    import torch
    from datasets import Dataset
    from mteb._evaluators.retrieval_evaluator import RetrievalEvaluator
    from mteb.timing import TimingStack
    from mteb.types import PromptType

    sides = {
        PromptType.document: torch.from_numpy(data.docs),
        PromptType.query: torch.from_numpy(data.queries),
    }

    class Computed:
        mteb_model_meta = None

        def encode(self, inputs: Any, *, prompt_type: Any, **_: Any) -> Any:
            return sides[prompt_type]

        def similarity(self, queries: Any, docs: Any) -> Any:
            return queries @ docs.T  # unit vectors

    corpus = Dataset.from_dict({"id": data.doc_ids, "text": ["a document"] * len(data.doc_ids)})
    asked = Dataset.from_dict({"id": data.query_ids, "text": ["a query"] * len(data.query_ids)})
    qrels = {query: dict.fromkeys(docs, 1) for query, docs in data.relevant.items()}
    metadata = mteb.get_task("SciFact").metadata
    wrappers.create_dataloader = lambda dataset, **_: dataset

    evaluator = RetrievalEvaluator(
        corpus,
        asked,
        task_metadata=metadata,
        hf_split="test",
        hf_subset="default",
        top_k=max(MTEB_CUTS),
        timer=TimingStack(),
    )

    def search() -> Any:
        searcher = wrappers.SearchEncoderWrapper(Computed(), corpus_chunk_size=len(corpus))
        return evaluator(searcher, {"batch_size": 4096, "show_progress_bar": False})

    def means(result: Any) -> Means:
        tables = (result.ndcg, result.map, result.recall, result.precision)
        merged = {name: value for table in tables for name, value in table.items()}
        for table in (result.mrr, result.hit_rate):
            merged |= table
        return {name: float(value) for name, value in merged.items()}

    return Way(search, lambda found: evaluator.evaluate(qrels, found, MTEB_CUTS), means)


# Timing ----------------------------------------------------------------------------------------


def timed(way: Way, repeats: int, cpu: bool) -> dict[str, Any]:
    way.evaluate(way.search())  # caches, threads, compiled code
    search, evaluation = [], []
    for _ in range(repeats):
        search.append(turn(way.search))
        found = search[-1].result
        evaluation.append(turn(lambda found=found: way.evaluate(found)))
    spent = {
        part: min(one.cpu if cpu else one.seconds for one in turns)
        for part, turns in (("search", search), ("evaluation", evaluation))
    }
    both = sum(spent.values())
    return {**spent, "both": both, "means": way.means(evaluation[0].result)}


class Turn(NamedTuple):
    """Seconds by the clock, seconds of all cores together, and what was returned."""

    seconds: float
    cpu: float
    result: Any


def turn(work: Callable[[], Any]) -> Turn:
    start, used = time.perf_counter(), time.process_time()
    result = work()
    return Turn(time.perf_counter() - start, time.process_time() - used, result)


def child(name: str, peer: str, data: str, repeats: int, cpu: bool) -> dict[str, Any]:
    """One way, timed in this process."""
    vectors = sample(data)
    if name == "assay":
        way = assay_way(vectors, peer)
    else:
        way = mteb_way(vectors) if peer == "mteb" else sentence_transformers_way(vectors)
    return timed(way, repeats, cpu)


def in_own_process(name: str, peer: str, data: str, repeats: int, cpu: bool) -> dict[str, Any]:
    counted = ["--cpu"] if cpu else []
    done = subprocess.run(
        [sys.executable, __file__, "--child", name, peer, data, str(repeats), *counted],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def compared(peer: str, data: str, repeats: int, cpu: bool) -> dict[str, Any]:
    """assay and a peer, one after the other, and by how much their numbers differ."""
    ours = in_own_process("assay", peer, data, repeats, cpu)
    theirs = in_own_process(peer, peer, data, repeats, cpu)
    apart = {name: abs(value - theirs["means"][name]) for name, value in ours["means"].items()}
    worst = max(apart, key=apart.__getitem__)
    if apart[worst] > AGREEMENT[peer]:
        raise SystemExit(
            f"{peer} on {data}: {worst} is {theirs['means'][worst]}, assay's {ours['means'][worst]}"
        )
    return {
        "peer": f"{peer} {importlib.metadata.version(peer)}",
        "data": data,
        "assay": {part: ours[part] for part in PARTS},
        "theirs": {part: theirs[part] for part in PARTS},
        "ratio": {part: theirs[part] / ours[part] for part in PARTS},
        "measures": len(apart),
        "largest_difference": apart[worst],
        "nDCG@10": next(v for k, v in ours["means"].items() if k.lower().endswith("ndcg@10")),
    }


def overhead(model: str, data: str, repeats: int) -> dict[str, Any]:
    """`run_bench` over encoding and searching alone, both in this process, taking turns."""
    import assay
    from assay.bench import run_bench
    from assay.io.collections import load_collection
    from assay.models import text_model
    from assay.search.demo_texts import stdlib_collection

    if data == "scifact":
        folder = DATA / "scifact"
        files = [folder / name for name in ("corpus.jsonl.gz", "queries.jsonl", "qrels.trec")]
        collection = load_collection(*files)
    else:
        collection = stdlib_collection()

    def bare() -> None:
        encoder = text_model(model)
        docs = encoder.encode_docs(collection.doc_texts).vectors
        queries = encoder.encode_queries(collection.query_texts).vectors
        assay.rank(queries, docs, min(kept[0].depth, len(docs)), zero="drop")

    def whole() -> None:
        kept.append(run_bench(collection, [model]))

    def shown() -> None:
        kept[-1].page()

    kept: list[Any] = [run_bench(collection, [model])]  # says how deep its measures make it search
    cpu: dict[str, list[float]] = {"bare": [], "bench": [], "page": []}
    for _ in range(repeats + 1):
        for name, work in (("bare", bare), ("bench", whole), ("page", shown)):
            cpu[name].append(turn(work).cpu)
    best = {name: min(times[1:]) for name, times in cpu.items()}  # the first is to warm up
    return {
        "model": model,
        "data": data,
        "documents": len(collection.doc_ids),
        "bare_cpu": best["bare"],
        "bench_cpu": best["bench"],
        "page_cpu": best["page"],
        "overhead": best["bench"] / best["bare"] - 1,
        "with_page": (best["bench"] + best["page"]) / best["bare"] - 1,
    }


def bare_packages(repeats: int) -> dict[str, Any]:
    """`run_bench` of bm25 and wordllama on SciFact over the packages' own calls, taking turns."""
    import bm25s
    import wordllama

    from assay.bench import run_bench
    from assay.io.collections import load_collection

    files = ("corpus.jsonl.gz", "queries.jsonl", "qrels.trec")
    collection = load_collection(*(DATA / "scifact" / name for name in files))
    texts = list(collection.doc_texts), list(collection.query_texts)
    depth = run_bench(collection, ["bm25"]).depth

    def lexical() -> None:
        docs, queries = (bm25s.tokenize(part, show_progress=False) for part in texts)
        index = bm25s.BM25()
        index.index(docs, show_progress=False)
        index.retrieve(queries, k=depth, show_progress=False)

    def dense() -> None:
        folder = Path(wordllama.__file__).parent
        model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
        docs, queries = (model.embed(part, norm=True) for part in texts)
        scores = queries @ docs.T
        top = np.argpartition(-scores, depth, axis=1)[:, :depth]
        np.take_along_axis(
            top, np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1), axis=1
        )

    ways: dict[str, Callable[[], Any]] = {
        "bm25s": lexical,
        "wordllama": dense,
        "bench": lambda: run_bench(collection, ["bm25", "wordllama"]),
    }
    turns = [{name: turn(work).cpu for name, work in ways.items()} for _ in range(repeats)]
    cpu = {name: min(one[name] for one in turns) for name in ways}
    return {**cpu, "ratio": cpu["bench"] / (cpu["bm25s"] + cpu["wordllama"])}


# The program -----------------------------------------------------------------------------------


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--data", nargs="*", help="scifact, or QUERIESxDOCSxDIMENSION")
    parser.add_argument("--models", nargs="*", help="whose overhead is measured")
    parser.add_argument("--peers", nargs="*", choices=list(PEERS), default=list(PEERS))
    parser.add_argument("--packages", action="store_true", help="bm25s and wordllama by themselves")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cpu", action="store_true", help="evaluation by seconds of all cores")
    parser.add_argument("--json", action="store_true", help="print everything for a program")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.data is None:
        real = ["scifact"] if (DATA / "scifact").is_dir() else []
        chosen.data = [*real, "200x5000x64"] if chosen.quick else [*real, "2000x50000x384"]
    if chosen.models is None:
        chosen.models = ["wordllama"]
    return chosen


def report(chosen: argparse.Namespace) -> dict[str, Any]:
    there = [peer for peer in chosen.peers if find_spec(PEERS[peer])]
    real = "scifact" if "scifact" in chosen.data else "stdlib"
    both = [bare_packages(chosen.repeats)] if chosen.packages else []
    return {
        "packages": both,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "left_out": [peer for peer in chosen.peers if peer not in there],
        "overhead": [overhead(model, real, chosen.repeats) for model in chosen.models],
        "evaluation": [
            compared(peer, data, chosen.repeats, chosen.cpu)
            for peer in there
            for data in chosen.data
        ],
    }


def show(found: dict[str, Any]) -> None:
    print(found["machine"])
    for one in found["packages"]:
        print(
            f"scifact, seconds of all cores: bm25s {one['bm25s']:.2f}, wordllama "
            f"{one['wordllama']:.2f}, run_bench of both {one['bench']:.2f} (× {one['ratio']:.2f})"
        )
    for one in found["overhead"]:
        print(
            f"{one['model']} on {one['data']} ({one['documents']} documents), seconds of all "
            f"cores: encoding and search {one['bare_cpu']:.2f}, run_bench {one['bench_cpu']:.2f} "
            f"({one['overhead']:+.1%}), verdict and tables {one['page_cpu']:.2f} "
            f"({one['with_page']:+.1%} in all)"
        )
    for one in found["evaluation"]:
        print(
            f"{one['data']}, {one['measures']} measures: "
            + "; ".join(
                f"{part} assay {one['assay'][part]:.4f} s, {one['peer']} "
                f"{one['theirs'][part]:.4f} s, ÷ assay {one['ratio'][part]:.1f}"
                for part in PARTS
            )
            + f"; nDCG@10 {one['nDCG@10']:.4f}, largest difference "
            f"{one['largest_difference']:.1e}"
        )
    for peer in found["left_out"]:
        print(f"{peer} is not installed and was left out")


def main(arguments: list[str]) -> None:
    chosen = parsed(arguments)
    if chosen.child:
        name, peer, data, repeats = chosen.child
        print(json.dumps(child(name, peer, data, int(repeats), chosen.cpu)))
        return
    found = report(chosen)
    if chosen.json:
        print(json.dumps(found))
    else:
        show(found)


if __name__ == "__main__":
    main(sys.argv[1:])
