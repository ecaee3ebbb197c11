"""The front page: what is here, what is new, and what became worse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from sqlalchemy import Connection

from assay.store.summaries import (
    RunGroup,
    RunMean,
    RunSummary,
    count_statuses,
    find_headlines,
    find_summaries,
    group_runs,
)
from assay.web.caches import PENDING, Change
from assay.web.listing import ListColumn, Listing, moment_column
from assay.web.page import PageRequest, PageRoute, WebPage, address
from assay.web.pages.runs import RUN_COLUMNS, live_rows

_DAYS: Final = 7
_MOST_TESTED: Final = 8  # drops that are tested, the largest first
_MOST_DATASETS: Final = 20
_MOST_NEWS: Final = 12
_NEWEST: Final = 8


def home_page(request: PageRequest) -> WebPage:
    """Show datasets, the newest runs, what changed lately, and regressions."""
    days = request.params.get_int("days", _DAYS)
    since = (datetime.now(UTC) - timedelta(days=min(days, 3650))).strftime("%Y-%m-%dT%H:%M:%S")
    with request.store.database.reading() as connection:
        counts = count_statuses(connection)
        heads = find_headlines(connection)
        groups = group_runs(connection, "dataset")
        statuses = group_runs(connection, "status", since=since)
        newest = find_summaries(connection, limit=_NEWEST)
        drops, pending = _find_regressions(request, connection, heads, since)
    news = list(_find_news(heads, since))
    boards = [_board(group, heads) for group in groups[:_MOST_DATASETS]]
    return WebPage(
        "home",
        "Overview",
        {
            "statuses": counts,
            "since": since,
            "days": days,
            "recent": {status.name: status.runs for status in statuses},
            "datasets": [asdict(board) for board in boards],
            "news": [asdict(event) for event in news],
            "regressions": [drop.to_dict() for drop in drops],
            "runs": live_rows(newest),
        },
        [_dataset_listing(request, boards), _newest_listing(request, newest)],
        {
            "drops": drops,
            "retry_after": int(pending),
            "news": news[:_MOST_NEWS],
            "boards": boards,
            "n_news": len(news),
        },
    )


@dataclass(frozen=True)
class Board:
    """A dataset: how many runs it has, and which is the best on the measure of most of them."""

    dataset: str
    runs: int
    last: str
    measure: str = ""
    best: str = ""
    best_id: int | None = None
    value: float | None = None


def _board(group: RunGroup, heads: Sequence[RunMean]) -> Board:
    best = _best(_comparable(head for head in heads if head.dataset == group.name))
    facts = () if best is None else (best.measure, best.name, best.id, best.value)
    return Board(group.name, group.runs, group.last, *facts)


def _comparable(heads: Iterable[RunMean]) -> list[RunMean]:
    """Return the runs with the most common measure and conventions."""
    kinds: dict[tuple[str, str], list[RunMean]] = {}
    for head in heads:
        kinds.setdefault((head.measure, head.conventions), []).append(head)
    return max(kinds.values(), key=len, default=[])


def _best(heads: Iterable[RunMean]) -> RunMean | None:
    scored = [head for head in heads if head.value is not None]
    return max(scored, key=lambda head: (head.value, head.id), default=None)


@dataclass(frozen=True)
class News:
    """Something that was not so before: a new dataset, name or best run."""

    kind: str
    dataset: str
    run: int
    name: str
    measure: str
    value: float | None
    before: str = ""
    value_before: float | None = None


def _find_news(heads: Sequence[RunMean], since: str) -> Iterable[News]:
    for dataset in dict.fromkeys(head.dataset for head in heads if head.created >= since):
        runs = [head for head in heads if head.dataset == dataset]
        old = [head for head in runs if head.created < since]
        if not old:
            yield _news("dataset", runs[0])
            continue
        now, then = _best(_comparable(runs)), _best(_comparable(old))
        if now and then and now.id != then.id and (now.value or 0.0) > (then.value or 0.0):
            yield _news("best", now, then)
        names = {head.name for head in old}
        new = {head.name: head for head in reversed(runs) if head.name not in names}
        yield from (_news("name", head) for head in new.values())


def _news(kind: str, head: RunMean, old: RunMean | None = None) -> News:
    before = ("", None) if old is None else (old.name, old.value)
    return News(kind, head.dataset, head.id, head.name, head.measure, head.value, *before)


@dataclass(frozen=True)
class Regression:
    """A run that is significantly worse than the one of its name before it."""

    run: RunMean
    before: RunMean
    measure: str
    change: Change

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        runs = {"run": self.run.to_dict(), "before": self.before.to_dict()}
        return {**runs, "measure": self.measure, "change": asdict(self.change)}


def _find_regressions(
    request: PageRequest, connection: Connection, heads: Sequence[RunMean], since: str
) -> tuple[list[Regression], bool]:
    """Test the largest drops since then; return those that are significant.

    The second value says whether some are still being tested.
    """
    drops = sorted(_drops(heads, since), key=lambda pair: _change_of(*pair))[:_MOST_TESTED]
    regressions, pending = [], False
    for measure in dict.fromkeys(new.measure for _, new in drops):
        pairs = [(old, new) for old, new in drops if new.measure == measure]
        changes = request.cache.changes.between(connection, pairs, measure, request.timeout)
        pending = pending or PENDING in changes
        regressions += [
            Regression(new, old, measure, change)
            for (old, new), change in zip(pairs, changes, strict=True)
            if change.kind == "worse"
        ]
    return sorted(regressions, key=lambda drop: drop.run.created, reverse=True), pending


def _drops(heads: Sequence[RunMean], since: str) -> Iterable[tuple[RunMean, RunMean]]:
    """Find runs since then with a smaller mean than the one of that name before."""
    series: dict[tuple[str, ...], list[RunMean]] = {}
    for head in reversed(heads):
        if head.value is not None:
            key = (head.dataset, head.name, head.measure, head.conventions)
            series.setdefault(key, []).append(head)
    for runs in series.values():
        for old, new in pairwise(runs):
            if new.created >= since and _change_of(old, new) < 0:
                yield old, new


def _change_of(old: RunMean, new: RunMean) -> float:
    return (new.value or 0.0) - (old.value or 0.0)


def _dataset_listing(request: PageRequest, boards: Sequence[Board]) -> Listing[Board]:
    columns: list[ListColumn[Board]] = [
        ListColumn("dataset", lambda board: board.dataset or "(none)", link=_board_link),
        ListColumn(
            "best run",
            lambda board: board.best or None,
            link=lambda board: address(f"/run/{board.best_id}") if board.best_id else "",
        ),
        ListColumn("mean", lambda board: board.value, "fraction"),
        ListColumn("measure", lambda board: board.measure),
        ListColumn("runs", lambda board: board.runs, "count"),
        moment_column("last began (UTC)", lambda board: board.last),
    ]
    return Listing(request, "datasets", "Datasets", columns, boards)


def _board_link(board: Board) -> str:
    if board.best_id:
        return address("/leaderboard", dataset=board.dataset, measure=board.measure)
    return address("/runs", dataset=board.dataset or None)


def _newest_listing(request: PageRequest, runs: Sequence[RunSummary]) -> Listing[RunSummary]:
    shared = {key: RUN_COLUMNS[key] for key in ("name", "status", "dataset", "id", "created")}
    shared["dataset"] = replace(shared["dataset"], link=None)
    columns = [
        shared.pop("name"),
        ListColumn("mean", lambda run: _first_mean(run)[1], "fraction"),
        ListColumn("measure", lambda run: _first_mean(run)[0]),
        *shared.values(),
    ]
    return Listing(request, "newest", "Newest runs", columns, runs, run=lambda run: run)


def _first_mean(run: RunSummary) -> tuple[str, float | None]:
    return next(iter(run.means().items()), ("", None))


ROUTES: Final = (PageRoute("/", home_page),)
