"""Scores, comparisons and changes of stored runs: computed once, since finished runs do not change.

A run is compared with the one before it on the same queries: a change is significant where the
interval of the paired difference excludes 0. Where the queries differ, the intervals of both means
must not overlap.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from threading import Lock
from time import monotonic
from typing import Any, Final, Generic, TypeVar

import numpy as np
from sqlalchemy import Connection, and_, or_

from assay.arrays import Floats
from assay.comparison.alignment import cluster_settings
from assay.comparison.compare import Comparison, compare
from assay.errors import MeasureError, StorageError, UsageError
from assay.measures import parse
from assay.scoring.score_data import conventions_of
from assay.scoring.scores import Scores
from assay.stats.confidence import inverted_interval, test_units
from assay.store import Run, Store
from assay.store.codec import unpack_array, unpack_scores, unpack_texts
from assay.store.queries import read_blobs, read_blobs_of
from assay.store.run import refuse_other_query_sets
from assay.store.schema import BLOBS
from assay.store.summaries import RunMean, query_checksums, read_query_texts

MOST_COMPARED: Final = 100  # runs at a time: 4,950 pairs
EQUAL: Final = "the same values"
LEVEL: Final = 0.95
_MOST_VALUES: Final = 10**7  # 80 MB
_MOST_COMPARISONS: Final = 64
_MOST_CHANGES: Final = 10_000
_MOST_LETTERS: Final = 10**7
_WORKERS: Final = 2
_LONGEST_WAIT: Final = 10  # seconds

Value = TypeVar("Value")


class LRUCache(Generic[Value]):
    """The values that were used last, up to a total weight.

    >>> cache = LRUCache(2)
    >>> [cache.get(key, lambda key=key: key.upper()) for key in "aba"]
    ['A', 'B', 'A']
    >>> cache.get("c", lambda: "C"), "b" in cache, "a" in cache
    ('C', False, True)
    """

    def __init__(self, most: int, weigh: Callable[[Value], int] = lambda _: 1) -> None:
        self._most = most
        self._weigh = weigh
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._weight = 0
        self._lock = Lock()

    def __contains__(self, key: Hashable) -> bool:
        """Look for a key without counting as a use."""
        return key in self._values

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """Return the value of a key, made where it is missing; two threads may both make it."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            self._subtract(self._values.pop(key, None))
            self._values[key] = value
            self._weight += self._weigh(value)
            while self._weight > self._most and len(self._values) > 1:
                self._subtract(self._values.popitem(last=False)[1])
        return value

    def drop(self, key: Hashable) -> None:
        """Remove a key."""
        with self._lock:
            self._subtract(self._values.pop(key, None))

    def _subtract(self, value: Any) -> None:
        if value is not None:
            self._weight -= self._weigh(value)


@dataclass(frozen=True)
class Pending:
    """A comparison that is still being computed, and for how long."""

    seconds: float

    @property
    def retry_after(self) -> int:
        """Return the seconds until the next request: the longer it takes, the more.

        A slow machine would otherwise be busy with pages without a result.

        >>> [Pending(seconds).retry_after for seconds in (0.1, 3, 7.9, 600)]
        [1, 2, 4, 10]
        """
        return min(1 + int(self.seconds / 2), _LONGEST_WAIT)


class Caches:
    """Everything that was computed from finished runs: scores, comparisons and changes."""

    def __init__(self) -> None:
        self.changes = ChangeCache()
        self._scores: LRUCache[Scores | None] = LRUCache(_MOST_VALUES, _weight)
        self._comparisons: LRUCache[tuple[float, Future[Comparison]]] = LRUCache(_MOST_COMPARISONS)
        self._texts: LRUCache[dict[str, str]] = LRUCache(
            _MOST_LETTERS, lambda texts: 1 + sum(map(len, texts.values()))
        )
        self._workers = ThreadPoolExecutor(_WORKERS, "assay-compare")

    def scores(self, store: Store, run: Run, measure: str | None = None) -> Scores | None:
        """Return the scores of a finished run on one or all measures; None without any."""
        if run.status != "finished":
            return None
        whole = (run.uid, None)
        key = whole if whole in self._scores else (run.uid, measure)
        return self._scores.get(key, lambda: _load_scores(store, run, measure))

    def texts(self, store: Store, run: Run) -> dict[str, str]:
        """Return the stored texts of the queries of a finished run, by query id."""
        if run.status != "finished":
            return {}

        def load() -> dict[str, str]:
            with store.database.reading() as connection:
                return read_query_texts(connection, run.id)

        return self._texts.get(run.uid, load)

    def comparison(
        self,
        store: Store,
        runs: Sequence[Run],
        names: Sequence[str],
        timeout: float | None,
        *,
        measure: str,
        baseline: str | None = None,
        slices: str | None = None,
    ) -> Comparison | Pending:
        """Compare runs on one measure as `assay runs compare` does.

        `Pending` where that takes longer than `timeout`, in seconds; the computation continues, for
        the next request.
        """
        settings = {"names": names, "baseline": baseline, "slices": slices}
        key = (tuple(run.uid for run in runs), tuple(names), measure, baseline, slices)

        def begin() -> tuple[float, Future[Comparison]]:
            return monotonic(), self._workers.submit(self._compare, store, runs, measure, settings)

        begun, comparison = self._comparisons.get(key, begin)
        try:
            return comparison.result(timeout)
        except TimeoutError:
            return Pending(monotonic() - begun)
        except BaseException:
            self._comparisons.drop(key)
            raise

    def _compare(
        self, store: Store, runs: Sequence[Run], measure: str, settings: Mapping[str, Any]
    ) -> Comparison:
        refuse_other_query_sets(runs)
        compared = []
        for run in runs:
            scores = self.scores(store, run, measure)
            if scores is None:
                raise UsageError(
                    f"Run {run.id} ({run.name!r}) is {run.status} and has no per-query values "
                    "to compare."
                )
            compared.append(scores)
        pairs = zip(runs, compared, strict=True)
        clusters = cluster_settings((run.clusters, scores) for run, scores in pairs)
        return compare(*compared, measures=[measure], **{**settings, **clusters})


def _weight(scores: Scores | None) -> int:
    return 1 if scores is None else 1 + 2 * int(scores.values.size)


def _load_scores(store: Store, run: Run, measure: str | None) -> Scores | None:
    whole = BLOBS.c.kind.not_in(("values", "tied"))  # what goes with every measure
    of_measure = [or_(whole, BLOBS.c.name == measure), BLOBS.c.kind != "details"] if measure else []
    with store.database.reading() as connection:
        blobs = read_blobs(connection, run.id, *of_measure)
    if not any(blob.kind == "values" for blob in blobs):
        return None
    try:
        return unpack_scores(blobs, run.conventions, search=run.search)
    except StorageError as error:
        raise StorageError(f"Run {run.id} ({run.name!r}): {error}") from None


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
        """The change in words."""
        if self.difference is None or self.note:
            return self.note
        return {"better": "better", "worse": "worse", "same": "no significant change"}[self.kind]


PENDING: Final = Change(note="being tested")


class ChangeCache:
    """Changes from one finished run to another, tested once: neither of them changes any more."""

    def __init__(self) -> None:
        self._tests: LRUCache[Future[Change]] = LRUCache(_MOST_CHANGES)
        self._worker = ThreadPoolExecutor(1, "assay-changes")

    def along(
        self, connection: Connection, series: Sequence[RunMean], measure: str, timeout: float | None
    ) -> list[Change]:
        """Compare each run of a series with the one before; the first has no change."""
        changes = self.between(connection, list(pairwise(series)), measure, timeout)
        return [Change(), *changes] if series else []

    def between(
        self,
        connection: Connection,
        pairs: Sequence[tuple[RunMean, RunMean]],
        measure: str,
        timeout: float | None,
    ) -> list[Change]:
        """Compare the second run of each pair with the first.

        `PENDING` where that takes longer than `timeout`, in seconds; the tests go on meanwhile.
        """
        new = [pair for pair in pairs if _key(*pair, measure) not in self._tests]
        runs = {run.id: run for pair in new for run in pair}
        values = _query_values(connection, list(runs.values()), measure)
        is_mean = _is_mean(measure)
        tests = [
            self._tests.get(
                _key(old, now, measure),
                partial(self._worker.submit, _change, old, now, values, is_mean),
            )
            for old, now in pairs
        ]
        wait(tests, timeout)
        return [test.result() if test.done() else PENDING for test in tests]


def _key(old: RunMean, new: RunMean, measure: str) -> tuple[str, str, str]:
    return old.uid, new.uid, measure


def _change(old: RunMean, new: RunMean, values: Mapping[int, QueryValues], is_mean: bool) -> Change:
    if old.conventions != new.conventions:
        return Change("same", _difference(old, new), note="other conventions")
    if not is_mean:
        return Change("same", _difference(old, new), note="not tested")
    left, right = values.get(old.id), values.get(new.id)
    if left is None or right is None or left.queries != right.queries:
        return _unpaired_change(old, new)
    return _paired_change(right.values - left.values, right.labels or left.labels)


def _is_mean(measure: str) -> bool:
    """Check that the number of a run is a mean of its queries, and not a sum."""
    try:
        return parse(measure).definition.aggregate == "mean"
    except MeasureError:
        return False


@dataclass(frozen=True)
class QueryValues:
    """The values behind a mean, and a checksum of their queries.

    `labels` are the groups that are drawn as a whole, where queries are not independent.
    """

    queries: str
    values: Floats
    labels: tuple[str, ...] | None = None


def _query_values(
    connection: Connection, series: Sequence[RunMean], measure: str
) -> dict[int, QueryValues]:
    """Read the values of all runs with one statement; runs without any are left out."""
    arrays: dict[int, dict[str, Any]] = {run.id: {} for run in series}
    columns = {run.id: run.clusters for run in series}
    condition = or_(
        BLOBS.c.kind == "missing",
        and_(BLOBS.c.kind == "values", BLOBS.c.name == measure),
        and_(BLOBS.c.kind == "group", BLOBS.c.name.in_(sorted({*columns.values()} - {""}))),
    )
    labels: dict[int, tuple[str, ...]] = {}
    for id, blob in read_blobs_of(connection, list(arrays), condition):
        if blob.kind != "group":
            arrays[id][blob.kind] = unpack_array(blob)
        elif blob.name == columns[id]:
            labels[id] = tuple(unpack_texts(blob))
    checksums = query_checksums(connection, list(arrays))
    return {
        run.id: QueryValues(
            checksums[run.id], _apply_conventions(run, **arrays[run.id]), labels.get(run.id)
        )
        for run in series
        if run.id in checksums and arrays[run.id].keys() == {"missing", "values"}
    }


def _apply_conventions(run: RunMean, values: Floats, missing: Any) -> Floats:
    """Treat empty and missing queries by the conventions of the run."""
    rules = conventions_of(run.conventions)
    counted = np.where(np.isnan(values), 0.0, values) if rules.empty == "zero" else values
    return np.where(missing, np.nan, counted) if rules.missing != "zero" else counted


def _paired_change(differences: Any, labels: Sequence[str] | None) -> Change:
    if differences.size and not differences.any():  # what is not a number is no zero
        return Change("same", 0.0, paired=True, note=EQUAL)
    nothing = np.zeros(differences.size)
    test = test_units(differences, nothing, labels)
    separate = test.p <= 1 - LEVEL
    interval = inverted_interval(
        differences, nothing, test, level=1 - LEVEL, separate=separate, clusters=labels
    )
    if np.isnan(interval.estimate):
        return Change()
    if np.isnan(interval.low):
        return Change("same", interval.estimate, paired=True)
    kind = "same" if not separate else "better" if interval.estimate > 0 else "worse"
    return Change(kind, interval.estimate, interval.low, interval.high, paired=True)


def _unpaired_change(old: RunMean, new: RunMean) -> Change:
    """Compare intervals of means, where queries differ or have no values."""
    difference = _difference(old, new)
    ends = (old.low, old.high, new.low, new.high)
    if any(end is None for end in ends):
        return Change("same", difference, note="not tested")
    low, high, new_low, new_high = (float(end or 0.0) for end in ends)
    kind = "worse" if new_high < low else "better" if new_low > high else "same"
    return Change(kind, difference)


def _difference(old: RunMean, new: RunMean) -> float:
    return (new.value or 0.0) - (old.value or 0.0)
