"""Values of queries: loaded once, since finished runs do not change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Any, Final, Generic, TypeVar

from assay.comparison.clusters import drawn_together
from assay.comparison.compare import Comparison, compare
from assay.errors import StorageError, UsageError
from assay.scoring.scores import Scores
from assay.store import Run, Store
from assay.store.codec import unpack_scores
from assay.store.queries import read_blobs
from assay.store.run import refuse_other_query_sets

__all__ = ["Kept", "Unfinished", "Values"]

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """The values that were used last, up to a total weight.

    >>> kept = Kept(2)
    >>> [kept.get(key, lambda key=key: key.upper()) for key in "aba"]
    ['A', 'B', 'A']
    >>> kept.get("c", lambda: "C"), "b" in kept, "a" in kept
    ('C', False, True)
    """

    def __init__(self, most: int, weigh: Callable[[Value], int] = lambda _: 1) -> None:
        self._most = most
        self._weigh = weigh
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._weight = 0
        self._lock = Lock()

    def __contains__(self, key: Hashable) -> bool:
        """Whether this was kept."""
        return key in self._values

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key, made where it is not there. Two threads may both make it."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            self._forget(self._values.pop(key, None))
            self._values[key] = value
            self._weight += self._weigh(value)
            while self._weight > self._most and len(self._values) > 1:
                self._forget(self._values.popitem(last=False)[1])
        return value

    def drop(self, key: Hashable) -> None:
        """Keep this no longer."""
        with self._lock:
            self._forget(self._values.pop(key, None))

    def _forget(self, value: Any) -> None:
        if value is not None:
            self._weight -= self._weigh(value)


_MOST_VALUES: Final = 10**7  # 80 MB
_MOST_COMPARISONS: Final = 64
_WORKERS: Final = 2
_LONGEST_WAIT: Final = 10  # seconds


@dataclass(frozen=True)
class Unfinished:
    """A comparison that is still being computed, and for how long."""

    seconds: float

    @property
    def ask_again(self) -> int:
        """After how many seconds to ask again: the longer it takes, the less often.

        A slow machine would otherwise be busy with pages that say that nothing is there yet.

        >>> [Unfinished(seconds).ask_again for seconds in (0.1, 3, 7.9, 600)]
        [1, 2, 4, 10]
        """
        return min(1 + int(self.seconds / 2), _LONGEST_WAIT)


class Values:
    """Scores and comparisons of stored runs."""

    def __init__(self) -> None:
        self._scores: Kept[Scores | None] = Kept(_MOST_VALUES, _weight)
        self._comparisons: Kept[tuple[float, Future[Comparison]]] = Kept(_MOST_COMPARISONS)
        self._workers = ThreadPoolExecutor(_WORKERS, "assay-compare")

    def scores(self, store: Store, run: Run, measure: str | None = None) -> Scores | None:
        """The scores of a finished run, all or those of one measure; None where it has none."""
        if run.status != "finished":
            return None
        whole = (run.uid, None)
        key = whole if whole in self._scores else (run.uid, measure)
        return self._scores.get(key, lambda: _loaded(store, run, measure))

    def comparison(
        self,
        store: Store,
        runs: Sequence[Run],
        names: Sequence[str],
        *,
        measure: str,
        baseline: str | None = None,
        patience: float | None = None,
    ) -> Comparison | Unfinished:
        """Runs compared on one measure as `assay runs compare` does.

        Unfinished where that takes longer than `patience`, in seconds; it goes on, for the next
        who asks.
        """
        key = (tuple(run.uid for run in runs), tuple(names), measure, baseline)
        begun, found = self._comparisons.get(
            key,
            lambda: (
                monotonic(),
                self._workers.submit(self._compared, store, runs, names, measure, baseline),
            ),
        )
        try:
            return found.result(patience)
        except TimeoutError:
            return Unfinished(monotonic() - begun)
        except BaseException:
            self._comparisons.drop(key)
            raise

    def _compared(
        self,
        store: Store,
        runs: Sequence[Run],
        names: Sequence[str],
        measure: str,
        baseline: str | None,
    ) -> Comparison:
        refuse_other_query_sets(runs)
        found = [self._needed(store, run, measure) for run in runs]
        together = drawn_together((run.clusters, s) for run, s in zip(runs, found, strict=True))
        first, second, *more = found
        how: dict[str, Any] = {"measures": [measure], "baseline": baseline, **together}
        return compare(first, second, *more, names=names, **how)

    def _needed(self, store: Store, run: Run, measure: str) -> Scores:
        scores = self.scores(store, run, measure)
        if scores is None:
            raise UsageError(
                f"Run {run.id} ({run.name!r}) is {run.status} and has no values of queries: "
                "there is nothing to compare."
            )
        return scores


def _weight(scores: Scores | None) -> int:
    return 1 if scores is None else 1 + 2 * int(scores.values.size)


def _loaded(store: Store, run: Run, measure: str | None) -> Scores | None:
    with store.database.reading() as connection:
        blobs = read_blobs(connection, run.id, measure=measure)
    if not any(blob.kind == "values" for blob in blobs):
        return None
    try:
        return unpack_scores(blobs, run.conventions, search=run.search)
    except StorageError as error:
        raise StorageError(f"Run {run.id} ({run.name!r}): {error}") from None
