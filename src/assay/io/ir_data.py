"""`ir:ID`: a collection of the package ir_datasets by its id, such as ir:beir/scifact/test.

The package fetches what is not on this machine yet, and says where from.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from assay.core.consent import Consent
from assay.core.judgments import Judgments, Qrels
from assay.errors import FormatError, UsageError, error_text, need
from assay.io.lines import number_ids, pack_ids
from assay.io.texts import Role, Texts, check_texts, join_title

__all__ = ["allow_ir", "is_ir", "read_ir"]

_PREFIX: Final = "ir:"
_PACKAGE: Final = "ir_datasets"


def is_ir(corpus: object) -> bool:
    """Whether this names a collection of ir_datasets."""
    return isinstance(corpus, str) and corpus.startswith(_PREFIX)


def allow_ir(corpus: object, consent: Consent, place: str) -> None:
    """Refuse a collection that somebody's file names and that may be fetched, without consent."""
    if is_ir(corpus):
        consent.check_download(f"the collection {corpus!r}", _PACKAGE, place)


def read_ir(corpus: str) -> tuple[Texts, Texts, Qrels]:
    """Documents, queries and judgments."""
    package = need(_PACKAGE, f"The collection {corpus!r}", "ir")
    name = corpus.removeprefix(_PREFIX)
    try:
        data = package.load(name)
    except KeyError:
        raise UsageError(f"ir_datasets knows no collection {name!r:.80}.") from None
    parts = {"docs": "documents", "queries": "queries", "qrels": "judgments"}
    for part, words in parts.items():
        if not getattr(data, f"has_{part}")():
            raise UsageError(f"{corpus} has no {words}; a part of it, such as a split, may have.")
    try:
        docs, queries = list(data.docs_iter()), list(data.queries_iter())
        judged = list(data.qrels_iter())
    except Exception as error:  # another's package: a download fails in many ways
        raise FormatError(f"{corpus} cannot be read: {error_text(error)}.") from error
    return (
        _texts([(one.doc_id, one) for one in docs], "doc", corpus),
        _texts([(one.query_id, one) for one in queries], "query", corpus),
        _qrels(judged, corpus),
    )


def _texts(records: list[tuple[Any, Any]], role: Role, name: str) -> Texts:
    if not records:
        raise FormatError(f"{name} holds no {role}.")
    texts = [_text(one) for _, one in records]
    return check_texts([id for id, _ in records], texts, role, f"{name}, {role} {{}}".format)


def _text(record: Any) -> Any:
    """What the package takes for the text of a record, or its title and text."""
    if not hasattr(record, "default_text"):
        return join_title(getattr(record, "title", None) or "", record.text)
    text = record.default_text()
    return text.removeprefix(" ") if getattr(record, "title", None) == "" else text  # as in files


def _qrels(judged: list[Any], name: str) -> Qrels:
    where = f"{name}, judgment {{}}".format
    query_ids, queries = number_ids(pack_ids([one.query_id for one in judged], "query", where))
    doc_ids, docs = number_ids(pack_ids([one.doc_id for one in judged], "doc", where))
    grades = np.array([float(one.relevance) for one in judged])
    return Judgments.from_pairs(query_ids, doc_ids, queries, docs, grades)
