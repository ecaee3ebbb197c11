"""Data to see Assay at work without any download: made-up systems, and a collection of texts.

The made-up systems are three rankings of a random collection, as TREC files. The texts are the
docstrings of Python's own standard library, which every machine has: a document is what a docstring
says after its summary line; a query is such a summary line, and the one document relevant to it is
the rest of the same docstring. Rules:

- Documents are those of public functions, classes and methods of the public modules of
  `sys.stdlib_module_names`, if the standard library defines them. Modules that greet, open
  windows, change the terminal or are replaced by other packages are left alone.
- They are read by a new Python process, because loaded packages change the standard library.
- Equal bodies are one document, named after the first object that has it.
- No query is made of a summary that is a signature (`f(x) -> y`), has fewer than three words,
  stands over two different bodies, or whose body stands under two different summaries: the relevant
  document would be ambiguous. Their bodies stay, as documents.
- Documents and queries are in a seeded random order, so that ties favour no module.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from assay.core import checks
from assay.core.ids import Ids
from assay.core.judgments import Judgments, Qrels
from assay.core.ranking import Ranking
from assay.errors import UsageError
from assay.io import stdlib_docstrings
from assay.io.collections import Collection
from assay.io.stdlib_docstrings import FEWEST_WORDS
from assay.io.writers import write_delimited, write_qrels, write_run
from assay.plugins import all_plugins, load_target

N_QUERIES, N_DOCS, DEPTH, SEED = 50, 2000, 100, 20

# How much of the truth each system hears, and to how many decimals it rounds its scores.
_SMALL_DOCS, _SMALL_QUERIES = 300, 60
_QUERY: Final = "q:textwrap.dedent"  # one that examples may name
SYSTEMS = {"dense": (1.6, 6), "lexical": (1.3, 3), "coarse": (1.6, 0)}

_SIGNATURE: Final = re.compile(r"^[\w.\[\]]+\s?\(|->|--\s*$")


@dataclass(frozen=True)
class DemoFiles:
    """Where the demo's files are, and how many documents its collection has."""

    runs: tuple[Path, ...]
    qrels: Path
    n_docs: int


def make_demo(*, seed: int = SEED) -> tuple[dict[str, Ranking], Qrels]:
    """Rankings of three systems, and graded judgments of the same queries.

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
    """Grade of every document for every query: a few relevant ones, fewer highly relevant."""
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


@dataclass(frozen=True, order=True)
class Docstring:
    """The name, first line and rest of a docstring."""

    name: str
    summary: str
    body: str


def stdlib_collection(*, n_queries: int | None = None, seed: int = SEED) -> Collection:
    """Return the docstrings of this Python's standard library as documents and queries.

    `n_queries` draws a sample of the queries. The fingerprint tells one Python version and
    platform from another; the seed decides order and sample only.

    >>> collection = stdlib_collection()
    >>> len(collection.doc_ids) > len(collection.query_ids) > 1000
    True
    """
    if sys.flags.optimize > 1:
        raise UsageError("python -OO drops docstrings, which are the collection. Run without -OO.")
    docstrings = [*_read_docstrings(sys.executable)]
    # The first name stays.
    documents = {docstring.body: docstring.name for docstring in reversed(docstrings)}
    queries = select_answerable(docstrings)
    shuffle = random.Random(seed)
    bodies = sorted(documents, key=documents.__getitem__)
    shuffle.shuffle(bodies)
    shuffle.shuffle(queries)
    if n_queries is not None:
        queries = queries[: checks.check_cutoff(n_queries, "n_queries")]
    return _as_collection(bodies, documents, queries)


@lru_cache(maxsize=1)  # a second Python would take most of a second to say the same
def _read_docstrings(python: str) -> tuple[Docstring, ...]:
    """Return the docstrings by name, found by a new Python that has loaded nothing else."""
    program = [python, "-I", "-S", stdlib_docstrings.__file__]
    done = subprocess.run(program, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UsageError(f"{python!r} could not read its standard library: {why}")
    return tuple(Docstring(*record) for record in json.loads(done.stdout))


def _as_collection(
    bodies: list[str], documents: dict[str, str], queries: list[Docstring]
) -> Collection:
    doc_ids = Ids.of([documents[body] for body in bodies], what="doc")
    query_ids = Ids.of([f"q:{docstring.name}" for docstring in queries], what="query")
    targets = [documents[docstring.body] for docstring in queries]
    version = ".".join(map(str, sys.version_info[:3]))
    return Collection(
        doc_ids=doc_ids,
        doc_texts=tuple(bodies),
        query_ids=query_ids,
        query_texts=tuple(docstring.summary for docstring in queries),
        qrels=Judgments.from_targets(targets, query_ids=query_ids, doc_ids=doc_ids),
        name=f"Python {version} standard library",
    )


def select_answerable(docstrings: list[Docstring]) -> list[Docstring]:
    """Return a docstring for every summary that asks for one body, which answers it alone."""
    bodies, summaries = defaultdict(set), defaultdict(set)
    for docstring in docstrings:
        bodies[_plain(docstring.summary)].add(docstring.body)
        summaries[docstring.body].add(_plain(docstring.summary))
    by_body = {
        docstring.body: docstring
        for docstring in reversed(docstrings)
        if is_summary(docstring.summary)
        and len(bodies[_plain(docstring.summary)]) == len(summaries[docstring.body]) == 1
    }
    return sorted(by_body.values())


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")


def is_summary(line: str) -> bool:
    """Tell whether a line reads like a query: words enough and no signature."""
    return len(line.split()) >= FEWEST_WORDS and not _SIGNATURE.search(line)


def small_collection() -> Collection:
    """Return some queries of the docstrings, the documents that answer them, and others."""
    whole = stdlib_collection()
    targets = [whole.qrels.doc_ids[doc] for doc in whole.qrels.docs.tolist()]
    rows = sorted(range(len(targets)), key=lambda at: whole.query_ids[at] != _QUERY)[
        :_SMALL_QUERIES
    ]
    answers = {targets[at] for at in rows}
    docs = sorted(range(len(whole.doc_ids)), key=lambda at: whole.doc_ids[at] not in answers)
    docs = sorted(docs[:_SMALL_DOCS])
    query_ids = Ids.of([whole.query_ids[at] for at in rows], what="query")
    doc_ids = Ids.of([whole.doc_ids[at] for at in docs], what="doc")
    answered = [targets[at] for at in rows]
    return Collection(
        doc_ids=doc_ids,
        doc_texts=[whole.doc_texts[at] for at in docs],
        query_ids=query_ids,
        query_texts=[whole.query_texts[at] for at in rows],
        qrels=Judgments.from_targets(answered, query_ids=query_ids, doc_ids=doc_ids),
        name=whole.name,
    )


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
    """Two systems on six tasks: a table of queries, and results as mteb leaves them."""
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
