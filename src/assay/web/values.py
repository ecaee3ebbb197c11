"""Values of queries: loaded once, since finished runs do not change."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final

from assay.clustered import drawn_together
from assay.comparison import Comparison, compare
from assay.errors import StorageError, UsageError
from assay.scores import Scores
from assay.store import Run, Store
from assay.store.packing import unpack_scores
from assay.store.reading import read_blobs
from assay.store.run import refuse_other_questions
from assay.web.kept import Kept

__all__ = ["Unfinished", "Values"]

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
        self, store: Store, runs: Sequence[Run], names: Sequence[str], *, measure: str,
        baseline: str | None = None, patience: float | None = None,
    ) -> Comparison | Unfinished:  # fmt: skip
        """Runs compared on one measure as `assay runs compare` does.

        Unfinished where that takes longer than `patience`, in seconds; it goes on, for the next
        who asks.
        """
        key = (tuple(run.uid for run in runs), tuple(names), measure, baseline)
        begun, found = self._comparisons.get(key, lambda: (monotonic(), self._workers.submit(
            self._compared, store, runs, names, measure, baseline)))  # fmt: skip
        try:
            return found.result(patience)
        except TimeoutError:
            return Unfinished(monotonic() - begun)
        except BaseException:
            self._comparisons.drop(key)
            raise

    def _compared(
        self, store: Store, runs: Sequence[Run], names: Sequence[str], measure: str,
        baseline: str | None,
    ) -> Comparison:  # fmt: skip
        refuse_other_questions(runs)
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
