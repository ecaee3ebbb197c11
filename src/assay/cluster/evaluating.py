"""evaluate_shards and count_label_shards: lists are judged where they are merged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from assay.arrays import Ints, offsets_of
from assay.cluster.merging import Lists
from assay.cluster.requests import SearchRequest
from assay.cluster.searching import VectorTask, prepare_search
from assay.cluster.settings import Cluster
from assay.core import checks
from assay.core.conventions import Conventions, Settings, as_conventions
from assay.core.ids import Ids, IntegerIds
from assay.core.judgments import Judgments, Labels, Qrels
from assay.core.mismatches import CUT_BY_ROW, check_match
from assay.core.ranking import Ranking
from assay.io.formats import as_judgments
from assay.measures import Measure, parse_many
from assay.scoring.evaluate import evaluate
from assay.scoring.scores import Scores
from assay.search.engine.labels import (
    LabelCounts,
    count_found_labels,
    cutoffs,
    n_relevant,
    number_labels,
)


@dataclass(frozen=True)
class EvaluationTask(VectorTask):
    """A search of which only scores come back."""

    measures: tuple[str, ...]
    conventions: Conventions
    n_docs: int
    has_ids: bool
    search_name: str
    settings: Settings

    def finish(self, part: Lists, *extra: Any) -> Scores:
        """Judge a block."""
        query_ids, self_docs, judged, docs = extra
        judgments = judged if docs is None else replace(judged, doc_ids=docs[0], doc_labels=docs[1])
        ranking = self._ranking(part, query_ids, self_docs)
        return evaluate(
            ranking,
            judgments,
            self.measures,
            conventions=self.conventions,
            allow_mismatch=True,  # a block holds few of the documents; the driver has looked
        )

    def _ranking(self, part: Lists, query_ids: Ids, self_docs: Ints) -> Ranking:
        """The block as a ranking of the documents it found, and of the queries' own."""
        rows, ids = _known_docs(part, query_ids, self_docs)
        return Ranking(
            query_ids,
            ids,
            part.offsets,
            np.searchsorted(rows, part.docs).astype(np.int32),
            part.scores,
            n_docs=self.n_docs,
            has_ids=self.has_ids,
            search=self.search_name,
            settings=self.settings,
            tie_split=part.tie_split if part.tie_split.any() else None,
        )


def _known_docs(part: Lists, query_ids: Ids, self_docs: Ints) -> tuple[Ints, Ids]:
    """Numbers and ids of found documents; a query's own counts in the size of its collection."""
    if part.ids is None:
        rows = np.unique(part.docs)
        return rows, IntegerIds(rows, rising=True, numbered=True)
    here = np.flatnonzero(self_docs >= 0)
    rows, first = np.unique(np.concatenate([part.rows, self_docs[here]]), return_index=True)
    return rows, Ids.concat([part.ids, query_ids.take(here)]).take(first)


def evaluate_shards(
    queries: Any,
    shards: Any,
    qrels: Any,
    measures: str | Measure | Iterable[str | Measure] = "default",
    *,
    k: int = 1000,
    conventions: str | Conventions = "trec_eval",
    metric: Literal["cosine", "dot", "l2"] = "cosine",
    exclude: Any = None,
    query_ids: Any = None,
    keep_ties: bool = False,
    zero: Literal["error", "drop", "last"] = "error",
    cluster: Cluster | None = None,
    allow_mismatch: bool = False,
) -> Scores:
    """Scores of the best k of each query, as `evaluate(rank(…), qrels, measures)` gives them.

    Only scores come back to the driver. The arguments are those of `rank_shards` and `evaluate`.
    """
    cluster = cluster or Cluster()
    judgments = as_judgments(qrels)
    names = tuple(str(measure) for measure in parse_many(measures))
    rules = as_conventions(conventions)
    search = prepare_search(
        queries,
        shards,
        k,
        metric=metric,
        exclude=exclude,
        query_ids=query_ids,
        keep_ties=keep_ties,
        zero=zero,
        cluster=cluster,
    )
    request = search.request
    work = EvaluationTask(
        **vars(search.work),
        measures=names,
        conventions=rules,
        n_docs=request.corpus.n_docs,
        has_ids=request.has_ids,
        search_name=f"{search.engine}-certified",
        settings=search.settings,
    )
    remarks = check_match(
        judgments.query_ids,
        request.names,
        "judged queries",
        "the queries",
        allow=allow_mismatch,
        either=True,
    )
    rest = _without_ranking(request, judgments, work)
    extra = _Extras(request, judgments, cluster)
    scores = _join_scores([*search.blocks(work, finish_extra=extra.of), rest])
    return replace(scores, remarks=(*remarks, *scores.remarks))


class _Extras:
    """What a block needs to be judged: its ids and judgments, and where labels of docs lie."""

    def __init__(self, request: SearchRequest, judgments: Judgments, cluster: Cluster) -> None:
        self._request, self._judgments, self._docs = request, judgments, None
        self._places = request.names.match(judgments.query_ids)
        if isinstance(judgments, Labels):
            self._docs = cluster.executor.put((judgments.doc_ids, judgments.doc_labels))

    def of(self, block: int) -> tuple[Any, ...]:
        """The arguments of `finish`."""
        inside = slice(*self._request.blocks[block])
        names = self._request.names.take(np.arange(inside.start, inside.stop))
        rows_found = self._request.corpus.found.get("query")
        self_docs = np.full(len(names), -1, np.int64) if rows_found is None else rows_found[inside]
        places = self._places[inside]
        return names, self_docs, _judgments_of(self._judgments, places[places >= 0]), self._docs


def _judgments_of(judgments: Judgments, rows: Ints) -> Judgments:
    """The judgments of some queries; labels of documents travel apart."""
    names = judgments.query_ids.take(rows)
    if isinstance(judgments, Labels):
        nothing = np.zeros(0, np.int64)
        return replace(
            judgments,
            query_ids=names,
            query_labels=judgments.query_labels[rows],
            doc_ids=Ids.count(0),
            doc_labels=nothing,
        )
    if not isinstance(judgments, Qrels):
        return judgments
    lengths = np.diff(judgments.offsets)[rows]
    offsets = offsets_of(lengths)
    at = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - judgments.offsets[rows], lengths)
    docs, numbers = np.unique(judgments.docs[at], return_inverse=True)
    return replace(
        judgments,
        query_ids=names,
        doc_ids=judgments.doc_ids.take(docs),
        offsets=offsets,
        docs=numbers.astype(np.int64),
        grades=judgments.grades[at],
    )


def _without_ranking(request: SearchRequest, judgments: Judgments, work: EvaluationTask) -> Scores:
    """Scores of judged queries that are not among the queries."""
    places = request.names.match(judgments.query_ids)
    missing = np.setdiff1d(np.arange(judgments.n_queries), places)
    nothing = Ranking(
        Ids.count(0),
        Ids.count(0),
        np.zeros(1, np.int64),
        np.zeros(0, np.int32),
        np.zeros(0),
        n_docs=work.n_docs,
        has_ids=work.has_ids,
        search=work.search_name,
        settings=work.settings,
    )
    some = _judgments_of(judgments, missing)
    if isinstance(judgments, Labels) and isinstance(some, Labels):
        some = replace(some, doc_ids=judgments.doc_ids, doc_labels=judgments.doc_labels)
    return evaluate(nothing, some, work.measures, conventions=work.conventions)


def _join_scores(parts: list[Scores]) -> Scores:
    """Scores of different queries, in the order of their ids."""
    names = Ids.concat([part.query_ids for part in parts])
    by_id = names.order()
    return replace(
        parts[0],
        query_ids=names.take(by_id),
        values=np.concatenate([part.values for part in parts], axis=1)[:, by_id],
        tied=np.concatenate([part.tied for part in parts], axis=1)[:, by_id],
        missing=np.concatenate([part.missing for part in parts])[by_id],
        extra=Ids.concat([part.extra for part in parts]),
        remarks=(CUT_BY_ROW,) if any(CUT_BY_ROW in part.remarks for part in parts) else (),
    )


@dataclass(frozen=True)
class LabelTask(VectorTask):
    """A search of which only counts come back."""

    cuts: tuple[int, ...]

    def finish(self, part: Lists, *extra: Any) -> Ints:
        """Count the labels of a block; labels of documents are there once for all blocks."""
        query_labels, doc_labels = extra
        return count_found_labels(part.offsets, doc_labels[part.docs], query_labels, self.cuts)


def count_label_shards(
    queries: Any,
    shards: Any,
    k: int | Sequence[int],
    *,
    query_labels: Any,
    doc_labels: Any,
    cluster: Cluster | None = None,
    **options: Any,
) -> LabelCounts:
    """Count documents that share the query's label among the best k, for one or several k.

    `doc_labels` has one label for each document, in the order of the shards. The other arguments
    are those of `rank_shards`.
    """
    cluster = cluster or Cluster()
    cuts = cutoffs(k)
    left, right = number_labels(query_labels, doc_labels)
    settings = {"metric": "cosine", "zero": "error", "exclude": None, "query_ids": None}
    search = prepare_search(
        queries, shards, max(cuts), **{**settings, **options}, keep_ties=False, cluster=cluster
    )
    request, work = search.request, search.work
    checks.check_lengths(query_labels=len(left), queries=request.n_queries)
    checks.check_lengths(doc_labels=len(right), docs=request.corpus.n_docs)
    counting = LabelTask(**vars(work), cuts=cuts)
    small = right.astype(np.min_scalar_type(int(right.max(initial=0))))
    everywhere = cluster.executor.put(small)
    blocks = search.blocks(
        counting, finish_extra=lambda block: (left[slice(*request.blocks[block])], everywhere)
    )
    counts = np.concatenate(blocks)
    return LabelCounts(cuts, counts, n_relevant(left, right, request.excluded))
