"""Ask a search system all queries: at a concurrency, with retries, timed, and resumed if stopped.

A finished query is kept in a checkpoint until the bench is complete. What failed is tried again in
rounds; what still fails is counted and named, and never scored as an empty answer.
"""

from __future__ import annotations

import math
import threading
import time
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from math import nan
from typing import Any, Final, NamedTuple, Self

import numpy as np

from assay.arrays import Floats
from assay.bench.settings import FAILED
from assay.core import checks
from assay.errors import AssayError, InputError, UsageError, error_text
from assay.io.checkpoint import Checkpoint
from assay.stats import Interval
from assay.stats.bounded import beta_tail

_SAVED_EVERY = 1.0  # seconds that a kill may cost
_PAUSE: Final = 0.5  # seconds before the first retry; doubled each time
_LONGEST_PAUSE: Final = 60.0
_ENOUGH_FAILURES: Final = 10  # of queries, where one is too many, or where none succeeds
_POLL: Final = 0.02  # seconds


@dataclass(frozen=True)
class Asking:
    """How systems are asked: queries at once, seconds to wait, retries, and what failures mean.

    With one query at a time and no time-out, the system is asked by the calling thread; otherwise
    by threads, and one that does not return in time is abandoned. `failed` queries are an "error",
    or "skip" leaves them out for all systems.
    """

    concurrency: int = 1
    timeout: float | None = None
    retries: int = 2
    failed: str = "error"

    def __post_init__(self) -> None:
        """Refuse what could ask nothing, or wait for ever."""
        checks.check_cutoff(self.concurrency, "concurrency")
        checks.check_choice(self.failed, FAILED, "failed")
        if type(self.retries) is not int or self.retries < 0:
            raise UsageError(f"retries is {self.retries!r}. Pass a whole number from 0.")
        if self.timeout is not None and not (checks.is_real(self.timeout) and self.timeout > 0):
            raise UsageError(f"timeout is {self.timeout!r}. Pass seconds above 0.")

    @property
    def threaded(self) -> bool:
        """Tell whether worker threads ask, instead of the calling one."""
        return self.concurrency > 1 or self.timeout is not None


class NumberedHits(NamedTuple):
    """Hold the hits of one query in little: bytes of document numbers (int32) and scores (float64).

    A document that is not in the collection has the number −1; `others` are the ids of these.
    """

    numbers: bytes
    scores: bytes | None
    others: list[str]

    @classmethod
    def of_notes(cls, numbers: list[int], scores: list[float] | None, others: list[str]) -> Self:
        """Restore hits from plain data."""
        raw = None if scores is None else array("d", scores).tobytes()
        return cls(array("i", numbers).tobytes(), raw, others)

    def notes(self) -> tuple[list[int], list[float] | None, list[str]]:
        """Return plain data for a checkpoint."""
        scores = None if self.scores is None else array("d", self.scores).tolist()
        return array("i", self.numbers).tolist(), scores, self.others


class Reply(NamedTuple):
    """Hold the hits or the error of one query, by row, and the seconds that it took."""

    row: int
    hits: NumberedHits | None
    error: BaseException | None
    seconds: float


Ask = Callable[[int], Reply]


class TimedOutError(Exception):
    """A system did not answer in time."""


@dataclass
class SystemAnswers:
    """Hits by row, the seconds of each, failures by row, and counts of what went wrong.

    `wall_seconds` are those of `n_timed` queries that were answered now, without warm-up and
    pauses; `resumed` were answered by a bench that was interrupted.
    """

    hits: dict[int, NumberedHits] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    failures: dict[int, BaseException] = field(default_factory=dict)
    errors: int = 0
    timeouts: int = 0
    retries: int = 0
    resumed: int = 0
    warm_up: int = 0
    wall_seconds: float = 0.0

    def take(self, replies: Iterable[Reply]) -> None:
        """Add replies; one to a query that failed before replaces the failure."""
        for row, hits, error, seconds in replies:
            if hits is not None:
                self.hits[row], self.seconds[row] = hits, seconds
                self.failures.pop(row, None)
            elif error is not None:
                self.failures[row] = error
                late = isinstance(error, TimedOutError | TimeoutError)
                self.timeouts, self.errors = self.timeouts + late, self.errors + (not late)

    def costs(self, asking: Asking) -> dict[str, Any]:
        """Return latency with intervals, throughput and counts as plain data."""
        n_timed = len(self.hits) - self.resumed
        latencies = np.sort(np.fromiter(self.seconds.values(), np.float64))
        quantiles = {f"p{share}": quantile_interval(latencies, share / 100) for share in _SHARES}
        return {
            "latency": {name: ends.to_dict("seconds") for name, ends in quantiles.items()},
            "queries_per_second": n_timed / self.wall_seconds if self.wall_seconds else None,
            "concurrency": asking.concurrency,
            "warm_up": self.warm_up,
            "errors": self.errors,
            "timeouts": self.timeouts,
            "retries": self.retries,
            "failed": len(self.failures),
            "resumed": self.resumed,
        }


_SHARES: Final = (50, 95, 99)


def quantile_interval(ordered: Floats, share: float, level: float = 0.95) -> Interval:
    """Return a quantile and its interval between two order statistics, whatever the distribution.

    The number of values below the quantile is binomial (Hahn and Meeker 1991, section 5.2): each
    end is missed with a probability of at most half of 1 − level. An end is NaN where there are
    too few values for it.

    Args:
        ordered: The values, ascending.
        share: Which quantile, such as 0.95.
        level: Confidence level.

    Returns:
        The value at rank ⌈n · share⌉, and its interval.

    Example:
        >>> quantile_interval(np.arange(1.0, 101.0), 0.5).text()
        '[40.0000, 61.0000]'
    """
    n = len(ordered)
    low, high = _order_ranks(n, share, (1 - level) / 2)
    values = [nan, *ordered.tolist(), nan]
    estimate = values[min(math.ceil(n * share - 1e-9), n)]
    return Interval(estimate, values[low], values[high], level, "order", n)


@cache
def _order_ranks(n: int, share: float, tail: float) -> tuple[int, int]:
    """Return the ranks of the ends, 0 and n + 1 where there are none.

    The value of rank r is at most the quantile where r values or more are, of which the number is
    binomial: the highest rank that is above it with at most that probability, and the lowest that
    is below it.
    """

    def at_least(rank: int) -> float:
        return 1.0 if rank < 1 else beta_tail(rank, n - rank + 1, share, 1 - share)

    ranks = range(n + 1)
    low = bisect_right(ranks, tail, key=lambda rank: 1 - at_least(rank)) - 1
    high = bisect_left(ranks, -tail, key=lambda rank: -at_least(rank))
    return low, high


def ask_all(
    n_queries: int,
    answer: Callable[[int], Any],
    read: Callable[[Any], NumberedHits],
    asking: Asking,
    *,
    checkpoint: Checkpoint,
    tell: Callable[[int, int], None],
) -> SystemAnswers:
    """Ask a system all queries; finished ones are taken from the checkpoint and added to it.

    Args:
        n_queries: Number of queries.
        answer: Returns what the system returns for the query of a row.
        read: Reads what it returns; an InputError is a failure that no retry helps.
        asking: Concurrency, time-out, retries.
        checkpoint: Where finished queries are kept, also if this is interrupted.
        tell: Called with the number of finished queries, and of all.

    Returns:
        The answers and failures; it stops early where failures are hopeless.
    """
    stored, clock = _StoredAnswers(checkpoint), time.perf_counter
    answers = stored.load()
    rows = [row for row in range(n_queries) if row not in answers.hits]

    def ask(row: int) -> Reply:
        began, seconds = clock(), None
        try:
            returned = answer(row)
            seconds = clock() - began
            return Reply(row, read(returned), None, seconds)
        except (Exception, SystemExit) as error:  # whatever somebody's code raises
            return Reply(row, None, error, seconds or clock() - began)

    ask_rows = partial(_ask_by_threads if asking.threaded else _ask_here, ask, asking)
    answers.warm_up = min(asking.concurrency, len(rows))
    for _ in ask_rows(rows[: answers.warm_up]):
        pass  # connections are opened, models are loaded
    try:
        for attempt in range(asking.retries + 1):
            if attempt:
                rows = [row for row in rows if _is_worth_retrying(answers.failures.get(row))]
                answers.retries += len(rows)
                time.sleep(_pause(attempt, (answers.failures[row] for row in rows)))
            began = clock()
            for replies in ask_rows(rows):
                answers.take(replies)
                stored.save(answers)
                tell(len(answers.hits), n_queries)
                if _is_hopeless(answers, asking, last=attempt == asking.retries):
                    return answers
            answers.wall_seconds += clock() - began
            if not any(map(_is_worth_retrying, answers.failures.values())):
                break
    finally:
        stored.save(answers, now=True)
    return answers


def _is_worth_retrying(error: BaseException | None) -> bool:
    return error is not None and not isinstance(error, InputError)


def _is_hopeless(answers: SystemAnswers, asking: Asking, *, last: bool) -> bool:
    """Tell whether to stop: nothing succeeds, or too much fails for good where nothing may."""
    final = asking.failed == "error"
    if len(answers.failures) < _ENOUGH_FAILURES or (answers.hits and not final):
        return False
    lost = [last or not _is_worth_retrying(error) for error in answers.failures.values()]
    return sum(lost) >= _ENOUGH_FAILURES


def _pause(attempt: int, errors: Iterable[BaseException]) -> float:
    """Return the seconds before a round of retries: what a server asks for, or ever longer."""
    pauses = [float(getattr(error, "retry_after", 0) or 0) for error in errors]
    if not pauses:
        return 0.0
    return float(min(max(_PAUSE * 2 ** (attempt - 1), *pauses), _LONGEST_PAUSE))


def _ask_here(ask: Ask, _: Asking, rows: Sequence[int]) -> Iterator[list[Reply]]:
    return ([ask(row)] for row in rows)


def _ask_by_threads(ask: Ask, asking: Asking, rows: Sequence[int]) -> Iterator[list[Reply]]:
    """Yield replies every now and then; waking up for each would slow the threads down.

    A thread that is late is abandoned, and another takes its place. Who takes the row out of `busy`
    first decides, so that a reply is either in time or late, never both.
    """
    waiting, replies, news = deque(rows), deque[Reply](), threading.Event()
    busy: dict[int, float] = {}  # when each row that is asked began

    def work() -> None:
        while True:
            try:
                row = waiting.popleft()
            except IndexError:
                news.set()
                return
            busy[row] = time.perf_counter()
            try:
                reply = ask(row)
            except BaseException as error:
                reply = Reply(row, None, error, 0.0)
            if busy.pop(row, None) is None:
                return
            replies.append(reply)

    def start() -> None:  # a thread that does not keep the process alive
        threading.Thread(target=work, daemon=True).start()

    def abandon_late(limit: float) -> Iterator[Reply]:
        for row, began in [*busy.items()]:
            if time.perf_counter() - began > limit and busy.pop(row, None) is not None:
                start()
                error = TimedOutError(f"no answer within {limit:g} seconds")
                yield Reply(row, None, error, limit)

    limit, n_open = asking.timeout, len(rows)
    for _ in range(min(asking.concurrency, n_open)):
        start()
    try:
        while n_open:
            news.wait(_POLL if limit is None else min(_POLL, limit / 4))
            news.clear()
            taken = [replies.popleft() for _ in range(len(replies))]
            taken += [] if limit is None else abandon_late(limit)
            n_open -= len(taken)
            if taken:
                yield taken
    finally:
        waiting.clear()


class _StoredAnswers:
    """Finished queries in the parts of a checkpoint, written every few seconds."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint, self._number, self._rows = checkpoint, 0, set[int]()
        self._saved = time.monotonic()

    @property
    def _name(self) -> str:
        return f"answers-{self._number}.part"

    def load(self) -> SystemAnswers:
        """Return the answers of a bench that was interrupted."""
        answers = SystemAnswers()
        while (path := self._checkpoint.path(self._name)) is not None and path.exists():
            part = self._checkpoint.load(self._name)
            for row, seconds, *notes in part.notes if part else ():
                answers.take([Reply(row, NumberedHits.of_notes(*notes), None, seconds)])
            self._number += 1
        self._rows = set(answers.hits)
        answers.resumed = len(self._rows)
        return answers

    def save(self, answers: SystemAnswers, *, now: bool = False) -> None:
        """Write what is not written yet, if some seconds have passed and there is a folder."""
        if self._checkpoint.folder is None:
            return
        if now or time.monotonic() - self._saved > _SAVED_EVERY:
            rows = [row for row in answers.hits if row not in self._rows]
            notes = [(row, answers.seconds[row], *answers.hits[row].notes()) for row in rows]
            if rows:
                self._checkpoint.save(self._name, {}, notes)
            self._number += bool(rows)
            self._rows.update(rows)
            self._saved = time.monotonic()


def describe_failure(error: BaseException) -> str:
    """Return one line about why a query failed."""
    return str(error).rstrip(".") if isinstance(error, AssayError) else error_text(error)
