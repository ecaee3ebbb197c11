"""Evaluate searches over shards: lists are judged where they are merged.

The recall of an approximate index is estimated from exact neighbours of sampled queries. Those of
all queries may cost more than the index ever will; those of a random sample cost a known share of
it, and the interval says what the sample leaves open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from assay.arrays import Floats, Ints, offsets_of, stream_key, words
from assay.cluster.jobs import SearchRequest
from assay.cluster.searching import Lists, VectorTask, prepare_search, rank_shards
from assay.cluster.settings import Cluster
from assay.core import checks
from assay.core.conventions import Conventions, Settings, as_conventions
from assay.core.ids import Ids, IntegerIds
from assay.core.judgments import Judgments, Labels, Qrels
from assay.core.mismatches import CUT_BY_ROW, check_match
from assay.core.ranking import Ranking
from assay.core.text import bracket
from assay.errors import MismatchError, UsageError
from assay.io.arrays import open_rows
from assay.io.formats import as_judgments
from assay.measures import Measure, parse_many
from assay.scoring.evaluate import evaluate
from assay.scoring.scores import Scores
from assay.search.engine.inputs import check_ids, matrix_of
from assay.search.engine.labels import (
    LabelCounts,
    check_cutoffs,
    count_found_labels,
    count_relevant,
    number_labels,
)
from assay.search.engine.search import rank
from assay.search.engine.token_vectors import is_tokens
from assay.stats import INTERVAL_NAMES, interval
from assay.stats.samples import check_level, check_seed

_FEWEST: Final = 8  # with fewer queries no interval is given


@dataclass(frozen=True)
class EvaluationTask(VectorTask):
    """Search, and send only scores back."""

    measures: tuple[str, ...]
    conventions: Conventions
    n_docs: int
    has_ids: bool
    search_name: str
    settings: Settings

    def finish(self, part: Lists, *extra: Any) -> Scores:
        """Judge a block: a ranking of the documents it found, and of the queries' own.

        A query's own document counts in the size of its collection. Where there are labels of more
        documents than the collection has, the ranking names those that are in it.
        """
        query_ids, self_docs, judged, docs = extra
        names, labels, rows_of_labels = docs or (query_ids, None, np.zeros(0, np.int64))
        judgments = replace(judged, doc_ids=names, doc_labels=labels) if docs else judged
        if part.ids is None:
            rows = np.unique(part.docs, return_counts=True)[0]  # sorted, not hashed
            ids: Ids = IntegerIds(rows, rising=True, numbered=True)
        else:
            here = np.flatnonzero(self_docs >= 0)
            named = np.flatnonzero(rows_of_labels >= 0)
            every = np.concatenate([part.rows, self_docs[here], rows_of_labels[named]])
            rows, first = np.unique(every, return_index=True)
            ids = Ids.concat([part.ids, query_ids.take(here), names.take(named)]).take(first)
        ranking = Ranking(
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
        return evaluate(
            ranking,
            judgments,
            self.measures,
            conventions=self.conventions,
            allow_mismatch=True,  # a block holds few of the documents; the driver has looked
        )


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
    """Score the best k of each query, as `evaluate(rank(…), qrels, measures)` does.

    Only scores come back to the driver.

    Args:
        queries: Vectors of the queries.
        shards: A manifest, a pattern or a list of files, in any order.
        qrels: Judgments as `evaluate` takes them.
        measures: Measures as `evaluate` takes them.
        k: Number of documents for each query.
        conventions: Conventions of the measures.
        metric: How vectors are compared.
        exclude: Documents that a query must not find, as for `rank`.
        query_ids: Ids of the queries.
        keep_ties: Keep all documents that tie with the k-th.
        zero: Refuse all-zero rows under cosine, drop them, or rank them last.
        cluster: Where this runs, and how; by default here.
        allow_mismatch: Continue despite mismatched ids.

    Returns:
        The scores.

    Raises:
        AssayError: Queries, shards, judgments or options do not fit, or a worker failed.

    Example:
        evaluate_shards(queries, "docs-*.npy", "qrels.txt", "nDCG@10", query_ids=ids)
    """
    cluster = cluster or Cluster()
    judgments = as_judgments(qrels)
    names, rules = tuple(map(str, parse_many(measures))), as_conventions(conventions)
    options = metric, zero, exclude, query_ids, keep_ties
    requested = {"label": judgments.doc_ids} if isinstance(judgments, Labels) else None
    search = prepare_search(queries, shards, k, *options, cluster, requested)
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
    judged, there = judgments.query_ids, request.names
    remarks = check_match(
        judged, there, "judged queries", "the queries", allow=allow_mismatch, either=True
    )
    rest = _score_unsearched(request, judgments, work)
    docs = None
    if isinstance(judgments, Labels):
        rows = request.corpus.found["label"]
        rows = rows if request.has_ids and len(rows) > request.corpus.n_docs else rows[:0]
        docs = cluster.executor.put((judgments.doc_ids, judgments.doc_labels, rows))
    every_place = there.match(judged)
    query_rows = request.corpus.found.get("query", np.full(request.n_queries, -1, np.int64))

    def extra(block: int) -> tuple[Any, ...]:
        """Return ids and judgments of a block, and where labels of documents lie."""
        inside = slice(*request.blocks[block])
        names = request.names.take(np.arange(inside.start, inside.stop))
        places = every_place[inside]
        return names, query_rows[inside], _take_judgments(judgments, places[places >= 0]), docs

    scores = _join_scores([*search.blocks(work, finish_extra=extra), rest])
    return replace(scores, remarks=(*remarks, *scores.remarks))


def _take_judgments(judgments: Judgments, rows: Ints) -> Judgments:
    """Return the judgments of some queries; labels of documents travel apart."""
    names = judgments.query_ids.take(rows)
    if isinstance(judgments, Labels):
        return replace(
            judgments,
            query_ids=names,
            query_labels=judgments.query_labels[rows],
            doc_ids=Ids.count(0),
            doc_labels=np.zeros(0, np.int64),
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


def _score_unsearched(request: SearchRequest, judgments: Judgments, work: EvaluationTask) -> Scores:
    """Score judged queries that are not among the queries."""
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
    some = _take_judgments(judgments, missing)
    if isinstance(judgments, Labels) and isinstance(some, Labels):
        some = replace(some, doc_ids=judgments.doc_ids, doc_labels=judgments.doc_labels)
    return evaluate(nothing, some, work.measures, conventions=work.conventions)


def _join_scores(parts: list[Scores]) -> Scores:
    """Join scores of different queries, in the order of their ids."""
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
    """Search, and send only counts back."""

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
    """Count documents that share the query's label among the best k.

    Args:
        queries: Vectors of the queries.
        shards: A manifest, a pattern or a list of files, in any order.
        k: One cutoff or several.
        query_labels: A label for each query.
        doc_labels: A label for each document, in the order of the shards.
        cluster: Where this runs, and how; by default here.
        **options: `metric`, `zero`, `exclude` and `query_ids` of `rank_shards`.

    Returns:
        Counts for each query and cutoff.

    Raises:
        AssayError: Labels, queries, shards or options do not fit, or a worker failed.

    Example:
        count_label_shards(queries, "docs-*.npy", 10, query_labels=left, doc_labels=right)
    """
    cluster = cluster or Cluster()
    cuts = check_cutoffs(k)
    left, right = number_labels(query_labels, doc_labels)
    options = {"metric": "cosine", "zero": "error", "exclude": None, "query_ids": None, **options}
    search = prepare_search(queries, shards, max(cuts), **options, keep_ties=False, cluster=cluster)
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
    return LabelCounts(cuts, counts, count_relevant(left, right, request.excluded))


@dataclass(frozen=True, eq=False)
class SampledRecall:
    """Hold Recall@k of an approximate ranking on sampled queries, with an interval.

    `values` has one recall for each of `query_ids`; `exact` are their exact neighbours, ties with
    the k-th included. `method` says how the interval was found. `sampled_recall` makes one.

    Example:
        sampled_recall(approximate, queries, "docs-*.npy", k=10).estimate
    """

    estimate: float
    low: float
    high: float
    level: float
    method: str
    k: int
    n_queries: int
    seed: int
    query_ids: Ids
    values: Floats
    exact: Ranking

    def __repr__(self) -> str:
        """Show estimate, interval and sizes."""
        sizes = f"{len(self.values)} of {self.n_queries} queries, seed {self.seed}"
        ends = bracket(self.low, self.high)
        return f"SampledRecall(R@{self.k} {self.estimate:.4f} {ends}, {sizes})"


def sample_queries(n_queries: int, sample: int, *, seed: int = 0) -> NDArray[np.int64]:
    """Draw rows without repetition, ascending; the same for one seed everywhere.

    Args:
        n_queries: Number of queries.
        sample: Number of rows to draw.
        seed: Seed of the sample.

    Returns:
        Row numbers.

    Raises:
        UsageError: A number is no whole number ≥ 1.

    Example:
        >>> sample_queries(10, 3, seed=1).tolist()
        [0, 4, 6]
    """
    count = min(checks.check_cutoff(sample, "sample"), checks.check_cutoff(n_queries, "n_queries"))
    keys = words(stream_key(check_seed(seed), "sampled queries"), 0, n_queries)
    return np.sort(np.argsort(keys, kind="stable")[:count]).astype(np.int64)


def take_sample(queries: Any, query_ids: Any, sample: int, *, seed: int = 0) -> tuple[Any, Ids]:
    """Return vectors and ids of sampled queries; without ids they are named by their row.

    Args:
        queries: Vectors of the queries.
        query_ids: Their ids, or None.
        sample: Number of queries to draw.
        seed: Seed of the sample.

    Returns:
        Vectors and ids.

    Raises:
        AssayError: Queries and ids do not fit.

    Example:
        >>> take_sample(np.eye(4), None, 2, seed=1)[0].shape
        (2, 4)
    """
    matrix: Any = queries if is_tokens(queries) else matrix_of(open_rows(queries), "queries")
    names = check_ids(query_ids, matrix.shape[0], "query")
    rows = sample_queries(matrix.shape[0], sample, seed=seed)
    if is_tokens(queries):
        some = queries[rows]
    else:
        some = np.concatenate([matrix[row : row + 1] for row in rows])
    numbered = IntegerIds(rows, rising=True, numbered=True)
    return some, numbered if names is None else names.take(rows)


def sampled_recall(
    approximate: Ranking,
    queries: Any,
    docs: Any,
    *,
    k: int,
    sample: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    metric: Any = "cosine",
    query_ids: Any = None,
    cluster: Cluster | None = None,
) -> SampledRecall:
    """Estimate Recall@k of an approximate ranking from exact neighbours of sampled queries.

    A document counts as found if it is among the first k of the approximate ranking and scores no
    less than the k-th exact neighbour, so that ties cost nothing. Queries and documents are
    matched by their ids.

    Args:
        approximate: The ranking to judge.
        queries: Vectors of all queries.
        docs: Shards as `rank_shards` takes them, or an array.
        k: Cutoff.
        sample: Number of queries to draw.
        seed: Seed of the sample.
        level: Confidence level of the interval.
        metric: How vectors are compared.
        query_ids: Ids of the queries.
        cluster: Where this runs, and how; by default here.

    Returns:
        Estimate and interval.

    Raises:
        AssayError: Ranking, queries or documents do not fit, or the sample is too small.

    Example:
        sampled_recall(read_run("approximate.run"), queries, "docs-*.npy", k=10)
    """
    checks.require(approximate, Ranking, "approximate", "a Ranking, such as read_run() gives")
    matrix = matrix_of(open_rows(queries), "queries")
    some, sampled_ids = take_sample(matrix, query_ids, sample, seed=seed)
    if query_ids is None and approximate.query_ids.kind == "text":
        sampled_ids = _as_text(sampled_ids)  # files of runs know text only
    how = {"metric": metric, "query_ids": sampled_ids, "keep_ties": True}
    if isinstance(docs, np.ndarray):
        exact = rank(some, docs, k, **how)
    else:
        exact = rank_shards(some, docs, k, **how, cluster=cluster)
    values, n_queries = _recalls(approximate, exact, checks.check_cutoff(k)), matrix.shape[0]
    level = check_level(level)
    if len(values) < min(_FEWEST, n_queries):
        raise UsageError(f"sample has {len(values)} queries. Use at least {_FEWEST}.")
    mean = float(values.mean())
    low, high, method = mean, mean, "all queries"
    if len(values) < n_queries:
        estimate = interval(values, level=level, seed=seed, bounds=(0.0, 1.0))
        low, high, method = estimate.low, estimate.high, INTERVAL_NAMES[estimate.method]
    return SampledRecall(
        mean, low, high, level, method, k, n_queries, seed, exact.query_ids, values, exact
    )


def _recalls(approximate: Ranking, exact: Ranking, k: int) -> Floats:
    """Return for each query of the exact ranking the share of its neighbours that was found."""
    places = exact.query_ids.match(approximate.query_ids)
    if (places < 0).any():
        stranger = exact.query_ids[int(np.argmax(places < 0))]
        raise MismatchError(f"The approximate ranking lacks query {stranger!r}. Add it.")
    docs = np.unique(exact.docs, return_counts=True)[0].astype(np.int64)
    names = exact.doc_ids.take(docs)
    if not exact.has_ids and approximate.doc_ids.kind == "text":
        names = _as_text(names)
    number_of = np.append(docs, -1)[approximate.doc_ids.match(names)]
    values = np.empty(len(exact))
    for row, place in enumerate(places):
        first = approximate.offsets[place]
        last = min(first + k, approximate.offsets[place + 1])
        numbers = number_of[approximate.docs[first:last]]
        true = exact.docs[exact.offsets[row] : exact.offsets[row + 1]]
        values[row] = np.isin(true, numbers[numbers >= 0]).sum() / min(k, len(true))
    return values


def _as_text(numbers: Ids) -> Ids:
    return Ids.of([str(number) for number in numbers], what="doc")


def score_ranking(
    ranking: Ranking, qrels: str, measures: Any, *, allow_mismatch: bool = False
) -> Scores:
    """Score a ranking as a file of it would be scored: rows without ids are named by number."""
    docs, places = np.unique(ranking.docs, return_inverse=True)
    names = [ranking.query_ids, ranking.doc_ids.take(docs.astype(np.int64))]
    query_ids, doc_ids = (Ids.of([str(identifier) for identifier in ids]) for ids in names)
    as_read = replace(
        ranking,
        query_ids=query_ids,
        doc_ids=doc_ids,
        given_docs=places.astype(np.int32),
        given_scores=ranking.scores,
        in_order=True,
    )
    scores = evaluate(as_read, qrels, measures, allow_mismatch=allow_mismatch)
    if ranking.doc_ids.numbered:  # rows are all that ties could go by
        scores = replace(scores, remarks=tuple(r for r in scores.remarks if r != CUT_BY_ROW))
    return scores
