"""Made-up systems to see Assay at work: three rankings of a random collection, as TREC files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay.core.ids import Ids
from assay.core.judgments import Judgments, Qrels
from assay.core.ranking import Ranking
from assay.io.writers import write_delimited, write_qrels, write_run
from assay.plugins import all_plugins, load_target

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
    """Make rankings of three systems and graded judgments of their queries.

    `dense` and `lexical` differ a little; `coarse` is `dense` with scores rounded to whole
    numbers, so that ties decide much of its score.

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
    # Every relevant document is judged, and one in ten of the others.
    queries, docs = np.nonzero((truth > 0) | (rng.random(truth.shape) < 0.1))
    qrels = Judgments.from_pairs(query_ids, doc_ids, queries, docs, truth[queries, docs])
    return rankings, qrels


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
    """Draw grades of every document and query: a few relevant, fewer highly relevant."""
    truth = np.zeros((N_QUERIES, N_DOCS))
    for row in truth:
        docs = rng.choice(N_DOCS, size=int(rng.integers(3, 30)), replace=False)
        row[docs] = rng.choice([1.0, 2.0, 3.0], size=len(docs), p=[0.6, 0.3, 0.1])
    return truth


def _rank(scores: NDArray[np.float64], query_ids: Ids, doc_ids: Ids) -> Ranking:
    """Return the first documents of each query under the demo's tie rule."""
    n_queries, n_docs = scores.shape
    everything = Ranking.from_lines(
        query_ids,
        doc_ids,
        queries=np.repeat(np.arange(n_queries, dtype=np.int32), n_docs),
        docs=np.tile(np.arange(n_docs, dtype=np.int32), n_queries),
        scores=scores.ravel(),
    )
    return everything.first(DEPTH)


# Files for every command that the documentation prints: small, and the same each time


def write_files(folder: Path) -> DemoFiles:
    """Write the files of the line and of every plugin into a folder; tell where the runs are."""
    files = write_demo(folder)
    rng = np.random.default_rng(SEED)
    slices = [(f"q{at:02}", "short" if at % 2 else "long") for at in range(50)]
    write_delimited([("query", "kind"), *slices], folder / "kinds.tsv", "\t")
    for plugin in all_plugins():
        if plugin.demo_files:
            load_target(plugin.demo_files)(folder, rng)
    _write_tasks(folder, rng)  # after the draws of all rooms, so that every file keeps its bytes
    return files


def _write_tasks(folder: Path, rng: np.random.Generator) -> None:
    """Write two systems on six tasks: a table of queries, and results as mteb leaves them."""
    rows = []
    for system, level in (("large", 0.6), ("small", 0.5)):
        home = folder / "results" / system / "1"
        home.mkdir(parents=True, exist_ok=True)
        for task in map("task-{}".format, range(6)):
            values = rng.normal(level, 0.1, size=20).clip(0, 1).round(4).tolist()
            rows += [(system, task, f"q{at:02}", value) for at, value in enumerate(values)]
            subset = {"hf_subset": "default", "languages": ["eng-Latn"], "main_score": values[0]}
            result = {"task_name": task, "scores": {"test": [subset]}}
            (home / f"{task}.json").write_text(json.dumps(result), "utf-8")
    write_delimited([("system", "task", "query", "value"), *rows], folder / "values.csv", ",")
