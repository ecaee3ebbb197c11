"""Judgments: what is relevant to what, by pairs with grades, by labels, or by one target each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from assay.arrays import Floats, Ints, gather, offsets_of
from assay.core import checks
from assay.core.ids import Ids
from assay.errors import IdError, MismatchError, ShapeError, ValueRangeError
from assay.native import kernels


class Kept(dict[Any, Any]):
    """Values that measures cache with judgments; a copy begins empty."""

    def __reduce__(self) -> tuple[type[Kept], tuple[()]]:
        """Return a new one: what is kept can be computed again, and is not sent."""
        return Kept, ()


class Judgments:
    """Judgments: `Qrels` holds graded pairs or targets, `Labels` holds labels.

    Example:
        >>> Judgments.from_targets(["b"], query_ids=["q"], doc_ids=["a", "b"])
        Qrels(1 queries, 1 judgments)
    """

    query_ids: Ids

    @property
    def n_queries(self) -> int:
        """Number of judged queries."""
        return len(self.query_ids)

    @cached_property
    def by_id(self) -> Ints:
        """The rows in order of the queries' ids."""
        return self.query_ids.order()

    @cached_property
    def sorted_ids(self) -> Ids:
        """The ids of the queries in order."""
        return self.query_ids.take(self.by_id)

    def __len__(self) -> int:
        """Return the number of judged queries."""
        return self.n_queries

    @staticmethod
    def from_pairs(
        query_ids: Ids, doc_ids: Ids, queries: ArrayLike, docs: ArrayLike, grades: ArrayLike
    ) -> Qrels:
        """Build judgments from one (query number, document number, grade) each, in any order.

        A pair given twice with the same grade counts once; with two grades it is refused.
        """
        query_ids, doc_ids = Ids.of(query_ids, what="query"), Ids.of(doc_ids, what="doc")
        row = checks.check_numbers(queries, len(query_ids), "queries")
        doc = checks.check_numbers(docs, len(doc_ids), "docs")
        grade = checks.check_floats(grades, "grades")
        checks.check_lengths(queries=len(row), docs=len(doc), grades=len(grade))
        checks.check_finite(grade, "grades")
        if not _are_distinct(row, doc, len(query_ids)):
            by_pair = np.argsort(row * max(len(doc_ids), 1) + doc, kind="stable")
            row, doc, grade = row[by_pair], doc[by_pair], grade[by_pair]
        same = (row[1:] == row[:-1]) & (doc[1:] == doc[:-1])
        _refuse_conflicts(same, row, doc, grade, query_ids, doc_ids)
        is_first = np.concatenate([[True], ~same]) if len(row) else np.zeros(0, bool)
        offsets = np.searchsorted(row[is_first], np.arange(len(query_ids) + 1))
        return Qrels(
            query_ids, doc_ids, offsets, doc[is_first], grade[is_first], repeated=int(same.sum())
        )

    @staticmethod
    def from_targets(
        targets: ArrayLike | Iterable[object],
        *,
        query_ids: Iterable[object] | None = None,
        doc_ids: Iterable[object] | None = None,
        n_docs: int | None = None,
    ) -> Qrels:
        """Build judgments of one gold document per query, a number or, with `doc_ids`, an id.

        A missing target (None, or −1 among numbers) makes an empty query. Every other document
        is known not to be relevant.

        >>> len(Judgments.from_targets([4, -1, 0]))
        3
        """
        names, numbers = _target_numbers(targets, doc_ids, n_docs)
        queries = Ids.count(len(numbers)) if query_ids is None else Ids.of(query_ids, what="query")
        checks.check_lengths(targets=len(numbers), query_ids=len(queries))
        checks.check_unique(queries, "query")
        has_target = numbers >= 0
        offsets = offsets_of(has_target)
        return Qrels(
            queries,
            names,
            offsets,
            numbers[has_target],
            np.ones(int(has_target.sum())),
            exhaustive=True,
        )

    @staticmethod
    def from_labels(
        query_labels: ArrayLike | Iterable[object],
        doc_labels: ArrayLike | Iterable[object],
        *,
        query_ids: Iterable[object] | None = None,
        doc_ids: Iterable[object] | None = None,
    ) -> Labels:
        """Build judgments by labels: a document is relevant if its label is the query's.

        >>> Judgments.from_labels(["cat"], ["cat", "dog"]).n_relevant.tolist()
        [1]
        """
        left = checks.check_labels(query_labels, "query_labels")
        right = checks.check_labels(doc_labels, "doc_labels")
        checks.check_one_kind_of_label(left, right)
        names, codes = np.unique(np.concatenate([left, right]), return_inverse=True)
        queries = Ids.count(len(left)) if query_ids is None else Ids.of(query_ids, what="query")
        docs = Ids.count(len(right)) if doc_ids is None else Ids.of(doc_ids, what="doc")
        checks.check_lengths(query_labels=len(left), query_ids=len(queries))
        checks.check_lengths(doc_labels=len(right), doc_ids=len(docs))
        checks.check_unique(queries, "query")
        checks.check_unique(docs, "doc")
        return Labels(queries, docs, codes[: len(left)], codes[len(left) :], names)


@dataclass(frozen=True, eq=False)
class Qrels(Judgments):
    """Graded pairs: row q judges `docs[offsets[q]:offsets[q+1]]` with `grades`.

    A negative grade means: in the pool, but to be ignored. `exhaustive` says that every document
    without a grade is known not to be relevant. `repeated` counts judgments given more than once;
    `remarks` say how a file was read where that is not plain.
    """

    query_ids: Ids
    doc_ids: Ids
    offsets: Ints
    docs: Ints
    grades: Floats
    exhaustive: bool = False
    repeated: int = 0
    remarks: tuple[str, ...] = ()

    @cached_property
    def grade_counts(self) -> tuple[Ints, Floats, Ints]:
        """How many documents of each row have each grade, highest first: offsets, grade, count."""
        return kernels().count_grades(self.offsets, self.grades)

    @cached_property
    def in_id_order(self) -> Qrels:
        """Judgments with queries in order of their ids."""
        at, offsets = gather(self.offsets, self.by_id)
        docs, grades = self.docs[at], self.grades[at]
        return replace(self, query_ids=self.sorted_ids, offsets=offsets, docs=docs, grades=grades)

    @cached_property
    def kept(self) -> Kept:
        """Cached values of measures, by the gain of a grade."""
        return Kept()

    @cached_property
    def whole(self) -> bool:
        """Whether every grade is a whole number, as judges mostly give them."""
        return bool((self.grades == np.rint(self.grades)).all())

    def __repr__(self) -> str:
        """Return the sizes in one line."""
        return f"Qrels({self.n_queries} queries, {len(self.docs)} judgments)"


@dataclass(frozen=True, eq=False)
class Labels(Judgments):
    """Labels of queries and documents as numbers into `names`; never a query × document table."""

    query_ids: Ids
    doc_ids: Ids
    query_labels: Ints
    doc_labels: Ints
    names: NDArray[Any]

    @cached_property
    def n_relevant(self) -> Ints:
        """How many documents carry each query's label."""
        return np.bincount(self.doc_labels, minlength=len(self.names))[self.query_labels]

    def __repr__(self) -> str:
        """Return the sizes in one line."""
        sizes = f"{self.n_queries} queries, {len(self.doc_ids)} docs, {len(self.names)} labels"
        return f"Labels({sizes})"


def _are_distinct(row: Ints, doc: Ints, n_queries: int) -> bool:
    """Tell whether no pair repeats among judgments in order of query."""
    if (row[1:] < row[:-1]).any():
        return False
    offsets = np.searchsorted(row, np.arange(n_queries + 1))
    return kernels().first_repeat(offsets, doc.astype(np.int32)) < 0


def _refuse_conflicts(
    same: NDArray[np.bool_], row: Ints, doc: Ints, grade: Floats, query_ids: Ids, doc_ids: Ids
) -> None:
    conflict = np.flatnonzero(same & (grade[1:] != grade[:-1]))
    if len(conflict):
        i = int(conflict[0])
        raise MismatchError(
            f"Query {query_ids[int(row[i])]!r}, document {doc_ids[int(doc[i])]!r} is judged twice "
            f"with different grades, {grade[i]:g} and {grade[i + 1]:g} "
            f"({len(conflict)} such pairs). Keep one of them."
        )


def _target_numbers(targets: Any, doc_ids: Any, n_docs: int | None) -> tuple[Ids, Ints]:
    names = None if doc_ids is None else Ids.of(doc_ids, what="doc")
    values = checks.as_list(targets, "targets")
    if names is not None:
        return names, _numbers_of_ids(values, names)
    numbers = checks.plain_array([-1 if value is None else value for value in values], "targets")
    if len(numbers) and numbers.dtype.kind not in "iu":
        raise ValueRangeError(
            f"Targets must be document numbers or None, found {values[0]!r}. "
            "To give them as text ids, pass doc_ids as well."
        )
    if numbers.ndim != 1:
        raise ShapeError(f"targets must be one per query, found shape {numbers.shape}.")
    limit = None if n_docs is None else checks.check_cutoff(n_docs, "n_docs")
    bad = (numbers < -1) | (numbers >= (limit if limit is not None else np.iinfo(np.int32).max))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueRangeError(
            f"Target {numbers[row]} of query row {row} is out of range"
            + ("." if limit is None else f" for {limit} documents.")
        )
    return Ids.of_rows(numbers.astype(np.int64), limit)


def _numbers_of_ids(values: list[Any], names: Ids) -> Ints:
    missing = (None,) if names.kind == "text" else (None, -1)
    rows = [row for row, value in enumerate(values) if value not in missing]
    numbers = np.full(len(values), -1, np.int64)
    places = Ids.of([values[row] for row in rows], what="target").match(names)
    if (places < 0).any():
        row = rows[int(np.argmax(places < 0))]
        raise IdError(f"Target {values[row]!r} of query row {row} is not among doc_ids. Add it.")
    numbers[rows] = places
    return numbers
