"""A small made-up collection with three systems, to see Assay at work without any download."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay.core.ids import Ids
from assay.core.judgments import Judgments, Qrels
from assay.core.ranking import Ranking
from assay.io.writers import write_qrels, write_run

__all__ = ["DemoFiles", "make_demo", "write_demo"]

N_QUERIES, N_DOCS, DEPTH, SEED = 50, 2000, 100, 20

# How much of the truth each system hears, and to how many decimals it rounds its scores.
SYSTEMS = {"dense": (1.6, 6), "lexical": (1.3, 3), "coarse": (1.6, 0)}


@dataclass(frozen=True)
class DemoFiles:
    """Where the demo's files are, and how many documents its collection has."""

    runs: tuple[Path, ...]
    qrels: Path
    n_docs: int


def make_demo(*, seed: int = SEED) -> tuple[dict[str, Ranking], Qrels]:
    """Rankings of three systems, and graded judgments of the same queries.

    `dense` and `lexical` differ a little; `coarse` is `dense` with scores rounded to whole
    numbers, so that ties decide much of what it is worth.

    >>> rankings, qrels = make_demo()
    >>> sorted(rankings), len(qrels)
    (['coarse', 'dense', 'lexical'], 50)
    """
    rng = np.random.default_rng(seed)
    truth = _grades(rng)
    query_ids = Ids.of([f"q{i:02}" for i in range(N_QUERIES)], what="query")
    doc_ids = Ids.of([f"doc-{i:04}" for i in range(N_DOCS)], what="doc")
    noise = {"dense": rng.normal(size=truth.shape), "lexical": rng.normal(size=truth.shape)}
    noise["coarse"] = noise["dense"]
    rankings = {
        name: _rank(np.round(signal * truth + noise[name], digits), query_ids, doc_ids)
        for name, (signal, digits) in SYSTEMS.items()
    }
    return rankings, _judge_some(truth, rng, query_ids, doc_ids)


def write_demo(folder: Path, *, seed: int = SEED) -> DemoFiles:
    """Write the demo's runs and judgments as TREC files."""
    folder.mkdir(parents=True, exist_ok=True)
    rankings, qrels = make_demo(seed=seed)
    runs = []
    for name, ranking in rankings.items():
        runs.append(folder / f"{name}.run")
        write_run(ranking, runs[-1], format="trec", tag=name)
    write_qrels(qrels, folder / "qrels.txt", format="trec")
    return DemoFiles(tuple(runs), folder / "qrels.txt", N_DOCS)


def _grades(rng: np.random.Generator) -> NDArray[np.float64]:
    """Grade of every document for every query: a few relevant ones, fewer highly relevant."""
    truth = np.zeros((N_QUERIES, N_DOCS))
    for row in truth:
        found = rng.choice(N_DOCS, size=int(rng.integers(3, 30)), replace=False)
        row[found] = rng.choice([1.0, 2.0, 3.0], size=len(found), p=[0.6, 0.3, 0.1])
    return truth


def _rank(scores: NDArray[np.float64], query_ids: Ids, doc_ids: Ids) -> Ranking:
    """The first documents of each query under the demo's tie rule."""
    n_queries, n_docs = scores.shape
    everything = Ranking.from_lines(
        query_ids,
        doc_ids,
        queries=np.repeat(np.arange(n_queries, dtype=np.int32), n_docs),
        docs=np.tile(np.arange(n_docs, dtype=np.int32), n_queries),
        scores=scores.ravel(),
    )
    return everything.first(DEPTH)


def _judge_some(
    truth: NDArray[np.float64], rng: np.random.Generator, query_ids: Ids, doc_ids: Ids
) -> Qrels:
    """Every relevant document is judged, and one in ten of the others."""
    queries, docs = np.nonzero((truth > 0) | (rng.random(truth.shape) < 0.1))
    return Judgments.from_pairs(query_ids, doc_ids, queries, docs, truth[queries, docs])
