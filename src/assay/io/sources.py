"""Rankings and judgments from whatever the user has: paths, dictionaries, tuples, data frames."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from assay.conventions import Conventions
from assay.errors import UsageError
from assay.ids import Ids
from assay.judgments import Judgments
from assay.ranking import Ranking

__all__ = ["as_judgments", "as_ranking"]


def as_ranking(run: Any, rules: Conventions) -> Ranking:
    """A `Ranking` from any source; the conventions say how equal scores are ordered."""
    if isinstance(run, Ranking):
        return run
    if isinstance(run, str | os.PathLike):
        from assay.io.trec_text import parse_run

        lines = parse_run(run)
        return Ranking.from_lines(lines.query_ids, lines.doc_ids, queries=lines.queries,
                                  docs=lines.docs, scores=lines.values, tiebreak=rules.tiebreak,
                                  precision=rules.scores, name=lines.tag)
    query_ids, doc_ids, queries, docs, values = _columns(run, "run")
    return Ranking.from_lines(query_ids, doc_ids, queries=queries, docs=docs, scores=values,
                              tiebreak=rules.tiebreak, precision=rules.scores)


def as_judgments(qrels: Any) -> Judgments:
    """`Judgments` from any source."""
    if isinstance(qrels, Judgments):
        return qrels
    if isinstance(qrels, str | os.PathLike):
        from assay.io.trec_text import parse_qrels

        lines = parse_qrels(qrels)
        return Judgments.from_pairs(lines.query_ids, lines.doc_ids, lines.queries, lines.docs,
                                    lines.values)
    return Judgments.from_pairs(*_columns(qrels, "qrels"))


def _columns(data: Any, what: str) -> tuple[Ids, Ids, Any, Any, Any]:
    if not isinstance(data, Mapping):
        raise UsageError(f"Cannot read a {what} from {type(data).__name__}.")
    query_ids = Ids.of(list(data), what="query")
    sizes = [len(row) for row in data.values()]
    names = [doc for row in data.values() for doc in row]
    index: dict[Any, int] = {}
    docs = np.fromiter((index.setdefault(doc, len(index)) for doc in names), np.int32, len(names))
    values = np.array([v for row in data.values() for v in row.values()], np.float64)
    queries = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    return query_ids, Ids.of(list(index), what="doc"), queries, docs, values
