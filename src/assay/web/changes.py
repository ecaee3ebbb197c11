"""How a run differs from the one before it, and whether that is significant.

Both are compared on the same queries: a change is significant where the interval of the paired
difference excludes 0. Where the queries differ, the intervals of both means must not overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
from sqlalchemy import Connection, and_, or_

from assay.arrays import Floats
from assay.errors import MeasureError
from assay.measures import parse
from assay.scoring.score_data import conventions_of
from assay.stats.inverted import inverted_interval, test_units
from assay.store.codec import unpack_array, unpack_texts
from assay.store.queries import read_blobs_of
from assay.store.schema import BLOBS
from assay.store.summaries import RunMean, query_checksums
from assay.web.score_cache import LRUCache

__all__ = ["EQUAL", "PENDING", "Change", "ChangeCache"]

EQUAL: Final = "the same values"
_LEVEL: Final = 0.95
_MOST: Final = 10_000


@dataclass(frozen=True)
class Change:
    """How a run differs from the one before; `kind` is better, worse or same."""

    kind: str = "same"
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    paired: bool = False
    note: str = ""

    @property
    def words(self) -> str:
        """In words."""
        if self.difference is None or self.note:
            return self.note
        return {"better": "better", "worse": "worse", "same": "no significant change"}[self.kind]


PENDING: Final = Change(note="being tested")


class ChangeCache:
    """Changes from one finished run to another, tested once: neither of them changes any more."""

    def __init__(self) -> None:
        self._known: LRUCache[Future[Change]] = LRUCache(_MOST)
        self._worker = ThreadPoolExecutor(1, "assay-changes")

    def along(
        self,
        connection: Connection,
        series: Sequence[RunMean],
        measure: str,
        timeout: float | None,
    ) -> list[Change]:
        """How each run of a series differs from the one before; the first from nothing."""
        found = self.between(connection, list(pairwise(series)), measure, timeout)
        return [Change(), *found] if series else []

    def between(
        self,
        connection: Connection,
        pairs: Sequence[tuple[RunMean, RunMean]],
        measure: str,
        timeout: float | None,
    ) -> list[Change]:
        """How the second run of each pair differs from the first.

        `PENDING` where that takes longer than `timeout`, in seconds; the tests go on meanwhile.
        """
        new = [pair for pair in pairs if _key(*pair, measure) not in self._known]
        runs = {one.id: one for pair in new for one in pair}
        values = _query_values(connection, list(runs.values()), measure)
        is_mean = _is_mean(measure)
        tests = [
            self._known.get(
                _key(old, now, measure),
                partial(self._worker.submit, _change, old, now, values, is_mean),
            )
            for old, now in pairs
        ]
        wait(tests, timeout)
        return [test.result() if test.done() else PENDING for test in tests]


def _key(old: RunMean, new: RunMean, measure: str) -> tuple[str, str, str]:
    return old.uid, new.uid, measure


def _change(old: RunMean, new: RunMean, known: Mapping[int, QueryValues], is_mean: bool) -> Change:
    if old.conventions != new.conventions:
        return Change("same", _difference(old, new), note="other conventions")
    if not is_mean:
        return Change("same", _difference(old, new), note="not tested")
    left, right = known.get(old.id), known.get(new.id)
    if left is None or right is None or left.queries != right.queries:
        return _unpaired_change(old, new)
    return _paired_change(right.values - left.values, right.labels or left.labels)


def _is_mean(measure: str) -> bool:
    """Whether the number of a run is a mean of its queries, and not a sum or a name of its own."""
    try:
        return parse(measure).definition.aggregate == "mean"
    except MeasureError:
        return False


@dataclass(frozen=True)
class QueryValues:
    """The values that a mean is made of, and which queries they are of, by a checksum.

    `labels` are the groups that are drawn as a whole, where queries are not independent.
    """

    queries: str
    values: Floats
    labels: tuple[str, ...] | None = None


def _query_values(
    connection: Connection, series: Sequence[RunMean], measure: str
) -> dict[int, QueryValues]:
    """The values of all runs in one question; runs without any are left out."""
    found: dict[int, dict[str, Any]] = {one.id: {} for one in series}
    columns = {one.id: one.clusters for one in series}
    wanted = or_(
        BLOBS.c.kind == "missing",
        and_(BLOBS.c.kind == "values", BLOBS.c.name == measure),
        and_(BLOBS.c.kind == "group", BLOBS.c.name.in_(sorted({*columns.values()} - {""}))),
    )
    labels: dict[int, tuple[str, ...]] = {}
    for run, blob in read_blobs_of(connection, list(found), wanted):
        if blob.kind != "group":
            found[run][blob.kind] = unpack_array(blob)
        elif blob.name == columns[run]:
            labels[run] = tuple(unpack_texts(blob))
    marks = query_checksums(connection, list(found))
    return {
        one.id: QueryValues(
            marks[one.id], _apply_conventions(one, **found[one.id]), labels.get(one.id)
        )
        for one in series
        if one.id in marks and found[one.id].keys() == {"missing", "values"}
    }


def _apply_conventions(one: RunMean, values: Floats, missing: Any) -> Floats:
    """Empty and missing queries as the conventions of the run treat them."""
    rules = conventions_of(one.conventions)
    counted = np.where(np.isnan(values), 0.0, values) if rules.empty == "zero" else values
    return np.where(missing, np.nan, counted) if rules.missing != "zero" else counted


def _paired_change(differences: Any, labels: Sequence[str] | None) -> Change:
    if differences.size and not differences.any():  # what is not a number is no zero
        return Change("same", 0.0, paired=True, note=EQUAL)
    nothing = np.zeros(differences.size)
    test = test_units(differences, nothing, labels)
    separate = test.p <= 1 - _LEVEL
    one = inverted_interval(
        differences, nothing, test, level=1 - _LEVEL, separate=separate, clusters=labels
    )
    if np.isnan(one.estimate):
        return Change()
    if np.isnan(one.low):
        return Change("same", one.estimate, paired=True)
    kind = "same" if not separate else "better" if one.estimate > 0 else "worse"
    return Change(kind, one.estimate, one.low, one.high, paired=True)


def _unpaired_change(old: RunMean, new: RunMean) -> Change:
    """Other queries, or no values of queries: only what lies apart differs."""
    difference = _difference(old, new)
    ends = (old.low, old.high, new.low, new.high)
    if any(end is None for end in ends):
        return Change("same", difference, note="not tested")
    low, high, new_low, new_high = (float(end or 0.0) for end in ends)
    kind = "worse" if new_high < low else "better" if new_low > high else "same"
    return Change(kind, difference)


def _difference(old: RunMean, new: RunMean) -> float:
    return (new.value or 0.0) - (old.value or 0.0)
