"""Chance and ceiling: the expected value of a random order, and the value of a perfect one.

A random order is one tie group that holds the whole collection. So chance is the closed-form
expectation over ties, and the ceiling is the best order, of exactly that tie group.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np

from assay.arrays import Floats, Ints, offsets_of
from assay.core import checks
from assay.core.conventions import Conventions, as_conventions, preset
from assay.core.hits import Hits
from assay.errors import MismatchError, UsageError
from assay.measures import Measure, parse_many
from assay.measures.registry import ExpectationError
from assay.scoring.evaluate import score
from assay.scoring.scores import Scores

__all__ = ["ceiling", "chance"]

_MOST_DOCS: Final = 10**10  # some measures are sums over all ranks


def chance(
    hits: Hits,
    measures: str | Measure | Iterable[str | Measure] = "default",
    *,
    conventions: str | Conventions | None = None,
    n_docs: int | None = None,
) -> Scores:
    """Exact expected value of each measure for each query under a random order.

    Every document of the collection is ranked, in an order drawn at random. `n_docs` is the size
    of the collection where the hits do not know it. NaN, and no mean, for measures that no order
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
    """Value of each measure for each query under a perfect order of the whole collection.

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
    sizes = _sizes(hits, n_docs)
    distinct, which = _distinct_pools(hits, sizes)
    shuffled = _one_tie_group(hits.select(distinct), sizes[distinct])
    wanted = parse_many(measures)
    columns = [_column(shuffled, measure, rules.but(ties=ties, depth=0)) for measure in wanted]
    nothing = np.full(shuffled.n_queries, np.nan)
    return Scores(
        measures=wanted,
        query_ids=hits.query_ids,
        values=np.array([nothing if c is None else c for c in columns])[:, which],
        tied=np.zeros((len(wanted), hits.n_queries), bool),
        missing=hits.missing,
        conventions=rules,
        not_computed=frozenset(m for m, c in zip(wanted, columns, strict=True) if c is None),
    )


def _column(shuffled: Hits, measure: Measure, rules: Conventions) -> Floats | None:
    """The values of one measure, or None where no order changes it or it would take too long."""
    if measure.is_order_free:
        return None
    try:
        return score(shuffled, measure, conventions=rules)[measure]
    except ExpectationError:
        return None


def _sizes(hits: Hits, n_docs: int | None) -> Ints:
    """The collection's size for each query."""
    if n_docs is not None:
        if checks.check_cutoff(n_docs, "n_docs") > _MOST_DOCS:
            raise UsageError(f"n_docs must be a whole number up to 10^10, found {n_docs}.")
        return np.full(hits.n_queries, n_docs, np.int64)
    if (hits.n_docs <= 0).any():
        raise UsageError(
            "Chance needs the size of the collection, and a run file does not tell it. "
            "Pass n_docs= (on the command line --n-docs)."
        )
    return hits.n_docs


def _distinct_pools(hits: Hits, sizes: Ints) -> tuple[Ints, Ints]:
    """Queries with the same collection size and judged grades have the same chance.

    Returns one row of each kind, and for every query the number of its kind.
    """
    kinds: dict[tuple[int, bytes, bytes], int] = {}
    which = np.empty(hits.n_queries, np.int64)
    rows: list[int] = []
    for q, (start, stop) in enumerate(
        zip(hits.pool_offsets[:-1], hits.pool_offsets[1:], strict=True)
    ):
        grades, counts = hits.pool_grade[start:stop], hits.pool_count[start:stop]
        key = (int(sizes[q]), grades.tobytes(), counts.tobytes())
        if key not in kinds:
            kinds[key] = len(rows)
            rows.append(q)
        which[q] = kinds[key]
    return np.array(rows, np.int64), which


def _one_tie_group(hits: Hits, sizes: Ints) -> Hits:
    """The same judged documents, all of them tied with the rest of the collection."""
    count = hits.pool_count
    judged = np.bincount(hits.pool_row, count, minlength=hits.n_queries).astype(np.int64)
    if (judged > sizes).any():
        q = int(np.argmax(judged > sizes))
        raise MismatchError(
            f"Query {hits.query_ids[q]!r} has {judged[q]} judged documents, more than the "
            f"collection's {sizes[q]}. Is n_docs right?"
        )
    offsets = offsets_of(judged)
    row = np.repeat(np.arange(hits.n_queries), judged)
    return replace(
        hits,
        offsets=offsets,
        rank=np.arange(len(row)) - offsets[row] + 1,
        rank_lo=np.ones(len(row), np.int64),
        rank_hi=sizes[row],
        grade=np.repeat(hits.pool_grade, count),
        n_ret=sizes,
        n_docs=sizes,
    )
