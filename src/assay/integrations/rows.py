"""Rows of a table as rankings: score, grade and query of each, as classifiers and losses have them.

Each row is a document of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from assay.arrays import Floats
from assay.core.conventions import Conventions
from assay.core.hits import Hits, judge
from assay.core.ids import Ids
from assay.core.judgments import Judgments
from assay.core.ranking import Ranking


def judge_rows(scores: Floats, grades: Floats, queries: Any, rules: Conventions) -> Hits:
    """Judge the rows of each query, ranked by score."""
    names, rows = np.unique(queries, return_inverse=True)
    query_ids, doc_ids = Ids.of(names.tolist(), "query"), Ids.count(len(rows))
    docs = np.arange(len(rows), dtype=np.int32)
    ranking = Ranking.from_lines(
        query_ids,
        doc_ids,
        queries=rows.astype(np.int32),
        docs=docs,
        scores=np.ascontiguousarray(scores, np.float64),
        tiebreak=rules.tiebreak,
        precision=rules.scores,
    )
    judgments = Judgments.from_pairs(query_ids, doc_ids, rows, docs, grades)
    # The arguments say which are grades: whole scores of fractional ones are no swap.
    return judge(ranking, judgments, conventions=rules, allow_mismatch=True)
