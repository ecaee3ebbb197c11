"""The queries and texts of a bench: a collection without empty or unjudged ones, in tie order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from assay.arrays import Ints
from assay.core.conventions import Conventions
from assay.core.ids import Ids
from assay.errors import InputError
from assay.io.chunking import ChunkRule, chunk_docs
from assay.io.collections import Collection

__all__ = ["InFile", "PreparedCollection", "prepare"]


class InFile(NamedTuple):
    """Ids and texts in the collection's own order, and which rows take part.

    Vectors that were made elsewhere belong to these by order, empty texts among them.
    """

    ids: Ids
    texts: Sequence[str]
    rows: Ints


@dataclass(frozen=True, eq=False)
class PreparedCollection:
    """Queries, and the units (documents, or chunks of them) to search.

    `doc_ids` are all documents in the order that breaks ties; unit i has `unit_texts[i]` and
    belongs to document `unit_doc[i]`. Units are in the order of their documents, so that the lower
    number wins a tie whoever searches.
    """

    query_ids: Ids
    query_texts: tuple[str, ...]
    doc_ids: Ids
    unit_texts: tuple[str, ...]
    unit_doc: Ints
    chunk: ChunkRule | None
    docs_in_file: InFile
    queries_in_file: InFile

    @property
    def chunked(self) -> bool:
        """Whether units are chunks of documents."""
        return self.chunk is not None

    @property
    def n_units(self) -> int:
        """Number of texts to search."""
        return len(self.unit_texts)


def prepare(
    collection: Collection, rules: Conventions, chunk: ChunkRule | None
) -> PreparedCollection:
    """Leave out what has no text or no judgment, cut documents into chunks, and order by tie rule.

    Documents are ordered by id as the conventions say, or stay as they stand in the file; results
    do not depend on the order of lines where ties go by id.
    """
    judged = collection.query_ids.match(collection.qrels.query_ids) >= 0
    answerable = [at for at in collection.query_ids.order() if judged[at]]
    rows = np.array([at for at in answerable if collection.query_texts[at].strip()], np.int64)
    order = _tie_order(collection.doc_ids, rules.tiebreak)
    doc_ids = collection.doc_ids.take(order)
    texts = [collection.doc_texts[at] for at in order]
    if not len(rows):
        raise InputError("No judged query has a text, so there is nothing to search for.")
    ids, units, owner = _units(doc_ids, texts, chunk)
    if not units:
        raise InputError("All documents are empty, so there is nothing to search.")
    place = np.argsort(order[owner], kind="stable")
    in_file = InFile(ids.take(place), [units[at] for at in place], np.argsort(place, kind="stable"))
    if chunk is None:
        in_file = InFile(collection.doc_ids, collection.doc_texts, order[owner])
    return PreparedCollection(
        collection.query_ids.take(rows),
        tuple(collection.query_texts[at] for at in rows),
        doc_ids,
        units,
        owner,
        chunk,
        in_file,
        InFile(collection.query_ids, collection.query_texts, rows),
    )


def _tie_order(ids: Ids, tiebreak: str) -> Ints:
    if tiebreak == "index":
        return np.arange(len(ids))
    return np.array(ids.order(descending=tiebreak == "id-descending"), np.int64)


def _units(
    doc_ids: Ids, texts: list[str], chunk: ChunkRule | None
) -> tuple[Ids, tuple[str, ...], Ints]:
    if chunk is not None:
        made = chunk_docs(doc_ids, texts, chunk)
        return made.ids, made.texts, made.doc
    owner = np.flatnonzero([bool(text.strip()) for text in texts])
    return doc_ids.take(owner), tuple(texts[at] for at in owner), owner
