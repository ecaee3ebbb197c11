"""Texts to see Assay at work without any download: the docstrings of Python's own standard library.

Every machine has them: a document is what a docstring says after its summary line; a query is such
a summary line, and the one document relevant to it is the rest of the same docstring. Rules:

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
from typing import Final

from assay.core import checks
from assay.core.ids import Ids
from assay.core.judgments import Judgments
from assay.errors import UsageError
from assay.io.collections import Collection
from assay.search import stdlib_docstrings
from assay.search.stdlib_docstrings import FEWEST_WORDS

_SEED: Final = 20
_SMALL_DOCS, _SMALL_QUERIES = 300, 60
_QUERY: Final = "q:textwrap.dedent"  # one that examples may name
_SIGNATURE: Final = re.compile(r"^[\w.\[\]]+\s?\(|->|--\s*$")


@dataclass(frozen=True, order=True)
class Docstring:
    """The name, first line and rest of a docstring."""

    name: str
    summary: str
    body: str


def stdlib_collection(*, n_queries: int | None = None, seed: int = _SEED) -> Collection:
    """Return the docstrings of this Python's standard library as documents and queries.

    `n_queries` draws a sample of the queries. The fingerprint tells one Python version and
    platform from another; the seed decides order and sample only.

    >>> collection = stdlib_collection()
    >>> len(collection.doc_ids) > len(collection.query_ids) > 1000
    True
    """
    if sys.flags.optimize > 1:
        raise UsageError("python -OO drops the docstrings of the collection. Run without -OO.")
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
