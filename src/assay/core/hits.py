"""judge: where the judged documents landed. The one join of the program.

`Hits` is all that measures need: ranks, tie groups and grades of judged documents, and the sizes
of what could have been found. No measure ever sees a document id, a score or a label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assay.arrays import Floats, Ints, gather, offsets_of, rows_of
from assay.core import checks, mismatches
from assay.core.conventions import Conventions, Settings, as_conventions, preset
from assay.core.ids import Ids
from assay.core.judgments import Judgments, Kept, Labels, Qrels
from assay.core.ranking import Ranking, tie_groups
from assay.errors import ConventionError, MismatchError, ShapeError, UsageError, ValueRangeError
from assay.native import kernels

Found = tuple[Ints, Ints, Ints, Ints, Floats]  # offsets, rank, rank_lo, rank_hi, grade


class RankedQueries(NamedTuple):
    """The parts of a ranking that hits need, besides ranks of judged documents."""

    query_ids: Ids
    lengths: Ints
    n_docs: int = 0
    tie_split: NDArray[np.bool_] | None = None


@dataclass(frozen=True, eq=False)
class Coverage:
    """Which judged documents are among the documents that a ranking names.

    The ranking names `n_named` documents, ranked or not: all of the collection where that has as
    many, and then no order can find one of the `n_unnamed` judged documents that are not among
    them. The rest is a pool: judged documents that are named, counted by grade.
    """

    n_named: int
    n_unnamed: int
    pool_offsets: Ints
    pool_grade: Floats
    pool_count: Ints

    @cached_property
    def pool_row(self) -> Ints:
        """The query row of every pool entry."""
        return rows_of(self.pool_offsets)

    def select(self, rows: Ints) -> Coverage:
        """Return the coverage of some queries, in the order given."""
        at, offsets = gather(self.pool_offsets, rows)
        grade, count = self.pool_grade[at], self.pool_count[at]
        return replace(self, pool_offsets=offsets, pool_grade=grade, pool_count=count)


@dataclass(frozen=True, eq=False)
class Hits:
    """Ranks and grades of the judged documents of each query, queries in order of their ids.

    Row q holds `rank`, `rank_lo`, `rank_hi` (first and last rank of the tie group) and `grade` of
    the judged documents that were retrieved, in rank order, at `offsets[q]:offsets[q+1]`.
    The pool counts all judged documents by grade, retrieved or not. With `exhaustive`, every
    document that is not listed is known not to be relevant. `n_docs` is the collection's size, 0
    where unknown; `missing` marks judged queries that the ranking does not hold; `extra` are
    queries of the ranking without judgments; `conventions` are those that the join followed;
    `tie_split` marks queries in which the depth cuts through tied documents; `search` says how the
    engine found the ranking, where it did, and `settings` what else made it; `remarks` say what is
    odd about the input, a sentence each. `kept` is what measures know of the pool, which all hits
    of the same judgments share. `cover` finds the `coverage`, which few need, and `own` marks
    queries whose own document is excluded; `n_docs` does not count that. `ranking` is there under
    `unjudged: bounds`, which ask where unjudged documents stand.
    """

    query_ids: Ids
    offsets: Ints
    rank: Ints
    rank_lo: Ints
    rank_hi: Ints
    grade: Floats
    n_ret: Ints
    pool_offsets: Ints
    pool_grade: Floats
    pool_count: Ints
    n_docs: Ints
    missing: NDArray[np.bool_]
    exhaustive: bool = False
    extra: Ids = field(default_factory=lambda: Ids.count(0))
    conventions: Conventions | None = None
    tie_split: NDArray[np.bool_] | None = None
    search: str = ""
    settings: Settings = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    kept: Kept = field(default_factory=Kept)
    cover: Callable[[], Coverage | None] | None = None
    own: NDArray[np.bool_] | None = None
    ranking: Ranking | None = None

    @property
    def n_queries(self) -> int:
        """Number of judged queries."""
        return len(self.query_ids)

    @cached_property
    def row(self) -> Ints:
        """The query row of every hit."""
        return rows_of(self.offsets)

    @cached_property
    def pool_row(self) -> Ints:
        """The query row of every pool entry."""
        return rows_of(self.pool_offsets)

    @cached_property
    def tied_rows(self) -> Ints:
        """Queries in which a judged document ties with another document."""
        in_ties = np.flatnonzero(self.rank_hi > self.rank_lo)
        return np.unique(self.row[in_ties], return_counts=True)[0] if len(in_ties) else in_ties

    @cached_property
    def coverage(self) -> Coverage | None:
        """Which judged documents the ranking names; None where nothing is known of that."""
        return None if self.cover is None else self.cover()

    @property
    def present(self) -> Coverage | None:
        """The judged documents that are in the collection, where it is known which these are."""
        if not self.n_queries or not self.n_docs[0] or self.coverage is None:
            return None
        n_docs = self.n_docs[0] + (0 if self.own is None else self.own[0])
        return self.coverage if self.coverage.n_named == n_docs else None

    def select(self, rows: Ints) -> Hits:
        """Return the hits of some queries, in the order given."""
        rows = np.asarray(rows, np.int64)
        at, offsets = gather(self.offsets, rows)
        pool_at, pool_offsets = gather(self.pool_offsets, rows)
        places = {
            **dict.fromkeys(("rank", "rank_lo", "rank_hi", "grade"), at),
            **dict.fromkeys(("pool_grade", "pool_count"), pool_at),
            **dict.fromkeys(("n_ret", "n_docs", "missing", "tie_split", "own"), rows),
        }
        columns = {name: getattr(self, name) for name in places}
        taken: dict[str, Any] = {
            key: None if column is None else column[places[key]] for key, column in columns.items()
        }
        return replace(
            self,
            query_ids=self.query_ids.take(rows),
            offsets=offsets,
            pool_offsets=pool_offsets,
            kept=Kept(),
            ranking=None,
            cover=None if self.cover is None else partial(_cover_rows, self.cover, rows),
            **taken,
        )

    def __repr__(self) -> str:
        """Return the sizes in one line."""
        return f"Hits({self.n_queries} queries, {len(self.rank)} judged documents retrieved)"


def _cover_rows(cover: Callable[[], Coverage | None], rows: Ints) -> Coverage | None:
    coverage = cover()
    return None if coverage is None else coverage.select(rows)


def judge(
    ranking: Ranking,
    judgments: Judgments,
    *,
    conventions: str | Conventions | None = None,
    allow_mismatch: bool = False,
) -> Hits:
    """Join a ranking with judgments: at which ranks are the judged documents?

    Args:
        ranking: The ranked documents of each query.
        judgments: What is relevant to what.
        conventions: A preset's name, a signature or a value; by default trec_eval's, with the
            order of ties that the ranking has.
        allow_mismatch: Continue where ids do not fit, such as `1` and `01`.

    Returns:
        Ranks, tie groups and grades of the judged documents: all that measures need.

    Raises:
        MismatchError: The ids of the two do not fit.
        ConventionError: The depth cuts a group of ties that the conventions look into.

    Example:
        >>> hits = judge(Ranking.from_scores([[0.1, 0.9, 0.5]]), Judgments.from_targets([2]))
        >>> hits.rank.tolist()
        [2]
    """
    checks.require(ranking, Ranking, "ranking", "a Ranking; read_run() makes one from a file")
    if conventions is None:
        as_ranked = {"tiebreak": ranking.tiebreak, "scores": ranking.precision}
        conventions = preset("trec_eval").replace(**as_ranked)
    conventions = as_conventions(conventions)
    placed = ranking.under(conventions)
    _refuse_split_ties(placed, conventions)
    without_self = conventions.self_match == "exclude"
    if isinstance(judgments, Labels):
        hits = _judge_labels(placed, judgments, conventions, without_self, allow_mismatch)
    elif isinstance(judgments, Qrels):
        hits = _judge_qrels(placed, judgments, conventions, without_self, allow_mismatch)
    else:
        raise UsageError(f"judgments must be Judgments, found {type(judgments).__name__}.")
    cut = mismatches.cut_by_row(ranking, placed, judgments.query_ids)
    remarks = (*hits.remarks, *mismatches.constant_scores(placed), *cut)
    numbered = ranking.doc_ids.numbered and conventions.tiebreak != "index"
    settings = {**ranking.settings, **({"docs": "numbered"} if numbered else {})}
    hits = replace(hits, search=ranking.search, settings=settings, remarks=remarks)
    if conventions.unjudged == "bounds":
        return replace(hits, ranking=placed)
    return condense(hits) if conventions.unjudged == "condensed" else hits


def condense(hits: Hits) -> Hits:
    """Return the hits of lists from which unjudged documents were removed (trec_eval -J).

    A negative grade is no judgment. Documents that tied still do.
    Sakai, Alternatives to bpref, SIGIR 2007.

    >>> from assay.io.formats import as_judgments, as_ranking
    >>> run = as_ranking({"q": {"a": 3, "b": 2, "c": 1}}, preset("trec_eval"))
    >>> condense(judge(run, as_judgments({"q": {"a": 0, "c": 1}}))).rank.tolist()
    [1, 2]
    """
    if hits.exhaustive:
        return hits
    judged = np.flatnonzero(hits.grade >= 0)
    row, group = hits.row[judged], hits.rank_lo[judged]
    n_ret = np.bincount(row, minlength=hits.n_queries)
    offsets = offsets_of(n_ret)
    rank = np.arange(1, len(row) + 1) - offsets[row]
    first = np.flatnonzero(np.diff(row, prepend=-1) | np.diff(group, prepend=-1))
    sizes = np.diff(np.append(first, len(row)))
    low = np.repeat(rank[first], sizes)
    high = low + np.repeat(sizes, sizes) - 1
    places: Any = {"rank": rank, "rank_lo": low, "rank_hi": high, "grade": hits.grade[judged]}
    return replace(hits, offsets=offsets, n_ret=n_ret, **places)


def _refuse_split_ties(ranking: Ranking, conventions: Conventions) -> None:
    """Refuse a cut tie group: half of one has no expected, best or worst order."""
    if conventions.ties == "order" or ranking.tie_split is None or not ranking.tie_split.any():
        return
    query = ranking.query_ids[int(np.argmax(ranking.tie_split))]
    cut = f"depth {conventions.depth} cuts" if conventions.depth else "The ranking was cut"
    cure = "Use a cutoff in the measure (nDCG@10)" if conventions.depth else "Keep all ties"
    if ranking.search:
        cure = "Search with keep_ties=True"
    raise ConventionError(
        f"{cut} through a group of tied documents, first in query "
        f"{query!r} ({int(ranking.tie_split.sum())} such queries), so ties={conventions.ties!r} "
        f"would not be exact. {cure}, or use ties='order'."
    )


def _judge_qrels(
    ranking: Ranking, qrels: Qrels, conventions: Conventions, without_self: bool, allow: bool
) -> Hits:
    if without_self:
        qrels = _qrels_without_self(qrels)
    mismatches.refuse_swapped(ranking, qrels, allow=allow)
    to_judged = ranking.query_ids.match(qrels.query_ids)
    remarks = mismatches.check_queries(ranking.query_ids, qrels, to_judged, allow=allow)
    judged = qrels.in_id_order
    judged_docs, finder = judged.docs, None
    if qrels.doc_ids != ranking.doc_ids:
        places = qrels.doc_ids.match(ranking.doc_ids)
        n_common = int(np.count_nonzero(to_judged >= 0))
        remarks += mismatches.check_docs(ranking, qrels, places >= 0, n_common, allow=allow)
        judged_docs = places[judged_docs]
        finder = partial(_cover_qrels, ranking.doc_ids, ranking.n_docs, judged, judged_docs)
    own_doc = None
    if without_self:  # queries whose own document is in the collection; a run need not name it
        remarks += mismatches.check_own_ids(judged.query_ids, ranking.doc_ids, allow=allow)
        own_doc = judged.query_ids.match(ranking.doc_ids) >= 0
        if not ranking.n_docs:
            own_doc |= judged.query_ids.match(judged.doc_ids) >= 0
    rows = rows_by_id(ranking, qrels, conventions, to_judged)
    search = kernels().find_judged if ranking.in_order else kernels().count_judged
    hits_found = search(
        ranking.offsets,
        ranking.given_docs,
        ranking.given_scores,
        rows,
        judged.offsets,
        judged_docs.astype(np.int32),
        judged.grades,
        len(ranking.doc_ids),
    )
    return make_hits(
        ranking,
        qrels,
        conventions,
        to_judged,
        rows,
        hits_found,
        judged.grade_counts,
        exhaustive=qrels.exhaustive,
        own_doc=own_doc,
        cover=finder,
        remarks=(
            *qrels.remarks,
            *remarks,
            *mismatches.odd_grades(ranking, qrels),
            *_are_grades(ranking, rows, hits_found),
        ),
        cache=judged.kept,
    )


def _cover_qrels(names: Ids, n_docs: int, judged: Qrels, places: Ints) -> Coverage | None:
    """Count judged documents at these places among the names, negative for none."""
    n_named, named = len(names), places >= 0
    if names.numbered:  # documents without ids: numbers need not be listed to be named
        if not n_docs:
            return None
        n_named, named = n_docs, _are_rows(judged.doc_ids, n_docs)[judged.docs]
    return count_named(judged, named, n_named)


def count_named(judged: Qrels, named: NDArray[np.bool_], n_named: int) -> Coverage:
    """Count the judgments whose document is named."""
    if named.all():
        return Coverage(n_named, 0, *judged.grade_counts)
    unnamed = np.zeros(len(judged.doc_ids), bool)
    unnamed[judged.docs[~named]] = True
    pool = kernels().count_grades(offsets_of(named)[judged.offsets], judged.grades[named])
    return Coverage(n_named, int(np.count_nonzero(unnamed)), *pool)


def cover_by(hits: Hits, judgments: Judgments, names: Ids) -> Hits:
    """Say which documents are in the collection, as several runs name them."""
    if not isinstance(judgments, Qrels) or names.numbered:
        return hits
    excluded = hits.conventions is not None and hits.conventions.self_match == "exclude"
    judged = (_qrels_without_self(judgments) if excluded else judgments).in_id_order
    named = (judged.doc_ids.match(names) >= 0)[judged.docs]
    return replace(hits, cover=partial(count_named, judged, named, len(names)))


def _are_rows(ids: Ids, n_docs: int) -> NDArray[np.bool_]:
    """Return which ids are row numbers."""
    if ids.kind != "integer":
        return np.zeros(len(ids), bool)
    return (ids.numbers >= 0) & (ids.numbers < n_docs)


def _are_grades(ranking: Ranking, rows: Ints, hits_found: Found) -> Iterator[str]:
    """Yield a remark on a run that is a copy of the judgments."""
    offsets, rank, _, _, grade = hits_found

    def scores() -> Floats:
        return np.asarray(ranking.scores[ranking.offsets[rows[rows_of(offsets)]] + rank - 1])

    return mismatches.odd_scores(np.append(ranking.lengths, 0)[rows], offsets, grade, scores)


def _judge_labels(
    ranking: Ranking, labels: Labels, conventions: Conventions, without_self: bool, allow: bool
) -> Hits:
    to_judged = ranking.query_ids.match(labels.query_ids)
    remarks = mismatches.check_queries(ranking.query_ids, labels, to_judged, allow=allow)
    label_of_doc = _labels_of_ranked(ranking, labels)
    collection = ranking.doc_ids if ranking.n_docs else labels.doc_ids
    is_query = None
    if without_self:
        remarks += mismatches.check_own_ids(labels.query_ids, collection, allow=allow)
        is_query = labels.query_ids.match(collection) >= 0
    query_labels = np.where(to_judged >= 0, labels.query_labels[to_judged], -2)
    is_hit = label_of_doc[ranking.docs] == np.repeat(query_labels, ranking.lengths)
    at = np.flatnonzero(is_hit)
    rank, lo, hi = tie_groups(ranking.offsets, ranking.scores, at)
    offsets = offsets_of(is_hit)[ranking.offsets]
    pool = _label_pool(labels, without_self)
    rows = rows_by_id(ranking, labels, conventions, to_judged)
    return make_hits(
        ranking,
        labels,
        conventions,
        to_judged,
        rows,
        regroup((offsets, rank, lo, hi, np.ones(len(at))), rows),
        pool,
        exhaustive=True,
        own_doc=None if is_query is None else is_query[labels.by_id],
        cover=partial(_cover_labels, ranking.doc_ids, ranking.n_docs, labels, without_self),
        n_docs=len(labels.doc_ids),
        remarks=remarks,
    )


def _label_pool(labels: Labels, without_self: bool) -> tuple[Ints, Floats, Ints]:
    """Return how many documents carry the label of each query, in order of the queries' ids."""
    n_relevant = labels.n_relevant.copy()
    if without_self:
        same = labels.query_ids.match(labels.doc_ids)
        has = same >= 0
        n_relevant[has] -= labels.doc_labels[same[has]] == labels.query_labels[has]
    n_relevant = n_relevant[labels.by_id]
    some = n_relevant > 0
    return offsets_of(some), np.ones(int(some.sum())), n_relevant[some]


def _cover_labels(names: Ids, n_docs: int, labels: Labels, without_self: bool) -> Coverage | None:
    """Count labelled documents; where the size is unknown, they are the collection."""
    if not n_docs or n_docs >= len(labels.doc_ids):
        return None
    if names.numbered:
        named = _are_rows(labels.doc_ids, n_docs)
    else:
        named = labels.doc_ids.match(names) >= 0
    at = np.flatnonzero(named)
    inside = replace(labels, doc_ids=labels.doc_ids.take(at), doc_labels=labels.doc_labels[at])
    pool = _label_pool(inside, without_self)
    return Coverage(len(at), len(labels.doc_ids) - len(at), *pool)


def _labels_of_ranked(ranking: Ranking, labels: Labels) -> Ints:
    """Return the label number of every document the ranking knows; all of them must be labelled."""
    number = ranking.doc_ids.match(labels.doc_ids)
    unknown = np.flatnonzero(number < 0)
    # Of numbered documents only those that are ranked may have an id.
    beyond = ranking.n_docs - len(labels.doc_ids) if ranking.doc_ids.numbered else 0
    if len(unknown) or beyond > 0:
        example = ranking.doc_ids[int(unknown[0])] if len(unknown) else ranking.n_docs - 1
        raise MismatchError(
            f"{max(len(unknown), beyond)} ranked documents have no label, e.g. document "
            f"{example!r}. Give a label for each."
        )
    return labels.doc_labels[number]


def _qrels_without_self(qrels: Qrels) -> Qrels:
    """Drop judgments of a document with the query's own id."""
    self_doc = np.repeat(qrels.query_ids.match(qrels.doc_ids), np.diff(qrels.offsets))
    is_other = qrels.docs != self_doc
    offsets = offsets_of(is_other)[qrels.offsets]
    return replace(qrels, offsets=offsets, docs=qrels.docs[is_other], grades=qrels.grades[is_other])


def rows_by_id(
    ranking: Ranking | RankedQueries,
    judgments: Judgments,
    conventions: Conventions,
    to_judged: Ints,
) -> Ints:
    """Return the row of each judged query, by id; a missing one has the row after all.

    `to_judged` is the judged query of each row, or −1.
    """
    rows = np.full(judgments.n_queries, len(ranking.query_ids), np.int64)
    judged_rows = np.flatnonzero(to_judged >= 0)
    rows[to_judged[judged_rows]] = judged_rows
    rows = rows[judgments.by_id]
    missing = rows == len(ranking.query_ids)
    if conventions.missing == "error" and missing.any():
        names = judgments.sorted_ids.take(np.flatnonzero(missing))
        raise MismatchError(
            f"Judged queries without a ranking: {checks.name_few(names)}. "
            "Use missing='zero' or missing='skip' to continue without them."
        )
    return rows


def regroup(hits: Found, rows: Ints) -> Found:
    """Return found documents row by row in the order of `rows`."""
    at, offsets = gather(np.append(hits[0], hits[0][-1]), rows)
    return offsets, hits[1][at], hits[2][at], hits[3][at], hits[4][at]


def make_hits(
    ranking: Ranking | RankedQueries,
    judgments: Judgments,
    conventions: Conventions,
    to_judged: Ints,
    rows: Ints,
    hits_found: Found,
    pool: tuple[Ints, Floats, Ints],
    *,
    exhaustive: bool,
    own_doc: NDArray[np.bool_] | None,
    n_docs: int = 0,
    cover: Callable[[], Coverage | None] | None = None,
    remarks: tuple[str, ...] = (),
    cache: Kept | None = None,
) -> Hits:
    """Make hits of what was found, in order of the query ids, as pool and `own_doc` are.

    `rows` are the queries' rows in the ranking, `own_doc` marks those whose own document is
    excluded from the collection.
    """
    n_docs = ranking.n_docs or n_docs
    size = np.full(len(rows), n_docs, np.int64)
    if own_doc is not None and n_docs:
        size -= own_doc
    # The row after the last stands for queries that are not in the ranking.
    split = None if ranking.tie_split is None else np.append(ranking.tie_split, False)[rows]
    return Hits(
        judgments.sorted_ids,
        *hits_found,
        np.append(ranking.lengths, 0)[rows],
        *pool,
        size,
        rows == len(ranking.query_ids),
        exhaustive=exhaustive,
        extra=ranking.query_ids.take(np.flatnonzero(to_judged < 0)),
        conventions=conventions,
        tie_split=split,
        remarks=remarks,
        kept=Kept() if cache is None else cache,
        cover=cover,
        own=own_doc,
    )


def judge_ranks(
    ranks: ArrayLike,
    *,
    tied: ArrayLike | None = None,
    placed: ArrayLike | None = None,
    n_docs: int | None = None,
    has_target: Sequence[bool] | NDArray[np.bool_] | None = None,
    query_ids: Iterable[object] | None = None,
) -> Hits:
    """Return hits from the rank of one target per query.

    Documents have no ids here that could break ties: the scores say `tiebreak:index`.

    Args:
        ranks: 1 + the number of documents above the target, or 0 where it was not retrieved.
        tied: How many other documents tie with it.
        placed: Its rank under the tie rule; by default the last rank of its tie group.
        n_docs: The size of the collection, where it is known.
        has_target: The queries that have a target; by default all.
        query_ids: Ids of the queries.

    Returns:
        The hits, in order of the queries' ids.

    Raises:
        ValueRangeError: A rank does not fit its tie group or the collection.

    Example:
        >>> judge_ranks([1, 3], tied=[0, 2]).rank_hi.tolist()
        [1, 5]
    """
    first = checks.check_ranks(ranks)
    n_tied = np.zeros_like(first) if tied is None else checks.check_ranks(tied, "tied")
    queries = Ids.count(len(first)) if query_ids is None else Ids.of(query_ids, what="query")
    has = np.ones(len(first), bool) if has_target is None else _flags(has_target)
    rank = first if placed is None else checks.check_ranks(placed, "placed")
    lengths = {"tied": len(n_tied), "placed": len(rank), "has_target": len(has)}
    checks.check_lengths(ranks=len(first), query_ids=len(queries), **lengths)
    checks.check_unique(queries, "query")
    last = first + n_tied
    rank = last if placed is None else rank
    is_found = has & (first > 0)
    _check_rank_limits(first, rank, last, is_found, n_docs)
    size = np.full(len(first), n_docs or 0, np.int64)
    constant = (
        is_found.any() and size[0] > 1 and bool(((last - first + 1)[is_found] == size[0]).all())
    )
    hits = Hits(
        query_ids=queries,
        offsets=offsets_of(is_found),
        rank=rank[is_found],
        rank_lo=first[is_found],
        rank_hi=last[is_found],
        grade=np.ones(int(is_found.sum())),
        n_ret=np.where(size > 0, size, last),
        pool_offsets=offsets_of(has),
        pool_grade=np.ones(int(has.sum())),
        pool_count=np.ones(int(has.sum()), np.int64),
        n_docs=size,
        missing=np.zeros(len(first), bool),
        exhaustive=True,
        conventions=preset("trec_eval").replace(tiebreak="index"),
        remarks=(mismatches.CONSTANT,) if constant else (),
    )
    return hits.select(queries.order())


def _flags(has_target: Any) -> NDArray[np.bool_]:
    flags = checks.plain_array(has_target, "has_target")
    if flags.ndim != 1 or flags.dtype != bool:
        raise ShapeError(
            f"has_target must be True or False for each query, found shape {flags.shape} of "
            f"{flags.dtype}."
        )
    return flags


def _check_rank_limits(
    first: Ints, rank: Ints, last: Ints, is_found: NDArray[np.bool_], n_docs: int | None
) -> None:
    limit = np.iinfo(np.int64).max if n_docs is None else checks.check_cutoff(n_docs, "n_docs")
    bad = is_found & ((rank < first) | (rank > last) | (last > limit))
    if bad.any():
        q = int(np.argmax(bad))
        raise ValueRangeError(
            f"Query row {q}: rank {rank[q]} with tie group {first[q]}…{last[q]} does not fit"
            + ("." if n_docs is None else f" into {n_docs} documents.")
        )
