"""Chance and ceiling: the expected value of a random order, and the value of a perfect one.

A random order is one tie group that holds the whole collection. So chance is the closed-form
expectation over ties, and the ceiling is the best order, of exactly that tie group. A judged
document that is not in the collection counts in the number of relevant documents and in the ideal,
as it does in the score, and no order finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from assay.arrays import Floats, Ints, gather, offsets_of
from assay.core import checks
from assay.core.conventions import Conventions, as_conventions, preset
from assay.core.hits import Coverage, Hits
from assay.errors import MismatchError, UsageError
from assay.measures import Measure, parse_many
from assay.measures.registry import ExpectationError
from assay.scoring.evaluate import score
from assay.scoring.scores import Scores

_MOST_DOCS: Final = 10**10  # some measures are sums over all ranks


def chance(
    hits: Hits,
    measures: str | Measure | Iterable[str | Measure] = "default",
    *,
    conventions: str | Conventions | None = None,
    n_docs: int | None = None,
) -> Scores:
    """Return the exact expected value of each measure and query under a random order.

    Every document of the collection is ranked, in an order drawn at random. `n_docs` is the size
    of the collection where the hits do not know it. Judged documents that the ranking does not
    name are not in the collection if the ranking names as many documents as that has; a run that
    names fewer cannot tell, and they count as in it. NaN, and no mean, for measures that no order
    can change, and for iprec, iAP and ERR where the exact expectation would take too long.

    >>> from assay import judge_ranks
    >>> round(chance(judge_ranks([1], n_docs=1187), "RR").mean()["RR"], 6)
    0.006451
    """
    return _of_random_order(hits, measures, conventions, n_docs, "expected")


def ceiling(
    hits: Hits,
    measures: str | Measure | Iterable[str | Measure] = "default",
    *,
    conventions: str | Conventions | None = None,
    n_docs: int | None = None,
) -> Scores:
    """Return value of each measure for each query under a perfect order of the whole collection.

    >>> from assay import judge_ranks
    >>> ceiling(judge_ranks([9], n_docs=100), "P@10").mean()["P@10"]
    0.1
    """
    return _of_random_order(hits, measures, conventions, n_docs, "best")


def _of_random_order(
    hits: Hits,
    measures: str | Measure | Iterable[str | Measure],
    conventions: str | Conventions | None,
    n_docs: int | None,
    ties: str,
) -> Scores:
    rules = preset("trec_eval") if conventions is None else as_conventions(conventions)
    sizes, pool = _retrievable(hits, n_docs)
    distinct, which = _distinct_pools(hits, sizes, pool)
    shuffled = _one_tie_group(hits.select(distinct), sizes[distinct], pool.select(distinct))
    parsed = parse_many(measures)
    values = np.full((len(parsed), shuffled.n_queries), np.nan)
    not_computed = set()  # if no order changes it, or it takes too long
    for row, measure in zip(values, parsed, strict=True):
        try:
            if measure.is_order_free:
                raise ExpectationError("no order changes it")
            any_order = rules.replace(ties=ties, depth=0)
            row[:] = score(shuffled, measure, conventions=any_order)[measure]
        except ExpectationError:
            not_computed.add(measure)
    return Scores(
        measures=parsed,
        query_ids=hits.query_ids,
        values=values[:, which],
        tied=np.zeros((len(parsed), hits.n_queries), bool),
        missing=hits.missing,
        conventions=rules,
        not_computed=frozenset(not_computed),
    )


@dataclass(frozen=True, eq=False)
class _Pool:
    """Judged documents of each query, counted by grade."""

    offsets: Ints
    grade: Floats
    count: Ints

    def select(self, rows: Ints) -> _Pool:
        """Return those of some queries."""
        at, offsets = gather(self.offsets, rows)
        return _Pool(offsets, self.grade[at], self.count[at])

    def keys(self) -> Iterator[tuple[tuple[float, ...], tuple[int, ...]]]:
        """Yield what each query has, to compare it with others."""
        grade, count = self.grade.tolist(), self.count.tolist()
        return ((tuple(grade[a:b]), tuple(count[a:b])) for a, b in pairwise(self.offsets.tolist()))

    def totals(self) -> Ints:
        """Return how many documents each query has."""
        return np.diff(offsets_of(self.count)[self.offsets])


def _retrievable(hits: Hits, n_docs: int | None) -> tuple[Ints, _Pool]:
    """Return for each query the number of retrievable documents, and which judged ones are."""
    excluded = np.zeros(hits.n_queries, np.int64) if hits.own is None else hits.own.astype(np.int64)
    if n_docs is not None:
        if checks.check_cutoff(n_docs, "n_docs") > _MOST_DOCS:
            raise UsageError(f"n_docs must be a whole number up to 10^10, found {n_docs}.")
        sizes = np.full(hits.n_queries, n_docs, np.int64) - excluded
    elif (hits.n_docs <= 0).any():
        raise UsageError("Chance needs the size of the collection. Pass n_docs= (--n-docs).")
    else:
        sizes = hits.n_docs
    pool = _Pool(hits.pool_offsets, hits.pool_grade, hits.pool_count)
    if hits.coverage is not None and hits.n_queries:
        size, coverage = int(sizes[0] + excluded[0]), hits.coverage
        _check_size(coverage, size)
        if coverage.n_named == size:
            pool = _Pool(coverage.pool_offsets, coverage.pool_grade, coverage.pool_count)
    if hits.conventions is not None and hits.conventions.unjudged == "condensed":
        pool = _Pool(pool.offsets, pool.grade, np.where(pool.grade >= 0, pool.count, 0))
        return (sizes if hits.exhaustive else pool.totals()), pool
    judged = pool.totals()
    if (judged > sizes).any():
        q = int(np.argmax(judged > sizes))
        raise MismatchError(
            f"Query {hits.query_ids[q]!r} has {judged[q]} judged documents, more than the "
            f"collection's {sizes[q]}. Check n_docs."
        )
    return sizes, pool


def _check_size(coverage: Coverage, size: int) -> None:
    """Refuse a size that does not hold what is named, or leaves open which judged documents are in.

    A run that names the whole collection says which are not; one that names less does not.
    """
    if coverage.n_named > size:
        raise MismatchError(
            f"The ranking names {coverage.n_named} documents, more than the collection's {size}. "
            "Check n_docs."
        )
    if coverage.n_named < size < coverage.n_named + coverage.n_unnamed:
        raise MismatchError(
            f"The ranking names {coverage.n_named} documents and the judgments "
            f"{coverage.n_unnamed} others, more than the collection's {size}, so some judged "
            "documents are not in it. Check n_docs, pass a ranking with the ids of all "
            "documents, or leave out chance."
        )


def _distinct_pools(hits: Hits, sizes: Ints, pool: _Pool) -> tuple[Ints, Ints]:
    """Group queries with equal collection size and judged grades: their chance is equal.

    Returns one row of each kind, and for every query the number of its kind.
    """
    judged = _Pool(hits.pool_offsets, hits.pool_grade, hits.pool_count)
    kinds: dict[Any, int] = {}
    pools = [judged] if pool.grade is judged.grade else [judged, pool]
    keys = zip(sizes.tolist(), *(each.keys() for each in pools), strict=True)
    which = np.array([kinds.setdefault(key, len(kinds)) for key in keys], np.int64)
    return np.unique(which, return_index=True)[1], which


def _one_tie_group(hits: Hits, sizes: Ints, pool: _Pool) -> Hits:
    """Return the judged documents of a pool, all of them tied with the rest of the collection."""
    judged = pool.totals()
    offsets = offsets_of(judged)
    row = np.repeat(np.arange(hits.n_queries), judged)
    return replace(
        hits,
        offsets=offsets,
        rank=np.arange(len(row)) - offsets[row] + 1,
        rank_lo=np.ones(len(row), np.int64),
        rank_hi=sizes[row],
        grade=np.repeat(pool.grade, pool.count),
        n_ret=sizes,
        n_docs=sizes,
    )
