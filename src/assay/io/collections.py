"""Collection: documents, queries and what is relevant to what, from files, all ids checked."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from assay import checks
from assay.chunking import ChunkRule, chunk_docs
from assay.errors import MismatchError, UsageError
from assay.ids import Ids
from assay.io.eval_sets import EvalSet, read_judgments
from assay.io.sources import as_judgments
from assay.io.texts import Texts, read_texts
from assay.judgments import Qrels
from assay.near_ids import near_misses

__all__ = ["Collection", "load_collection"]

_DIGITS: Final = 16


@dataclass(frozen=True, eq=False)
class Collection:
    """Documents and queries with their texts, and graded judgments.

    Ids are text. Documents that are judged but not there, and queries without judgments, may be
    part of it; `absent_docs` and `unjudged_queries` name them. The fingerprint covers ids, texts
    and judgments, in whatever order they came.
    """

    doc_ids: Ids
    doc_texts: Sequence[str]
    query_ids: Ids
    query_texts: Sequence[str]
    qrels: Qrels
    name: str = ""
    fingerprint: str = ""

    def __post_init__(self) -> None:
        """Check that the parts belong together; compute the fingerprint if there is none."""
        for what in ("doc", "query"):
            ids = Ids.of(getattr(self, f"{what}_ids"), what)
            object.__setattr__(self, f"{what}_ids", ids)
            checks.check_unique(ids, what)
        checks.check_lengths(doc_ids=len(self.doc_ids), doc_texts=len(self.doc_texts))
        checks.check_lengths(query_ids=len(self.query_ids), query_texts=len(self.query_texts))
        _refuse_strangers(self)
        if not self.fingerprint:
            object.__setattr__(self, "fingerprint", _fingerprint(self))

    @cached_property
    def absent_docs(self) -> Ids:
        """Judged documents that the collection does not hold."""
        return _absent(self.qrels.doc_ids, self.doc_ids)

    @cached_property
    def absent_queries(self) -> Ids:
        """Judged queries without a text: nobody can ask them."""
        return _absent(self.qrels.query_ids, self.query_ids)

    @cached_property
    def unjudged_queries(self) -> Ids:
        """Queries that nobody judged."""
        return _absent(self.query_ids, self.qrels.query_ids)

    @cached_property
    def empty_docs(self) -> Ids:
        """Documents without any text: nothing can retrieve them."""
        return _empty(self.doc_ids, self.doc_texts)

    @cached_property
    def empty_queries(self) -> Ids:
        """Queries without any text."""
        return _empty(self.query_ids, self.query_texts)

    def text_of(self, doc: str) -> str:
        """The text of one document; empty where it is not there."""
        at = int(Ids.of([doc]).match(self.doc_ids)[0])
        return self.doc_texts[at] if at >= 0 else ""

    def __repr__(self) -> str:
        """Sizes in one line."""
        size = f"{len(self.doc_ids):,} documents, {len(self.query_ids):,} queries"
        return f"Collection({self.name!r}, {size}, {len(self.qrels.docs):,} judgments)"


def load_collection(
    corpus: str | os.PathLike[str],
    queries: str | os.PathLike[str] | None = None,
    qrels: Any = None,
    *,
    split: str = "test",
    name: str = "",
    chunks: ChunkRule | None = None,
) -> Collection:
    """A collection from files.

    `corpus` alone is a folder in BEIR's layout, `split` names its judgments. Otherwise `corpus` is
    JSON lines, JSON, CSV, TSV or a folder of .txt and .md files; `queries` likewise a file; `qrels`
    a file of judgments (TREC, TSV, CSV, JSON, parquet), a JSON list of (query, relevant ids), or
    what `assay.evaluate` takes. Where such a list holds the texts of the queries, `queries` may be
    left out. With `chunks`, judgments name chunks: documents are cut by this rule, and the
    documents of the collection are the chunks `ID#1`, `ID#2`, ….
    """
    if queries is None and qrels is None:
        from assay.io.beir import find_layout

        layout = find_layout(corpus, split)
        name = name or Path(corpus).resolve().name
        return load_collection(*layout, name=name, chunks=chunks)
    if qrels is None:
        raise UsageError("A collection needs judgments: give qrels (on the command line --qrels).")
    docs = read_texts(corpus, "doc")
    if chunks is not None:
        cut = chunk_docs(docs.ids, docs.texts, chunks)
        docs = Texts(cut.ids, cut.texts)
    judged = read_judgments(qrels) if isinstance(qrels, str | os.PathLike) else as_judgments(qrels)
    asked = None if queries is None else read_texts(queries, "query")
    asked, truth = _matched(asked, judged)
    return Collection(docs.ids, docs.texts, asked.ids, asked.texts, truth, name or _named(corpus))


def _matched(asked: Texts | None, judged: Any) -> tuple[Texts, Qrels]:
    """Queries and judgments by id; a list of (query, ids) may name queries by their text."""
    if isinstance(judged, EvalSet):
        if asked is None:
            asked = _from_eval_set(judged)
        ids = _query_ids(judged, asked)
        return asked, judged.as_qrels(ids)
    if asked is None:
        raise UsageError("A collection needs queries: give them (on the command line --queries).")
    if not isinstance(judged, Qrels):
        raise UsageError("A collection is judged by pairs, not by labels.")
    return asked, judged


def _from_eval_set(judged: EvalSet) -> Texts:
    texts = tuple(dict.fromkeys(judged.queries))
    return Texts(Ids.of([str(number) for number in range(len(texts))], "query"), texts)


def _query_ids(judged: EvalSet, asked: Texts) -> list[str]:
    """The id of each query of the list, which may stand there by its text."""
    known = {str(one) for one in asked.ids}
    by_text = dict(zip(asked.texts, map(str, asked.ids), strict=True))
    by_id = all(one in known for one in judged.queries)
    return [one if by_id else by_text.get(one, one) for one in judged.queries]


def _named(corpus: str | os.PathLike[str]) -> str:
    path = Path(corpus).resolve()
    return path.name if path.is_dir() else path.parent.name


def _absent(ids: Ids, there: Ids) -> Ids:
    return ids.take(np.flatnonzero(ids.match(there) < 0))


def _empty(ids: Ids, texts: Sequence[str]) -> Ids:
    return ids.take(np.flatnonzero([not text.strip() for text in texts]))


def _refuse_strangers(collection: Collection) -> None:
    """Refuse judgments that have nothing in common with the texts, and say what is near."""
    pairs = {
        "documents": (collection.qrels.doc_ids, collection.doc_ids, collection.absent_docs),
        "queries": (collection.qrels.query_ids, collection.query_ids, collection.absent_queries),
    }
    for what, (judged, there, absent) in pairs.items():
        if not len(there):
            raise MismatchError(f"The collection holds no {what}.")
        if len(absent) < len(judged):
            continue
        near = next(iter(near_misses(absent, there).items()), None)
        hint = "" if near is None else f" Some differ only {near[0]}: {near[1][0]}."
        raise MismatchError(
            f"None of the {len(judged)} judged {what} is in the collection: judged are "
            f"{checks.named_few(judged, 3)}, there are {checks.named_few(there, 3)}.{hint}"
        )


def _fingerprint(collection: Collection) -> str:
    """The first digits of a SHA-256 over ids, texts and judgments, each sorted by id."""
    digest = hashlib.sha256(b"assay collection 1\0")
    for ids, texts in (
        (collection.doc_ids, collection.doc_texts),
        (collection.query_ids, collection.query_texts),
    ):
        for at in ids.order().tolist():
            _add(digest, str(ids[at]), texts[at])
        digest.update(b"\0\0")
    for line in sorted(_judgment_lines(collection.qrels)):
        digest.update(line)
    return digest.hexdigest()[:_DIGITS]


def _add(digest: Any, *parts: str) -> None:
    for part in parts:
        data = part.encode()
        digest.update(f"{len(data)}:".encode() + data)


def _judgment_lines(qrels: Qrels) -> list[bytes]:
    queries, docs = qrels.query_ids.to_list(), qrels.doc_ids.to_list()
    rows = np.repeat(np.arange(len(queries)), np.diff(qrels.offsets)).tolist()
    return [
        f"{queries[q]}\t{docs[d]}\t{grade!r}\n".encode()
        for q, d, grade in zip(rows, qrels.docs.tolist(), qrels.grades.tolist(), strict=True)
    ]
