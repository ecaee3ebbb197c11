"""A test collection that every machine has: the docstrings of Python's own standard library.

A document is what a docstring says after its summary line; a query is such a summary line, and
the one document relevant to it is the rest of the same docstring. Rules:

- Looked at are the public functions, classes and methods of the public modules of
  `sys.stdlib_module_names`, if the standard library defines them. Modules that greet, open
  windows, change the terminal or are replaced by other packages are left alone.
- They are read by a new Python process, because loaded packages change the standard library.
- Equal bodies are one document, named after the first object that has it.
- No query is made of a summary that is a signature (`f(x) -> y`), has fewer than three words,
  stands over two different bodies, or whose body stands under two different summaries: which
  document is meant could not be told. Their bodies stay, as documents.
- Documents and queries stand in a seeded random order, so that ties favour no module.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from assay.core import checks
from assay.core.ids import Ids
from assay.core.judgments import Judgments
from assay.errors import UsageError
from assay.io.collections import Collection
from assay.tasks.bench import stdlib_docstrings
from assay.tasks.bench.stdlib_docstrings import FEWEST_WORDS

__all__ = ["SEED", "stdlib_collection"]

SEED: Final = 20

_SIGNATURE: Final = re.compile(r"^[\w.\[\]]+\s?\(|->|--\s*$")


@dataclass(frozen=True, order=True)
class _Docstring:
    name: str
    summary: str
    body: str


def stdlib_collection(*, n_queries: int | None = None, seed: int = SEED) -> Collection:
    """The docstrings of this Python's standard library as documents and queries.

    `n_queries` draws a sample of the queries. The fingerprint tells one Python version and
    platform from another; the seed decides order and sample only.

    >>> collection = stdlib_collection()
    >>> len(collection.doc_ids) > len(collection.query_ids) > 1000
    True
    """
    if sys.flags.optimize > 1:
        raise UsageError("python -OO drops docstrings, and they are the collection. Leave -OO out.")
    docstrings = _collected()
    documents = {one.body: one.name for one in reversed(docstrings)}  # the first name stays
    queries = _answerable(docstrings)
    shuffle = random.Random(seed)
    bodies = sorted(documents, key=documents.__getitem__)
    shuffle.shuffle(bodies)
    shuffle.shuffle(queries)
    if n_queries is not None:
        queries = queries[: checks.check_cutoff(n_queries, "n_queries")]
    return _as_collection(bodies, documents, queries)


def _collected() -> list[_Docstring]:
    """The docstrings by name, found by a new Python that has loaded nothing else."""
    program = [sys.executable, "-I", "-S", stdlib_docstrings.__file__]
    done = subprocess.run(program, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise UsageError(f"{sys.executable!r} could not read its standard library: {why}")
    return [_Docstring(*one) for one in json.loads(done.stdout)]


def _as_collection(
    bodies: list[str], documents: dict[str, str], queries: list[_Docstring]
) -> Collection:
    doc_ids = Ids.of([documents[body] for body in bodies], what="doc")
    query_ids = Ids.of([f"q:{one.name}" for one in queries], what="query")
    targets = [documents[one.body] for one in queries]
    version = ".".join(map(str, sys.version_info[:3]))
    return Collection(
        doc_ids=doc_ids,
        doc_texts=tuple(bodies),
        query_ids=query_ids,
        query_texts=tuple(one.summary for one in queries),
        qrels=Judgments.from_targets(targets, query_ids=query_ids, doc_ids=doc_ids),
        name=f"Python {version} standard library",
    )


def _answerable(docstrings: list[_Docstring]) -> list[_Docstring]:
    """One docstring for every summary that asks for one body, which answers it alone."""
    bodies, summaries = defaultdict(set), defaultdict(set)
    for one in docstrings:
        bodies[_plain(one.summary)].add(one.body)
        summaries[one.body].add(_plain(one.summary))
    chosen = {
        one.body: one
        for one in reversed(docstrings)
        if _is_summary(one.summary)
        and len(bodies[_plain(one.summary)]) == len(summaries[one.body]) == 1
    }
    return sorted(chosen.values())


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")


def _is_summary(line: str) -> bool:
    return len(line.split()) >= FEWEST_WORDS and not _SIGNATURE.search(line)
