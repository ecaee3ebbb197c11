"""Ranking: for each query the retrieved documents in rank order, with their scores.

The tie rule is: score descending, then the tie-break ascending; `-0.0` equals `0.0`. Whatever ranks
documents goes by it, and it is written in two places only:

    native/exact/tie_order.hpp   for the compiled kernels: `sort_rows` and `order_rows`, the ranks
                                 of judged documents, top k and targets of the search, targets in
                                 a matrix of scores
    native/tie_order.py          the same in numpy: `rank_order`, `nearest_order` for distances, and
                                 `sides_of` for counting what ranks before a target

Codes are compared by nothing: they go into bins by distance, in the order of their numbers. The
tie-break is the place of the document's id among all ids, by their text (`Ids.order`), or that of
its row or line. `sort_rows` sorts ragged rows by whichever kernel the machine has; `tie_groups`
finds where equal scores begin and end. tests/core/test_order.py fails where another comparison is
written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assay.arrays import Floats, Ints, Ints32, offsets_of
from assay.core import checks
from assay.core.conventions import CHOICES, Settings, as_conventions
from assay.core.ids import Ids
from assay.errors import ConventionError, IdError, MismatchError, ShapeError, ValueRangeError
from assay.native import kernels

if TYPE_CHECKING:
    from assay.core.conventions import Conventions
    from assay.native.signatures import RowFault


def sort_rows(offsets: Ints, scores: Floats, tiebreak: Ints | None) -> Ints:
    """Return the permutation that sorts rows: score descending, then tiebreak ascending.

    Without a tiebreak, equal scores keep the order they stand in.
    """
    return kernels().order_rows(offsets, np.ascontiguousarray(scores), tiebreak)


def tie_groups(offsets: Ints, scores: Floats, at: Ints) -> tuple[Ints, Ints, Ints]:
    """Rank, first and last rank of the tie group, for the elements at these positions."""
    row = np.searchsorted(offsets, at, side="right") - 1
    start, stop = offsets[row], offsets[row + 1]
    rank = at - start + 1
    same = np.zeros(len(scores) + 1, bool)
    np.equal(scores[1:], scores[:-1], out=same[1:-1])
    if not same.any():
        return rank, rank, rank
    breaks = ~same
    breaks[offsets] = True
    edges = np.flatnonzero(breaks)
    group = np.searchsorted(edges, at, side="right") - 1
    return rank, edges[group] - start + 1, np.minimum(edges[group + 1], stop) - start


# What the kernels call each rule: the order of ids, or that of lines.
TIES_BY_RULE: Final = {"id-descending": -1, "id-ascending": 1, "index": 0}


class SortedRows(NamedTuple):
    """Rows of docs in rank order: row q is `offsets[q]:offsets[q + 1]`."""

    offsets: Ints
    docs: Ints32
    scores: Floats


def sort_lines(
    queries: Ints32,
    docs: Ints32,
    scores: Floats,
    *,
    query_ids: Ids,
    doc_ids: Ids,
    tiebreak: str = "id-descending",
    float32: bool = False,
    owned: bool = False,
) -> SortedRows:
    """Group lines by query and sort each row by score descending, then by doc id.

    `float32` rounds the scores first, as trec_eval does. A doc twice in a row is an IdError. Arrays
    that are in order already are kept, not copied, where they are `owned`: nobody changes them.

    >>> ids = Ids.of(["a", "b"])
    >>> rows = sort_lines(np.zeros(2, np.int32), np.arange(2, dtype=np.int32), np.ones(2),
    ...                   query_ids=Ids.of(["q"]), doc_ids=ids)
    >>> rows.docs.tolist()
    [1, 0]
    """
    offsets, sorted_docs, sorted_scores, fault = kernels().sort_rows(
        queries, docs, scores, len(query_ids), *doc_ids.sort_bytes, TIES_BY_RULE[tiebreak], float32
    )
    if fault is not None:
        raise _error(fault, query_ids, doc_ids)
    if sorted_docs is docs and not owned:
        sorted_docs, sorted_scores = docs.copy(), scores.copy()
    rows = SortedRows(offsets, sorted_docs, sorted_scores)
    for column in rows:
        column.flags.writeable = False
    return rows


def _error(fault: RowFault, query_ids: Ids, doc_ids: Ids) -> IdError | ValueRangeError:
    kind, query, doc = fault
    where = f"doc {doc_ids[doc]!r} of query {query_ids[query]!r}"
    if kind == "duplicate":
        return IdError(f"{where} is in the run more than once. Remove the repeated lines.")
    return ValueRangeError(
        f"the score of {where} is beyond the range of float32 (3.4e38). "
        "Scale the scores, or evaluate them in float64."
    )


@dataclass(frozen=True, eq=False)
class Ranking:
    """Ragged rows of documents in rank order; build one with `from_…`, which check their input.

    Row q holds `docs[offsets[q]:offsets[q+1]]` (numbers into `doc_ids`) and their `scores`,
    sorted by score descending, then by `tiebreak`. `n_docs` is the size of the collection, or 0
    when unknown. Arrays are read-only.

    Rows are kept as they came (`given_docs`, `given_scores`) and sorted on first use: the
    ranks of judged documents can be counted without sorting. `has_ids` says that queries and
    documents were named, `by_line` that ties stand in the order of lines, and `tie_split` marks
    rows in which a cut runs through a group of tied documents. `search` says how the engine
    found the rows, where it did, and `settings` what else made them, such as the metric;
    `zero_rows` counts the queries and the documents that are all zero.

    Example:
        >>> Ranking.from_scores([[0.1, 0.9]], query_ids=["q"], doc_ids=["a", "b"]).row("q")
        [('b', 0.9), ('a', 0.1)]
    """

    query_ids: Ids
    doc_ids: Ids
    offsets: Ints
    given_docs: Ints32
    given_scores: Floats
    in_order: bool = True
    n_docs: int = 0
    tiebreak: str = "index"
    precision: str = "float64"
    name: str = ""
    has_ids: bool = True
    by_line: bool = False
    tie_split: NDArray[np.bool_] | None = None
    search: str = ""
    settings: Settings = field(default_factory=dict)
    zero_rows: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        """Make the arrays read-only."""
        for array in (self.offsets, self.given_docs, self.given_scores):
            array.setflags(write=False)

    @cached_property
    def _sorted(self) -> tuple[Ints32, Floats]:
        if self.in_order:
            return self.given_docs, self.given_scores
        priority = self.given_docs.astype(np.int64)
        by_rank = sort_rows(self.offsets, self.given_scores, priority)
        docs, scores = self.given_docs[by_rank], self.given_scores[by_rank]
        docs.setflags(write=False)
        scores.setflags(write=False)
        return docs, scores

    @property
    def docs(self) -> Ints32:
        """Document numbers, each row in rank order."""
        return self._sorted[0]

    @property
    def scores(self) -> Floats:
        """Scores, each row in rank order."""
        return self._sorted[1]

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.query_ids)

    @cached_property
    def lengths(self) -> Ints:
        """How many documents each row holds."""
        return np.diff(self.offsets)

    @cached_property
    def complete(self) -> NDArray[np.bool_]:
        """Which rows rank the whole collection."""
        whole: NDArray[np.bool_] = (self.lengths == self.n_docs) & (self.n_docs > 0)
        return whole

    def row(self, query: str | int) -> list[tuple[str | int, float]]:
        """Return the documents of one query with their scores, best first.

        >>> Ranking.from_scores([[0.1, 0.9]]).row(0)
        [(1, 0.9), (0, 0.1)]
        """
        q = self._number_of(query)
        inside = slice(self.offsets[q], self.offsets[q + 1])
        ids = self.doc_ids.take(self.docs[inside].astype(np.int64))
        return list(zip(ids, self.scores[inside].tolist(), strict=True))

    def _number_of(self, query: str | int) -> int:
        number = int(Ids.of([query], what="query").match(self.query_ids)[0])
        if number < 0:
            raise IdError(f"The ranking has no query {query!r}. See its query_ids.")
        return number

    def __len__(self) -> int:
        """Return the number of queries."""
        return self.n_queries

    def __repr__(self) -> str:
        """Return sizes and tie rule in one line."""
        size = f"{self.n_queries} queries, {len(self.given_docs)} results"
        return f"Ranking({size}, tiebreak={self.tiebreak})"

    @classmethod
    def from_lines(
        cls,
        query_ids: Ids,
        doc_ids: Ids,
        *,
        queries: NDArray[np.int32],
        docs: NDArray[np.int32],
        scores: Floats,
        tiebreak: str = "id-descending",
        precision: str = "float64",
        name: str = "",
        owned: bool = False,
    ) -> Ranking:
        """Build a ranking from (query number, document number, score) lines in any order.

        Arrays that are `owned` may be kept: nobody will change them.
        """
        if tiebreak not in TIES_BY_RULE or precision not in CHOICES["scores"]:
            raise ConventionError(f"Unknown tiebreak {tiebreak!r} or precision {precision!r}.")
        checks.check_finite(scores, "scores")
        rows = sort_lines(
            queries,
            docs,
            scores,
            query_ids=query_ids,
            doc_ids=doc_ids,
            tiebreak=tiebreak,
            float32=precision == "float32",
            owned=owned,
        )
        return cls(
            query_ids,
            doc_ids,
            rows.offsets,
            rows.docs,
            rows.scores,
            tiebreak=tiebreak,
            precision=precision,
            name=name,
            by_line=tiebreak == "index",
        )

    @classmethod
    def from_scores(
        cls,
        scores: ArrayLike,
        *,
        query_ids: Iterable[object] | None = None,
        doc_ids: Iterable[object] | None = None,
    ) -> Ranking:
        """Build a ranking from a whole score matrix, queries × documents."""
        matrix = checks.real_matrix(scores, "scores")
        docs = np.broadcast_to(np.arange(matrix.shape[1], dtype=np.int64), matrix.shape)
        return cls.from_arrays(
            docs, matrix, query_ids=query_ids, doc_ids=doc_ids, n_docs=matrix.shape[1]
        )

    @classmethod
    def from_arrays(
        cls,
        docs: ArrayLike,
        scores: ArrayLike | None = None,
        *,
        query_ids: Iterable[object] | None = None,
        doc_ids: Iterable[object] | None = None,
        n_docs: int | None = None,
    ) -> Ranking:
        """Build a ranking from document numbers, queries × places, and scores; −1 marks unused
        places.

        Without scores the order given is the ranking, and nothing ties. `doc_ids` names the
        documents 0, 1, …; `n_docs` is the size of the collection where it is known.

        >>> Ranking.from_arrays([[7, 3]], [[0.5, 0.9]]).row(0)
        [(3, 0.9), (7, 0.5)]
        """
        numbers = checks.real_matrix(docs, "docs")
        names = None if doc_ids is None else Ids.of(doc_ids, what="doc")
        if n_docs is not None:
            n_docs = checks.check_cutoff(n_docs, "n_docs")
        size = n_docs if names is None else len(names)
        numbers = checks.check_doc_numbers(numbers, size)
        queries = _query_ids(query_ids, len(numbers))
        values = _score_matrix(scores, numbers, queries)
        if names is None:
            names, numbers = Ids.of_rows(numbers, size)
        else:
            checks.check_unique(names, "doc")
        offsets, flat_docs, flat_scores = _drop_unused(numbers, values)
        _refuse_repeats(queries, names, offsets, flat_docs)
        return cls(
            queries,
            names,
            offsets,
            flat_docs,
            flat_scores,
            in_order=scores is None,
            n_docs=size or 0,
            has_ids=query_ids is not None and doc_ids is not None,
        )

    def under(self, conventions: str | Conventions) -> Ranking:
        """Return the results in the order, precision and depth of the conventions."""
        conventions = as_conventions(conventions)
        ranking = self._reorder(conventions.tiebreak, conventions.scores)
        if conventions.self_match == "exclude":
            ranking = ranking._without_self()
        return ranking.first(conventions.depth) if conventions.depth else ranking

    def first(self, depth: int) -> Ranking:
        """Cut each row after `depth` documents, which the settings say."""
        depth = checks.check_cutoff(depth, "depth")
        settings = {**self.settings, "first": str(depth)}
        if int(self.lengths.max(initial=0)) <= depth:
            return replace(self, settings=settings)
        docs, scores = self._sorted
        ordered = replace(self, given_docs=docs, given_scores=scores, in_order=True)
        cut = ordered.select(self._places() < depth)
        return replace(cut, tie_split=ordered._tie_split_at(depth), settings=settings)

    def rows(self, numbers: Ints) -> Ranking:
        """Return some queries, by the numbers of their rows, which must rise by one."""
        first, last = int(numbers[0]), int(numbers[-1]) + 1
        inside = slice(int(self.offsets[first]), int(self.offsets[last]))
        return replace(
            self,
            query_ids=self.query_ids.take(numbers),
            offsets=self.offsets[first : last + 1] - self.offsets[first],
            given_docs=self.given_docs[inside],
            given_scores=self.given_scores[inside],
            tie_split=None if self.tie_split is None else self.tie_split[first:last],
        )

    def _tie_split_at(self, depth: int) -> NDArray[np.bool_]:
        """Return rows in which the documents at ranks `depth` and `depth` + 1 tie."""
        longer = np.flatnonzero(self.lengths > depth)
        last = self.offsets[longer] + depth - 1
        split_before = self.tie_split  # of rows that are shorter, and so end where they ended
        tie_split = np.zeros(self.n_queries, bool) if split_before is None else split_before.copy()
        tie_split[longer] = self.scores[last] == self.scores[last + 1]
        return tie_split

    def _places(self) -> Ints:
        return np.arange(len(self.given_docs)) - np.repeat(self.offsets[:-1], self.lengths)

    def select(self, mask: NDArray[np.bool_]) -> Ranking:
        """Return only some of the results as they were given."""
        counts = np.concatenate([[0], np.cumsum(mask)])[self.offsets]
        return replace(
            self,
            offsets=counts.astype(np.int64),
            given_docs=self.given_docs[mask],
            given_scores=self.given_scores[mask],
        )

    def _without_self(self) -> Ranking:
        """Drop the document that has the query's own id, wherever it stands."""
        if not self.has_ids:
            raise MismatchError(
                "Self matches are excluded by id, which this ranking lacks. Pass query_ids and "
                "doc_ids, or use self_match='keep'."
            )
        self_doc = np.repeat(self.query_ids.match(self.doc_ids), self.lengths)
        same = self.given_docs == self_doc
        ranking = self.select(~same) if same.any() else self
        return replace(ranking, settings={**self.settings, "exclude": "self"})

    def _reorder(self, tiebreak: str, precision: str) -> Ranking:
        if (tiebreak, precision) == (self.tiebreak, self.precision):
            return self
        if precision == "float64" and self.precision == "float32":
            raise ConventionError(
                "This ranking was read with float32 scores. Read it again to compare in float64."
            )
        scores = self.scores
        if precision == "float32" and self.precision != "float32":
            scores = _as_float32(scores)
        docs = self.docs
        if tiebreak == "index" or (scores[1:] == scores[:-1]).any():
            by_rank = sort_rows(self.offsets, scores, self._tie_priority(tiebreak, scores))
            docs, scores = docs[by_rank], scores[by_rank]
        return replace(
            self,
            given_docs=docs,
            given_scores=scores,
            in_order=True,
            tiebreak=tiebreak,
            precision=precision,
        )

    def _tie_priority(self, tiebreak: str, scores: Floats) -> Ints:
        """Return a number for every result; among equal scores the smaller one comes first.

        `scores` are in rank order. Only ids of documents that tie are sorted.
        """
        if tiebreak == "index":
            if self.tiebreak != "index" or self.by_line:
                raise ConventionError(
                    f"This ranking was read with tiebreak {self.tiebreak!r} and {self.precision} "
                    "scores, so the order of its lines is lost. Read it again with the right "
                    "conventions."
                )
            return self.docs.astype(np.int64)
        equal = np.flatnonzero(scores[1:] == scores[:-1])
        tied = np.zeros(len(self.doc_ids), bool)
        tied[self.docs[equal]] = tied[self.docs[equal + 1]] = True
        docs = np.flatnonzero(tied)
        place = np.zeros(len(self.doc_ids), np.int64)
        by_id = self.doc_ids.take(docs).order(descending=tiebreak == "id-descending")
        place[docs[by_id]] = np.arange(len(docs))
        return place[self.docs]


def _as_float32(scores: Floats) -> Floats:
    """Round scores to float32; refuse those beyond its range."""
    with np.errstate(over="ignore"):
        rounded = scores.astype(np.float32).astype(np.float64)
    if not np.isfinite(rounded).all():
        raise ValueRangeError(
            f"The score {scores[~np.isfinite(rounded)][0]:g} is beyond the range of float32 "
            "(3.4e38). Scale the scores, or evaluate them in float64."
        )
    return rounded


def _query_ids(query_ids: Any, n_queries: int) -> Ids:
    if query_ids is None:
        return Ids.count(n_queries)
    ids = Ids.of(query_ids, what="query")
    checks.check_lengths(query_ids=len(ids), rows=n_queries)
    checks.check_unique(ids, "query")
    return ids


def _score_matrix(scores: Any, codes: Ints32, queries: Ids) -> Floats:
    if scores is None:
        return np.broadcast_to(-np.arange(codes.shape[1], dtype=np.float64), codes.shape)
    real = checks.real_matrix(scores, "scores")
    if real.shape != codes.shape:
        raise ShapeError(
            f"docs and scores must match in shape, found {codes.shape} and {real.shape}."
        )
    matrix = checks.exact_scores(real, "scores")
    if codes.min() < 0:  # what stands in an unused place does not matter
        matrix = np.where(codes >= 0, matrix, 0.0)
    checks.check_finite(matrix, "scores", queries)
    return matrix


def _drop_unused(codes: Ints32, values: Floats) -> tuple[Ints, Ints32, Floats]:
    """Return ragged rows without the places marked −1."""
    if codes.min() >= 0:
        offsets = np.arange(len(codes) + 1, dtype=np.int64) * codes.shape[1]
        return offsets, codes.ravel(), values.ravel()
    used = codes >= 0
    offsets = offsets_of(used.sum(axis=1))
    return offsets, codes[used], values[used]


def _refuse_repeats(queries: Ids, names: Ids, offsets: Ints, docs: Ints32) -> None:
    """Refuse a document that stands twice in a row."""
    place = kernels().first_repeat(offsets, docs)
    if place >= 0:
        q = int(np.searchsorted(offsets, place, side="right")) - 1
        raise IdError(
            f"Document {names[int(docs[place])]!r} appears twice in the ranking of query "
            f"{queries[q]!r}. Keep one of the two."
        )
